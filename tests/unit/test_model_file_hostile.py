"""Files that are damaged, truncated, hostile or too new: one clear error, no code run, no memory lost."""

from __future__ import annotations

import hashlib
import io
import json
import os
import pickle
import stat
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

import rankwood as rw
from rankwood.errors import DataError, ModelError
from rankwood.models.archive import Declared
from rankwood.models.blend import BlendModel
from rankwood.models.forest import Forest
from rankwood.models.format import load_model, read_model, save_model
from rankwood.models.linear import LinearModel
from tests.reference import forest as reference


@pytest.fixture
def forest(rng):
    return reference.random_forest(rng, n_trees=3, feature_names=list("abcd"))


@pytest.fixture
def path(forest, tmp_path):
    place = tmp_path / "model.rankwood"
    save_model(forest, place, {"estimator": "RandomForest"})
    return place


def members_of(path):
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewrite(path, members, **options):
    """A zip of the given members: a mapping, or pairs of ZipInfo or name and content."""
    pairs = members.items() if isinstance(members, dict) else members
    with zipfile.ZipFile(path, "w", **options) as archive:
        for name, content in pairs:
            archive.writestr(name, content)


def edit_document(path, change):
    members = members_of(path)
    document = json.loads(members["model.json"])
    change(document)
    rewrite(path, members | {"model.json": json.dumps(document)})


def put_array(path, name, array):
    """Replace an array so that size, record and hash all agree."""
    members = members_of(path)
    document = json.loads(members["model.json"])
    record = {"dtype": array.dtype.str, "shape": list(array.shape)}
    record["sha256"] = hashlib.sha256(array.tobytes()).hexdigest()
    document["arrays"][name] = record
    header = Declared(array.dtype.str, array.shape, "").header
    members |= {f"arrays/{name}.npy": header + array.tobytes(), "model.json": json.dumps(document)}
    rewrite(path, members)


def test_rewriting_alone_changes_nothing(path, forest):
    edit_document(path, lambda _document: None)
    put_array(path, "value", np.array(forest.value))
    assert load_model(path)[0] == forest


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"PK", "too short to be a model file"),
        (b"1 qid:1 1:0.5 2:0.25 # a LETOR line\n", "is not a model file, or is truncated"),
        (pickle.dumps({"a": list(range(50))}), "is not a model file, or is truncated"),
        (b"PK\x05\x06" + bytes(18), "is a zip file, but not a model: it holds no model.json"),
        (b"PK\x05\x06" + bytes(8) + b"\xff" * 8 + bytes(2), "more than any model needs"),
        (b"PK\x05\x06" + b"\xff" * 8 + bytes(10), "damaged|holds no model.json"),
    ],
)
def test_what_is_no_model_at_all(tmp_path, content, message):
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(ModelError, match=message):
        read_model(path)


