"""The command line on data as they lie around, and on the options that every search team types."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import typer

import rankwood as rw
from rankwood.cli import main as program
from rankwood.cli.options import names_in, split_outside_brackets
from rankwood.errors import DataError, ParameterError

NAMES = ["alpha", "beta", "gamma", "delta"]
SMALL = ("--n-trees", 3, "--max-leaves", 6, "--threads", 1, "--quiet")


@pytest.fixture
def data():
    return rw.make_ranking(n_queries=30, docs_per_query=8, n_features=4, seed=1)


@pytest.fixture
def frame(data):
    """A table as it lies around: names, an id, text, a date, a weight, and the index of pandas."""
    table = pd.DataFrame(data.features, columns=NAMES)
    return table.assign(
        label=data.labels,
        qid=data.query_ids,
        url=[f"/{row}" for row in range(len(data))],
        when=pd.Timestamp("2024-05-01"),
        weight=np.arange(1.0, len(data) + 1),
    )


@pytest.fixture
def lying_around(rankwood, data, frame):
    """Files in the folder that the command line is called in."""
    Path("days").mkdir()
    Path("texts").mkdir()
    clean = frame[[*NAMES, "label", "qid"]]
    for day in range(3):
        rows = data.query_of_row // 10 == day
        clean[rows].to_parquet(f"days/day-{day}.parquet", index=False)
        rw.write_letor(data.take_rows(rows), f"texts/part-{day}.txt")
        Path(f"by/day={day}").mkdir(parents=True)
        clean[rows].to_parquet(f"by/day={day}/rows.parquet", index=False)
    frame.set_axis(np.arange(len(frame)) * 7 + 3).to_parquet("messy.parquet")  # with its index
    frame.to_csv("messy.csv", index=False)
    clean.to_parquet("clean.parquet", index=False)
    rw.write_letor(data, "all.txt")
    return rankwood


def train(rankwood, *arguments, model="RandomForest", out="m.rankwood"):
    outcome = rankwood("train", "--model", model, *arguments, *SMALL, "--out", out)
    assert outcome.code == 0, outcome.err
    return rw.load(out)


# Many files.


@pytest.mark.parametrize(
    "given",
    [
        ["days"],
        ["days/*.parquet"],
        ["by"],
        [f"days/day-{day}.parquet" for day in range(3)],
        ["texts"],
        [f"texts/part-{day}.txt" for day in range(3)],
    ],
    ids=" ".join,
)
def test_training_data_of_many_files(lying_around, given):
    whole = "all.txt" if "texts" in given[0] else "clean.parquet"
    expected = train(lying_around, "--data", whole)
    found = train(lying_around, *(word for path in given for word in ("--data", path)))
    assert found.forest_ == expected.forest_
    assert found.training_["rows"] == len(rw.read_letor("all.txt"))


# A call of each command that reads data, with {} where the data stand.
READS = {
    "inspect": "inspect {}",
    "convert": "convert {} out.csv",
    "bin": "bin {} --out binned",
    "train": "train --model GBRT {--data} --valid days/day-0.parquet --n-trees 2 --on-overlap ignore",
    "train --valid": "train --model GBRT --data clean.parquet {--valid} --n-trees 2 --on-overlap ignore",
    "auto": "auto {} --time none --n-trials 1 --candidates RankSVM",
    "tune": "tune {} --model GBRT:n_trees=2 --space max_leaves=2,4 --trials 2 --folds 2",
    "score": "score m.rankwood {}",
    "evaluate": "evaluate m.rankwood {} --bootstrap 10",
    "evaluate --trained-on": "evaluate m.rankwood clean.parquet {--trained-on} --bootstrap 10",
    "compare": "compare m.rankwood m2.rankwood {--data} --resamples 10",
    "explain": "explain m.rankwood {}",
    "check": "check {} --model m.rankwood",
    "explain --background": "explain m.rankwood clean.parquet {--background}",
    "export": "export m.rankwood out.model --to json {--verify}",
    "clicks simulate": "clicks simulate {} --ranking m.rankwood --sessions 20 --out log.parquet",
    "clicks interleave": "clicks interleave m.rankwood m2.rankwood {} --sessions 20",
    "cost-curve": "cost-curve m.rankwood {} --early-exit none",
    "best-sizes": "best-sizes m.rankwood {} -m ndcg@10",
    "best-sizes --test": "best-sizes m.rankwood clean.parquet {--test} -m ndcg@10",
    "front": "front g.rankwood {--data}",
    "compare-missing": "compare-missing {--data} --n-trees 2 --max-leaves 4 --folds 2 --treatment mean --treatment least",
    "transfer": "transfer {--source} --target clean.parquet --valid days/day-0.parquet --share 0.5 --set n_trees=2 "
    "--forest RandomForest:n_trees=2",
    "transfer --target": "transfer --source days/day-0.parquet {--target} --valid days/day-0.parquet --share 0.5 "
    "--set n_trees=2 --forest RandomForest:n_trees=2",
    "bias-variance": "bias-variance {--data} --test clean.parquet --model GBRT:n_trees=2 --trainings 2",
    "bias-variance --test": "bias-variance --data clean.parquet {--test} --model GBRT:n_trees=2 --trainings 2",
    "learning-curve": "learning-curve {--data} --test clean.parquet --model GBRT:n_trees=2 --steps 2",
    "convergence": "convergence g.rankwood {--test}",
    "factorial": "factorial {--data} --test clean.parquet --model GBRT:n_trees=2 --factor max_leaves=2,4 --factor "
    "min_leaf=1,5 --repetitions 1",
}


READ_LOGS = {"clicks bias", "clicks judge", "clicks evaluate"}  # of these a test of its own, below


@pytest.fixture
def models(lying_around):
    """Models of the table's columns."""
    train(lying_around, "--data", "clean.parquet")
    train(lying_around, "--data", "clean.parquet", "--seed", 2, out="m2.rankwood")
    train(lying_around, "--data", "clean.parquet", model="GBRT", out="g.rankwood")
    return lying_around


