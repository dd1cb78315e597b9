"""Rankers: estimators on scikit-learn's contract, with ``fit``, ``predict`` and ``score``.

``base`` has what all of them share. Forests are in ``forests``; boosted trees in ``boosted``, ``averaged``,
``initialized``, ``pairs`` (NDCGBoost, RankBoost) and ``adaboost``; rankers with a weight per feature in ``linear`` and
``adarank``; networks in ``mlp``; ranking by ordinal classification over any of the others in ``ordinal``. The packages
``broof``, ``deep_forest`` and ``search`` hold the larger methods. ``save`` writes estimators to model files and reads
them. Loops, bags and checkpoints come from ``rankwood.training``; trees from ``rankwood.trees``.
"""
