"""``MLPRanker`` with PyTorch: the loss against its twin, gradients, repeatability, the estimator's face, the command."""

from __future__ import annotations

import json
import threading

import numpy as np
import pytest

import rankwood as rw
from rankwood.cli.main import main
from rankwood.errors import DataError, ParameterError, RunError
from rankwood.rankers.mlp import gains_over_ideal, ndcg_loss2pp
from tests.reference import ndcg_loss2 as reference

torch = pytest.importorskip("torch", reason="the extra 'neural' is not installed")


SMALL = {"hidden": (16, 8), "n_epochs": 4, "batch_size": 8, "dropout": 0.1, "device": "cpu"}


def parts_of(seed=1):
    data = rw.make_ranking(n_queries=40, docs_per_query=9, n_features=6, seed=seed)
    return rw.split_queries(data, (0.6, 0.2, 0.2), seed=seed)


def padded(lists, longest, dtype=torch.float64):
    found = torch.zeros((len(lists), longest), dtype=dtype)
    for number, values in enumerate(lists):
        found[number, : len(values)] = torch.as_tensor(values, dtype=dtype)
    return found


def gains_of(labels):
    offsets = np.array([0, len(labels)])
    return gains_over_ideal(np.asarray(labels, float), offsets)


def lists_of(rng, n_lists=6, longest=7):
    """Labels and scores, with ties, single documents, lists of one label and of labels 0."""
    sizes = [1, *rng.integers(2, longest + 1, n_lists - 3), longest, 3]
    labels = [rng.integers(0, 4, size).astype(float) for size in sizes]
    labels[-1][:] = 0.0
    labels[-2][:] = 2.0
    scores = [rng.integers(-3, 3, size) / 2 for size in sizes]
    return labels, scores, longest


@pytest.mark.parametrize(("sigma", "mu"), [(1.0, 10.0), (0.5, 0.0), (3.0, 2.5)])
def test_loss_equals_the_slow_twin(rng, sigma, mu):
    labels, scores, longest = lists_of(rng)
    is_document = padded([np.ones(len(each)) for each in labels], longest + 2, torch.bool)
    losses = ndcg_loss2pp(
        padded(scores, longest + 2),
        padded([gains_of(each) for each in labels], longest + 2),
        is_document,
        sigma=sigma,
        mu=mu,
    )
    expected = [
        reference.ndcg_loss2pp(score, label, sigma, mu) if any(label) else 0.0
        for score, label in zip(scores, labels, strict=True)
    ]
    np.testing.assert_allclose(losses.numpy(), expected, rtol=1e-12, atol=1e-14)
    assert losses[0] == losses[-1] == losses[-2] == 0.0  # no pairs
    assert losses.max() > 0.1


def test_loss_of_two_documents_by_hand():
    # Labels 1, 0 and equal scores: ranks 1 and 2, 1/D is 1 and 1/log2(3), and so is 1/D of distances 1 and 2. G is 1
    # and 0, and log2(1 + e^0) = 1: (μ + 1) · (1 - 1/log2(3)).
    scores = torch.zeros((1, 2), dtype=torch.float64)
    gains = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    loss = ndcg_loss2pp(scores, gains, torch.ones((1, 2), dtype=torch.bool), mu=10.0)
    assert loss.item() == pytest.approx(11 * (1 - 1 / np.log2(3)), rel=1e-14)


def test_padding_and_a_constant_added_change_nothing(rng):
    labels, scores, longest = lists_of(rng)
    gains = [gains_of(each) for each in labels]
    ones = [np.ones(len(each)) for each in labels]

    def losses(width, shift):
        shifted = [each + shift for each in scores]
        mask = padded(ones, width, torch.bool)
        return ndcg_loss2pp(padded(shifted, width), padded(gains, width), mask).numpy()

    np.testing.assert_allclose(losses(longest + 9, 0.0), losses(longest, 0.0), rtol=1e-13)
    np.testing.assert_allclose(losses(longest, 2.0), losses(longest, 0.0), rtol=1e-12)