@pytest.mark.parametrize("command", READS)
def test_every_command_reads_several_files(models, command):
    if command == "compare-missing":
        for day in range(3):
            path = Path(f"days/day-{day}.parquet")
            table = pd.read_parquet(path)
            table.iloc[::5, 0] = np.nan
            table.to_parquet(path, index=False)
    given = [f"days/day-{day}.parquet" for day in range(3)]

    def called(paths):
        words: list[str] = []
        for word in READS[command].split():
            if word == "{}":
                words += paths
            elif word.startswith("{"):
                words += [text for path in paths for text in (word.strip("{}"), path)]
            else:
                words.append(word)
        shutil.rmtree("binned", ignore_errors=True)
        return models(*words)

    one_by_one, folder = called(given), called(["days"])
    assert one_by_one.code == 0, one_by_one.err
    assert folder.code == 0, folder.err
    if command in ("score", "evaluate", "explain", "check", "cost-curve", "best-sizes", "front"):
        assert folder.out == one_by_one.out


def test_logs_of_clicks_are_read_from_several_files(models):
    simulated = ("clicks", "simulate", "clean.parquet", "--ranking", "m.rankwood", "--sessions", 60)
    assert models(*simulated, "--out", "log.parquet").code == 0
    log = pd.read_parquet("log.parquet")
    Path("logs").mkdir()
    for number in range(2):
        log[log["qid"] % 2 == number].to_parquet(f"logs/{number}.parquet", index=False)
    several = ("logs/0.parquet", "logs/1.parquet")
    options = ("--bootstrap", 0)
    assert models("clicks", "bias", *several, *options, "--out", "bias.json").code == 0
    assert models("clicks", "bias", "logs", *options).code == 0
    judge = ("clicks", "judge", "--bias", "bias.json", "--out")
    assert models(*judge, "one-by-one.parquet", *several).code == 0
    assert models(*judge, "folder.parquet", "logs").code == 0
    pd.testing.assert_frame_equal(
        pd.read_parquet("one-by-one.parquet"), pd.read_parquet("folder.parquet")
    )
    outcome = models(
        "clicks", "evaluate", *several, "--ranking", "m.rankwood", "--bias", "bias.json"
    )
    assert outcome.code == 0, outcome.err


def test_every_command_that_reads_data_is_called():
    """A command with the reading options stands in the table above."""
    names = {
        name
        for name, command in all_commands().items()
        if any(parameter.name == "absent_missing" for parameter in command.params)
    }
    assert names == {key.partition(" --")[0] for key in READS} | READ_LOGS


def full(name, command):
    """A command with its options; train and the like have stand-ins until they are called."""
    if name not in program.LAZY_COMMANDS:
        return command
    from rankwood.cli import lazy_commands

    single = typer.Typer()
    single.command(cls=program.Command)(lazy_commands.command_for(program.LAZY_COMMANDS[name], ()))
    return typer.main.get_command(single)


