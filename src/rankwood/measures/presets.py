"""Presets: the conventions under which other tools publish their numbers.

========== ========================================================= ============================
preset     conventions that differ from our defaults                 source
========== ========================================================= ============================
letor3     discount=letor; NDCG@k of a list shorter than k is 0      Eval-Score-3.0.pl
letor4     the same                                                  Eval-Score-4.0.pl
mslr       the same; a label of 2 or more is relevant                eval-score-mslr.pl
lightgbm   empty queries are 1; MAP@k divides by min(relevant, k)    tested against lightgbm
xgboost    the same; P@k divides by the documents shown              tested against xgboost
trec_eval  gain=linear; equal scores by descending document id       tested against pytrec_eval
sklearn    gain=linear; DCG and NDCG are means over tied orders      tested against scikit-learn
yahoo      empty queries have NDCG 1; ERR's scale ends at label 4    accounts of it, see below
========== ========================================================= ============================

letor3, letor4, mslr: the Perl scripts published with the collections. They compute NDCG@k for k up
to the query's length and add nothing beyond it, which is why NDCG@10 of MQ2008 is low in LETOR's
tables: half of its queries have fewer documents. They sort stably, count empty queries as 0, and
divide P@k by k.

trec_eval: scores are single precision there; scores that differ only beyond it are tied in
trec_eval and not here. Its document ids are compared as bytes. Needs ``doc_ids``.

yahoo: the challenge's tool is no longer published. Accounts of it give empty queries the value 1
(Busa-Fekete et al. 2013); others used 0.5, which ``empty=0.5`` gives. ERR uses (2^y - 1)/16 for
labels 0 to 4 (Chapelle & Chang 2011).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rankwood.errors import UnknownName

_GAIN_MEASURES = ("dcg", "ndcg", "mean_ndcg", "rbp")
_RELEVANCE_MEASURES = ("map", "p", "r", "mrr", "auc", "pauc")
_TIE_MEASURES = ("dcg", "ndcg", "mean_ndcg", "map", "p", "r", "mrr", "err", "rbp", "judged")

_LETOR: Mapping[str, Mapping[str, Any]] = {
    "dcg": {"discount": "letor"},
    "ndcg": {"discount": "letor", "short": "zero"},
    "mean_ndcg": {"discount": "letor"},
}
_BOOSTING: Mapping[str, Mapping[str, Any]] = {
    "ndcg": {"empty": 1.0},
    "mean_ndcg": {"empty": 1.0},
    "map": {"empty": 1.0, "norm": "cutoff"},
}

PRESETS: Mapping[str, Mapping[str, Mapping[str, Any]]] = {
    "letor3": _LETOR,
    "letor4": _LETOR,
    "mslr": {**_LETOR, **{name: {"relevant": 2.0} for name in _RELEVANCE_MEASURES}},
    "lightgbm": _BOOSTING,
    "xgboost": {**_BOOSTING, "p": {"norm": "retrieved"}},
    "trec_eval": {
        name: {"ties": "docid"} | ({"gain": "linear"} if name in _GAIN_MEASURES else {})
        for name in _TIE_MEASURES
    },
    "sklearn": {
        "dcg": {"gain": "linear", "ties": "average"},
        "ndcg": {"gain": "linear", "ties": "average"},
        "mean_ndcg": {"gain": "linear", "ties": "average"},
    },
    "yahoo": {"ndcg": {"empty": 1.0}, "mean_ndcg": {"empty": 1.0}, "err": {"max": 4.0}},
}


def preset_options(preset: str | None, measure: str) -> dict[str, Any]:
    """The conventions a preset sets for a measure; nothing without a preset."""
    if preset is None:
        return {}
    if preset not in PRESETS:
        raise UnknownName("preset", str(preset), PRESETS)
    return dict(PRESETS[preset].get(measure, {}))
