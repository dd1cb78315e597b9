"""Every example in README.md and docs/ is run, so that it cannot rot.

``python`` blocks of a page run one after the other in one namespace; of a ``console`` block, each line that starts
with ``$ rankwood`` is called in process, and every line below it must be found in what was printed (``…`` stands for
anything, runs of spaces count as one). After ``; echo $?`` the last of these lines is the exit code. All of it happens
in an empty folder.
"""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from rankwood.cli.main import main

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
BLOCK = re.compile(r"^```(python|console)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
GENERATED = ("api.md", "cli.md")  # pages that docs/reference_pages.py makes
LINK = re.compile(r"\]\(([^)#:]+?)(?:#[^)]*)?\)")


def ids(pages):
    return [str(page.relative_to(ROOT)) for page in pages]


def commands_of(block: str):
    """Each command of a console block with the lines expected below it."""
    command, expected = None, []
    for line in block.splitlines():
        if line.startswith("$ "):
            if command is not None:
                yield command, expected
            command, expected = line[2:], []
        elif line.strip():
            expected.append(line)
    if command is not None:
        yield command, expected


def squeeze(text: str) -> str:
    return " ".join(text.split())


def run_console(block: str, capsys: pytest.CaptureFixture[str]) -> None:
    for command, expected in commands_of(block):
        shown = 2 if "error:" in " ".join(expected) else 0
        if command.endswith("; echo $?"):
            shown = int(expected.pop())
        program, *arguments = shlex.split(command.removesuffix("; echo $?"))
        if program != "rankwood":
            continue
        code = main(arguments)
        captured = capsys.readouterr()
        printed = squeeze(captured.out + captured.err)
        assert code == shown, f"$ {command}\n{captured.out}{captured.err}"
        for line in expected:
            pattern = ".*?".join(re.escape(part.strip()) for part in squeeze(line).split("…"))
            assert re.search(pattern, printed), (
                f"$ {command}\nnot printed: {line}\nprinted: {captured.out}"
            )


LONG = {  # pages whose examples take over 3 s
    *("README.md", "docs/guides/a-month.md", "docs/guides/command-line.md"),
    *("docs/guides/experiments.md", "docs/guides/factorial.md"),
    *("docs/guides/missing-values.md", "docs/guides/serving.md"),
    *("docs/guides/transfer.md", "docs/methods/broof.md", "docs/methods/deep-forest.md"),
}


def by_length(pages):
    """The pages as parameters; long ones run with the slow tests."""
    return [
        pytest.param(page, id=name, marks=pytest.mark.slow if name in LONG else ())
        for page, name in zip(pages, ids(pages), strict=True)
    ]


def test_long_pages_exist():
    assert set(ids(PAGES)) >= LONG


@pytest.mark.parametrize("page", by_length(PAGES))
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "example"}
    for language, block in BLOCK.findall(page.read_text()):
        if language == "python":
            exec(compile(block, str(page), "exec"), namespace)
        else:
            run_console(block, capsys)


@pytest.mark.parametrize("page", PAGES, ids=ids(PAGES))
def test_links_between_pages_lead_somewhere(page):
    for target in LINK.findall(page.read_text()):
        made_by_the_site = Path(target).name in GENERATED
        assert made_by_the_site or (page.parent / target).exists(), target


@pytest.mark.slow
def test_the_site_is_built_without_a_warning(tmp_path):
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "-d", str(tmp_path)]
    built = subprocess.run(
        command, check=False, cwd=ROOT, env=environment, capture_output=True, text=True
    )
    assert built.returncode == 0, built.stdout + built.stderr
    for page in GENERATED:
        text = (tmp_path / "reference" / page.replace(".md", ".html")).read_text()
        assert "LambdaMART" in text, page


def test_every_command_is_in_the_command_line_guide(capsys):
    guide = (ROOT / "docs" / "guides" / "command-line.md").read_text()
    from rankwood.cli.main import app

    names = [command.name for command in app.registered_commands] + [
        g.name for g in app.registered_groups
    ]
    assert names
    for name in names:
        assert f"rankwood {name}" in guide


def test_every_name_in_the_tour_exists():
    import importlib

    names = re.findall(r"`(rankwood(?:\.\w+)+)`", (ROOT / "docs" / "tour.md").read_text())
    assert len(names) >= 10
    for name in names:
        module, _, attribute = name.rpartition(".")
        try:
            importlib.import_module(name)
        except ModuleNotFoundError:
            outer, _, method = module.rpartition(".")
            owner = (
                importlib.import_module(outer)
                if method[:1].isupper()
                else importlib.import_module(module)
            )
            owner = getattr(owner, method) if method[:1].isupper() else owner
            assert hasattr(owner, attribute), name


def reference_rows():
    """One row of the reference page per measure and per option, from the definitions themselves."""
    from rankwood.measures.measure import FORMS, show

    cutoffs = {
        "optional": "may have one",
        "required": "needed",
        "none": "none",
        "range": "two rates, as @[0,5]",
    }
    for name, form in FORMS.items():
        options = ", ".join(f"`{option}`" for option in form.options) or "none"
        over = (
            "over all documents, or `over=queries`"
            if "over" in form.options
            else "mean over queries"
        )
        yield f"| `{name}` | {form.meaning} | {cutoffs[form.cutoff]} | {options} | {over} |"
    for option in dict.fromkeys(o for form in FORMS.values() for o in form.options.values()):
        default = "the data's" if option.default is None else show(option.default)
        users = ", ".join(name for name, form in FORMS.items() if option in form.options.values())
        yield f"| `{option.name}` | {option.meaning} | {default} | {users} |"


def test_the_reference_page_lists_every_measure_and_option():
    page = (ROOT / "docs" / "reference" / "measures.md").read_text()
    for row in reference_rows():
        assert row in page