def all_commands():
    found = {}
    for name, command in typer.main.get_command(program.app).commands.items():
        for sub, one in getattr(command, "commands", {"": command}).items():
            found[f"{name} {sub}".strip()] = full(name, one)
    return found


def test_an_option_given_twice_is_used_twice_or_refused():
    commands = all_commands()
    assert len(commands) > 30
    for name, command in commands.items():
        assert isinstance(command, program.Command), name
        for parameter in command.params:
            is_value = parameter.param_type_name == "option" and not parameter.is_flag
            if is_value and not parameter.multiple and parameter.nargs == 1:
                option = parameter.opts[0]
                with pytest.raises(
                    Exception, match=f"{option} is given 2 times, and takes one value"
                ):
                    command.make_context(name, [option, "1", option, "2"])


def test_a_switch_and_its_opposite_are_refused(lying_around):
    outcome = lying_around("inspect", "all.txt", "--cache", "--no-cache")
    assert (outcome.code, "--cache is given 2 times" in outcome.err) == (2, True)
    assert lying_around("inspect", "all.txt", "--json", "--json").code == 0


def test_a_folder_that_holds_parts_is_not_one_data_set(lying_around):
    Path("parts/test").mkdir(parents=True)
    Path("parts/train").mkdir()
    for part in ("train", "test"):
        Path(f"parts/{part}/rows.parquet").write_bytes(Path("clean.parquet").read_bytes())
    outcome = lying_around("train", "--model", "GBRT", "--data", "parts")
    assert (outcome.code, "parts holds train and test data" in outcome.err) == (2, True)


# Columns.


def test_columns_are_chosen_and_left_out(lying_around):
    expected = train(lying_around, "--data", "clean.parquet").forest_
    drop = train(lying_around, "--data", "messy.parquet", "--drop", "url,when", "--drop", "weight")
    assert drop.forest_ == expected
    named = train(
        lying_around, "--data", "messy.parquet", "--features", "delta,alpha", "--features", "beta"
    )
    assert list(named.feature_names_in_) == ["delta", "alpha", "beta"]
    Path("names.txt").write_text("# of the ranker\nalpha\nbeta\n\ngamma\ndelta\n")
    from_file = train(lying_around, "--data", "messy.csv", "--features-from", "names.txt")
    from_model = train(lying_around, "--data", "messy.parquet", "--features-from", "m.rankwood")
    assert from_file.forest_ == from_model.forest_ == expected
    numbered = train(lying_around, "--data", "all.txt", "--features", "4,1", out="n.rankwood")
    assert list(numbered.feature_names_in_) == ["4", "1"]
    scores = lying_around("score", "n.rankwood", "all.txt", "--format", "numbers").out
    assert np.allclose(np.array(scores.split(), float), numbered.predict(numbered_rows("all.txt")))


def numbered_rows(path):
    return rw.read_letor(path).features[:, [3, 0]]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "2 columns cannot be features"),
        ([], "Pass --drop url,when"),
        (["--features", "alpha,bta"], "column 'bta' is not known. Did you mean 'beta'?"),
        (["--features", "a,b"], "messy.parquet lacks 2 of the 2 features: 'a', 'b'"),
        (
            ["--features", "alpha", "--features-from", "n"],
            "--features and --features-from both name the features",
        ),
        (["--features-from", "nothing"], "--features-from: nothing cannot be read"),
        (["--drop", "url,url2"], "column 'url2' is not known. Did you mean 'url'?"),
        (["--drop", "url", "--features", "url"], "column 'url' is given more than one part"),
        (["--label", "url", "--drop", "when,label"], "column 'url' holds text"),
        (["--label", "url", "--drop", "when,label"], "say which column holds the labels: --label"),
        (["--query", "session"], "column 'session' is not known"),
        (["--query", "session"], "Say which column holds the query ids: --query"),
        (["--row-weight", "w"], "Say which column holds the row weights: --row-weight"),
    ],
)
def test_mistakes_about_columns_are_told_in_options(lying_around, arguments, message):
    outcome = lying_around("train", "--model", "GBRT", "--data", "messy.parquet", *arguments)
    assert outcome.code == 2
    assert message in " ".join(outcome.err.split())
    assert not Path("model.rankwood").exists()


