"""What the LETOR reader says about a line it cannot use."""

from __future__ import annotations

from rankwood.data import letor_kernels as codes

_LONGEST_EXCERPT = 40
_EXPECTED = "Expected: label qid:ID id:value …"


class LineError(Exception):
    """Something wrong in a line, counted from 0 within its block; columns are counted from 1."""

    def __init__(self, line: int, column: int, message: str) -> None:
        super().__init__(message)
        self.line = line
        self.column = column
        self.message = message

    def at(self, name: str, lines_before: int) -> str:
        """The message with the file's name and the place in it."""
        return (
            f"{name}, line {lines_before + self.line + 1:d}, column {self.column}: {self.message}"
        )


def excerpt(text: bytes) -> str:
    """``text`` in quotes, on one line, shortened, with whatever cannot be printed escaped."""
    shown = text[: 4 * _LONGEST_EXCERPT].decode("utf-8", "backslashreplace")
    printable = "".join(
        letter if letter.isprintable() else letter.encode("unicode_escape").decode()
        for letter in shown
    )
    if len(printable) > _LONGEST_EXCERPT:
        printable = printable[: _LONGEST_EXCERPT - 1] + "…"
    return f"'{printable}'"


def column_of(line_before: bytes) -> int:
    """The 1-based column, in characters, of what follows ``line_before`` in its line."""
    return len(line_before.decode("utf-8", "replace")) + 1


def explain(code: int, token: bytes, detail: int, limit: int, is_declared: bool) -> str:
    """What is wrong with ``token``, for which the parser gave ``code``, and what was expected."""
    if code == codes.BAD_LABEL:
        return about_label(token)
    if code == codes.BAD_QUERY:
        return _about_query(token)
    if code == codes.BAD_VALUE:
        return about_value(token)
    return _about_feature(code, token, detail, limit, is_declared)


def about_label(token: bytes) -> str:
    """What is wrong with a label."""
    if b":" in token:
        return f"the label is missing: the line begins with {excerpt(token)}. {_EXPECTED}"
    try:
        is_negative = float(token) < 0
    except ValueError:
        return f"label {excerpt(token)} is not a number."
    if is_negative:
        return f"label {excerpt(token)} is negative. Labels are grades of relevance: 0 or more."
    return f"label {excerpt(token)} is not a finite number of at least 0."


def _about_query(token: bytes) -> str:
    if token.startswith(b"qid:"):
        return "the query id is empty. Write it right after the colon, as in qid:7."
    if not token:
        return f"the query id is missing: the line ends after the label. {_EXPECTED}"
    return f"the query id is missing: {excerpt(token)} stands where qid:ID is expected."


def about_value(token: bytes) -> str:
    """What is wrong with the value of a feature."""
    hint = (
        " The file seems to end its lines with CR alone; convert them to LF."
        if b"\r" in token
        else ""
    )
    what = "the value is missing" if not token else f"value {excerpt(token)} is not a number"
    return f"{what}. Expected a number, NaN or NULL.{hint}"


def beyond_float32(token: bytes) -> str:
    """Why a value that is a number cannot be kept."""
    return f"value {excerpt(token)} is beyond float32's range of ±3.4e38. Rescale the feature."


def _about_feature(code: int, token: bytes, detail: int, limit: int, is_declared: bool) -> str:
    number = token.split(b":")[0]
    if code == codes.ZERO_ID:
        return "feature id 0 is not allowed. Ids begin with 1; add 1 to all of them."
    if code == codes.NOT_ASCENDING:
        return (
            f"feature id {int(number)} comes after {detail}. "
            "Ids in a row must ascend; sort them, or pass order='any'."
        )
    if code == codes.DUPLICATE_ID:
        return f"feature id {int(number)} appears twice in the row. Each may appear once."
    if code == codes.ID_ABOVE_LIMIT and is_declared:
        shown = excerpt(number)[1:-1]
        return f"feature id {shown} is more than the {limit} features declared by n_features."
    if code == codes.ID_ABOVE_LIMIT:
        return (
            f"feature id {excerpt(number)[1:-1]} is above {limit}. Is it a feature id? "
            "If so, pass max_features= with the largest id."
        )
    return f"{excerpt(token)} is not a feature. Expected id:value, as in 7:0.25."


def about_id(kind: str, token: bytes) -> str | None:
    """What is wrong with a query or document id, or None."""
    if b"\r" in token:
        return f"{kind} id {excerpt(token)} holds a carriage return. End lines with LF or CR LF."
    try:
        token.decode()
    except UnicodeDecodeError:
        return f"{kind} id {excerpt(token)} is not UTF-8 text. Convert the file to UTF-8."
    return None


BINARY = "a NUL byte: this is a binary file. Text is expected, one document per line."
