"""A C file and its header: the score of one document and of many rows, from tables of nodes and a loop over them.

Every name that the files define starts with the name of the function, so that a program can hold several models. The C
file repeats the declarations of the header and compiles without it, as C99 or C++. Tables compile quickly for models
of any size; nested conditions would not.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

import numpy as np

from rankwood.dtypes import Array
from rankwood.errors import ModelError, ParameterError
from rankwood.exports import rules
from rankwood.exports.reading import number_of, text_of, whole_of
from rankwood.exports.rules import EngineRules, FileTrees
from rankwood.exports.writing import WriteOptions, names_for
from rankwood.models.forest import Forest

RULES = EngineRules(
    "<=",
    np.float32,
    np.float64,
    "child",
    (
        "goes left when value <= threshold, both float",
        "leaves are double with the weights multiplied in, summed in the order of the trees as in our scores",
        "NaN goes to the child the table names, which may be a third one; do not compile with -ffast-math",
    ),
)
_PER_LINE = 12
_PLAIN = re.compile(r"[A-Za-z0-9_ .()=-]")
_NAMES_OF_TABLES = "root|feature|left|right|missing|threshold|value"
_TABLE = re.compile(
    rf"static const (?:int|float|double) \w{{1,80}}_({_NAMES_OF_TABLES})\[\d+\] = \{{([^{{}}]*)\}};"
)
_SCALAR = re.compile(r"static const double \w{1,80}_(divisor|base) = ([^;\n]+);")
_N_FEATURES = re.compile(r"#define \w{1,80}_N_FEATURES (\d{1,9})\n", re.ASCII)

_MOST_CHARACTERS = 60  # of a function's name: C99 promises to tell names of 63 characters apart
_IDENTIFIER = re.compile(r"[A-Za-z][A-Za-z0-9_]*")
# Keywords of C and C++, what <stddef.h> defines, and the function of a program: names that nothing else may have.
_TAKEN = frozenset(
    """
    alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class compl
    concept const consteval constexpr constinit const_cast continue co_await co_return co_yield decltype default delete
    do double dynamic_cast else enum explicit export extern false float for friend goto if inline int long main
    max_align_t mutable namespace new noexcept not not_eq NULL nullptr nullptr_t offsetof operator or or_eq private
    protected ptrdiff_t public register reinterpret_cast requires restrict return short signed size_t sizeof static
    static_assert static_cast struct switch template this thread_local throw true try typedef typeid typename typeof
    typeof_unqual union unsigned using virtual void volatile wchar_t while xor xor_eq
    """.split()  # noqa: SIM905 - a list of as many literals would be two screens long
)
_DECLARATIONS = """\
/* The number of features of a document, and their names in UTF-8, in the order of `features`. */
#define {upper}_N_FEATURES {n_features}
extern const char *const {name}_feature_names[{upper}_N_FEATURES];

/* The score of one document: the higher, the more relevant. A missing value is NaN. */
double {name}(const float *features);

/* The scores of n_rows documents, which stand row by row. The stride is the number of floats from the start of a row
   to the start of the next one: {upper}_N_FEATURES where nothing stands between them. */
void {name}_batch(const float *features, size_t n_rows, size_t stride, double *scores);
"""
_CODE = """\
static double {name}_of_row(const float *row)
{{
    double total = 0.0;
    for (int tree = 0; tree < {upper}_N_TREES; ++tree) {{
        int node = {name}_root[tree];
        while ({name}_feature[node] >= 0) {{
            const float value = row[{name}_feature[node]];
            if (value != value)
                node = {name}_missing[node];
            else if (value <= {name}_threshold[node])
                node = {name}_left[node];
            else
                node = {name}_right[node];
        }}
        total += {name}_value[node];
    }}
    return total / {name}_divisor + {name}_base;
}}

double {name}(const float *features)
{{
    return {name}_of_row(features);
}}

