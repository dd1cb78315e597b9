"""Pages of the site that are made from the code when it is built: the library's names and the commands."""

from __future__ import annotations

import importlib
import inspect
import re
from typing import Any

import griffe
import typer
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files

import rankwood

DECLARED = (
    "_signature"  # a class with this name declares its parameters: see rankwood.rankers.parameters
)
_KINDS = ("Rankers", "Other classes", "Functions")


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the two pages."""
    files.append(File.generated(config, "reference/api.md", content=api_page()))
    files.append(File.generated(config, "reference/cli.md", content=cli_page()))
    return files


_GROUP = re.compile(r"^(\w+(?:, \w+)+)\n((?:    .*\n)+)", re.MULTILINE)  # names that share a text


class DeclaredParameters(griffe.Extension):
    """Shows the constructors and docstrings that follow from declared parameters.

    Pages are made from the sources, which have neither; so they are taken from the class itself.
    """

    def on_class_members(self, *, cls: griffe.Class, **_: Any) -> None:
        """Give a class with declared parameters its constructor and its whole docstring."""
        if DECLARED not in cls.members:
            return
        kind = getattr(importlib.import_module(cls.module.path), cls.name)
        text = inspect.getdoc(kind) or ""
        head, title, parameters = text.partition("Parameters\n----------\n")
        parameters, rest, attributes = parameters.partition("\n\nAttributes\n")
        parts = [head, title, _GROUP.sub(_one_by_one, parameters + "\n"), rest, attributes]
        cls.docstring = griffe.Docstring("".join(parts), parent=cls)
        arguments = [
            griffe.Parameter(
                name,
                kind=griffe.ParameterKind.positional_or_keyword,
                default=repr(argument.default),
            )
            for name, argument in inspect.signature(kind).parameters.items()
        ]
        itself = griffe.Parameter("self", kind=griffe.ParameterKind.positional_or_keyword)
        cls.set_member(
            "__init__",
            griffe.Function("__init__", parameters=griffe.Parameters(itself, *arguments)),
        )


def _one_by_one(group: re.Match[str]) -> str:
    """The same text for each name, since each has a default of its own."""
    return "".join(f"{name}\n{group[2]}" for name in group[1].split(", "))


def api_page() -> str:
    """Every public name with its docstring, rankers first."""
    sections: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for name in rankwood.__all__:
        module, _, name_there = rankwood._MODULE_OF[name].partition(":")
        sections[_kind_of(getattr(rankwood, name))].append(
            f"### `rankwood.{name}`\n\n::: {module}.{name_there or name}\n"
            "    options:\n      show_root_heading: false\n      show_root_toc_entry: false\n"
        )
    parts = [
        "# Library reference\n",
        "Everything public is a name of the package: `import rankwood as rw`.\n",
    ]
    for kind, entries in sections.items():
        parts += [f"## {kind}\n", *entries]
    return "\n".join(parts)


def _kind_of(thing: Any) -> str:
    from rankwood.rankers.base import Ranker

    if not inspect.isclass(thing):
        return "Functions"
    return "Rankers" if issubclass(thing, Ranker) else "Other classes"


def cli_page() -> str:
    """Every command with its arguments and options, as ``--help`` has them."""
    from rankwood.cli import main
    from rankwood.cli.main import app

    main.load(app, list(main.COMMANDS))
    parts = [
        "# Command reference\n",
        "The same as `rankwood COMMAND --help`. [The command line](../guides/command-line.md) shows them at work.\n",
    ]
    group = typer.main.get_command(app)
    for path, command in _commands(group, "rankwood"):
        parts.append(_command_section(path, command))
    return "\n".join(parts)


def _commands(group: Any, path: str) -> list[tuple[str, Any]]:
    found: list[tuple[str, Any]] = []
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            found += _commands(command, f"{path} {name}")
        else:
            found.append((f"{path} {name}", command))
    return found


def _command_section(path: str, command: Any) -> str:
    context = command.make_context(path, [], resilient_parsing=True)
    lines = [f"## {path}\n", inspect.cleandoc(command.help or ""), ""]
    lines += [f"    {' '.join(command.get_usage(context).split()).removeprefix('Usage: ')}", ""]
    lines += ["| option | what it does | default |", "|---|---|---|"]
    for parameter in command.params:
        if parameter.param_type_name == "option":
            names = ", ".join([*parameter.opts, *parameter.secondary_opts])
        else:
            names = (parameter.name or "").upper()
        help_text = getattr(parameter, "help", None) or ""
        lines.append(f"| `{_cell(names)}` | {_cell(help_text)} | {_default_of(parameter)} |")
    return "\n".join(lines) + "\n"


def _default_of(parameter: Any) -> str:
    default = parameter.default
    if default is None or callable(default) or str(default) in ("", "()", "[]", "True", "False"):
        return ""
    return f"`{_cell(str(default))}`"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")