def test_gradients_equal_finite_differences(rng):
    labels = [rng.integers(0, 3, size).astype(float) for size in (5, 7, 2)]
    scores = [rng.permutation(size) * 0.7 for size in (5, 7, 2)]  # far from ties: ranks stay
    gains = padded([gains_of(each) for each in labels], 7)
    mask = padded([np.ones(len(each)) for each in labels], 7, torch.bool)
    start = padded(scores, 7).requires_grad_()
    ndcg_loss2pp(start, gains, mask).sum().backward()
    assert start.grad[~mask].abs().max() == 0
    np.testing.assert_allclose(start.grad.sum(dim=1).numpy(), 0, atol=1e-12)
    step = 1e-5
    for place in np.argwhere(mask.numpy()).tolist():
        values = []
        for sign in (1, -1):
            moved = start.detach().clone()
            moved[tuple(place)] += sign * step
            values.append(ndcg_loss2pp(moved, gains, mask).sum().item())
        slope = (values[0] - values[1]) / (2 * step)
        assert start.grad[tuple(place)].item() == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_weights_of_documents_multiply_in_pairs(rng):
    scores, gains = torch.rand((1, 4), dtype=torch.float64), padded([gains_of([2, 1, 0, 1])], 4)
    mask = torch.ones((1, 4), dtype=torch.bool)
    twice = torch.full((1, 4), 2.0, dtype=torch.float64)
    plain = ndcg_loss2pp(scores, gains, mask)
    assert ndcg_loss2pp(scores, gains, mask, weights=twice).item() == pytest.approx(
        4 * plain.item()
    )


def test_it_learns():
    train, vali, test = parts_of()
    model = rw.MLPRanker((32, 16), n_epochs=30, batch_size=8, device="cpu").fit(train, valid=vali)
    assert model.train_history_[-1] < model.train_history_[0]
    untrained = rw.MLPRanker((32, 16), n_epochs=1, learning_rate=1e-9, device="cpu").fit(train)
    better, worse = (
        rw.evaluate(each, test, "ndcg@10")["ndcg@10"].value for each in (model, untrained)
    )
    assert better > worse + 0.02
    assert model.history_[model.best_iteration_ - 1] == max(model.history_)
    best = rw.evaluate(model, vali, "ndcg@10")["ndcg@10"].value
    assert best == pytest.approx(max(model.history_), rel=1e-14)


def test_same_seed_same_bits_whatever_else_happens():
    train, vali, _ = parts_of()
    before = torch.get_num_threads()
    first = rw.MLPRanker(**SMALL, seed=3, n_threads=1).fit(train, valid=vali)
    torch.manual_seed(99)
    torch.rand(5)
    state = torch.get_rng_state()
    second = rw.MLPRanker(**SMALL, seed=3, n_threads=2).fit(train, valid=vali)
    assert torch.equal(
        torch.get_rng_state(), state
    )  # nothing was drawn from the generator of others
    assert first.neural_ == second.neural_
    assert first.history_ == second.history_
    assert torch.get_num_threads() == before
    assert rw.MLPRanker(**SMALL, seed=4).fit(train).neural_ != first.neural_


def test_threads_are_given_back_when_training_fails():
    train, _, _ = parts_of()
    before = torch.get_num_threads()
    with pytest.raises(RunError, match="training diverged in epoch"):
        rw.MLPRanker(**SMALL | {"learning_rate": 1e30, "n_epochs": 50}).fit(train)
    assert torch.get_num_threads() == before


def test_scores_without_torch_equal_those_of_torch():
    train, _, test = parts_of()
    model = rw.MLPRanker(**SMALL).fit(train).neural_
    from rankwood.models.neural import standardise

    values = torch.as_tensor(
        standardise(test.features, model.centre, model.spread, model.is_skewed)
    )
    for number, (weights, biases) in enumerate(model.layers, 1):
        values = values @ torch.tensor(weights) + torch.tensor(biases)
        values = torch.relu(values) if number < len(model.layers) else values
    np.testing.assert_allclose(model.predict(test), values[:, 0].numpy(), rtol=1e-4, atol=1e-5)