def test_places_that_are_no_files(tmp_path):
    with pytest.raises(ModelError, match=r"is a folder\. Pass the path of a model file"):
        read_model(tmp_path)
    with pytest.raises(ModelError, match=r"does not exist\. Pass the path of a model file"):
        read_model(tmp_path / "nothing")
    os.symlink(tmp_path / "nothing", tmp_path / "link")
    with pytest.raises(ModelError, match=r"link does not exist: it is a link to nothing\. Pass"):
        read_model(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe")  # opening it would wait for ever
    with pytest.raises(ModelError, match="not a regular file"):
        read_model(tmp_path / "pipe")


def test_a_newer_format_says_upgrade(path):
    def make_newer(document):
        document.update(format_version=3, arrays="elsewhere", comparison="<")

    edit_document(path, make_newer)
    message = r"written by a newer Rankwood \(format 3\); this one reads up to 2: upgrade"
    with pytest.raises(ModelError, match=message):
        load_model(path)


def nested(depth):
    """Lists inside each other."""
    value = []
    for _ in range(depth):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d.update(format="other"), "it is not a Rankwood model"),
        (lambda d: d.pop("format"), "it is not a Rankwood model"),
        (lambda d: d.update(format_version=0), "format_version is not a whole number"),
        (lambda d: d.update(format_version="1"), "format_version is not a whole number"),
        (lambda d: d.update(format_version=True), "format_version is not a whole number"),
        (lambda d: d.update(kind=3), "its kind is not a text"),
        (lambda d: d.pop("rankwood_version"), "its rankwood_version is not a text"),
        (lambda d: d.update(comparison="<"), "its comparison is not '<='"),
        (lambda d: d.update(parameters=[]), "parameters must be dict"),
        (lambda d: d.update(feature_names=["a"]), "has 1 names, but there are 4 features"),
        (lambda d: d.update(feature_names=[[], {}, 1, None]), "feature_names must be texts"),
        (lambda d: d.update(feature_names={"a": 1}), "feature_names must be list"),
        (lambda d: d.pop("arrays"), "without a record of its arrays"),
        (lambda d: d.update(arrays=[]), "without a record of its arrays"),
        (lambda d: d["arrays"].pop("gain"), "holds 'arrays/gain.npy', not declared"),
        (lambda d: d["arrays"].update(extra=d["arrays"]["gain"]), "lacks 'arrays/extra.npy'"),
        (
            lambda d: d["arrays"].update({"../../evil": d["arrays"]["gain"]}),
            "declares an array named",
        ),
        (lambda d: d["arrays"].update(gain=3), "without dtype, shape and sha256"),
        (lambda d: d["arrays"]["gain"].update(dtype="|O"), r"of dtype '\|O'"),
        (lambda d: d["arrays"]["gain"].update(dtype=["<f8"]), "of dtype"),
        (lambda d: d["arrays"]["gain"].update(dtype="<f4"), "bytes of array 'gain' instead of"),
        (lambda d: d["arrays"]["gain"].update(dtype="<i8"), "with another header than declared"),
        (lambda d: d["arrays"]["gain"].update(shape=[10**12]), "instead of 8,000,000,000,128"),
        (
            lambda d: d["arrays"]["gain"].update(shape=[2**62, 4]),
            "with a shape or hash that is none",
        ),
        (lambda d: d["arrays"]["gain"].update(shape=[-1]), "with a shape or hash that is none"),
        (lambda d: d["arrays"]["gain"].update(shape=[1.0]), "with a shape or hash that is none"),
        (lambda d: d["arrays"]["gain"].update(shape=[1] * 99), "with a shape or hash that is none"),
        (lambda d: d["arrays"]["gain"].update(shape=7), "with a shape or hash that is none"),
        (lambda d: d["arrays"]["gain"].update(sha256=None), "with a shape or hash that is none"),
        (lambda d: d["arrays"]["gain"].update(sha256="0" * 64), "another content than declared"),
        (lambda d: d.pop("forest"), "its record must hold average, base, n_features"),
        (lambda d: d["forest"].update(extra=1), "its record must hold average, base, n_features"),
        (lambda d: d["forest"].update(base=None), "base must be a finite number, got None"),
        (lambda d: d["forest"].update(base=1e999), "cannot be read .Infinity is not JSON"),
        (lambda d: d["forest"].update(base=10**400), "base must be a finite number, got 10000"),
        (lambda d: d["forest"].update(base=10**4299), "base must be a finite number, got"),
        (lambda d: d["forest"].update(average=0), "average must be True or False"),
        (lambda d: d["forest"].update(n_features=10**30), "n_features must be a whole number"),
        (lambda d: d["forest"].update(n_features=1), "but there are 1 features"),
        (
            lambda d: d["forest"].update(n_features=2**31 - 1),
            r"n_features must be a whole number from 1 to 1,048,576, got 2147483647",
        ),
        (lambda d: d.update(feature_names=["a", "b", "c", "\ud800"]), "half a character"),
        (lambda d: d.update(training={"note": "\udfff"}), "half a character"),
        (lambda d: d.update(training={"a": nested(100)}), "nested more than 64 levels deep"),
    ],
)
def test_documents_that_lie(path, change, message):
    edit_document(path, change)
    with pytest.raises(ModelError, match=message):
        load_model(path)


