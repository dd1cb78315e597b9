"""Public collections: every layout as it is distributed, the counts that are checked, and the quirks of each."""

from __future__ import annotations

import dataclasses
import gzip
from pathlib import Path

import numpy as np
import pytest

import rankwood as rw
from rankwood.data import collections as module
from rankwood.errors import DataError, DataWarning, ParameterError, UnknownName
from rankwood.experiments.config import read_experiment

pytestmark = pytest.mark.jit_only  # no kernels of its own

LETOR3 = ("trainingset.txt", "validationset.txt", "testset.txt")
LETOR4 = ("train.txt", "vali.txt", "test.txt")
FOLDS = tuple(f"Fold{number}" for number in range(1, 6))
LAYOUTS = {  # name -> folders below the one given, and the names of files
    "mslr-web10k": (tuple(f"MSLR-WEB10K/{fold}" for fold in FOLDS), LETOR4),
    "mslr-web30k": (FOLDS, LETOR4),
    "mq2007": (FOLDS, tuple(f"{name}.gz" for name in LETOR4)),
    "mq2008": (tuple(f"LETOR/MQ2008/{fold}" for fold in FOLDS), LETOR4),
    "ohsumed": (tuple(f"OHSUMED/QueryLevelNorm/{fold}" for fold in FOLDS), LETOR3),
    "td2003": (tuple(f"Gov/QueryLevelNorm/2003_td_dataset/{fold}" for fold in FOLDS), LETOR3),
    "np2004": (tuple(f"2004_np_dataset/{fold}" for fold in FOLDS), LETOR3),
    "yahoo-set1": (("ltrc_yahoo",), ("set1.train.txt", "set1.valid.txt", "set1.test.txt")),
    "yahoo-set2": (("",), ("set2.train.txt", "set2.valid.txt", "set2.test.txt")),
    "istella-s": (("istella-s-letor/sample",), LETOR4),
    "istella-x": (("",), LETOR4),
    "istella22": (("letor",), ("train.txt", "valid.txt", "test.txt")),
}


def text(queries: str, width: int = 3, value: object = 0.5) -> bytes:
    """Two documents a query, labelled 0 and 1."""
    return "".join(
        f"{label} qid:{query} 1:{query} {width}:{value} #docid = D{query}{label} inc = 1\n"
        for query in queries
        for label in (0, 1)
    ).encode()