def test_a_model_takes_its_columns_out_of_any_table(models, frame):
    for path in ("messy.parquet", "messy.csv"):
        scored = models("score", "m.rankwood", path, "--format", "numbers")
        assert scored.code == 0, scored.err
        expected = rw.load("m.rankwood").predict(
            (pd.read_parquet if path.endswith("t") else pd.read_csv)(path)
        )
        assert np.allclose(np.array(scored.out.split(), float), expected)
        for call in (
            ("evaluate", "m.rankwood", path, "--bootstrap", 10),
            ("compare", "m.rankwood", "m2.rankwood", "--data", path, "--resamples", 10),
            ("explain", "m.rankwood", path),
            ("explain", "m.rankwood", path, "--qid", 3),
        ):
            outcome = models(*call)
            assert (outcome.code, outcome.err) == (0, ""), call
    frame.drop(columns=["beta", "gamma"]).to_parquet("lacking.parquet")
    for call in (
        ("score", "m.rankwood", "lacking.parquet"),
        ("evaluate", "m.rankwood", "lacking.parquet"),
        ("explain", "m.rankwood", "lacking.parquet"),
        ("compare", "m.rankwood", "m2.rankwood", "--data", "lacking.parquet"),
    ):
        outcome = models(*call)
        assert outcome.code == 2
        assert "lacks 2 of the 4 features of the model: 'beta', 'gamma'" in outcome.err


# Weights.


def test_weights_are_columns_that_are_named(lying_around, data, frame):
    weights = frame["weight"].to_numpy()
    drop = ("--drop", "url,when")
    weighed = train(
        lying_around, "--data", "messy.csv", *drop, "--row-weight", "weight", "--seed", 3
    )
    model = rw.RandomForest(n_trees=3, max_leaves=6, seed=3)
    named = pd.DataFrame(data.features, columns=NAMES)
    assert (
        weighed.forest_
        == model.fit(named, data.labels, data.query_ids, sample_weight=weights).forest_
    )
    of_query = 1.0 + data.query_of_row
    frame.assign(weight=of_query).to_csv("by-query.csv", index=False)
    weighed = train(
        lying_around, "--data", "by-query.csv", *drop, "--query-weight", "weight", "--seed", 3
    )
    expected = model.fit(
        named, data.labels, data.query_ids, query_weight=np.arange(1.0, data.n_queries + 1)
    )
    assert weighed.forest_ == expected.forest_
    told = lying_around("inspect", "messy.csv", *drop)
    assert "column 'weight' is taken as a feature" in told.err
    assert "--row-weight weight" in told.err


def test_options_of_tables_are_told_of_where_there_is_text(lying_around):
    outcome = lying_around("inspect", "all.txt", "--label", "grade", "--row-weight", "w")
    assert outcome.code == 0
    assert (
        "all.txt is LETOR text, which has no columns: --label, --row-weight have no effect"
        in outcome.err
    )


# LETOR text of another width.


def test_text_of_another_width(lying_around, data):
    narrow = rw.RankingData(data.features[:, :3], data.labels, data.query_ids)
    rw.write_letor(narrow, "narrow.txt")
    outcome = lying_around(
        "train", "--model", "GBRT", "--data", "all.txt", "--valid", "narrow.txt", *SMALL[:-1]
    )
    assert "all.txt has features up to 4, narrow.txt has features up to 3" in outcome.err
    for call in (("score",), ("score", "--whole"), ("evaluate",), ("explain",)):
        told = lying_around(call[0], "model.rankwood", "narrow.txt", *call[1:])
        assert told.code == 0
        assert "narrow.txt has features up to 3, but the model was trained on 4" in told.err, call
    named = train(lying_around, "--data", "clean.parquet")
    assert named.n_features_in_ == 4
    for name in ("score", "evaluate", "explain"):
        refused = lying_around(name, "m.rankwood", "narrow.txt")
        assert refused.code == 2
        assert "features up to 3, but the model was trained on 4, which have names" in refused.err


# Training.


def test_help_of_a_model_has_its_options_in_its_words(rankwood):
    def shown(*arguments):
        return " ".join(rankwood("train", *arguments, "--help").out.replace("│", " ").split())

    boosted = shown("--model", "LambdaMART")
    assert "--truncation" in boosted
    assert "Parameters of LambdaMART" in boosted
    assert "--bag " not in boosted
    assert "RandomForest:" not in boosted  # no words of other rankers
    svm = shown("--model=RankSVM")
    assert "--C" in svm
    assert "--truncation" not in svm
    assert "--bag " not in svm
    built = shown("--model", "BoostingTree", "--base", "NDCGBoost")
    assert "Parameters of NDCGBoost, its base" in built
    assert "--max-length" in built
    everything = shown()
    assert "--truncation" in everything
    assert "--bag" in everything


