"""Searches that choose among many boosting steps: BoostingTree and Exp3.P.

A step fits a weak hypothesis under a constraint, such as one feature per node, so that it costs a column and not the
whole data (``steps``). ``Exp3P`` in ``bandit`` draws the constraint of each round by a bandit. ``BoostingTree`` in
``boosting_tree`` grows a tree of boosting sequences and gives a model for every length. ``tree_search``, with the
paper's search and ours, decides which sequence is extended next; ``steps`` keeps the hypotheses, scores and measures of
all sequences.
"""