def write(folder: Path, names: tuple[str, ...], **options: object) -> Path:
    """The parts of a fold: three training queries, one for validation and one for the test."""
    folder.mkdir(parents=True, exist_ok=True)
    queries = ("123", "4", "5") if len(names) == 3 else ("123", "5")
    for name, which in zip(names, queries, strict=True):
        content = text(which, **options)
        (folder / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    return folder


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> str:
    """A collection of five queries and ten documents in five folds, for checks that pass."""
    counts = {"queries": 5, "documents": 10, "features": (3,), "greatest_label": 1}
    small = dataclasses.replace(module.COLLECTIONS["mq2008"], name="tiny", title="TINY", **counts)
    monkeypatch.setitem(module.COLLECTIONS, "tiny", small)
    return "tiny"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for fold in FOLDS:
        write(tmp_path / "data" / fold, LETOR4)
    return tmp_path / "data"


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_found(tmp_path: Path, name: str) -> None:
    folders, files = LAYOUTS[name]
    collection = rw.datasets.available()[name]
    for below in folders:
        write(tmp_path / below, files, width=max(collection.features))
    folds = rw.datasets.open(name.upper(), tmp_path, check="off")
    assert len(folds) == collection.n_folds
    fold = folds[0]
    assert [part.queries.tolist() for part in fold] == [[1, 2, 3], [4], [5]]
    assert fold.train.n_features == max(collection.features)
    assert fold.test.doc_ids.tolist() == ["D50", "D51"]


def test_counts_as_published_pass(folder: Path, tiny: str) -> None:
    folds = rw.datasets.open(tiny, folder)
    assert folds.names == FOLDS
    assert folds[4].train.n_documents == 6


def test_every_difference_is_named(folder: Path, tiny: str) -> None:
    (folder / "Fold2" / "train.txt").write_bytes(
        text("1237", width=4).replace(b"1 qid:2", b"2 qid:2")
    )
    folds = rw.datasets.open(tiny, folder)
    with pytest.raises(DataError, match=r"Fold2 is not TINY as published: expected") as caught:
        folds[1]
    for expected in (
        "expected 3 features in train, found 4;",
        "expected labels 0 to 1 in train, found 2;",
        "expected 5 queries in all parts, found 6;",
        'expected 10 documents in all parts, found 12. If it is meant to differ: check="warn"',
    ):
        assert expected in str(caught.value)
    assert folds[0].train.n_queries == 3  # the others are as they should be
    with pytest.warns(DataWarning, match="expected 5 queries in all parts, found 6"):
        assert rw.datasets.open(tiny, folder, check="warn")[1].train.n_queries == 4
    assert rw.datasets.open(tiny, folder, check="off")[1].train.n_queries == 4


def test_a_label_between_grades_is_named(folder: Path, tiny: str) -> None:
    (folder / "Fold1" / "vali.txt").write_bytes(text("4").replace(b"1 qid", b"0.5 qid"))
    with pytest.raises(DataError, match=r"expected labels 0 to 1 in valid, found 0\.5"):
        rw.datasets.open(tiny, folder)[0]


def test_the_number_of_folds_is_checked_at_once(folder: Path, tiny: str) -> None:
    with pytest.raises(DataError, match=r"expected 5 folds, found 1 \(Fold3\)"):
        rw.datasets.open(tiny, folder / "Fold3")
    with pytest.warns(DataWarning, match="expected 5 folds, found 1"):
        assert rw.datasets.open(tiny, folder / "Fold3", check="warn").names == ("Fold3",)


def test_a_part_s_counts_are_checked(tmp_path: Path) -> None:
    files = LAYOUTS["yahoo-set1"][1]
    write(tmp_path, files, width=699)
    with pytest.raises(
        DataError, match="expected 19,944 queries in train, found 3; expected 473,134"
    ) as e:
        rw.datasets.open("yahoo-set1", tmp_path)[0]
    assert "features" not in str(e.value)  # rows leave out what is 0, the 700th feature too


def test_yahoo_s_sets_lie_in_one_folder(tmp_path: Path) -> None:
    for number in (1, 2):
        names = tuple(f"set{number}.{part}.txt" for part in ("train", "valid", "test"))
        write(tmp_path, names, value=number)
    fold = rw.datasets.open("yahoo-set2", tmp_path, check="off")[0]
    assert fold.test.features[0, 2] == 2
    assert [part.n_features for part in fold] == [700] * 3


def test_istella_writes_unknown_values_as_the_largest_number(tmp_path: Path) -> None:
    write(tmp_path / "sample", LETOR4, width=220, value="1.797693134862316e+308")
    fold = rw.datasets.open("istella-s", tmp_path, check="off")[0]
    assert np.isnan(fold.train.features[:, 219]).all()
    assert np.isnan(fold.train.features).sum() == 6
    with pytest.raises(DataError, match=r'overflow="missing"'):
        rw.datasets.open("istella-s", tmp_path, check="off", overflow="error")[0]


def test_istella_letor_has_no_validation_part(tmp_path: Path) -> None:
    write(tmp_path / "full", ("train.txt", "test.txt"))
    write(tmp_path / "sample", LETOR4)  # Istella-S beside it
    (tmp_path / "full" / "train.txt").write_bytes(text("123467890"))
    with pytest.warns(DataWarning, match="20% of the training queries, drawn with seed 0"):
        folds = rw.datasets.open("istella", tmp_path, check="off")
    train, vali, test = folds[0]
    assert (train.n_queries, vali.n_queries, test.n_queries) == (7, 2, 1)
    assert not set(train.queries) & set(vali.queries)
    assert folds[0].valid == vali


def test_null_is_missing_in_letor_3(tmp_path: Path) -> None:
    for fold in FOLDS:
        write(tmp_path / "Feature_null" / fold, LETOR3, width=64, value="NULL")
    fold = rw.datasets.open("td2004", tmp_path, check="off")[0]
    assert np.isnan(fold.test.features[:, 63]).all()


def test_the_folder_s_name_tells_collections_apart(tmp_path: Path) -> None:
    for name, width in (("2003_td_dataset", 64), ("2004_td_dataset", 44)):
        for fold in FOLDS:
            write(tmp_path / "QueryLevelNorm" / name / fold, LETOR3, width=width)
    fold = rw.datasets.open("td2004", tmp_path, check="off")[0]
    assert fold.train.n_features == 44
    with pytest.raises(
        DataError, match="several folders with files as those of OHSUMED: Query"
    ) as e:
        rw.datasets.open("ohsumed", tmp_path)
    assert "2004_td_dataset. Pass one of them." in str(e.value)


def test_versions_of_a_collection_are_not_guessed(tmp_path: Path) -> None:
    for version in ("Feature_min", "QueryLevelNorm"):
        for fold in FOLDS:
            write(tmp_path / version / "2003_hp_dataset" / fold, LETOR3)
    with pytest.raises(
        DataError, match="Feature_min/2003_hp_dataset, QueryLevelNorm/2003_hp_dataset"
    ):
        rw.datasets.open("hp2003", tmp_path)
    assert len(rw.datasets.open("hp2003", tmp_path / "Feature_min", check="off")) == 5


def test_other_settings_of_letor_4_are_refused(tmp_path: Path) -> None:
    for fold in FOLDS:
        write(tmp_path / "MQ2008-semi" / fold, LETOR4)
    with pytest.raises(DataError, match="MQ2008-semi is not MQ2008"):
        rw.datasets.open("mq2008", tmp_path / "MQ2008-semi")
    with pytest.raises(
        DataError, match=r"does not hold MQ2008\. Expected Fold1 … Fold5 with train.txt"
    ):
        rw.datasets.open("mq2008", tmp_path)


def test_wrong_calls(tmp_path: Path) -> None:
    with pytest.raises(
        UnknownName, match=r"collection 'mslr-10k' is not known. Did you mean 'mslr-web10k'"
    ):
        rw.datasets.open("mslr-10k", tmp_path)
    with pytest.raises(UnknownName, match="collection 'None' is not known"):
        rw.datasets.open(None, tmp_path)
    with pytest.raises(DataError, match="there is no folder"):
        rw.datasets.open("mq2008", tmp_path / "nowhere")
    with pytest.raises(DataError, match=r"does not hold MQ2008.*found nothing"):
        rw.datasets.open("mq2008", tmp_path)
    with pytest.raises(ParameterError, match="check 'maybe' is not known"):
        rw.datasets.open("mq2008", tmp_path, check="maybe")


def test_what_is_known_of_each_collection() -> None:
    known = rw.datasets.available()
    assert {"mslr-web30k", "istella", "yahoo-set1", "mq2007", "ohsumed", "td2003"} <= set(known)
    for name, one in known.items():
        assert one.name == name
        assert one.description.endswith(".")
        for total, parts in ((one.queries, one.part_queries), (one.documents, one.part_documents)):
            assert not parts or sum(parts.values()) == total
    assert str(known["mq2008"]).startswith(
        "mq2008: MQ2008, 5 folds, 784 queries, 15,211 documents, 46"
    )
    known.clear()
    assert rw.datasets.available()


def test_the_guide_s_table_has_every_collection() -> None:
    page = Path(__file__).parents[2] / "docs" / "guides" / "repeating-a-paper.md"
    lines = page.read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if "| `" in line]
    rows = {row[0].strip("`"): row for row in cells if len(row) == 8}
    assert list(rows) == list(rw.datasets.available())
    for name, one in rw.datasets.available().items():
        counts = ["–" if count is None else f"{count:,}" for count in one.counts().values()]
        assert rows[name][1] == one.title
        assert rows[name][3].replace("`", "") == one.layout
        assert rows[name][4:6] == counts
        assert rows[name][6] == " or ".join(map(str, one.features))
        assert rows[name][7] == ("–" if one.greatest_label is None else f"0–{one.greatest_label}")