def set_at(name, node, value):
    def change(forest):
        array = np.array(getattr(forest, name))
        array[node] = value
        return name, array

    return change


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (set_at("threshold", 0, np.nan), r"threshold\[0\] is nan"),
        (set_at("value", 1, np.inf), r"value\[1\] is inf"),
        (set_at("feature", 0, 4), "node 0 tests feature 4"),
        (set_at("left", 0, 0), "node 0: its left child 0 must stand after it"),
        (set_at("left", 0, 2**31 - 1), "node 0: its left child 2147483647"),
        (set_at("right", 0, -5), "node 0: its right child -5"),
        (set_at("tree_offsets", 1, -(2**63)), "tree_offsets must ascend"),
        (set_at("tree_weights", 0, np.nan), r"tree_weights\[0\] is nan"),
        (lambda forest: ("value", np.zeros((forest.n_nodes, 1))), "with one dimension"),
        (lambda _forest: ("value", np.zeros(1)), "value has 1 values"),
        (
            lambda forest: ("threshold", forest.threshold.astype(np.float64)),
            "must be an array of float32",
        ),
        (lambda _forest: ("stowaway", np.zeros(1)), "'stowaway' does not belong to a forest"),
        (set_at("value", 1, 1.7e308), None),  # no sum is infinite
        (lambda f: ("value", np.where(f.feature < 0, 1.7e308, 0.0)), "a score could be infinite"),
        (lambda f: ("tree_weights", np.full(f.n_trees, 1e308)), "a score could be infinite"),
    ],
)
def test_arrays_that_are_no_forest(path, forest, change, message):
    put_array(path, *change(forest))
    if message is None:
        model, _ = load_model(path)
        assert np.isfinite(model.predict(np.zeros((1, 4)))).all()
        return
    with pytest.raises(ModelError, match=f"holds no usable forest: .*{message}"):
        load_model(path)


def test_truth_values_are_0_and_1(tmp_path, path):
    put_array(path, "flags", np.array([True, False]))
    assert read_model(path).arrays["flags"].tolist() == [True, False]
    members = members_of(path)
    bad = Declared("|b1", (2,), "").header + b"\x02\x00"
    edit_hash = json.loads(members["model.json"])
    edit_hash["arrays"]["flags"]["sha256"] = hashlib.sha256(b"\x02\x00").hexdigest()
    rewrite(path, members | {"arrays/flags.npy": bad, "model.json": json.dumps(edit_hash)})
    with pytest.raises(ModelError, match="truth values other than 0 and 1"):
        read_model(path)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../evil.npy", "holds '../evil.npy', not declared"),
        ("/etc/passwd", "not declared"),
        ("arrays/../model.json", "not declared"),
        ("arrays\\gain.npy", "not declared"),
        ("notes.txt", "holds 'notes.txt', not declared"),
        ("folder/", "which is not a plain file"),
    ],
)
def test_members_that_do_not_belong(path, name, message):
    rewrite(path, members_of(path) | {name: b""})
    with pytest.raises(ModelError, match=message):
        load_model(path)


def test_a_member_that_is_missing(path):
    members = members_of(path)
    del members["arrays/left.npy"]
    rewrite(path, members)
    with pytest.raises(ModelError, match=r"lacks 'arrays/left\.npy'"):
        load_model(path)


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_member_that_is_there_twice(path):
    pairs = list(members_of(path).items())
    rewrite(path, [*pairs, pairs[0]])
    with pytest.raises(ModelError, match=r"holds 'model\.json' twice"):
        load_model(path)


def test_a_link_as_a_member(path):
    members = members_of(path)
    link = zipfile.ZipInfo("arrays/gain.npy")
    link.external_attr = (stat.S_IFLNK | 0o777) << 16
    rewrite(
        path, [*((n, c) for n, c in members.items() if n != link.filename), (link, b"/etc/passwd")]
    )
    with pytest.raises(ModelError, match=r"'arrays/gain\.npy', which is not a plain file"):
        load_model(path)


def test_an_encrypted_member(path):
    content = bytearray(path.read_bytes())
    for signature, flags_at in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        content[content.index(signature) + flags_at] |= 1
    path.write_bytes(content)
    with pytest.raises(ModelError, match=r"holds 'model\.json' encrypted"):
        load_model(path)


