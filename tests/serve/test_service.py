"""The service asked in process: orders, refusals that name the field, limits, tokens, figures."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading

import httpx
import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import ModelError, ParameterError
from rankwood.serve.answers import RequestLimits
from rankwood.serve.app import make_app
from rankwood.serve.store import ModelStore


def documents_of(rows):
    return [{"id": f"d{number}", "features": row.tolist()} for number, row in enumerate(rows)]


def post(ask, paths, body, *, limits=None, headers=None):
    """The status and content of one answer to POST /rank."""

    async def run():
        async with ask(paths, limits) as client:
            content = body if isinstance(body, bytes | str) else json.dumps(body)
            answer = await client.post("/rank", content=content, headers=headers)
            return answer.status_code, answer.json()

    return asyncio.run(run())


def get(ask, paths, path, *, limits=None, headers=None):
    async def run():
        async with ask(paths, limits) as client:
            return await client.get(path, headers=headers)

    return asyncio.run(run())


def test_the_order_is_that_of_the_model(ask, model_file, data):
    rows = data.features[:30]
    scores = rw.load(model_file).predict(rows)
    status, answer = post(ask, [model_file], {"query_id": "q", "documents": documents_of(rows)})
    assert status == 200, answer
    assert answer["query_id"] == "q"
    assert answer["model"] == "boosted"
    order = np.argsort(-scores, kind="stable")
    assert [document["id"] for document in answer["documents"]] == [f"d{row}" for row in order]
    assert [document["score"] for document in answer["documents"]] == scores[order].tolist()
    assert [document["rank"] for document in answer["documents"]] == list(range(1, 31))


MISSING = RequestLimits(absent="missing")


def test_features_by_name_in_any_order_and_missing_ones(ask, model_file, data):
    row = data.features[0]
    by_name = {str(place + 1): float(value) for place, value in reversed(list(enumerate(row)))}
    without_second = {name: value for name, value in by_name.items() if name != "2"}
    in_order = [float(value) for value in row]
    with_null = [value if place != 1 else None for place, value in enumerate(in_order)]
    documents = [
        {"id": place, "features": features}
        for place, features in enumerate([in_order, by_name, with_null, without_second])
    ]
    status, answer = post(ask, [model_file], {"documents": documents}, limits=MISSING)
    assert status == 200, answer
    score = {document["id"]: document["score"] for document in answer["documents"]}
    assert score[0] == score[1]
    assert score[2] == score[3]


def test_top_k_and_ties_keep_the_order_of_the_request(ask, model_file, data):
    row = data.features[0].tolist()
    documents = [{"id": place, "features": row} for place in range(5)]
    status, answer = post(ask, [model_file], {"documents": documents, "top_k": 3})
    assert status == 200, answer
    assert [document["id"] for document in answer["documents"]] == [0, 1, 2]


def test_contributions_add_up_to_the_score(ask, model_file, data):
    documents = documents_of(data.features[:4])
    documents[0]["features"][2] = None
    status, answer = post(ask, [model_file], {"documents": documents, "explain": 6})
    assert status == 200, answer
    for document in answer["documents"]:
        parts = document["contributions"]
        total = answer["base"] + sum(part["contribution"] for part in parts)
        assert total == pytest.approx(document["score"], abs=1e-9)
        sizes = [abs(part["contribution"]) for part in parts]
        assert sizes == sorted(sizes, reverse=True)
    status, answer = post(ask, [model_file], {"documents": documents, "explain": 2})
    assert max(len(document["contributions"]) for document in answer["documents"]) == 2


def test_a_model_that_cannot_be_explained_says_so(ask, data, tmp_path):
    path = tmp_path / "deep.rankwood"
    rw.save(rw.DeepForest(n_forests=2, n_trees=3, max_layers=2, seed=1).fit(data), path)
    body = {"documents": documents_of(data.features[:4]), "explain": 6}
    status, answer = post(ask, [path], body)
    assert (status, answer["error"]["field"]) == (422, "explain")
    assert post(ask, [path], {**body, "explain": 0})[0] == 200


GOOD = [0.0] * 6
BAD_BODIES = [
    ({"documents": [{"id": "a", "features": [1, 2]}]}, "documents.0.features", "knows 6 features, but there are 2"),
    ({"documents": [{"id": "a", "features": GOOD}, {"id": "b", "features": {"7": 1}}]}, "documents.1.features.7", "feature '7' is not known"),
    ('{"documents": [{"id": "a", "features": [NaN, 0, 0, 0, 0, 0]}]}', "documents.0.features.0", "finite"),
    ('{"documents": [{"id": "a", "features": [1e999, 0, 0, 0, 0, 0]}]}', "documents.0.features.0", "finite"),
    ({"documents": [{"id": "a", "features": [1e39, 0, 0, 0, 0, 0]}]}, "documents.0.features.0", "float32"),
    ({"documents": [{"id": "a", "features": ["1", 0, 0, 0, 0, 0]}]}, "documents.0.features.0", "number"),
    ({"documents": [{"id": "a", "features": [True, 0, 0, 0, 0, 0]}]}, "documents.0.features.0", "number"),
    ({"documents": [{"id": "a"}]}, "documents.0.features", "required"),
    ({"documents": [{"features": GOOD}]}, "documents.0.id", "required"),
    ({"documents": [{"id": "a", "features": GOOD, "label": 1}]}, "documents.0.label", "not permitted"),
    ({}, "documents", "required"),
    ({"documents": {}}, "documents", "array"),
    ({"documents": [], "top_k": 0}, "top_k", "greater than or equal to 1"),
    ({"documents": [], "explain": -1}, "explain", "greater than or equal to 0"),
    ("", "body", "Invalid JSON"),
    ("{", "body", "Invalid JSON"),
    ("[]", "body", "object"),
    (b"\xff\xfe\x00", "body", "Invalid JSON"),
    ('{"documents": ' + "[" * 5000, None, ""),
]  # fmt: skip


@pytest.mark.parametrize(("body", "field", "message"), BAD_BODIES, ids=range(len(BAD_BODIES)))
def test_a_bad_request_is_answered_with_the_field(ask, model_file, body, field, message):
    status, answer = post(ask, [model_file], body)
    assert status == 422
    assert message in answer["error"]["message"]
    if field is not None:
        assert answer["error"]["field"] == field


def test_no_documents_is_an_empty_order(ask, model_file):
    status, answer = post(ask, [model_file], {"documents": []})
    assert (status, answer["documents"]) == (200, [])


def test_several_models_must_be_told_apart(ask, model_file, linear_file, data):
    documents = documents_of(data.features[:3])
    status, answer = post(ask, [model_file, linear_file], {"documents": documents})
    assert status == 422
    assert answer["error"]["field"] == "model"
    assert "boosted, linear" in answer["error"]["message"]
    for name, path in {"boosted": model_file, "linear": linear_file}.items():
        status, answer = post(
            ask, [model_file, linear_file], {"model": name, "documents": documents}
        )
        assert status == 200, answer
        best = answer["documents"][0]
        assert best["score"] == max(rw.load(path).predict(data.features[:3]))
    status, answer = post(ask, [model_file, linear_file], {"model": "bosted", "documents": []})
    assert status == 404
    assert "Did you mean 'boosted'" in answer["error"]["message"]


def test_limits_of_documents_and_bodies(ask, model_file, data):
    body = {"documents": documents_of(data.features[:3])}
    status, answer = post(ask, [model_file], body, limits=RequestLimits(max_documents=2))
    assert (status, answer["error"]["field"]) == (422, "documents")
    assert "3 documents are more than the 2" in answer["error"]["message"]
    status, answer = post(ask, [model_file], body, limits=RequestLimits(max_body=50))
    assert (status, answer["error"]["field"]) == (413, "body")


def test_a_body_without_a_length_is_bounded_too(model_file):
    app = make_app(ModelStore([model_file]), RequestLimits(max_body=1000), reload_seconds=0)

    async def endless():
        while True:
            yield b" " * 400

    async def run():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://service"
        ) as client:
            return await client.post("/rank", content=endless())

    assert asyncio.run(run()).status_code == 413


def test_missing_values_are_refused_where_asked(ask, model_file):
    body = {"documents": [{"id": "a", "features": {"1": 0.5}}]}
    assert post(ask, [model_file], body, limits=MISSING)[0] == 200
    limits = RequestLimits(refuse_missing=True, absent="missing")
    status, answer = post(ask, [model_file], body, limits=limits)
    assert status == 422
    assert answer["error"]["field"] == "documents.0.features.2"
    assert "feature '2' is missing" in answer["error"]["message"]


def test_a_token_is_asked_for_everywhere_but_at_healthz(ask, model_file):
    limits = RequestLimits(token="secret")
    for header in (None, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}):
        status, answer = post(ask, [model_file], {"documents": []}, limits=limits, headers=header)
        assert status == 401
        assert "Bearer TOKEN" in answer["error"]["message"]
    right = {"Authorization": "Bearer secret"}
    assert post(ask, [model_file], {"documents": []}, limits=limits, headers=right)[0] == 200
    assert get(ask, [model_file], "/metrics", limits=limits).status_code == 401
    assert get(ask, [model_file], "/healthz", limits=limits).status_code == 200


def test_reports(ask, model_file):
    found = get(ask, [model_file], "/models").json()["models"][0]
    assert found["estimator"] == "GBRT"
    assert found["features"] == ["1", "2", "3", "4", "5", "6"]
    assert found["n_trees"] == 10
    assert get(ask, [model_file], "/healthz").json()["status"] == "ok"
    page = get(ask, [model_file], "/docs")
    assert "POST" in page.text
    assert "curl -s http://service/rank" in page.text  # the address that it was asked at
    assert "http" not in page.text.replace("http://service", "")
    assert get(ask, [model_file], "/nothing").status_code == 404
    assert get(ask, [model_file], "/rank").status_code == 405


def test_figures_count_answers_and_documents(ask, model_file, data):
    async def run():
        async with ask([model_file]) as client:
            await client.post("/rank", json={"documents": documents_of(data.features[:7])})
            await client.post("/rank", json={})
            return (await client.get("/metrics")).text

    text = asyncio.run(run())
    assert 'rankwood_requests_total{path="/rank",status="200"} 1' in text
    assert 'rankwood_requests_total{path="/rank",status="422"} 1' in text
    assert 'rankwood_documents_total{model="boosted"} 7' in text
    assert 'rankwood_rank_seconds_bucket{model="boosted",le="+Inf"} 1' in text
    assert 'rankwood_rank_seconds_bucket{model="",le="+Inf"} 1' in text  # no model was known yet


class SlowModel:
    """A model whose answers wait until they are let through: what a full line looks like."""

    def __init__(self, model):
        self.model = model
        self.let_through = threading.Event()

    def __getattr__(self, name):
        return getattr(self.model, name)

    def predict(self, matrix, n_threads=1):
        self.let_through.wait(10)
        return self.model.predict(matrix, n_threads=n_threads)


def slowed(store):
    served = store.get(None)
    slow = SlowModel(served.model)
    object.__setattr__(served, "model", slow)
    return slow


def test_a_full_line_is_refused_and_what_waits_is_answered(model_file, data):
    store = ModelStore([model_file])
    slow = slowed(store)
    app = make_app(store, RequestLimits(workers=1, queue=1), reload_seconds=0)
    body = {"documents": documents_of(data.features[:2])}

    async def run():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://service"
        ) as client:
            first = [asyncio.create_task(client.post("/rank", json=body)) for _ in range(2)]
            while (await client.get("/healthz")).json()["in_flight"] < 2:
                await asyncio.sleep(0.01)
            refused = await client.post("/rank", json=body)
            slow.let_through.set()
            return [(await task).status_code for task in first], refused

    answered, refused = asyncio.run(run())
    assert answered == [200, 200]
    assert refused.status_code == 503
    assert refused.headers["Retry-After"] == "1"


def test_what_takes_too_long_is_given_up(model_file, data):
    store = ModelStore([model_file])
    slow = slowed(store)
    app = make_app(store, RequestLimits(timeout=0.2), reload_seconds=0)

    async def run():
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app=app), base_url="http://service"
        ) as client:
            answer = await client.post("/rank", json={"documents": documents_of(data.features[:2])})
            slow.let_through.set()
            return answer

    answer = asyncio.run(run())
    assert answer.status_code == 408
    assert "0.2 s" in answer.json()["error"]["message"]


def test_a_changed_file_replaces_the_model_and_a_bad_one_does_not(model_file, data):
    store = ModelStore([model_file])
    before = store.get(None)
    store.refresh()
    assert store.get(None) is before
    rw.save(rw.GBRT(n_trees=3, min_leaf=2, seed=2).fit(data), model_file)
    store.refresh()
    after = store.get(None)
    assert after.model.n_trees == 3
    assert store.reloads == 1
    whole = model_file.read_bytes()
    for damaged in (b"", b"nonsense", whole[:-20]):
        model_file.write_bytes(damaged)
        store.refresh()
        assert store.get(None) is after
        assert store.entries()[0].problem
    model_file.unlink()
    store.refresh()
    assert store.get(None) is after
    assert "gone" in store.entries()[0].problem
    model_file.write_bytes(whole)
    store.refresh()
    assert store.get(None).digest == after.digest
    assert store.entries()[0].problem is None


def test_models_that_cannot_be_served(model_file, tmp_path):
    again = tmp_path / "again" / "boosted.rankwood"
    again.parent.mkdir()
    again.write_bytes(model_file.read_bytes())
    with pytest.raises(ParameterError, match="would both be served as 'boosted'"):
        ModelStore([model_file, again])
    with pytest.raises((ModelError, OSError), match="nowhere"):
        ModelStore([tmp_path / "nowhere.rankwood"])


def test_no_training_code_is_loaded(model_file):
    code = (
        "import sys; from rankwood.serve.app import make_app; from rankwood.serve.store import ModelStore; "
        f"make_app(ModelStore([{str(model_file)!r}])); "
        "print(sorted(name for name in sys.modules if name.startswith(('rankwood.losses', 'rankwood.measures', "
        "'rankwood.training', 'rankwood.rankers', 'rankwood.prepare', 'rankwood.evaluation', 'rankwood.studies', "
        "'rankwood.experiments', 'sklearn'))))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"
