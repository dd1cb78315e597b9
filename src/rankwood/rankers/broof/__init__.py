"""BROOF: boosted random forests for ranking (Sá 2016).

Each round grows a whole random forest and measures its errors on out-of-bag predictions; the next forest looks harder
at the rows that were wrong, or fits what is left of the labels. ``broof`` has the estimator and the loop, which is
Algorithm 1 of the source. ``strategies`` has the five extension points that the loop asks: initial weights, targets,
validation set, weight of a forest and update of the rows' weights. ``state`` has the forests of the rounds, what they
predict together, and what a checkpoint saves of them.
"""