def test_early_stopping_and_refit():
    train, vali, _ = parts_of()
    model = rw.MLPRanker(**SMALL | {"n_epochs": 60}, early_stopping=3).fit(train, valid=vali)
    assert len(model.history_) == model.best_iteration_ + 3 < 60
    assert model.stopped_because_.startswith("early stopping")
    again = rw.refit(model, train, vali)
    assert (again.n_epochs, again.early_stopping) == (model.best_iteration_, None)
    with pytest.raises(ParameterError, match="early_stopping needs validation data"):
        rw.MLPRanker(**SMALL, early_stopping=3).fit(train)


def test_missing_values_weights_and_long_lists():
    train, _, test = parts_of()
    features = np.array(train.features)
    features[::4, 0] = np.nan
    rows = np.linspace(0, 2, train.n_documents)
    queries = np.arange(train.n_queries, dtype=float)
    model = rw.MLPRanker(**SMALL, max_list=4)
    model.fit(features, train.labels, train.query_ids, sample_weight=rows, query_weight=queries)
    assert np.isfinite(model.predict(test.features)).all()
    # What has no weight is no part of the data.
    mask = queries[train.query_of_row] > 0
    without = rw.RankingData(train.features[mask], train.labels[mask], train.query_ids[mask])
    weights = (queries > 0).astype(float)
    weighted = rw.MLPRanker(**SMALL).fit(
        train.features, train.labels, train.query_ids, query_weight=weights
    )
    assert weighted.neural_ == rw.MLPRanker(**SMALL).fit(without).neural_


def test_bad_data_is_named():
    model = rw.MLPRanker(**SMALL)
    for arguments, match in (
        (([[1.0], [2.0]], [1, 1], [1, 1]), "no query has documents of different labels"),
        (([[1.0]], [1], [1]), "no query has documents of different labels"),
        (([[1.0], [np.inf]], [0, 1], [1, 1]), "a neural network needs finite values"),
        ((np.zeros((0, 2)), [], []), "no rows"),
        (([[1.0], [2.0]], None, [1, 1]), "requires y"),
    ):
        with pytest.raises(DataError, match=match):
            model.fit(*arguments)
    if not torch.cuda.is_available():
        with pytest.raises(ParameterError, match="needs a graphics card"):
            rw.MLPRanker(device="cuda").fit([[1.0], [2.0]], [0, 1], [1, 1])
    huge = rw.MLPRanker(**SMALL).fit([[1.0], [2.0]], [0, 1e300], [1, 1])
    assert np.isfinite(huge.predict([[1.0], [2.0]])).all()


def test_side_by_side_in_a_bias_variance_analysis():
    train, _, test = parts_of()
    found = [
        rw.bias_variance(rw.MLPRanker(**SMALL), train, test, trainings=3, n_threads=n).to_dict()
        for n in (1, 2)
    ]
    assert found[0] == found[1]
    assert threading.active_count() < 50


def test_the_command_line_trains_scores_and_inspects(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    for part, name in zip(parts_of(), ("train", "vali", "test"), strict=True):
        rw.write_letor(part, f"{name}.txt")
    call = ["train", "--data", "train.txt", "--valid", "vali.txt", "--model", "MLPRanker"]
    options = ["--hidden", "8-4", "--n-epochs", "3", "--device", "cpu", "--out", "m.rankwood"]
    assert main([*call, *options]) == 0
    printed = capsys.readouterr().out
    assert "in layers 6-8-4-1" in printed
    assert "epochs" in printed
    assert main(["evaluate", "m.rankwood", "test.txt", "--json"]) == 0
    capsys.readouterr()
    assert main(["score", "m.rankwood", "test.txt", "--out", "s.txt"]) == 0
    capsys.readouterr()
    assert main(["inspect", "m.rankwood", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert (shown["estimator"], shown["layers"]) == ("MLPRanker", "6-8-4-1")
    assert main(["inspect", "m.rankwood"]) == 0
    assert "skewed features" in capsys.readouterr().out
    assert main([*call, *options, "--refit"]) == 0