def test_a_compressed_bomb_is_not_unfolded(path):
    members = members_of(path)
    document = json.loads(members["model.json"])
    n_bytes = 2**26
    document["arrays"]["value"]["shape"] = [n_bytes // 8]
    header = Declared("<f8", (n_bytes // 8,), "").header
    document["arrays"]["value"]["sha256"] = hashlib.sha256(bytes(n_bytes)).hexdigest()
    members |= {"model.json": json.dumps(document)}
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            if name != "arrays/value.npy":
                archive.writestr(name, content)
        archive.writestr("arrays/value.npy", header + bytes(n_bytes), zipfile.ZIP_DEFLATED)
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=r"holds 'arrays/value\.npy' compressed"):
            load_model(path)
        assert tracemalloc.get_traced_memory()[1] < 2**24
    finally:
        tracemalloc.stop()
    rewrite(path, members_of(path), compression=zipfile.ZIP_DEFLATED)
    with pytest.raises(ModelError, match=r"holds 'model\.json' compressed"):
        load_model(path)


def test_sizes_beyond_the_file_are_not_believed(path):
    """The list of members and the document both claim 8 GB for an array; the file has a few kB."""
    n_values = 10**9
    edit_document(path, lambda d: d["arrays"]["value"].update(shape=[n_values]))
    claimed = len(Declared("<f8", (n_values,), "").header) + 8 * n_values
    content = bytearray(path.read_bytes())
    entry = content.index(b"arrays/value.npy", content.index(b"PK\x01\x02")) - 46
    # 64-bit sizes: markers in the fixed part, the numbers in an extra field after the name
    content[entry + 20 : entry + 28] = b"\xff" * 8
    content[entry + 30 : entry + 32] = struct.pack("<H", 20)
    name_end = entry + 46 + len("arrays/value.npy")
    content[name_end:name_end] = struct.pack("<HHQQ", 1, 16, claimed, claimed)
    end = content.rindex(b"PK\x05\x06")
    size = struct.unpack_from("<L", content, end + 12)[0]
    struct.pack_into("<L", content, end + 12, size + 20)
    path.write_bytes(content)
    with pytest.raises(ModelError, match="of content, more than the file has"):
        load_model(path)


def test_a_huge_list_of_members_is_not_read(path):
    content = path.read_bytes()
    end64 = struct.pack("<4sQ2H2L4Q", b"PK\x06\x06", 44, 45, 45, 0, 0, 10**8, 10**8, 46 * 10**8, 0)
    locator = struct.pack("<4sLQL", b"PK\x06\x07", 0, 0, 1)
    path.write_bytes(content[:-22] + end64 + locator + content[-22:])
    with pytest.raises(ModelError, match="lists members in 4,600,000,000 bytes"):
        load_model(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"[" * 200_000, "cannot be read"),
        (b'{"a":' * 200_000, "cannot be read"),
        (b"[]", "that is no object"),
        (b"", "cannot be read"),
        (b"\xff\xfe", "cannot be read"),
        (b'{"format": "rankwood-model", "format": "x"}', "a key stands twice"),
        (b'{"format": NaN}', "NaN is not JSON"),
        (b'{"format_version": 1' + b"0" * 10_000 + b"}", "cannot be read|not a Rankwood model"),
        (b"{" + b" " * (16 * 2**20) + b"}", "16 MiB are allowed"),
    ],
)
def test_documents_that_are_no_documents(path, text, message):
    rewrite(path, members_of(path) | {"model.json": text})
    with pytest.raises(ModelError, match=message):
        load_model(path)


def test_pickles_are_not_run(path, tmp_path):
    class Evil:
        def __reduce__(self):
            return os.mkdir, (str(tmp_path / "executed"),)

    objects = np.empty(1, object)
    objects[0] = Evil()
    file = io.BytesIO()
    np.lib.format.write_array(file, objects, allow_pickle=True)
    rewrite(path, members_of(path) | {"arrays/value.npy": file.getvalue()})
    with pytest.raises(ModelError, match="bytes of array 'value' instead of"):
        load_model(path)
    assert not (tmp_path / "executed").exists()


def outcome_of(path, forest):
    """What a damaged file ends in: our error, or a forest equal to the one written."""
    try:
        again, _ = load_model(path)
    except ModelError as error:
        return "refused" if str(path) in str(error) else f"unnamed: {error}"
    return "equal" if again == forest else "different"


def test_truncated_files_are_refused(path, forest, rng):
    content = path.read_bytes()
    for length in {*range(40), *rng.integers(0, len(content), 150).tolist(), len(content) - 1}:
        path.write_bytes(content[:length])
        assert outcome_of(path, forest) == "refused"


