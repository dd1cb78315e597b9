"""The formats by name: who writes and reads each, and by which rules it is scored."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from rankwood.exports import (
    c_source,
    lightgbm,
    lightgbm_json,
    onnx,
    plain_json,
    ranklib,
    solr,
    xgboost,
)
from rankwood.exports.rules import FileTrees, Rules
from rankwood.exports.writing import WriteOptions
from rankwood.models.forest import Forest


@dataclass(frozen=True)
class Format:
    """A format: what it is for, its writer, its reader and the rules of those who use it."""

    meaning: str
    write: Callable[[Forest, WriteOptions], bytes]
    read: Callable[[bytes], FileTrees]
    rules: Rules


def _format(module: object, meaning: str) -> Format:
    return Format(meaning, module.write, module.read, module.RULES)  # type: ignore[attr-defined]


FORMATS: dict[str, Format] = {
    "ranklib": _format(ranklib, "RankLib; OpenSearch and Elasticsearch LTR as model/ranklib"),
    "xgboost-json": _format(
        xgboost, "OpenSearch and Elasticsearch LTR as model/xgboost+json; Vespa"
    ),
    "solr": _format(solr, "Solr's MultipleAdditiveTreesModel"),
    "lightgbm": _format(lightgbm, "LightGBM's text, version 4; Treelite"),
    "lightgbm-json": _format(lightgbm_json, "LightGBM's JSON as Vespa reads it"),
    "onnx": _format(onnx, "ONNX Runtime: a TreeEnsembleRegressor"),
    "json": _format(plain_json, "a plain dump of the trees"),
    "c": _format(c_source, "one C file with double score(const float *)"),
}
# What can be read back into a forest, and the module that reads it.
READERS: dict[str, Format] = {
    "lightgbm": FORMATS["lightgbm"],
    "xgboost": FORMATS["xgboost-json"],
    "ranklib": FORMATS["ranklib"],
    "solr": FORMATS["solr"],
    "json": FORMATS["json"],
}
