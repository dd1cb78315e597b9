"""The scoring service: models over HTTP, with FastAPI (extra ``serve``). It loads no training code.

The life of a request to ``POST /rank``
    1. The gate in ``app`` checks the token (``check_token``) and starts the clock.
    2. ``read_body`` reads the body, up to the largest size allowed.
    3. ``Workers`` runs the rest on a thread; where too many requests wait, the answer is 503 at once.
    4. ``schema.parse_request`` checks the fields; an error names the field.
    5. ``store.ModelStore`` gives the model. A changed file replaces a model as a whole, so a request that has begun
       keeps the model that it has; a damaged file leaves the old model in service.
    6. ``store.ServedModel`` makes a matrix of the documents and scores it; ``app.rank`` orders them, best first, and
       adds contributions of features where the request asks for them.
    7. The gate counts the answer for ``GET /metrics``.

``rankwood serve`` is in ``rankwood.cli.serve``; the guide is docs/guides/serving.md.
"""
