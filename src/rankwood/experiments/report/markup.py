"""HTML that is safe by construction: plain text is escaped, only ``Markup`` passes as it is."""

from __future__ import annotations

import html
import json
import re
from typing import Any

# Not allowed in HTML, or able to turn round what stands beside them; a name may hold anything.
_FORBIDDEN = re.compile(
    "[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]"
)
_VOID = frozenset({"meta", "link", "br", "hr", "img", "input", "col"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def clean(text: Any) -> str:
    """The text of ``text``, with what no document may hold replaced by the sign for it."""
    return _FORBIDDEN.sub("�", str(text))


def escape(child: Any) -> Markup:
    """A child of an element: markup as it is, everything else as text."""
    return child if isinstance(child, Markup) else Markup(html.escape(clean(child)))


def element(name: str, /, *children: Any, **attributes: Any) -> Markup:
    """An element with its children; None and "" among them are left out.

    A trailing underscore of an attribute's name is dropped, others become hyphens: ``class_``, ``aria_label``.
    An attribute that is True stands without a value, one that is None or False not at all.
    """
    written = [_attribute(key, value) for key, value in attributes.items()]
    head = " ".join([name, *(text for text in written if text)])
    if name in _VOID:
        return Markup(f"<{head}>")
    inside = "".join(escape(child) for child in children if child is not None)
    return Markup(f"<{head}>{inside}</{name}>")


def _attribute(key: str, value: Any) -> str:
    name = key.rstrip("_").replace("_", "-")
    if value is None or value is False:
        return ""
    return name if value is True else f'{name}="{escape(value)}"'


def join(*children: Any) -> Markup:
    """Children one after the other."""
    return Markup("\n".join(escape(child) for child in children if child is not None and child))


def named(text: Any) -> Markup:
    """A name from outside: its direction of writing does not reach its neighbours."""
    return element("bdi", text)


def data_block(identifier: str, value: Any) -> Markup:
    """JSON for the page's script; no text in it can end the block."""
    text = json.dumps(value, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    text = clean(text).replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    text = text.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029")
    return Markup(f'<script type="application/json" id="{identifier}">{text}</script>')
