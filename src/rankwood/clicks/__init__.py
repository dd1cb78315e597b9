"""Clicks: simulated logs, position bias and judgments estimated from logs, rankings measured from logs and interleaved.

A click log is ``RankingData`` with ``positions``, whose labels are clicks, 0 or 1, or clicks out of impressions with
their number as row weight. One query id is one list that was shown; document ids join the same document of the same
query over lists.

Modules
-------
``simulation``
    ``simulate_clicks``: sessions of readers over judged data, with the truth they were drawn from.
``bias``
    ``position_bias``: the chance that a position is looked at, by regression EM, by harvested interventions, or as a
    power of the position. What it gives is a ``PositionBias``.
``judging``
    ``click_judgments``: one row per document of a query, labelled by its clicks over its looks.
``measuring``
    ``counterfactual``: what a new ranking would have earned. ``interleave``: two rankings in one list, with credit.

How rankers use a bias is in ``rankwood.losses.position_bias``.
"""