def test_an_option_of_another_model_is_still_named(lying_around):
    outcome = lying_around("train", "--model", "RankSVM", "--data", "all.txt", "--n-trees", 3)
    assert (outcome.code, "RankSVM has no n_trees; it is a parameter of" in outcome.err) == (
        2,
        True,
    )


MEASURE = "ndcg@5[gain=linear,empty=1]"


def test_measures_with_conventions_are_named_anywhere(lying_around):
    held_out = ("--valid", "days/day-0.parquet", "--on-overlap", "ignore")
    model = train(
        lying_around, "--data", "clean.parquet", *held_out, "--measure", MEASURE, model="GBRT"
    )
    assert model.measure == MEASURE
    Path("run.toml").write_text(
        f'model = "GBRT"\ndata = "clean.parquet"\nvalid = "days/day-0.parquet"\nn_trees = 2\nmeasure = "{MEASURE}"\n'
    )
    assert lying_around("train", "run.toml", "--on-overlap", "ignore").code == 0
    assert rw.load("model.rankwood").measure == MEASURE
    parts = ("--data", "clean.parquet", "--test", "days/day-0.parquet")
    specified = f"GBRT:n_trees=2,measure={MEASURE},max_leaves=4"
    assert (
        lying_around(
            "learning-curve", *parts, "--model", specified, "--steps", 1, "-m", MEASURE
        ).code
        == 0
    )
    factors = ("--factor", f"measure={MEASURE},map", "--factor", "max_leaves=2,4")
    outcome = lying_around(
        "factorial",
        *parts,
        "--model",
        "GBRT:n_trees=2",
        *factors,
        "--repetitions",
        1,
        "-m",
        MEASURE,
    )
    assert outcome.code == 0, outcome.err
    blend = ("--weights", "equal", "--parts", f"GBRT(n_trees=2, measure='{MEASURE}'), RankSVM")
    assert lying_around("train", "--model", "Blend", "--data", "clean.parquet", *blend).code == 0
    assert rw.load("model.rankwood").parts[0][1].measure == MEASURE


def test_several_validation_sets_have_names(lying_around):
    """As options and in TOML: what Python records of a mapping, by the same name."""
    parts = rw.read_table("days/day-0.parquet"), rw.read_table("days/day-1.parquet")
    expected = rw.GBRT(n_trees=3, max_leaves=6, measure=["ndcg@5", "map"])
    expected.fit(rw.read_table("days/day-2.parquet"), valid={"recent": parts[0], "day=1": parts[1]})
    given = ("--data", "days/day-2.parquet", "--measure", "ndcg@5", "--measure", "map")
    sets = ("--valid", "recent=days/day-0.parquet", "--valid", "other=days/day-1.parquet")
    model = train(lying_around, *given, *sets, model="GBRT")
    assert list(model.history_) == ["recent", "other"]
    assert model.history_["recent"] == expected.history_["recent"]
    assert model.history_["other"] == expected.history_["day=1"]
    Path("run.toml").write_text(
        """
        model = "GBRT"
        data = "days/day-2.parquet"
        measure = ["ndcg@5", "map"]
        n_trees = 3
        max_leaves = 6
        [valid]
        recent = "days/day-0.parquet"
        other = ["days/day-1.parquet"]
        """
    )
    outcome = lying_around("train", "run.toml", "--out", "of-file.rankwood")
    shown = " ".join(outcome.out.split())
    values = model.history_["other"]["map"]
    assert f"other map {values[model.best_iteration_ - 1]:.4f}" in shown
    assert rw.load("of-file.rankwood").history_ == model.history_


def test_what_validation_sets_cannot_be(lying_around, monkeypatch):
    given = ("train", "--model", "GBRT", "--n-trees", 2, "--data", "clean.parquet")
    named = ("--valid", "recent=days/day-0.parquet")
    for more, message in (
        ((*named, "--valid", "days/day-1.parquet"), "--valid names some sets (recent) and others"),
        ((*named, "--refit"), "--refit takes one validation set"),
        ((*named, "--dask", "local"), "--dask takes one validation set"),
    ):
        outcome = lying_around(*given, *more)
        assert (outcome.code, message in outcome.err) == (2, True), outcome.err
    data = rw.read_table("clean.parquet")
    with pytest.raises(ParameterError, match="got 1 by name: 'recent'"):
        rw.refit(rw.GBRT(n_trees=1).fit(data), data, {"recent": data})
    monkeypatch.chdir("by")  # a folder day=1 is data and no name
    for folder in ("day=1", "day=[1-2]"):
        fitted = train(lying_around, "--data", "day=0", "--valid", folder, model="GBRT")
        assert isinstance(fitted.history_, list)


