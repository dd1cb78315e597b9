"""A page that explains the service, made from its own schema; it loads nothing from elsewhere."""

from __future__ import annotations

import html
import json
from typing import Any

from rankwood.serve.store import ModelStore

_STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
code, pre { font-family: ui-monospace, monospace; font-size: .9em; }
pre { padding: .8rem; overflow-x: auto; border: 1px solid #8885; border-radius: .4rem; }
table { border-collapse: collapse; } td, th { text-align: left; padding: .25rem 1rem .25rem 0; vertical-align: top; }
h2 { margin-top: 2.2rem; } .method { font-weight: 700; }
"""


def documentation_page(schema: dict[str, Any], store: ModelStore) -> str:
    """Paths, their answers, an example that works, and the models at hand."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        "<meta name='viewport' content='width=device-width, initial-scale=1'>",
        f"<title>{_text(schema['info']['title'])}</title><style>{_STYLE}</style></head><body>",
        f"<h1>{_text(schema['info']['title'])}</h1>",
        "<p>Version " + _text(schema["info"]["version"]) + ". ",
        "The schema for machines: <a href='openapi.json'>openapi.json</a>.</p>",
        "<h2>Try it</h2><pre><code>" + _text(_example(store)) + "</code></pre>",
        "<h2>Models</h2>" + _models(store),
    ]
    for path, methods in schema["paths"].items():
        for method, operation in methods.items():
            parts.append(_operation(path, method, operation))
    parts.append("<h2>Fields of a request to /rank</h2>")
    parts.append(_fields(schema["paths"]["/rank"]["post"]))
    return "".join(parts) + "</body></html>"


def _example(store: ModelStore) -> str:
    entry = store.entries()[0]
    names = entry.served.features[:2]
    documents = [
        {"id": "a", "features": dict.fromkeys(names, 0.5)},
        {"id": "b", "features": dict.fromkeys(names, 1.5)},
    ]
    body = json.dumps({"model": entry.served.name, "documents": documents}).replace("'", "'\\''")
    return f"curl -s localhost:8000/rank -H 'Content-Type: application/json' -d '{body}'"


def _models(store: ModelStore) -> str:
    rows = "".join(
        f"<tr><td><code>{_text(entry.served.name)}</code></td><td>{len(entry.served.features)} features</td>"
        f"<td>{_text(str(entry.served.meta.get('estimator') or ''))}</td></tr>"
        for entry in store.entries()
    )
    return f"<table>{rows}</table>"


def _operation(path: str, method: str, operation: dict[str, Any]) -> str:
    answers = "".join(
        f"<tr><td>{_text(status)}</td><td>{_text(answer.get('description', ''))}</td></tr>"
        for status, answer in operation["responses"].items()
    )
    return (
        f"<h2><span class='method'>{method.upper()}</span> <code>{_text(path)}</code></h2>"
        f"<p>{_text(operation.get('summary', ''))}.</p><table>{answers}</table>"
    )


def _fields(operation: dict[str, Any]) -> str:
    schema = operation["requestBody"]["content"]["application/json"]["schema"]
    rows = "".join(
        f"<tr><td><code>{_text(name)}</code></td><td>{_text(field.get('description', ''))}</td></tr>"
        for name, field in schema["properties"].items()
    )
    return (
        f"<table>{rows}</table><p>A document has an <code>id</code> and <code>features</code>: values in the model's "
        "order, or by name; null, and names left out, are missing values.</p>"
    )


def _text(value: str) -> str:
    return html.escape(str(value))
