"""For an engineer with judgments in Parquet: train, prove it beats today's ranking, hand over a file.

Run as ``python examples/engineer_parquet.py [judgments.parquet]``. The table has a row per judged document: columns
``qid``, ``label``, and one per feature; ``bm25`` is what ranks today. Without a file one is made up on the spot.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

import rankwood as rw

TODAY = "bm25"


def made_up(path: Path) -> Path:
    """Judgments of 300 queries, one feature named as the one that ranks today."""
    data = rw.make_ranking(n_queries=300, docs_per_query=20, n_features=12, seed=7)
    columns = {"qid": data.query_ids, "label": data.labels, TODAY: data.features[:, 0]}
    columns |= {f"feature_{place}": data.features[:, place] for place in range(1, 12)}
    pq.write_table(pa.table(columns), path)
    return path


def main(judgments: Path | None = None) -> None:
    """From judgments to a model file."""
    folder = Path(tempfile.mkdtemp(prefix="rankwood-"))
    data = rw.read_table(judgments or made_up(folder / "judgments.parquet"))
    train, vali, test = rw.split_queries(data, (0.6, 0.2, 0.2), seed=1)
    print(f"{data.n_documents:,} documents of {data.n_queries} queries, {data.n_features} features")

    model = rw.LambdaMART(n_trees=200, learning_rate=0.1, early_stopping=20, seed=1)
    model.fit(train, valid=vali)
    print(f"{model.forest_.n_trees} trees, stopped by the validation queries")

    today = test.features[:, list(test.names).index(TODAY)].astype(float)
    print(rw.compare({"today": today, "LambdaMART": model}, test, ["ndcg@10", "mrr"]))
    print(f"\nwhat the scores are made of\n{rw.importance(model, test, by='contribution')}")

    final = rw.refit(model, train, vali)
    rw.save(final, folder / "model.rankwood")
    certificate = rw.export(final, folder / "model.json", "xgboost-dump", verify=test)
    print(f"\nfor OpenSearch: {folder / 'model.json'}\n{certificate}")


if __name__ == "__main__":
    main(Path(sys.argv[1]) if len(sys.argv) > 1 else None)