@pytest.mark.parametrize("text", ["[1,0,0,-1]", "alpha=1,delta=-1"])
def test_monotone_is_a_list_or_a_mapping(lying_around, text):
    model = train(lying_around, "--data", "clean.parquet", "--monotone", text, model="GBRT")
    expected = rw.GBRT(n_trees=3, max_leaves=6, monotone=[1, 0, 0, -1])
    assert model.forest_ == expected.fit(rw.read_table("clean.parquet")).forest_
    assert lying_around(
        "learning-curve", "--data", "clean.parquet", "--test", "clean.parquet", "--steps", 1,
        "--model", f"GBRT:n_trees=2,monotone={text if text[0] == '[' else '[1,0,0,-1]'}",
    ).code == 0  # fmt: skip


def test_texts_are_cut_outside_brackets():
    assert split_outside_brackets("a=1,b=[1,2],c=f(x, y)") == ["a=1", "b=[1,2]", "c=f(x, y)"]
    assert names_in(["a, b", '"c,d",e']) == ("a", "b", "c,d", "e")
    with pytest.raises(ParameterError, match="names of columns cannot be read"):
        names_in(['"a'])


def test_a_toml_file_takes_every_option_under_its_own_name(lying_around, frame):
    from rankwood.cli import lazy_commands

    typed = {
        parameter.name: parameter
        for parameter in full("train", typer.main.get_command(program.app).commands["train"]).params
        if parameter.name not in ("config", "help", "install_completion", "show_completion")
    }
    known = {*lazy_commands._OWN_KEYS, *lazy_commands._READING_KEYS, *lazy_commands._PARAMETER_KEYS}
    assert known == set(typed)
    frame.rename(columns={"label": "grade"}).to_parquet("graded.parquet")
    Path("run.toml").write_text(
        """
        model = "RandomForest"
        data = ["graded.parquet"]
        label = "grade"
        row-weight = "weight"
        drop = ["url", "when"]
        threads = 1
        quiet = true
        n-trees = 3
        max_leaves = 6
        out = "of-file.rankwood"
        """
    )
    assert lying_around("train", "run.toml").code == 0
    options = ("--label", "grade", "--row-weight", "weight", "--drop", "url,when")
    assert (
        rw.load("of-file.rankwood").forest_
        == train(lying_around, "--data", "graded.parquet", *options).forest_
    )
    over = lying_around("train", "run.toml", "--label", "nothing")
    assert (over.code, "column 'nothing' is not known" in over.err) == (2, True)
    assert (
        lying_around(
            "train", "run.toml", "--features", "alpha", "--drop", "beta", "--n-trees", 2
        ).code
        == 0
    )
    model = rw.load("of-file.rankwood")
    assert (list(model.feature_names_in_), model.n_trees) == (["alpha"], 2)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('lable = "grade"', "key of run.toml 'lable' is not known. Did you mean 'label'?"),
        ("label = 3", "run.toml: label must be a text, got 3"),
        ("data = 3", "run.toml: data must be a text, or a list of texts, got 3"),
        ('quiet = "yes"', "run.toml: quiet must be true or false, got 'yes'"),
        ("threads = 0", "run.toml: threads must be a whole number of at least 1, got 0"),
        ("n_trees = 2\n[parameters]\nn_trees = 3", "run.toml says n_trees twice"),
    ],
)
def test_what_is_wrong_with_a_toml_file(lying_around, text, message):
    Path("run.toml").write_text(f'model = "GBRT"\n{text}\n')
    outcome = lying_around("train", "run.toml", "--data", "all.txt")
    assert (outcome.code, message in " ".join(outcome.err.split())) == (2, True), outcome.err


def test_the_former_name_of_validation_data_is_told(lying_around):
    Path("run.toml").write_text(
        'model = "GBRT"\ndata = "all.txt"\nvali = "texts/part-0.txt"\nn_trees = 2\n'
    )
    outcome = lying_around("train", "run.toml", "--on-overlap", "ignore")
    assert outcome.code == 0
    assert "run.toml: vali is called valid now" in outcome.err
    assert len(rw.load("model.rankwood").history_) == 2


