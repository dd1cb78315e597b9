"""Files of other systems, and what an attacker or a bad disk makes of them."""

from __future__ import annotations

import re

import numpy as np

from rankwood.exports.exporting import FORMATS
from rankwood.exports.writing import WriteOptions
from tests.reference import awkward

WRITTEN_AS = {"xgboost": "xgboost-dump"}


def valid_file(name, rng):
    forest = awkward.forest(rng, awkward.SOLR_THRESHOLDS, n_trees=4, zero=True)
    return FORMATS[WRITTEN_AS.get(name, name)].write(forest, WriteOptions())


def saved_by_xgboost():
    """The shape of what ``Booster.save_model`` writes: one tree of one split."""
    tree = {
        "left_children": [1, -1, -1],
        "right_children": [2, -1, -1],
        "split_indices": [0, 0, 0],
        "split_conditions": [0.5, -1.0, 1.0],
        "default_left": [1, 0, 0],
        "split_type": [0, 0, 0],
    }
    booster = {"name": "gbtree", "model": {"trees": [tree]}}
    about = {"num_feature": "1", "num_class": "0", "num_target": "1", "base_score": "[5E-1]"}
    learner = {
        "learner_model_param": about,
        "gradient_booster": booster,
        "objective": {"name": "rank:ndcg"},
        "feature_names": [],
    }
    return {"learner": learner, "version": [3, 1, 0]}


def as_ubjson(value) -> bytes:
    """A value in the binary form, with lists of whole numbers and of others in arrays of one type."""

    def length(number):
        return b"L" + number.to_bytes(8, "big")

    if isinstance(value, dict):
        items = (length(len(k.encode())) + k.encode() + as_ubjson(v) for k, v in value.items())
        return b"{" + b"".join(items) + b"}"
    if isinstance(value, list):
        kinds = {type(item) for item in value}
        if kinds == {int}:
            return b"[$l#" + length(len(value)) + np.array(value, ">i4").tobytes()
        if kinds == {float}:
            return b"[$d#" + length(len(value)) + np.array(value, ">f4").tobytes()
        return b"[#" + length(len(value)) + b"".join(map(as_ubjson, value))
    if isinstance(value, str):
        return b"S" + length(len(value.encode())) + value.encode()
    return b"l" + value.to_bytes(4, "big", signed=True)


def saved_as_ubjson(**changes) -> bytes:
    document = saved_by_xgboost()
    document["learner"].update(changes)
    return as_ubjson(document)


def lightgbm_json(rng) -> bytes:
    """What ``Booster.dump_model`` gives, as text."""
    return FORMATS["lightgbm-json"].write(awkward.forest(rng, n_trees=3), WriteOptions())


def mutated(content: bytes, rng, tokens) -> bytes:
    """A file with one to four small things changed: bits, bytes, pieces cut out, doubled, or another token put in."""
    changed = bytearray(content)
    for _ in range(int(rng.integers(1, 5))):
        if not changed:
            break
        at = int(rng.integers(len(changed)))
        end = min(len(changed), at + int(rng.integers(1, 40)))
        kind = int(rng.integers(6))
        if kind == 0:
            changed[at] ^= 1 << int(rng.integers(8))
        elif kind == 1:
            del changed[at:end]
        elif kind == 2:
            changed[at:at] = changed[at:end]
        elif kind == 3:
            changed[at:end] = tokens[int(rng.integers(len(tokens)))]
        elif kind == 4:
            del changed[at:]
        else:
            changed[at : at + 1] = b"%d" % int(rng.integers(-3, 12))
    return bytes(changed)


TOKENS = [
    b"nan", b"1e999", b"-1", b"99999999999999999999", b"null", b"[]", b"{}", b'"x"', b"<split>", b"</split>", b"true",
    b"\xff\xfe", b"=", b"Tree=0\n", b"<tree id='1' weight='1'>", b"4294967296", b"\x00", b"1.5", b"f0", b"9" * 5000,
]  # fmt: skip

NUMBER = re.compile(rb"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
NUMBERS = [b"0", b"1", b"-1", b"2", b"3", b"-2", b"0.5", b"-7.25", b"1e30", b"2147483647", b"-2147483648", b"4294967296",
           b"9223372036854775807", b"1e300", b"-1e300", b"1e-300", b"nan", b"inf", b"-inf", b"1" * 400]  # fmt: skip


def renumbered(content: bytes, rng) -> bytes:
    """A text with one to three of its numbers replaced: its syntax stays right, so that the readers' rules are met."""
    changed = content
    for _ in range(int(rng.integers(1, 4))):
        found = list(NUMBER.finditer(changed))
        where = found[int(rng.integers(len(found)))]
        number = NUMBERS[int(rng.integers(len(NUMBERS)))]
        changed = changed[: where.start()] + number + changed[where.end() :]
    return changed
