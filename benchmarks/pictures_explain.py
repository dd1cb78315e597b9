"""Draws ``docs/guides/explaining-why.svg``: why the first document of a list stands above the second.

Run as ``python -m benchmarks.pictures_explain``; it needs matplotlib (``pip install 'rankwood[report]'``).
"""

from __future__ import annotations

from pathlib import Path

import rankwood as rw

PATH = Path(__file__).parents[1] / "docs" / "guides" / "explaining-why.svg"


def main() -> None:
    data = rw.make_ranking(n_queries=120, docs_per_query=25, n_features=20, seed=1, doc_ids=True)
    train, test = rw.split_queries(data, (0.6, 0.4), seed=1)
    model = rw.LambdaMART(n_trees=60, seed=1).fit(train)
    rw.explain(model, test).query(test.queries[0]).why(0, 1).plot(PATH, top=8)


if __name__ == "__main__":
    main()
