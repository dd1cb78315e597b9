"""Studies of rankers: experiments that fit or score many models and answer one question about them.

What each function answers
    bias_variance       Is the error due to bias or to variance?           bias_variance.py
    learning_curve      Would more training queries help?                  learning_curve.py
    convergence         Would more trees, rounds or layers help?           convergence.py
    best_sizes          How many rounds are best by each measure?          sizes.py
    quality_cost_curve  What do fewer trees or early exits cost and save?  sizes.py
    size_quality_front  How good is the best model of each size?           sizes.py
    factorial_design    What do parameters do, and do they interact?       factorial.py
    factorial           The same, from values that were measured before    factorial.py
    compare_missing     Which treatment of missing values is best?         missing.py
    select_similar      Which rows of another collection help?             transfer.py
    add_model_features  Do a foreign model's predictions help?             transfer.py
    transfer_report     Did a transfer help, harm, or neither?             transfer.py
    AutoRanker          Which ranker, setting or blend is best?            auto.py, trials.py
    tune                Which parameters of a ranker are best?             tune.py, trials.py

From call to table, with ``learning_curve(estimators, data, test)``
    1. ``fits.py`` checks the estimators, and turns data and test data, or folds, into folds.
    2. Each fit is a job with a number. The number alone decides its sample and its seed, so the result does not depend
       on the number of threads. ``side_by_side`` runs jobs in threads, and gives their results in order.
    3. ``fitted`` clones the estimator, sets its seed and fits it; the clone is measured on the test data of its fold.
    4. The values are arranged by algorithm, share and replicate in a ``LearningCurve``, a ``Result`` that prints a
       table, writes CSV and draws itself, as all results do (``rankwood.evaluation`` describes the class).

``AutoRanker`` is an estimator itself: its model is that of the ranker it has chosen. ``trials.py`` has what it tries,
how a trial is judged, and the report.

``convergence``, ``best_sizes``, ``quality_cost_curve`` and ``size_quality_front`` take fitted models and only score.
``factorial`` takes numbers and only computes. ``warm_up.py`` is no study: it compiles every kernel by running the
library on a few rows, before a test run or in the build of a container.

Terms
    algorithm   an estimator with its name; it is cloned for every fit and never fitted itself
    fold        training, validation and test data; without folds there is one
    replicate   one of several values measured under the same conditions, by another seed or fold
    block       a fold of a factorial design: what differs between folds is told apart from what its cells do
    stage       a model after some of its trees, rounds or layers
    treatment   a way to deal with missing values: learn a direction, or fill them in
    transfer    rows or columns of another collection that are added to the training data
"""
