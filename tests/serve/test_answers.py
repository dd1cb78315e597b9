"""What the service answers: several queries, scores, features that are left out, names for shares of models, files
that nobody would have written."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import zipfile

import httpx
import numpy as np
import pytest

import rankwood as rw
from rankwood.cli.models import _token
from rankwood.errors import ModelError, ParameterError, UnknownName
from rankwood.models.forest import Forest
from rankwood.serve import store as store_module
from rankwood.serve.answers import RequestLimits
from rankwood.serve.app import Workers, make_app
from rankwood.serve.running import JsonLines, Throttle
from rankwood.serve.store import Alias, ModelStore, plain, read_served


def client_of(store, limits=None):
    transport = httpx.ASGITransport(app=make_app(store, limits, reload_seconds=0))
    return httpx.AsyncClient(transport=transport, base_url="http://service")


def call(store, *requests, limits=None):
    """The answers to requests: (path, body) or (path,) for GET, each a status and its content."""

    async def run():
        answers = []
        async with client_of(store, limits) as client:
            for path, *body in requests:
                content = body[0] if body and isinstance(body[0], bytes) else None
                if not body:
                    answer = await client.get(path)
                elif content is not None:
                    answer = await client.post(path, content=content)
                else:
                    answer = await client.post(path, json=body[0])
                is_json = answer.headers["content-type"].startswith("application/json")
                answers.append((answer.status_code, answer.json() if is_json else answer.text))
        return answers

    return asyncio.run(run())


def one(store, path, body, limits=None):
    return call(store, (path, body), limits=limits)[0]


def documents_of(rows, first=0):
    return [
        {"id": f"d{number}", "features": row.tolist()} for number, row in enumerate(rows, first)
    ]


@pytest.fixture
def store(model_file):
    return ModelStore([model_file])


# Queries and scores.


def test_several_queries_are_each_in_their_order(store, data, model_file):
    scores = rw.load(model_file).predict(data.features[:9])
    body = {
        "queries": [
            {"query_id": "one", "documents": documents_of(data.features[:5])},
            {"query_id": 2, "documents": []},
            {"documents": documents_of(data.features[5:9], 5)},
        ],
        "top_k": 3,
        "explain": 1,
    }
    status, answer = one(store, "/rank", body)
    assert status == 200, answer
    assert [query.get("query_id") for query in answer["queries"]] == ["one", 2, None]
    for query, first, last in zip(answer["queries"], (0, 5, 5), (5, 5, 9), strict=True):
        order = np.argsort(-scores[first:last], kind="stable")[:3] + first
        assert [each["id"] for each in query["documents"]] == [f"d{row}" for row in order]
        assert [each["score"] for each in query["documents"]] == scores[order].tolist()
        assert all(len(each["contributions"]) == 1 for each in query["documents"])
    assert "documents" not in answer
    assert isinstance(answer["base"], float)


def test_scores_come_in_the_order_of_the_request(store, data, model_file):
    scores = rw.load(model_file).predict(data.features[:4]).tolist()
    documents = [{"features": row.tolist()} for row in data.features[:4]]  # they need no ids
    status, answer = one(store, "/score", {"documents": documents})
    assert (status, answer["scores"]) == (200, scores)
    queries = [{"query_id": "a", "documents": documents[:1]}, {"documents": documents[1:]}]
    status, answer = one(store, "/score", {"queries": queries})
    assert answer["queries"] == [{"query_id": "a", "scores": scores[:1]}, {"scores": scores[1:]}]
    assert one(store, "/score", {"documents": documents, "top_k": 1})[0] == 422


def test_queries_and_documents_are_not_mixed(store):
    for body, field in (
        ({"documents": [], "queries": []}, "queries"),
        ({"queries": [{"documents": []}], "query_id": "q"}, "query_id"),
        ({"queries": [{"documents": [{"id": 1, "features": [1]}]}]}, "queries.0.documents.0.features"),
        ({"queries": [{"documents": []}, {"documents": [{"id": 1, "features": {"9": 1}}]}]}, "queries.1.documents.0.features.9"),
        ({"queries": [{}]}, "queries.0.documents"),
        ({"queries": [[]]}, "queries.0"),
    ):  # fmt: skip
        status, answer = one(store, "/rank", body)
        assert (status, answer["error"]["field"]) == (422, field), answer
    assert one(store, "/rank", {"queries": []})[1]["queries"] == []


# The field that is wrong.


@pytest.mark.parametrize(
    ("features", "field", "message"),
    [
        ({"1": "x"}, "documents.0.features.1", "number"),
        ({"1": True}, "documents.0.features.1", "number"),
        ({"1": [1]}, "documents.0.features.1", "number"),
        ({"1": 1e39}, "documents.0.features.1", "float32"),
        ({"1": 10**400}, "documents.0.features.1", "float32"),
        ([0, 0, "x", 0, 0, 0], "documents.0.features.2", "number"),
        (7, "documents.0.features", "list of values"),
        (0, "documents.0.features", "list of values"),
        ("x", "documents.0.features", "list of values"),
        (None, "documents.0.features", "list of values"),
        ({"x" * 5000: 1}, f"documents.0.features.{'x' * 100}…", "x" * 100 + "…' is not known"),
        ({"2": "x", "ü\n": 1}, "documents.0.features.2", "number"),
    ],
)
def test_messages_name_the_key(store, features, field, message):
    body = json.dumps({"documents": [{"id": "a", "features": features}]}).encode()
    limits = RequestLimits(absent="zero")
    [(status, answer)] = call(store, ("/rank", body), limits=limits)
    assert (status, answer["error"]["field"]) == (422, field)
    assert message in answer["error"]["message"]


def test_a_number_in_the_place_of_features_is_never_taken_for_a_row(store):
    """The reader of a request puts numbers of rows where features were; a request may have such numbers too."""
    good = [0.0] * 6
    for features in (0, 1, 2):
        for place in (0, 1, 2):
            documents = [{"id": number, "features": good} for number in range(2)]
            documents.insert(place, {"id": "x", "features": features})
            assert one(store, "/rank", {"documents": documents})[0] == 422
    written_twice = b'{"documents": [{"id": 1, "features": [0,0,0,0,0,0], "featur\\u0065s": 0}]}'
    assert call(store, ("/rank", written_twice))[0][0] == 200  # the same row, by its own number
    escaped = b'{"documents": [{"id": 1, "featur\\u0065s": [1,0,0,0,0,0]}, {"id": 2, "features": [0,0,0,0,0,0]}]}'
    assert call(store, ("/rank", escaped))[0][0] == 200


def test_rare_numbers_and_escaped_names_score_as_others_do(store, data, model_file):
    limits = RequestLimits(absent="zero")
    rare = '{"documents": [{"id": 1, "features": [1e-70, 1.5, 0, 0.50000002980232239, 3.4028e38, null]}]}'
    plain = json.loads(rare)["documents"][0]["features"]
    row = np.array([[np.nan if value is None else value for value in plain]]).astype(np.float32)
    status, answer = call(store, ("/rank", rare.encode()), limits=limits)[0]
    assert status == 200, answer
    assert answer["documents"][0]["score"] == rw.load(model_file).predict(row)[0]
    names = '{"documents": [{"id": 1, "features": {"\\u0032": 1.5}}, {"id": 2, "features": {"2": 1.5}}]}'
    status, answer = call(store, ("/score", names.encode()), limits=limits)[0]
    assert answer["scores"][0] == answer["scores"][1]


def test_a_body_of_countless_documents_is_refused_by_their_number(store):
    million = b'{"documents": [' + b"{}," * 10**6 + b"{}]}"
    nested = b'{"documents": [{"id": 1, "features": ' + b"[" * 10**5
    many = b'{"documents": [], "model": [' + b"[]," * 10**6 + b"0]}"
    wide = b'{"documents": [{"id": 1, "features": {' + b'"a": "b",' * 10**5 + b'"c": 1}}]}'
    (status, answer), *others = call(
        store, ("/rank", million), ("/rank", nested), ("/rank", many), ("/rank", wide)
    )
    assert status == 422
    assert "1,000,001 documents are more than the 1,000" in answer["error"]["message"]
    assert [status for status, _ in others] == [422, 422, 422]
    assert "nested too deeply" in others[0][1]["error"]["message"]
    assert "values are more than any request needs" in others[1][1]["error"]["message"]


def test_unknown_models_and_paths_are_shown_cut(store):
    _, answer = one(store, "/rank", {"model": "m" * 3000, "documents": []})
    assert "m" * 100 + "…" in answer["error"]["message"]
    assert len(answer["error"]["message"]) < 300
    _, answer = call(store, (f"/{'p' * 3000}",))[0]
    assert len(answer["error"]["message"]) < 300


# Features that are left out.


def test_names_left_out_are_what_they_were_in_training(data, tmp_path):
    text, missing = tmp_path / "text.rankwood", tmp_path / "missing.rankwood"
    rw.write_letor(data, tmp_path / "train.txt", skip_zeros=True)
    for path, absent in ((text, "zero"), (missing, "missing")):
        read = rw.read_letor(tmp_path / "train.txt", absent=absent)
        assert read.absent == absent
        weighed = read.take_queries(range(15))  # the record stays with parts of the data
        rw.save(rw.GBRT(5, min_leaf=2, seed=1).fit(weighed), path)
    store = ModelStore([text, missing])
    row = data.features[0].copy()
    row[2] = 0.0
    named = {str(number + 1): float(value) for number, value in enumerate(row) if number != 2}
    for name, filler in (("text", 0.0), ("missing", None)):
        full = {**named, "3": filler}
        body = {"model": name, "documents": [{"features": named}, {"features": full}]}
        status, answer = one(store, "/score", body)
        assert status == 200, answer
        assert answer["scores"][0] == answer["scores"][1]
    status, answer = call(store, ("/models",))[0]
    assert [model["absent"] for model in answer["models"]] == ["zero", "missing"]


def test_missing_values_in_training_say_what_is_left_out(tmp_path):
    data = rw.make_ranking(n_queries=10, docs_per_query=10, n_features=4, missing=0.2, seed=2)
    rw.save(rw.GBRT(3, min_leaf=2).fit(data), tmp_path / "m.rankwood")
    assert ModelStore([tmp_path / "m.rankwood"]).get(None).absent == "missing"


def test_names_left_out_are_refused_where_nothing_is_known(store, model_file):
    body = {"documents": [{"id": "a", "features": {"1": 0.5, "2": 0, "3": 0, "4": 1, "5": 2}}]}
    status, answer = one(store, "/rank", body)
    assert (status, answer["error"]["field"]) == (422, "documents.0.features.6")
    assert "--absent zero" in answer["error"]["message"]
    escaped = json.dumps(body).replace('"1"', '"\\u0031"').encode()
    assert call(store, ("/rank", escaped))[0] == (status, answer)
    body["documents"][0]["features"]["6"] = None
    assert one(store, "/rank", body)[0] == 200
    del body["documents"][0]["features"]["6"]
    for absent, expected in (("zero", 200), ("missing", 200), ("refuse", 422)):
        assert one(store, "/rank", body, RequestLimits(absent=absent))[0] == expected


def test_data_know_what_they_leave_out_through_binning_and_pickling(data, tmp_path):
    import pickle

    path = tmp_path / "train.txt"
    rw.write_letor(data, path)
    read = rw.read_letor(path, cache=True)
    again = rw.read_letor(path, cache=True)  # from the binary cache
    folder = rw.bin_files(path, tmp_path / "bins")
    assert {each.absent for each in (read, again, folder.data, folder[2:5].data)} == {"zero"}
    assert pickle.loads(pickle.dumps(read)).absent == "zero"
    assert data.absent is None
    assert read == data  # where data come from is no part of them
    assert rw.GBRT(2, min_leaf=2).fit(folder).training_["absent"] == "zero"


# Names for shares of models.


def test_an_alias_gives_each_query_the_same_model(model_file, linear_file, data):
    alias = Alias.parse("live=boosted:70,linear:30", "--alias")
    store = ModelStore([model_file, linear_file], aliases=[alias])
    documents = documents_of(data.features[:3])
    bodies = [{"model": "live", "query_id": f"q{n}", "documents": documents} for n in range(200)]
    answers = [answer for _, answer in call(store, *(("/rank", body) for body in bodies * 2))]
    models = [answer["model"] for answer in answers]
    assert models[:200] == models[200:]
    assert 45 <= models[:200].count("linear") <= 75
    assert {answer["alias"] for answer in answers} == {"live"}
    listed = call(store, ("/models",))[0][1]["aliases"]
    assert listed == [{"name": "live", "shares": {"boosted": 70, "linear": 30}, "shadows": {}}]


def test_requests_that_name_no_model_go_to_the_default(model_file, linear_file):
    store = ModelStore(
        [model_file, linear_file], aliases=[Alias.parse("default=linear", "--alias")]
    )
    assert one(store, "/rank", {"documents": []})[1]["model"] == "linear"
    assert one(store, "/rank", {"model": "boosted", "documents": []})[1]["model"] == "boosted"


def test_a_shadow_is_counted_and_not_seen(model_file, linear_file, data):
    shadow = Alias.parse("boosted=linear", "--shadow", total=None)
    store = ModelStore([model_file, linear_file], shadows=[shadow])
    body = {"model": "boosted", "documents": documents_of(data.features[:5])}
    best = rw.load(linear_file).predict(data.features[:5]).argmax()

    async def run():
        async with client_of(store) as client:
            answer = (await client.post("/rank", json=body)).json()
            for _ in range(200):
                text = (await client.get("/metrics")).text
                if 'shadow_requests_total{model="linear"} 1' in text:
                    break
                await asyncio.sleep(0.01)
            return answer, text

    answer, text = asyncio.run(run())
    assert answer["model"] == "boosted"
    assert 'rankwood_shadow_queries_total{model="linear"} 1' in text
    is_same = answer["documents"][0]["id"] == f"d{best}"
    assert ('shadow_queries_same_best_total{model="linear"} 1' in text) == is_same
    assert 'rankwood_documents_total{model="linear"}' not in text


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("live", "must be written as"),
        ("live=", "must be written as"),
        ("=a", "must be written as"),
        ("live=a:x", "must be written as"),
        ("live=a:0,b:100", "must be written as"),
        ("live=a:nan", "must be written as"),
        ("live=a:50,a:50", "must be written as"),
        ("live=a:50,b:60", "add up to 100"),
    ],
)
def test_aliases_that_cannot_be_read(text, message):
    with pytest.raises(ParameterError, match=message):
        Alias.parse(text, "--alias")


def test_aliases_of_models_that_are_not_there(model_file):
    for name, kind, message in (
        ("live=bosted", "aliases", "Did you mean 'boosted'"),
        ("boosted=boosted", "aliases", "called so already"),
        ("other=boosted", "shadows", "'other' is not known"),
    ):
        with pytest.raises(ParameterError, match=message):
            ModelStore([model_file], **{kind: [Alias.parse(name, "--x")]})
    twice = [Alias.parse("live=boosted", "--alias")] * 2
    with pytest.raises(ParameterError, match="given twice"):
        ModelStore([model_file], aliases=twice)
    assert issubclass(UnknownName, ParameterError)


# Threads.


def test_short_requests_have_no_thread_and_others_do(model_file, data, monkeypatch):
    store = ModelStore([model_file])
    started = []
    start = Workers.start

    def counted(self, work, *arguments):
        started.append(work)
        return start(self, work, *arguments)

    monkeypatch.setattr(Workers, "start", counted)
    body = {"documents": documents_of(data.features[:5])}
    large = {"documents": documents_of(data.features[:5]), "query_id": "q"}
    text = json.dumps(large).encode() + b" " * (1 << 20)
    unknown = [("/rank", body)]  # nobody knows how long it takes
    short = [("/rank", body), ("/score", body)] * 3
    others = [("/rank", {**body, "explain": 1}), ("/rank", text)]

    def reload():
        model_file.touch()
        store.refresh()

    for requests, n_threads in ((unknown + short, 1), (unknown + short + others + short, 3)):
        reload()
        answers = call(store, *requests)
        assert [status for status, _ in answers] == [200] * len(requests)
        assert len(started) == n_threads
        started.clear()


def test_a_crowd_of_short_requests_leaves_time_for_others(model_file, monkeypatch):
    monkeypatch.setattr("rankwood.serve.app._MOST_AT_ONCE_SECONDS", 0.0)
    answers = call(ModelStore([model_file]), *[("/rank", {"documents": []})] * 5)
    assert [status for status, _ in answers] == [200] * 5


# Files.


def test_other_features_are_refused_at_a_reload(model_file, data, tmp_path):
    store, free = ModelStore([model_file]), ModelStore([model_file], allow_schema_change=True)
    before = store.get(None)
    renamed = rw.RankingData(
        data.features, data.labels, data.query_ids, feature_names=list("abcdef")
    )
    narrow = rw.RankingData(data.features[:, :4], data.labels, data.query_ids)
    for other, message in ((renamed, "without '1', '2'"), (narrow, "without '5', '6'")):
        rw.save(rw.GBRT(2, min_leaf=2).fit(other), model_file)
        store.refresh()
        assert store.get(None) is before
        assert message in store.entries()[0].problem
        assert "--allow-schema-change" in store.entries()[0].problem
        free.refresh()
        assert free.get(None).model.n_features == other.n_features
    assert (store.failures, free.reloads) == (2, 2)


@pytest.mark.parametrize("error", [OverflowError("too large"), RecursionError(), MemoryError()])
def test_a_failed_reload_of_any_kind_is_shown_and_counted(store, model_file, monkeypatch, error):
    def fail(*_):
        raise error

    before = store.get(None)
    monkeypatch.setattr(store_module, "load_model", fail)
    model_file.touch()
    store.refresh()
    assert store.get(None) is before
    (_, models), (_, figures) = call(store, ("/models",), ("/metrics",))
    assert models["models"][0]["problem"] == (str(error) or type(error).__name__)
    assert models["models"][0]["failures"] == 1
    assert "rankwood_model_reload_failures_total 1" in figures


LEAF = {"feature": [-1], "threshold": [0.0], "left": [0], "right": [0], "missing": [0]}


class Infinite:
    """A model that scores some documents as no number; files of such models are refused, as far as can be told."""

    feature_names, n_features = None, 2

    def predict(self, matrix, **_):
        with np.errstate(divide="ignore"):
            return 1.0 / (1.0 - matrix[:, 0].astype(np.float64))


def test_scores_that_are_no_numbers_are_no_answer(store, model_file, monkeypatch):
    object.__setattr__(store.get(None), "model", Infinite())
    documents = [{"id": number, "features": [number, 0, 0, 0, 0, 0]} for number in range(3)]
    for path in ("/rank", "/score"):
        status, answer = one(store, path, {"documents": documents})
        assert status == 500
        assert "model 'boosted' gives document 1 the score inf" in answer["error"]["message"]
        assert one(store, path, {"documents": documents[:1]})[0] == 200
    with monkeypatch.context() as patch:
        patch.setattr(Infinite, "predict", lambda *_, **__: np.full(9, np.nan))
        patch.setattr(store_module, "load_model", lambda _: (Infinite(), {}))
        with pytest.raises(
            ModelError, match=r"boosted.rankwood cannot be served: .* the score nan"
        ):
            read_served(model_file, "boosted")


def test_a_model_that_claims_countless_features(tmp_path):
    path = tmp_path / "wide.rankwood"
    rw.save(Forest.from_trees([{**LEAF, "value": [1.0]}], n_features=200_000), path)
    with pytest.raises(ModelError, match="200,000 features; 100,000 can be served"):
        ModelStore([path])


def test_half_a_character_breaks_nothing(model_file, tmp_path):
    """Names of files may be any bytes; names of features are refused with the file, and escaped if they came."""
    path = tmp_path / os.fsdecode(b"half\xff.rankwood")
    path.write_bytes(model_file.read_bytes())
    store = ModelStore([path])
    (status, models), (page_status, _), (figures_status, _) = call(
        store, ("/models",), ("/docs",), ("/metrics",)
    )
    assert (status, page_status, figures_status) == (200, 200, 200)
    assert models["models"][0]["name"] == "half\\udcff"
    assert one(store, "/rank", {"model": "half\\udcff", "documents": []})[0] == 200
    assert plain("a\ud800b") == "a\\ud800b"
    other = tmp_path / "features.rankwood"
    forest = Forest.from_trees([{**LEAF, "value": [1.0]}], n_features=1, feature_names=["HERE"])
    rw.save(forest, other)
    with zipfile.ZipFile(other) as old:
        members = {member: old.read(member) for member in old.infolist()}
    with zipfile.ZipFile(other, "w") as new:
        for member, content in members.items():
            changed = content.replace(b'"HERE"', b'"a\\ud800"')
            new.writestr(zipfile.ZipInfo(member.filename, member.date_time), changed)
    with pytest.raises(ModelError, match="half a character"):
        ModelStore([other])


# Ids, tokens and lines of the log.


def test_requests_have_ids(store):
    async def run():
        async with client_of(store) as client:
            given = await client.get("/healthz", headers={"X-Request-ID": "from-the-client"})
            others = [await client.get("/nothing", headers={"X-Request-ID": "x" * 300})]
            others.append(await client.post("/rank", content=b"{"))
            return given.headers["x-request-id"], [o.headers["x-request-id"] for o in others]

    given, others = asyncio.run(run())
    assert given == "from-the-client"
    assert all(len(each) == 16 for each in others)
    assert others[0] != others[1]


def test_lines_of_json_have_the_facts_of_a_request(store, data, caplog):
    body = {"documents": documents_of(data.features[:4])}
    with caplog.at_level(logging.INFO, logger="rankwood.serve.requests"):
        call(store, ("/rank", body), ("/rank", {}), ("/a%0Ab",))
    lines = [
        json.loads(JsonLines().format(record))
        for record in caplog.records
        if record.name.endswith("requests")
    ]
    ranked, refused, elsewhere = lines
    assert ranked["model"] == "boosted"
    assert (ranked["documents"], ranked["status"], ranked["level"]) == (4, 200, "info")
    assert ranked["milliseconds"] > 0
    assert len(ranked["request_id"]) == 16
    assert ranked["time"].endswith("+00:00")
    assert (refused["status"], refused["model"]) == (422, None)
    assert elsewhere["path"] == "/a\\nb"
    assert "\n" not in elsewhere["message"]
    failed = logging.LogRecord("x", logging.ERROR, "f", 1, "it %s", ("broke",), None)
    assert json.loads(JsonLines().format(failed))["message"] == "it broke"


def test_a_line_of_a_kind_comes_once_a_second(monkeypatch):
    now = [100.0]
    monkeypatch.setattr("rankwood.serve.running.time.monotonic", lambda: now[0])
    throttle = Throttle()

    def line(text, level=logging.WARNING):
        record = logging.LogRecord("n", level, "f", 1, text, (), None)
        return record.getMessage() if throttle.filter(record) else None

    assert line("late") == "late"
    assert [line("late") for _ in range(5000)] == [None] * 5000
    assert line("other") == "other"
    assert [line("said", logging.INFO) for _ in range(3)] == ["said"] * 3
    now[0] += 1.1
    assert line("late") == "late (and 5,000 more)"


def test_an_empty_token_is_no_token(tmp_path, monkeypatch):
    for value in ("", "  "):
        monkeypatch.setenv("RANKWOOD_TOKEN", value)
        with pytest.raises(ParameterError, match="RANKWOOD_TOKEN is empty"):
            _token(None)
    monkeypatch.setenv("RANKWOOD_TOKEN", "secret")
    assert _token(None) == "secret"
    monkeypatch.delenv("RANKWOOD_TOKEN")
    assert _token(None) is None


def test_the_page_of_documentation_shows_where_it_was_asked_for(store):
    async def run(**headers):
        async with client_of(store) as client:
            return (await client.get("/docs", headers=headers)).text

    assert "curl -s http://rank.example:8123/rank" in asyncio.run(run(Host="rank.example:8123"))
    assert "curl -s http://[::1]:8123/rank" in asyncio.run(run(Host="[::1]:8123"))
    strange = asyncio.run(run(Host="x'; rm -rf ~; '"))
    assert "rm -rf" not in strange
    assert "curl -s http://service" in strange


# Categories by name.

BRANDS = ("Acme", "Bolt", "Ça va")


def shop_data(brands=BRANDS, categorical=True):
    """Prices, and brands that decide the grade."""
    draw = np.random.default_rng(3)
    price, brand = draw.random(200), draw.integers(0, len(brands), 200)
    labels = np.clip(brand + (price > 0.5), 0, 4)
    return rw.RankingData(
        np.column_stack([price, brand]),
        labels,
        np.repeat(np.arange(20), 10),
        feature_names=["price", "brand"],
        categorical={"brand": list(brands)} if categorical else None,
    )


@pytest.fixture
def shop_file(tmp_path):
    path = tmp_path / "shop.rankwood"
    rw.save(rw.GBRT(n_trees=10, max_leaves=6, min_leaf=2, seed=1).fit(shop_data()), path)
    return path


def scores_of(path, *codes, price=0.3):
    return rw.load(path).predict(np.array([[price, code] for code in codes])).tolist()


def test_categories_are_sent_by_name(shop_file):
    store = ModelStore([shop_file])
    expected = scores_of(shop_file, 0, 1, 2, 3, np.nan, np.nan)
    assert len(set(expected[:3])) == 3
    brands = [*BRANDS, "never seen", None, ""]
    named = [{"features": {"brand": brand, "price": 0.3}} for brand in brands]
    listed = [{"features": [0.3, brand]} for brand in brands]
    escaped = json.dumps({"documents": named}).replace('"brand"', '"br\\u0061nd"').encode()
    raw = json.dumps({"documents": listed}, ensure_ascii=False).encode()
    for body in ({"documents": named}, {"documents": listed}, escaped, raw):
        status, answer = one(store, "/score", body)
        assert (status, answer["scores"]) == (200, expected), answer
    queries = [{"documents": named[:2]}, {"query_id": 7, "documents": listed[2:]}]
    status, answer = one(store, "/score", {"queries": queries})
    assert [query["scores"] for query in answer["queries"]] == [expected[:2], expected[2:]]


@pytest.mark.parametrize(
    ("features", "field", "message"),
    [
        ({"price": "0.3", "brand": "Acme"}, "price", "valid number"),
        (["cheap", "Acme"], "0", "valid number"),
        ({"price": 0.3, "brand": 1}, "brand", 'quotation marks, as "Acme"'),
        ([0.3, 0], "1", "the value is a number"),
        ([0.3, 10**400], "1", "the value is a number"),
        ({"price": 0.3, "brand": ["Acme"]}, "brand", "no text"),
        ({"price": 0.3, "brand": True}, "brand", "no text"),
        (["Acme"], None, "2 features, but there are 1 values"),
        ({"price": 0.3, "brand": "Acme", "bran": "Acme"}, "bran", "Did you mean 'brand'"),
        ({"price": 0.3}, "brand", "'brand' is left out"),
        ({"brand": "Acme"}, "price", "'price' is left out"),
    ],
)
def test_what_is_no_category_is_refused_with_its_key(shop_file, features, field, message):
    documents = [{"features": [0.3, "Bolt"]}, {"features": features}]
    status, answer = one(ModelStore([shop_file]), "/score", {"documents": documents})
    path = "documents.1.features" + ("" if field is None else f".{field}")
    assert (status, answer["error"]["field"]) == (422, path), answer
    assert message in answer["error"]["message"]


def test_a_category_that_is_left_out_is_missing_never_a_code(shop_file):
    store = ModelStore([shop_file])
    body = {"documents": [{"features": {"price": 0.3}}, {"features": {"brand": "Bolt"}}]}
    for absent, price in (("zero", 0.0), ("missing", np.nan)):
        status, answer = one(store, "/score", body, RequestLimits(absent=absent))
        expected = scores_of(shop_file, np.nan) + scores_of(shop_file, 1, price=price)
        assert (status, answer["scores"]) == (200, expected)
    for brand in (None, ""):
        documents = [{"features": {"price": 0.3, "brand": brand}}]
        limits = RequestLimits(refuse_missing=True)
        status, answer = one(store, "/score", {"documents": documents}, limits)
        assert (status, answer["error"]["field"]) == (422, "documents.0.features.brand")


def test_contributions_name_categories_as_they_were_sent(shop_file):
    documents = [
        {"id": 0, "features": {"brand": "Bolt", "price": 0.75}},
        {"id": 1, "features": [0.75, "never seen"]},
        {"id": 2, "features": [0.75, None]},
    ]
    status, answer = one(ModelStore([shop_file]), "/rank", {"documents": documents, "explain": 2})
    assert status == 200, answer
    values = {}
    for document in answer["documents"]:
        parts = {part["feature"]: part for part in document["contributions"]}
        total = answer["base"] + sum(part["contribution"] for part in parts.values())
        assert total == pytest.approx(document["score"])
        assert parts["price"]["value"] == 0.75
        values[document["id"]] = parts["brand"].get("value", "missing")
    assert values == {0: "Bolt", 1: "never seen", 2: "missing"}


def test_models_of_an_alias_and_a_shadow_map_names_each_by_its_own_codes(shop_file, tmp_path):
    other = tmp_path / "other.rankwood"
    rw.save(rw.GBRT(8, min_leaf=2, seed=2).fit(shop_data(brands=BRANDS[::-1])), other)
    alias = Alias.parse("live=shop:50,other:50", "--alias")
    shadow = Alias.parse("shop=other", "--shadow", total=None)
    store = ModelStore([shop_file, other], aliases=[alias], shadows=[shadow])
    documents = [{"id": brand, "features": [0.3, brand]} for brand in BRANDS]
    expected = {"shop": scores_of(shop_file, 0, 1, 2), "other": scores_of(other, 2, 1, 0)}
    requests = [
        ("/score", {"model": "live", "query_id": query, "documents": documents})
        for query in range(20)
    ]
    answers = [answer for _, answer in call(store, *requests)]
    assert {answer["model"] for answer in answers} == {"shop", "other"}
    assert all(answer["scores"] == expected[answer["model"]] for answer in answers)

    async def run():
        async with client_of(store) as client:
            await client.post("/rank", json={"model": "shop", "documents": documents})
            for _ in range(200):
                text = (await client.get("/metrics")).text
                if 'shadow_requests_total{model="other"} 1' in text:
                    break
                await asyncio.sleep(0.01)
            return text

    is_same = np.argmax(expected["shop"]) == np.argmax(expected["other"])
    found = 'shadow_queries_same_best_total{model="other"} 1' in asyncio.run(run())
    assert found == is_same


def test_the_service_tells_which_features_are_categorical(shop_file, model_file):
    store = ModelStore([shop_file, model_file])
    (_, models), (_, page), (_, schema) = call(store, ("/models",), ("/docs",), ("/openapi.json",))
    assert [model["categorical"] for model in models["models"]] == [{"brand": list(BRANDS)}, {}]
    assert "2 features, categorical: <code>brand</code>" in page
    assert "&quot;price&quot;: 0.5, &quot;brand&quot;: &quot;Acme&quot;" in page
    values = schema["components"]["schemas"]["Document"]["properties"]["features"]
    assert {"type": "string"} in values["anyOf"][0]["items"]["anyOf"]
    assert "GET /models says which are categorical" in values["description"]


def test_a_reload_may_change_categories_but_not_which_features_have_them(shop_file):
    store = ModelStore([shop_file])
    free = ModelStore([shop_file], allow_schema_change=True)
    rw.save(rw.GBRT(5, min_leaf=2).fit(shop_data(brands=("Bolt", "Nova"))), shop_file)
    for each in (store, free):
        each.refresh()
        assert each.entries()[0].problem is None
    body = {"documents": [{"features": [0.3, brand]} for brand in ("Nova", "Acme")]}
    assert one(store, "/score", body)[1]["scores"] == scores_of(shop_file, 1, 2)
    rw.save(rw.GBRT(5, min_leaf=2).fit(shop_data(categorical=False)), shop_file)
    for each in (store, free):
        each.refresh()
    assert "'brand' no longer categorical" in store.entries()[0].problem
    assert "--allow-schema-change" in store.entries()[0].problem
    assert one(store, "/score", body)[0] == 200  # by the model before
    assert one(free, "/score", body)[1]["error"]["field"] == "documents.0.features.1"
    plain_store = ModelStore([shop_file])
    rw.save(rw.GBRT(5, min_leaf=2).fit(shop_data()), shop_file)
    plain_store.refresh()
    assert "'brand' categorical" in plain_store.entries()[0].problem