def test_an_experiment_reads_a_collection(folder: Path, tiny: str, tmp_path: Path) -> None:
    tables = {
        "data": {"collection": tiny, "path": str(folder)},
        "run": {"jobs": 0},
        "algorithm": [{"kind": "RandomForest", "n_trees": 2}],
    }
    experiment = read_experiment(tables)
    assert [fold.name for fold in experiment.data.folds] == list(FOLDS)
    results = rw.run_experiment(tables, out=tmp_path / "run")
    assert {cell.status for cell in results.cells} == {"done"}
    (folder / "Fold4" / "test.txt").write_bytes(text("58"))
    results = rw.run_experiment(tables, out=tmp_path / "run", retry_failed=True)
    (failed,) = [cell for cell in results.cells if cell.status == "failed"]
    assert failed.fold == "Fold4"
    assert "expected 5 queries in all parts, found 6" in (failed.error or failed.message)
    tables["data"]["check"] = "off"
    results = rw.run_experiment(tables, out=tmp_path / "run", retry_failed=True)
    assert {cell.status for cell in results.cells} == {"done"}


def test_istella_in_an_experiment_has_no_validation_part(tmp_path: Path) -> None:
    write(tmp_path, ("train.txt", "test.txt"))
    tables = {
        "data": {"collection": "istella", "path": str(tmp_path)},
        "algorithm": [{"kind": "GBRT"}],
    }
    data = read_experiment(tables).data
    assert not data.has_vali
    assert data.reading == {"overflow": "missing"}
    tables["algorithm"][0]["early_stopping"] = 5
    with pytest.raises(ParameterError, match="early_stopping: needs validation data"):
        read_experiment(tables)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"collection": "mq2008"}, r"\[data\] collection: has no path beside it"),
        ({"collection": "mq", "path": "x"}, r"\[data\] collection: collection 'mq' is not known"),
        ({"collection": "mq2008", "path": "nowhere"}, r"\[data\] path: there is no folder nowhere"),
        ({"folds": "x", "path": "x"}, r"\[data\] path: contradicts folds. It goes with collection"),
        ({"collection": "mq2008", "path": ".", "check": "no"}, r"\[data\] check: must be one of"),
        ({"collection": "mq2008", "folds": "x"}, "contradicts folds"),
    ],
)
def test_mistakes_in_a_file_are_named(data: dict[str, str], message: str) -> None:
    with pytest.raises(ParameterError, match=message):
        read_experiment({"data": data, "algorithm": [{"kind": "GBRT"}]})


def test_real_mq2008(mq2008: Path) -> None:
    folds = rw.datasets.open("mq2008", mq2008.parent)
    train, vali, test = folds[0]
    assert (train.n_queries, vali.n_queries, test.n_queries) == (471, 157, 156)
    with pytest.raises(DataError, match="expected 1,692 queries in all parts, found 784"):
        rw.datasets.open("mq2007", mq2008)[0]


@pytest.mark.slow
def test_all_folds_of_real_mq2008(mq2008: Path) -> None:
    assert sum(fold.test.n_queries for fold in rw.datasets.open("mq2008", mq2008)) == 784