@pytest.mark.parametrize("model", ["GBRT", "LambdaMART"])
def test_a_model_is_gone_on_with(lying_around, model):
    given = ("--data", "clean.parquet", "--learning-rate", 0.2, "--max-leaves", 5, "--threads", 1)
    assert (
        lying_around(
            "train", "--model", model, *given, "--n-trees", 6, "--out", "whole.rankwood"
        ).code
        == 0
    )
    assert (
        lying_around(
            "train", "--model", model, *given, "--n-trees", 2, "--out", "first.rankwood"
        ).code
        == 0
    )
    call = ("train", "--warm-start", "first.rankwood", "--data", "clean.parquet", "--n-trees", 6)
    outcome = lying_around(*call, "--out", "second.rankwood")
    assert outcome.code == 0, outcome.err
    assert rw.load("second.rankwood").forest_ == rw.load("whole.rankwood").forest_
    Path("run.toml").write_text(
        'warm-start = "first.rankwood"\ndata = "clean.parquet"\nn_trees = 6\n'
    )
    assert lying_around("train", "run.toml").code == 0
    assert rw.load("model.rankwood").forest_ == rw.load("whole.rankwood").forest_


def test_a_model_that_is_gone_on_with_takes_its_columns(lying_around):
    """Out of a table that has come to have more, as for every command that is given a model."""
    train(lying_around, "--data", "clean.parquet", model="GBRT", out="g.rankwood")
    call = ("train", "--warm-start", "g.rankwood", "--n-trees", 5, "--data", "messy.parquet")
    outcome = lying_around(*call, "--valid", "days/day-0.parquet", "--on-overlap", "ignore")
    assert outcome.code == 0, outcome.err
    longer = rw.GBRT(n_trees=5, max_leaves=6)
    longer.fit(rw.read_table("clean.parquet"), valid=rw.read_table("days/day-0.parquet"))
    assert rw.load("model.rankwood").forest_ == longer.forest_
    pd.read_csv("messy.csv").drop(columns="beta").to_csv("lacking.csv", index=False)
    outcome = lying_around(*call[:-1], "lacking.csv")
    assert (outcome.code, "lacks 1 of the 4 features of the model: 'beta'" in outcome.err) == (
        2,
        True,
    )


def test_names_of_other_libraries_are_answered_with_ours(lying_around):
    data = ("--data", "clean.parquet")
    for arguments, message in (
        (("train", "--model", "GBRT", *data, "--n-estimators", 3), "It is called --n-trees here"),
        (("train", *data, "--model", "AdaBoost", "--n-estimators", 3), "It is called --n-rounds here"),
        (("train", *data, "--num-leaves", 3), "It is called --max-leaves here"),
        (("train", *data, "--nonsense", 3), "No such option: --nonsense"),
        (("score", "--num-leaves", 3), "No such option: --num-leaves"),
        (("learning-curve", "--model", "GBRT:eta=0.1", *data, "--test", "clean.parquet"),
         "GBRT has no eta: it is called learning_rate here"),
    ):  # fmt: skip
        outcome = lying_around(*arguments)
        assert (outcome.code, message in " ".join(outcome.err.split())) == (2, True), outcome.err
    Path("run.toml").write_text('model = "GBRT"\ndata = "clean.parquet"\nnum-leaves = 3\n')
    outcome = lying_around("train", "run.toml")
    assert "run.toml has an unknown key num_leaves: it is called max_leaves here" in outcome.err


def test_a_choice_that_is_not_the_models_is_told_in_options(models):
    outcome = models("score", "m.rankwood", "clean.parquet", "--features", "alpha")
    assert outcome.code == 2
    assert (
        "the data lack 'beta', 'delta', 'gamma'. Rename the columns; without --features"
        in outcome.err
    )
    with pytest.raises(DataError, match="or pass a bare array"):
        rw.load("m.rankwood").predict(rw.read_table("clean.parquet", features=["alpha"]))


