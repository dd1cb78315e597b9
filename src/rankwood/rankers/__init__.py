"""Rankers: estimators with scikit-learn's contract that learn to rank documents.

A ranker is fitted on labelled documents of queries and gives each document a score. Rankers are public names of the
package ``rankwood``; the modules here are not imported by ``import rankwood`` but on first use.

The rankers by family, with the papers they come from
    forests             ``RandomForest`` (Breiman 2001), ``ExtraTrees`` (Geurts, Ernst & Wehenkel 2006) and
                        ``CompletelyRandomForest`` (Liu, Ting, Yu & Zhou 2008)
    boosted             ``GBRT``, also known as MART (Friedman 2001), ``AveragedGBRT`` (Mohan 2010, section
                        2.3.3) and ``LambdaMART`` (Wu et al. 2010; Burges 2010)
    initialized         ``InitializedGBRT``, boosting that starts from a random forest (Mohan 2010, Algorithm 4)
    ordinal             ``OrdinalRanker``, one model per grade (Li, Burges & Wu 2007; Mohan 2010, chapter 3)
    pairs               ``NDCGBoost`` (Valizadegan, Jin, Zhang & Mao 2009) and ``RankBoost`` (Freund, Iyer, Schapire &
                        Singer 2003)
    adaboost            ``AdaBoost`` on relevant and other documents (Freund & Schapire 1997)
    linear              ``AdaRank`` (Xu & Li 2007) and ``RankSVM`` (Joachims 2002; Lee & Lin 2014), a weight per feature
    broof               ``BROOF``, boosted random forests (Sá 2016; Sá et al., SIGIR 2016)
    deep_forest         ``DeepForest``, layers of forests (Zhou & Feng 2017, for ranking)
    search              ``BoostingTree`` (Kocsis, György & Bán 2013) and ``Exp3P`` (Busa-Fekete & Kégl 2010)
    blend               ``Blend``, a weighted sum of other rankers (Breiman 1996; Mohan 2010, section 7.2)
    mlp                 ``MLPRanker``, a neural network as a baseline (Wang et al. 2018; Pobrotyn et al. 2020)

Three modules serve them all: ``base`` has the class ``Ranker``, ``parameters`` the declaration of parameters, and
``save`` reads and writes model files.

What a ranker must define
    parameters          declared in the class body with ``parameter``; ``_signature`` names them in the order of the
                        constructor's arguments. Constructor, checks, docstring and command-line options follow.
    ``_model``          the attribute that holds the model: ``forest_`` unless it says otherwise. The model is a class
                        of ``rankwood.models`` with ``predict``, ``n_features`` and ``feature_names``.
    ``_fit``            grows trees from a ``TrainingSet`` (binned rows) and sets the model and other attributes whose
                        names end in ``_``. A ranker that needs no bins defines ``_learn`` instead.
    ``_as_chosen``      the parameters that give the same model without validation data, for ``refit``.
    ``_check_parameters``  only for rules about several parameters; it calls ``super()._check_parameters()`` first.

How to add a ranker
    1. Choose the base class: ``ForestRanker`` for trees that are averaged, ``Boosted`` for trees that are added,
       ``RoundRanker`` for other models that grow by rounds, ``LinearRanker`` for weights of features, else ``Ranker``.
    2. Declare its parameters. A parameter of ``parameters.SHARED`` needs a default only; another one needs its meaning
       and its bounds too. One name means one thing in all rankers.
    3. Write the loop of the algorithm as a function that fits on one screen and uses the words of the paper.
    4. Name the class in ``rankwood.__all__`` and in the table of modules beside it. ``rankwood train``, ``load`` and
       the reference pages then know it.
    5. Add it to the tests of the contract, add golden digests of its models, and write a slow twin of each kernel.

Vocabulary
    row, document       one line of the training data; documents belong to queries
    label, grade        how relevant a document is; a grade is one of the few values that labels have
    round               one step of boosting: it adds a tree, a forest or a feature to the model
    bag                 the rows that one tree is grown on; a row outside of it is out of bag (oob)
    held-out score      the score of a training row from trees, or models, that have not seen it
    base                the ranker that another one is built on
    measure             what models are compared by, such as NDCG@10; rmse is to fall, the others are to rise
    listener            ``progress`` or a callback: a function that is told of every step and may stop the fit
"""
