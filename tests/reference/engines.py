"""How other engines read and score a file of trees, written from their documented rules: one document at a time.

None of this looks at our readers: each engine parses the text in its own way and keeps its own arithmetic.
"""

from __future__ import annotations

import json
import math
import xml.etree.ElementTree as ElementTree

import numpy as np

f32 = np.float32


class RankLib:
    """RankLib, and the ``model/ranklib`` of the ranking plugins: numbers by ``Float.parseFloat``, features from 1."""

    def __init__(self, content: bytes) -> None:
        lines = content.decode().split("\n")
        self.averages = {"## LambdaMART": False, "## MART": False, "## Random Forests": True}[
            lines[0]
        ]
        self.ensembles, gathered = [], ""
        for line in lines:
            if line.startswith("##"):
                continue
            gathered += line.strip()
            if gathered.endswith("</ensemble>"):
                self.ensembles.append(ElementTree.fromstring(gathered))
                gathered = ""
        assert gathered == ""
        if not self.averages:
            assert len(self.ensembles) == 1

    def score(self, document) -> float:
        found = [self.of_ensemble(ensemble, document) for ensemble in self.ensembles]
        return sum(float(s) for s in found) / len(found) if self.averages else float(found[0])

    def of_ensemble(self, ensemble, document):
        total = f32(0)
        for tree in ensemble.findall("tree"):
            weight = f32(tree.get("weight"))
            total = f32(float(total) + self.output(tree[0], document) * float(weight))
        return total

    def output(self, split, document) -> float:
        while split[0].tag == "feature":
            feature, threshold = int(split[0].text), f32(split[1].text)
            value = f32(document[feature - 1]) if feature - 1 < len(document) else f32(0)
            if math.isnan(value):
                value = f32(0)
            split = split[2] if value <= threshold else split[3]  # by order; pos is not looked at
        return float(f32(split[0].text))


class SearchPluginXGBoost:
    """``model/xgboost+json`` of OpenSearch and Elasticsearch; ``knows_missing`` since OpenSearch looks at 'missing'."""

    ALLOWED = (
        "nodeid",
        "depth",
        "split",
        "split_condition",
        "yes",
        "no",
        "missing",
        "leaf",
        "children",
    )
    OBJECTIVES = ("binary:logitraw", "rank:ndcg", "rank:map", "rank:pairwise", "reg:linear")

    def __init__(self, content: bytes, names, knows_missing: bool) -> None:
        document = json.loads(content)
        assert set(document) == {"objective", "splits"}
        assert document["objective"] in self.OBJECTIVES
        self.trees, self.names, self.knows_missing = document["splits"], list(names), knows_missing
        waiting = list(self.trees)
        assert waiting
        while waiting:
            node = waiting.pop()
            assert set(node) <= set(self.ALLOWED)
            assert type(node["nodeid"]) is int
            if "leaf" in node:
                continue
            assert {"nodeid", "split_condition", "split", "yes", "no", "depth"} <= set(node)
            first, second = node["children"]
            assert (first["nodeid"], second["nodeid"]) == (node["yes"], node["no"])
            assert node["missing"] in (node["yes"], node["no"])
            assert node["split"] in self.names
            waiting += node["children"]

    def score(self, document) -> float:
        total = f32(0)
        for root in self.trees:
            node = root
            while "leaf" not in node:
                value = f32(document[self.names.index(node["split"])])
                if math.isnan(value):
                    goes_yes = self.knows_missing and node["missing"] == node["yes"]
                else:
                    goes_yes = f32(node["split_condition"]) > value
                node = node["children"][0 if goes_yes else 1]
            total = f32(total + f32(1) * f32(node["leaf"]))
        return float(total)


class Solr:
    """``MultipleAdditiveTreesModel`` of Solr 9.2 and later."""

    def __init__(self, content: bytes) -> None:
        model = json.loads(content)
        assert model["class"] == "org.apache.solr.ltr.model.MultipleAdditiveTreesModel"
        assert isinstance(model["name"], str)
        assert model["params"]["isNullSameAsZero"] is False  # the setter takes a boolean
        self.index = {feature["name"]: place for place, feature in enumerate(model["features"])}
        self.trees = model["params"]["trees"]
        waiting = [tree["root"] for tree in self.trees]
        while waiting:
            node = waiting.pop()
            if "feature" not in node:
                assert set(node) == {"value"}
                assert isinstance(node["value"], str)
                continue
            assert isinstance(node["threshold"], str)
            assert node["missing"] in ("left", "right")
            waiting += [node["left"], node["right"]]

    def score(self, document) -> float:
        total = f32(0)
        for tree in self.trees:
            assert isinstance(tree["weight"], str)
            total = f32(total + f32(f32(tree["weight"]) * self.output(tree["root"], document)))
        return float(total)

    def output(self, node, document):
        while "feature" in node:
            if node["feature"] not in self.index:
                return f32(0)
            value = f32(document[self.index[node["feature"]]])
            threshold = f32(f32(node["threshold"]) + f32(1e-6))
            if value <= threshold:
                node = node["left"]
            elif value > threshold:
                node = node["right"]
            else:
                node = node[node["missing"]]
        return f32(node["value"])


class VespaLightGBM:
    """Vespa's import of LightGBM's JSON: ``value < threshold``, or ``!(value >= threshold)`` where NaN goes left."""

    def __init__(self, content: bytes) -> None:
        model = json.loads(content)
        assert model["objective"] == "regression"
        assert list(model["pandas_categorical"]) == []
        self.names = model["feature_names"]
        self.trees = [tree["tree_structure"] for tree in model["tree_info"]]

    def score(self, document) -> float:
        total = 0.0
        for root in self.trees:
            node = root
            while "left_child" in node:
                assert node["decision_type"] != "=="
                value, threshold = (
                    float(document[node["split_feature"]]),
                    float(str(node["threshold"])),
                )
                goes_left = not value >= threshold if node["default_left"] else value < threshold
                node = node["left_child"] if goes_left else node["right_child"]
            total += float(node["leaf_value"])
        return total


class VespaXGBoost:
    """Vespa's import of XGBoost's dump, in float64; it takes the bare array of trees."""

    def __init__(self, trees, names) -> None:
        self.trees, self.names = trees, list(names)

    def score(self, document) -> float:
        total = 0.0
        for root in self.trees:
            node = root
            while "children" in node:
                value, condition = (
                    float(document[self.names.index(node["split"])]),
                    node["split_condition"],
                )
                is_yes = (
                    not value >= condition if node["missing"] == node["yes"] else value < condition
                )
                wanted = node["yes"] if is_yes else node["no"]
                node = next(child for child in node["children"] if child["nodeid"] == wanted)
            total += float(node["leaf"])
        return total
