"""The command line says what it said: help of every command, JSON and tables on tiny generated data."""

from __future__ import annotations

import pytest

from tests.golden import golden_commands as commands
from tests.golden.digests import made_with, other_versions, stored

REMEDY = "Scripts and people rely on what is printed. If the change is meant, run: python -m tests.golden.make_digests"
HELPED = commands.command_names()
CALLED = [("json", name) for name in commands.JSON_CALLS]
CALLED += [("text", name) for name in commands.TEXT_CALLS]


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """The folder with the files that calls are about; what a call writes there, the next one writes anew."""
    folder = tmp_path_factory.mktemp("golden")
    commands.prepare(folder)
    return folder


@pytest.fixture
def _in_folder(files, monkeypatch):
    monkeypatch.chdir(files)
    for name, value in commands.ENVIRONMENT.items():
        monkeypatch.setenv(name, value)


def kept(path):
    """What a snapshot holds; a failure where there is none."""
    if not path.exists():
        pytest.fail(f"there is no {path.name} in {path.parent.name} yet. {REMEDY}")
    return path.read_text(encoding="utf-8")


@pytest.mark.parametrize("command", HELPED, ids=[name or "rankwood" for name in HELPED])
@pytest.mark.usefixtures("_in_folder")
def test_help_says_what_it_said(command):
    now, then = commands.help_now(command), kept(commands.help_file(command))
    versions = stored()["made_with"], made_with()
    if any(
        each["typer"] != versions[0]["typer"] or each["rich"] != versions[0]["rich"]
        for each in versions
    ):
        now, then = commands.words(now), commands.words(then)  # the layout is not ours
    assert now == then, f"rankwood {command} --help has changed. {other_versions()}{REMEDY}"


@pytest.mark.parametrize(("kind", "name"), CALLED, ids=[f"{name}-{kind}" for kind, name in CALLED])
@pytest.mark.usefixtures("_in_folder")
def test_an_answer_is_what_it_was(kind, name):
    now, then = commands.answer_now(kind, name), kept(commands.answer_file(kind, name))
    assert now == then, f"the answer to '{name}' ({kind}) has changed. {other_versions()}{REMEDY}"


@pytest.mark.usefixtures("_in_folder")
def test_every_command_with_json_is_called():
    called = {" ".join(call.split()[:2]) for call in commands.JSON_CALLS.values()}
    lacking = [
        command
        for command in HELPED
        if commands.has_json(kept(commands.help_file(command)))
        and not any(f"{each} ".startswith(f"{command} ") for each in called)
    ]
    assert not lacking, f"no call in golden_commands.JSON_CALLS for: {', '.join(lacking)}"


def test_no_snapshot_is_left_of_what_is_gone():
    expected = {commands.help_file(command) for command in HELPED}
    expected |= {commands.answer_file(kind, name) for kind, name in CALLED}
    found = {path for path in commands.FOLDER.rglob("*") if path.is_file()}
    gone = sorted(str(path.relative_to(commands.FOLDER)) for path in found - expected)
    assert not gone, f"snapshots that nothing makes: {', '.join(gone)}. {REMEDY}"