def test_flipped_bytes_are_refused_or_without_effect(path, forest, rng):
    content = path.read_bytes()
    found = set()
    for _ in range(400):
        damaged = bytearray(content)
        for _ in range(int(rng.integers(1, 4))):
            damaged[int(rng.integers(len(content)))] ^= int(rng.integers(1, 256))
        path.write_bytes(damaged)
        found.add(outcome_of(path, forest))
    assert found == {"refused", "equal"}  # some bytes, such as those of times, say nothing


def test_flipped_bytes_of_the_list_of_members(path, forest, rng):
    """Here zipfile itself is put to the test: names, sizes, offsets, flags, versions, counts."""
    content = path.read_bytes()
    start = content.index(b"PK\x01\x02")
    for _ in range(600):
        damaged = bytearray(content)
        damaged[int(rng.integers(start, len(content)))] ^= 1 << int(rng.integers(8))
        path.write_bytes(damaged)
        assert outcome_of(path, forest) in ("refused", "equal")


def test_pieces_moved_about(path, forest, rng):
    content = path.read_bytes()
    for _ in range(150):
        first, last = sorted(rng.integers(0, len(content), 2).tolist())
        kind = int(rng.integers(3))
        piece = content[first:last]
        damaged = {
            0: content[:first] + content[last:],
            1: content[:first] + piece + piece + content[last:],
            2: content[:first] + bytes(len(piece)) + content[last:],
        }[kind]
        path.write_bytes(damaged)
        assert outcome_of(path, forest) in ("refused", "equal")


def test_counts_that_wrap_when_they_are_summed(tmp_path):
    """In int64 these three sum to the number of trees; scoring by them would read beyond the arrays."""
    path = tmp_path / "ordinal.rankwood"
    data = rw.make_ranking(10, 8, 4, seed=1)
    model = rw.OrdinalRanker(rw.RandomForest(1, max_leaves=3)).fit(data).ordinal_
    rw.save(model, path)
    n_grades = model.tree_counts.size
    most = 2**63 - 1
    counts = np.zeros(n_grades, np.int64)
    counts[:3] = [most, most, model.trees.n_trees + 2]
    assert counts.sum() == model.trees.n_trees
    put_array(path, "ordinal.tree_counts", counts)
    with pytest.raises(ModelError, match="tree_counts must sum to the number of trees"):
        load_model(path)


def test_a_record_of_the_training_with_values_of_another_kind(tmp_path):
    path = tmp_path / "gbrt.rankwood"
    data = rw.make_ranking(10, 8, 4, seed=1)
    rw.save(rw.GBRT(2, min_leaf=2).fit(data, valid=data), path)
    edit_document(path, lambda document: document["training"].update(history=0.5))
    with pytest.raises(ModelError, match="has a float as history, not a list"):
        rw.load(path)
    edit_document(path, lambda document: document["training"].update(history={"map": 3}))
    with pytest.raises(ModelError, match="has a int in place of a list of figures"):
        rw.load(path)


def test_scores_beyond_floating_point_are_an_error(rng):
    """Each part is finite, but not the score: an answer would be infinite."""
    one = LinearModel(np.array([1e308]), np.zeros(1), np.ones(1))
    blend = BlendModel((one,), ("a",), np.ones(1), np.zeros(1), np.array([1e-300]))
    with pytest.raises(DataError, match="the score of row 1 is beyond floating point"):
        blend.predict(np.array([[0.0], [1.0]]))


def test_the_quadrature_of_explanations_is_bounded():
    n_features = 600
    nodes = 2 * n_features + 1
    inner = np.arange(n_features) * 2
    tree = {name: np.zeros(nodes) for name in ("threshold", "value", "gain")}
    tree |= {name: np.zeros(nodes, np.int32) for name in ("left", "right", "missing")}
    tree["feature"] = np.full(nodes, -1, np.int32)
    tree["feature"][inner] = np.arange(n_features)
    tree["left"][inner], tree["right"][inner] = inner + 1, inner + 2
    tree["missing"][inner], tree["cover"] = inner + 1, np.ones(nodes)
    forest = Forest.from_trees([tree], n_features=n_features)
    assert forest.predict(np.zeros((1, n_features))).shape == (1,)
    with pytest.raises(ModelError, match=r"tests 599 different features or more on one path"):
        forest.explainer.contributions(np.zeros((1, n_features)))