void {name}_batch(const float *features, size_t n_rows, size_t stride, double *scores)
{{
    for (size_t row = 0; row < n_rows; ++row)
        scores[row] = {name}_of_row(features + row * stride);
}}
"""
_OPENED = '#ifdef __cplusplus\nextern "C" {\n#endif\n'
_CLOSED = "#ifdef __cplusplus\n}\n#endif\n"


def checked_function(name: str) -> str:
    """``name`` if C and C++ take it as the name of a function."""
    if not isinstance(name, str) or not _IDENTIFIER.fullmatch(name) or "__" in name:
        raise ParameterError(
            f"function_name must be a name in C: letters, digits and single underscores, first a letter, "
            f"got {str(name)[:80]!r}."
        )
    if name in _TAKEN:
        raise ParameterError(f"function_name {name!r} has a meaning of its own in C or C++.")
    if len(name) > _MOST_CHARACTERS:
        raise ParameterError(
            f"function_name must have at most {_MOST_CHARACTERS} characters, got {len(name):,}."
        )
    return name


def default_name(number: int) -> str:
    """A name for a feature that has none."""
    return f"feature {number + 1}"


def write(forest: Forest, options: WriteOptions) -> bytes:
    """The C source; it needs no header and compiles as C99 or C++."""
    name = checked_function(options.function_name)
    names = names_for(forest, options, default_name)
    total = float(forest.tree_weights.sum())
    weights = np.repeat(forest.tree_weights, np.diff(forest.tree_offsets))
    tables: dict[str, tuple[str, Array, Callable[[float], str]]] = {
        "root": ("int", forest.tree_offsets[:-1], str),
        "feature": ("int", forest.feature, str),
        "left": ("int", forest.left, str),
        "right": ("int", forest.right, str),
        "missing": ("int", forest.missing, str),
        "threshold": ("float", forest.threshold, _float),
        "value": ("double", forest.value * weights, rules.exact),
    }
    divisor = total if forest.average and total > 0 else 1.0
    quoted = ",\n".join(f"    {_quoted(feature)}" for feature in names)
    lines = [
        f"/* A forest of {forest.n_trees} trees, written by Rankwood. Not for -ffast-math: NaN must stay NaN. */",
        "#include <stddef.h>",
        "",
        _OPENED,
        _declarations(forest, name),
        f"const char *const {name}_feature_names[{name.upper()}_N_FEATURES] = {{\n{quoted}\n}};",
        "",
        f"#define {name.upper()}_N_TREES {max(1, forest.n_trees)}",
        *(_table(f"{name}_{table}", *given) for table, given in tables.items()),
        f"static const double {name}_divisor = {rules.exact(divisor)};",
        f"static const double {name}_base = {rules.exact(forest.base)};",
        "",
        _CODE.format(name=name, upper=name.upper()),
        _CLOSED,
    ]
    return "\n".join(lines).encode("ascii")


def write_header(forest: Forest, options: WriteOptions) -> bytes:
    """The header of the C source: its declarations, and the names of the features as a comment."""
    name = checked_function(options.function_name)
    guard = f"RANKWOOD_{name.upper()}_H"
    names = names_for(forest, options, default_name)
    lines = [
        f"/* A forest of {forest.n_trees} trees, written by Rankwood.",
        *(f"   features[{number}]: {_commented(feature)}" for number, feature in enumerate(names)),
        "*/",
        f"#ifndef {guard}",
        f"#define {guard}",
        "",
        "#include <stddef.h>",
        "",
        _OPENED,
        _declarations(forest, name),
        _CLOSED,
        "#endif",
        "",
    ]
    return "\n".join(lines).encode("ascii")


def _declarations(forest: Forest, name: str) -> str:
    return _DECLARATIONS.format(name=name, upper=name.upper(), n_features=forest.n_features)


def _float(number: float) -> str:
    text = rules.short(number)
    return f"{text}f" if "." in text or "e" in text else f"{text}.0f"


def _commented(name: str) -> str:
    """A name inside a comment, which it must not end: special characters are written as code points."""
    return "".join(c if _PLAIN.match(c) else f"<U+{ord(c):04X}>" for c in name)


def _quoted(name: str) -> str:
    """A name as a string of C: the bytes of special characters are written as octal numbers."""
    content = name.encode("utf-8", "replace")
    return '"' + "".join(chr(b) if _PLAIN.match(chr(b)) else f"\\{b:03o}" for b in content) + '"'


def _table(name: str, kind: str, numbers: Array, shown: Callable[[float], str]) -> str:
    no_tree = "-1" if name.endswith("_feature") else "0"  # of a forest without trees
    texts = [shown(number) for number in numbers.tolist()] or [no_tree]
    rows = (
        ", ".join(texts[first : first + _PER_LINE]) for first in range(0, len(texts), _PER_LINE)
    )
    return f"static const {kind} {name}[{len(texts)}] = {{\n    " + ",\n    ".join(rows) + "\n};"


def read(content: bytes) -> FileTrees:
    """The trees in the tables of a file that ``write`` wrote; for verification."""
    text = text_of(content)
    tables = {
        name: [item.strip() for item in body.split(",")] for name, body in _TABLE.findall(text)
    }
    scalars = {name: number_of(value, name) for name, value in _SCALAR.findall(text)}
    features = _N_FEATURES.search(text)
    if (
        set(tables) != set(_NAMES_OF_TABLES.split("|"))
        or set(scalars) != {"divisor", "base"}
        or features is None
    ):
        raise ModelError("it is no C source of ours.")
    numbers = {
        name: _wholes(tables[name]) for name in ("root", "feature", "left", "right", "missing")
    }
    feature = numbers["feature"]
    return FileTrees(
        feature=feature,
        threshold=np.array(
            [number_of(item.rstrip("f"), "threshold") for item in tables["threshold"]]
        ),
        left=numbers["left"],
        right=numbers["right"],
        missing=numbers["missing"],
        value=np.array([number_of(item, "value") for item in tables["value"]]),
        cover=np.zeros(feature.size),
        gain=np.zeros(feature.size),
        tree_offsets=np.append(numbers["root"], feature.size).astype(np.int64),
        tree_weights=np.ones(numbers["root"].size),
        groups=None,
        divisor=scalars["divisor"],
        base=scalars["base"],
        n_features=int(features.group(1)),
        feature_names=None,
    )


def _wholes(items: Iterable[str]) -> Array:
    return np.array([whole_of(item, "a table") for item in items], np.int32)