def test_what_cannot_be_gone_on_with(lying_around):
    train(lying_around, "--data", "clean.parquet")
    for arguments, message in (
        (["--n-trees", 9], "--warm-start: RandomForest cannot go on with a model"),
        (["--model", "GBRT"], "--warm-start: RandomForest cannot go on with a model"),
    ):
        outcome = lying_around(
            "train", "--warm-start", "m.rankwood", "--data", "clean.parquet", *arguments
        )
        assert (outcome.code, message in outcome.err) == (2, True)
    train(lying_around, "--data", "clean.parquet", model="GBRT", out="g.rankwood")
    call = ("train", "--warm-start", "g.rankwood", "--data", "clean.parquet")
    assert "is of a GBRT, not of a LambdaMART" in lying_around(*call, "--model", "LambdaMART").err
    assert "the model to go on from has 3 trees" in lying_around(*call, "--n-trees", 2).err


def test_ids_of_any_size_are_shown_as_they_are(lying_around, frame):
    large = 2**60 + frame["qid"]
    frame.assign(qid=large, doc=large * 2 + 1)[["alpha", "label", "qid", "doc"]].to_parquet(
        "large.parquet"
    )
    train(lying_around, "--data", "large.parquet", "--doc", "doc")
    outcome = lying_around("score", "m.rankwood", "large.parquet", "--doc", "doc", "--out", "s.tsv")
    assert outcome.code == 0
    lines = [line.split("\t") for line in Path("s.tsv").read_text().splitlines()[1:]]
    assert {line[1] for line in lines} == {str(value) for value in large}
    assert {line[0] for line in lines} == {str(value * 2 + 1) for value in large}
    measured = lying_around(
        "evaluate", "s.tsv", "large.parquet", "--doc", "doc", "--json", "--bootstrap", 10
    )
    assert measured.code == 0, measured.err
    assert json.loads(measured.out)
    huge = frame["qid"].astype("uint64") + np.uint64(2**64 - 100)
    frame.assign(qid=huge)[["alpha", "label", "qid"]].to_parquet("huge.parquet")
    assert lying_around("score", "m.rankwood", "huge.parquet", "--out", "h.tsv").code == 0
    assert lying_around("evaluate", "h.tsv", "huge.parquet", "--bootstrap", 10).code == 0


# Tuning.


def test_tune_gives_a_model_its_study_and_a_report(lying_around):
    call = (
        "tune",
        "clean.parquet",
        "--model",
        "GBRT:n_trees=3,min_leaf=2",
        "--space",
        "max_leaves=2,4,8",
    )
    more = (
        "--space",
        "learning-rate=0.05..0.5:log",
        "--trials",
        4,
        "--folds",
        2,
        "--out",
        "t.rankwood",
    )
    files = ("--study", "s.json", "--report", "t.html", "--csv", "t.csv")
    outcome = lying_around(*call, *more, *files)
    assert outcome.code == 0, outcome.err
    assert "chosen" in outcome.out
    trials = json.loads(Path("s.json").read_text())["trials"]
    assert len(trials) == 4
    assert all(0.05 <= trial["parameters"]["learning_rate"] <= 0.5 for trial in trials)
    assert "What tune tried" in Path("t.html").read_text()
    assert len(Path("t.csv").read_text().splitlines()) == 5
    model = rw.load("t.rankwood")
    chosen = model.training_["tuned"]["chosen"]
    assert (model.max_leaves, model.learning_rate) == (
        chosen["max_leaves"],
        chosen["learning_rate"],
    )
    again = json.loads(lying_around(*call, *more, "--study", "s.json", "--json").out)
    assert again["best"] == chosen
    shown = lying_around("inspect", "t.rankwood").out
    assert "chosen by tune" in shown
    held_out = ("--valid", "days/day-0.parquet", "--refit", "--method", "grid")
    outcome = lying_around(*call, *held_out, "--out", "r.rankwood")
    assert outcome.code == 0, outcome.err
    assert rw.load("r.rankwood").training_["rows"] > len(rw.read_table("clean.parquet"))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--space", "max_leaves"], "--space must be written as name=value,value"),
        (["--space", "max_leafs=2,4"], "'max_leafs' is not known. Did you mean 'max_leaves'?"),
        (["--space", "l2=1,2", "--space", "l2=3,4"], "--space l2 is given twice"),
        (["--space", "l2=1..2", "--method", "grid"], "has a range, which a grid cannot try"),
        (["--refit"], "--refit trains on DATA and --valid together"),
        (["--out", "no/where"], "the folder of no/where does not exist"),
    ],
)
def test_mistakes_in_tuning(lying_around, arguments, message):
    outcome = lying_around("tune", "clean.parquet", "--model", "GBRT", *arguments)
    assert (outcome.code, message in " ".join(outcome.err.split())) == (2, True), outcome.err
