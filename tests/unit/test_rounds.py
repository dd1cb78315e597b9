"""``Rounds``: which rounds are done, why they end, when the checkpoint is written and what is reported."""

from __future__ import annotations

import errno
import os

import pytest

import rankwood as rw
from rankwood.errors import RankwoodWarning
from rankwood.training import rounds
from rankwood.training.rounds import (
    ALL_ROUNDS,
    ASKED_TO,
    NO_BETTER,
    EarlyStopping,
    ProgressReporter,
    Rounds,
)

pytestmark = pytest.mark.jit_only  # no kernels of its own


def rounds_of(total, *callbacks, done=0, progress=None, **options):
    reporter = ProgressReporter(total, progress, callbacks, done)
    return Rounds(reporter, done=done, **options)


def run(rounds, *measures):
    """The numbers of the rounds; each appends a measure to the history of the early stopping, where there is one."""
    numbers = []
    for number in rounds:
        numbers.append(number)
        if measures:
            rounds._stopping.history.append(measures[number])
        rounds.finish(float(number))
    return numbers


def test_numbers_go_on_where_the_earlier_rounds_ended():
    seen = []
    rounds = rounds_of(5, done=2, progress=seen.append)
    assert run(rounds) == [2, 3, 4]
    assert rounds.stopped_because == ALL_ROUNDS
    assert rounds.n_done == 5
    assert [(news.iteration, news.total, news.measure) for news in seen] == [
        (3, 5, 2.0),
        (4, 5, 3.0),
        (5, 5, 4.0),
    ]
    assert run(rounds_of(5, done=5)) == []


def test_a_callback_ends_the_rounds_after_all_were_called():
    seen = []
    rounds = rounds_of(5, lambda news: news.iteration == 2, seen.append)
    assert run(rounds) == [0, 1]
    assert rounds.stopped_because == ASKED_TO
    assert [news.iteration for news in seen] == [1, 2]


def test_only_true_asks_to_stop():
    assert run(rounds_of(2, lambda _: 1)) == [0, 1]


def test_early_stopping_ends_the_rounds():
    rounds = rounds_of(9, stopping=EarlyStopping(2, is_minimised=False))
    assert run(rounds, 0.1, 0.3, 0.2, 0.2, 0.9) == [0, 1, 2, 3]
    assert rounds.stopped_because == NO_BETTER


@pytest.mark.parametrize(("judges_last", "reason"), [(False, ALL_ROUNDS), (True, "no better")])
def test_the_last_round_is_judged_where_it_is_asked_for(judges_last, reason):
    stopping = EarlyStopping(2, is_minimised=False)
    rounds = rounds_of(3, stopping=stopping, judges_last=judges_last, no_better="no better")
    assert run(rounds, 0.3, 0.2, 0.1) == [0, 1, 2]
    assert rounds.stopped_because == reason


def test_a_loop_ends_for_reasons_of_its_own_and_the_first_counts():
    saved = []
    rounds = rounds_of(5, save=lambda: saved.append(rounds.stopped_because))
    for number in rounds:
        if number == 1:
            rounds.stop("nothing is left")
            rounds.stop("another reason")
            break
        rounds.finish()
    assert rounds.stopped_because == "nothing is left"
    assert saved == ["nothing is left"]


def test_the_checkpoint_is_written_when_due_before_the_report_and_at_the_end(monkeypatch):
    events = []
    clock = iter(range(0, 1000, 4))
    monkeypatch.setattr("rankwood.training.rounds.time.monotonic", lambda: float(next(clock)))
    monkeypatch.setattr("rankwood.training.rounds.SECONDS_BETWEEN", 8.0)
    rounds = rounds_of(
        4, lambda news: events.append(news.iteration), save=lambda: events.append("saved")
    )
    assert run(rounds) == [0, 1, 2, 3]
    # The clock moves by 4 s whenever it is read, also after each checkpoint.
    assert events == [1, "saved", 2, 3, "saved", 4, "saved"]


def test_a_checkpoint_of_every_round():
    events = []
    save = lambda: events.append("saved")  # noqa: E731
    run(rounds_of(2, lambda news: events.append(news.iteration), save=save, seconds_between=0.0))
    assert events == ["saved", 1, "saved", 2, "saved"]


def test_an_interrupt_writes_nothing_unless_the_loop_keeps_its_result():
    saved = []

    def interrupt(news):
        if news.iteration == 2:
            raise KeyboardInterrupt

    rounds = rounds_of(4, interrupt, save=lambda: saved.append("saved"))
    with pytest.raises(KeyboardInterrupt):
        run(rounds)
    assert saved == []
    assert rounds.stopped_because is None
    rounds = rounds_of(4, interrupt, save=lambda: saved.append("saved"))
    with rounds.keep_on_interrupt("interrupted"):
        run(rounds)
    assert rounds.stopped_because == "interrupted"
    assert saved == ["saved"]


def test_a_wish_to_stop_within_a_round_is_heard_at_its_end():
    reporter = ProgressReporter(20, None, [lambda news: news.iteration == 3])
    rounds = Rounds(reporter, total=5)
    numbers = []
    for number in rounds:
        numbers.append(number)
        for step in range(4):
            rounds.report(number * 4 + step + 1)
        assert rounds.is_over
    assert numbers == [0]
    assert rounds.stopped_because == ASKED_TO


def test_two_phases_share_a_reporter():
    seen = []
    reporter = ProgressReporter(5, seen.append, ())
    first = Rounds(reporter, total=2)
    assert run(first) == [0, 1]
    second = Rounds(reporter, done=2)
    assert run(second) == [2, 3, 4]
    assert [news.iteration for news in seen] == [1, 2, 3, 4, 5]
    assert {news.total for news in seen} == {5}


def test_a_full_disk_costs_the_checkpoint_not_the_fit(tmp_path, monkeypatch):
    data = rw.make_ranking(10, 8, 4, seed=1)
    path = tmp_path / "checkpoint"

    def full(_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(rounds, "SECONDS_BETWEEN", 0.0)
    expected = rw.GBRT(4, min_leaf=2).fit(data)
    with monkeypatch.context() as there:
        there.setattr(os, "fsync", full)
        with pytest.warns(RankwoodWarning, match=r"No space left.*fit goes on without") as told:
            model = rw.GBRT(4, min_leaf=2, checkpoint=path).fit(data)
    assert len(told) == 1  # not at every round
    assert model.forest_ == expected.forest_
    assert list(tmp_path.iterdir()) == []
