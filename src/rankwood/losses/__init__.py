"""Losses that learning to rank lowers: their values, gradients and hessians.

The life of a loss, in the order in which the boosting loop uses it
-------------------------------------------------------------------
1. A ranker makes the loss for its training set: labels, queries and weights (``Judgments``); features are not needed.
2. ``loss.start()`` is the score of every row before the first tree.
3. ``loss.weak_learner_targets(loss, scores)`` gives what the next tree fits: a target and a weight for each row.
   By default these are ``-gradient / hessian`` and ``hessian`` from ``loss.gradients(scores)``, so that a leaf takes
   Newton's step; some losses have a rule of their own.
4. Scores change by the learning rate times the prediction of the tree, and 3 is repeated.

``loss.value(scores)`` is not needed for training. It exists so that tests compare ``gradients`` with differences of
it. For LambdaRank the weights of pairs are held fixed: see ``LambdaRank.value``.

Vocabulary
----------
gradient    of a loss to be minimised, by the score of each row; negative where the score should rise
hessian     the diagonal of second derivatives by the scores
pair        two documents of one query with different labels; the better one has the higher label
target      what a weak learner fits, see ``weak_learner_targets``; also, for LambdaRank, the measure that weighs pairs
potential   of a document in RankBoost: minus the gradient of the logarithm of the loss
grade       a label, as the number of it among the labels of a query

Modules
-------
loss         the protocol ``Loss``; squared and exponential loss; ``OwnLoss``, a function of the user's own; what a
             weak learner fits, for every loss
lambdarank   LambdaRank for NDCG, MAP, MRR and ERR (LambdaMART, and BROOF's ``lambda``)
pairs        the exponential loss of pairs (RankBoost), the expected loss of NDCG (NDCGBoost), and documents of a
             query by label
ranksvm      the squared hinge loss of pairs, as a function of a linear model's weights (RankSVM)
placement    errors of documents by where they stand in their list (BROOF's ``median`` and ``height``): they weigh
             rows and have no gradient

How to add a loss
-----------------
For BROOF: write a class with ``start`` and ``gradients`` (or a function of ``(predictions, data)`` that gives errors)
in a module here, and add it to ``LOSSES`` in ``rankwood/rankers/broof/strategies.py``. For another boosted ranker:
return the loss from its ``_loss``. A loss that is not lowered by Newton's step registers its rule in ``loss.py``.

Then add the loss to ``tests/unit/test_losses.py``, which compares gradient and hessian with differences of the value,
and a slow twin of each kernel to ``tests/reference``. A user's own loss needs none of this: it is a function of
``(scores, data)``, passed as ``loss=``.

The gradient of a loss sums to zero over a query where only differences of scores matter:

>>> import numpy as np
>>> from rankwood.data.dataset import Judgments
>>> from rankwood.losses.lambdarank import LambdaRank
>>> loss = LambdaRank(Judgments(np.array([2.0, 0.0, 1.0]), np.array([7, 7, 7])))
>>> abs(float(loss.gradients(np.zeros(3))[0].sum())) < 1e-12
True
"""
