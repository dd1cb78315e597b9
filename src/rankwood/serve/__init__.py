"""The scoring service: models over HTTP, with FastAPI (extra ``serve``). It loads no training code.

``running`` has the server: connections and processes. ``app`` is the application: its gate, its paths, its figures.
``answers`` reads requests and answers them. ``store`` has the models.

The life of a request to ``POST /rank``
    1. ``running.Acceptor`` takes the connection, ``running.Connection`` sees to it that the request comes in time.
    2. ``app.Gate`` checks the token (``check_token``) and starts the clock.
    3. ``app.read_body`` reads the body, up to the largest size allowed, and all bodies together.
    4. ``models.json_text.JsonText`` takes the values of features out of the text.
    5. ``app.Workers`` runs the rest: at once where it is short, else on a thread; where too many requests wait, the
       answer is 503.
    6. ``answers.parse_request`` checks the fields; an error names the field.
    7. ``store.ModelStore`` gives the model. A changed file replaces a model as a whole, so a request that has begun
       keeps the model that it has; a damaged file leaves the old model in service.
    8. ``store.ServedModel`` makes a matrix of the documents and scores it; ``answers.rank`` orders them, best first,
       and adds contributions of features where the request asks for them.
    9. The gate counts the answer for ``GET /metrics``, and writes its line of the log.

``rankwood serve`` is in ``rankwood.cli.models``; the guide is docs/guides/serving.md.
"""
