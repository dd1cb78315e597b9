"""Kernels that parse LETOR text: bytes of whole lines in, a table of numbers out.

``parse_rows`` is the loop over lines. It calls ``read_label``, ``read_query``, ``read_features`` and ``read_comment``,
and these call ``read_number`` and ``read_id`` for single tokens. It stops at the first error, or when it needs help
from Python (see the codes below); ``blocks`` then continues or raises.

Every block ends in a line feed and is followed by ``PADDING`` zero bytes, so that loops need no test for the end and
no look-ahead leaves the array. A function that reads a token returns first the position after it.

Terms
    position   an index into the bytes of the block
    row        a line that holds a document; blank lines and lines with only a comment are not rows
    run        consecutive rows with the same query id
    fix        a number whose last bit the kernel cannot determine; Python's ``float`` converts it
    separator  what ends a token: blank, tab, line feed, ``#``, carriage return before a line feed
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood._core.jit import kernel
from rankwood.dtypes import Bytes, Features, Floats, Rows

PADDING = 16
LINE_FEED, CARRIAGE_RETURN, TAB, BLANK, HASH = 10, 13, 9, 32, 35
PLUS, MINUS, DOT, ZERO, NINE, COLON = 43, 45, 46, 48, 57, 58

# Indices into ``state``.
POSITION, ROW, LINE, N_RUNS, N_DOCUMENTS, N_FIXES, DETAIL = range(7)
STATE_SIZE = 7

# Why ``parse_rows`` stopped. After an error, state[POSITION] is the start of the offending text.
DONE = 0
FIXES_ARE_FULL = 1  # call again after emptying ``fixes``
TOO_NARROW = 2  # a feature id, in state[DETAIL], is beyond the columns of ``features``
BAD_LABEL = 10
BAD_QUERY = 11
BAD_FEATURE = 12
ZERO_ID = 13
ID_ABOVE_LIMIT = 14
NOT_ASCENDING = 15  # state[DETAIL] is the id before it
DUPLICATE_ID = 16
BAD_VALUE = 17

# Precision of the result of ``read_number``.
EXACT = 0  # the float64 nearest to the text
NEAR = 1  # rounds to the same float32 as the text
UNSURE = 2  # a number, but Python must convert it
NO_NUMBER = 3

MOST_DIGITS = 18  # decimal digits that always fit into an int64
BEYOND_ANY_LIMIT = 10**MOST_DIGITS
EXACT_INTEGER = 1 << 53  # integers below are exact in float64 ...
EXACT_POWER = 22  # ... and so is 10 to this power, hence one rounding gives the nearest float64
LARGEST_POWER = 60
LARGEST_SAFE = 3.4e38  # a little below float32's largest value
# 8 times the rounding unit of float64; conversion, power and product err by 3.1 units at most.
SLACK = 2.0**-50
POWERS_OF_TEN = np.array([float(f"1e{power}") for power in range(LARGEST_POWER + 1)])
POWERS_OF_TEN.flags.writeable = False

NAN_LETTERS = np.frombuffer(b"nan", np.uint8)
NULL_LETTERS = np.frombuffer(b"null", np.uint8)
INFINITY_LETTERS = np.frombuffer(b"infinity", np.uint8)
INF_LETTERS = np.frombuffer(b"inf", np.uint8)

DOCID_LETTERS = np.frombuffer(b"docid", np.uint8)


@kernel
def parse_rows(
    text: Bytes,
    end: int,
    absent: float,
    limit: int,
    any_order: bool,
    seen: Rows,
    features: Features,
    labels: Floats,
    runs: Rows,
    documents: Rows,
    fixes: Rows,
    state: Rows,
) -> int:
    """Parse the lines from state[POSITION] to ``end``; returns why it stopped.

    Unless it stopped for an error, ``state`` describes whole lines only, and the next call continues
    there.
    """
    position = int(state[POSITION])
    row = int(state[ROW])
    code = DONE
    while position < end:
        state[POSITION] = position
        n_runs, n_documents, n_fixes = state[N_RUNS], state[N_DOCUMENTS], state[N_FIXES]
        position = skip_blanks(text, position)
        is_row = not (byte_at(text, position) == LINE_FEED or byte_at(text, position) == HASH)
        if is_row:
            position, code = read_label(text, position, row, labels, fixes, state)
            if code == DONE:
                position, code = read_query(text, position, row, runs, state)
            if code == DONE:
                position, code = read_features(
                    text, position, row, absent, limit, any_order, seen, features, fixes, state
                )
            if code != DONE:
                break
        if byte_at(text, position) == HASH:
            position = read_comment(text, position, row if is_row else -1, documents, state)
        position += 1
        row += is_row
        state[LINE] += 1
    state[ROW] = row
    if code in (FIXES_ARE_FULL, TOO_NARROW):  # the row is parsed again: undo its entries
        state[N_RUNS], state[N_DOCUMENTS], state[N_FIXES] = n_runs, n_documents, n_fixes
        if any_order:
            seen[:] = 0
    else:
        state[POSITION] = position
    return code


@kernel
def read_label(
    text: Bytes, begin: int, row: int, labels: Floats, fixes: Rows, state: Rows
) -> tuple[int, int]:
    """Read the label; returns the position after it and a code."""
    position, value, status = read_number(text, begin)
    if status == NO_NUMBER or not ends_token(text, position) or not 0.0 <= value < np.inf:
        return begin, BAD_LABEL
    labels[row] = value
    if status != EXACT and not keep_fix(row, np.int64(-1), begin, position, fixes, state):
        return begin, FIXES_ARE_FULL
    return position, DONE


@kernel
def read_query(text: Bytes, position: int, row: int, runs: Rows, state: Rows) -> tuple[int, int]:
    """Read ``qid:ID``, which begins a run unless it equals the last one; returns position and code."""
    begin = skip_blanks(text, position)
    is_qid = (
        byte_at(text, begin) == 113
        and byte_at(text, begin + 1) == 105
        and byte_at(text, begin + 2) == 100
        and byte_at(text, begin + 3) == COLON
    )
    if not is_qid or ends_token(text, begin + 4):
        return begin, BAD_QUERY
    begin += 4
    end = token_end(text, begin)
    n_runs = int(state[N_RUNS])
    if n_runs > 0 and end - begin == runs[n_runs - 1, 3] - runs[n_runs - 1, 2]:
        before = int(runs[n_runs - 1, 2])
        position = begin
        while position < end and text[position] == text[before]:
            position += 1
            before += 1
        if position == end:
            return end, DONE
    runs[n_runs, 0] = row
    runs[n_runs, 1] = state[LINE]
    runs[n_runs, 2] = begin
    runs[n_runs, 3] = end
    state[N_RUNS] = n_runs + 1
    return end, DONE


@kernel
def read_features(
    text: Bytes,
    position: int,
    row: int,
    absent: float,
    limit: int,
    any_order: bool,
    seen: Rows,
    features: Features,
    fixes: Rows,
    state: Rows,
) -> tuple[int, int]:
    """Read all ``id:value`` of a row; returns the position of its line feed or ``#``, and a code."""
    width = features.shape[1]
    previous: Any = np.int64(0)  # numba gives a literal 0 a type of its own
    if any_order:
        features[row, :] = absent
    while True:
        while byte_at(text, position) == BLANK:
            position += 1
        if not ZERO <= byte_at(text, position) <= NINE:
            position = skip_blanks(text, position)
            if byte_at(text, position) in (LINE_FEED, HASH):
                break
        begin = position
        position, number = read_id(text, begin)
        if position == begin or byte_at(text, position) != COLON:
            return begin, BAD_FEATURE
        code = judge_id(number, previous, width, limit, any_order)
        if code != DONE:
            state[DETAIL] = number if code == TOO_NARROW else previous
            return begin, code
        if any_order:
            if seen[number - 1] == row + 1:
                return begin, DUPLICATE_ID
            seen[number - 1] = row + 1
        else:
            for feature in range(previous, number - 1):
                features[row, feature] = absent
            previous = number
        begin = position + 1
        digit = byte_at(text, begin) - ZERO
        if byte_at(text, begin + 1) == BLANK and 0 <= digit <= 9:  # one digit: a common case
            features[row, number - 1] = digit
            position = begin + 1
            continue
        position, value, status = read_number(text, begin)
        if status == NO_NUMBER or not ends_token(text, position):
            return begin, BAD_VALUE
        if status == UNSURE:
            if not keep_fix(row, number - 1, begin, position, fixes, state):
                return begin, FIXES_ARE_FULL
        else:
            features[row, number - 1] = value
    if not any_order:
        for feature in range(previous, width):
            features[row, feature] = absent
    return position, DONE


@kernel
def judge_id(number: int, previous: int, width: int, limit: int, any_order: bool) -> int:
    """Return DONE if the id may follow ``previous``, else the code of its error."""
    if number == 0:
        return ZERO_ID
    if number > limit:
        return ID_ABOVE_LIMIT
    if number <= previous and not any_order:
        return DUPLICATE_ID if number == previous else NOT_ASCENDING
    if number > width:
        return TOO_NARROW
    return DONE


@kernel
def keep_fix(row: int, feature: Any, begin: int, end: int, fixes: Rows, state: Rows) -> bool:
    """Record a number for Python to convert, feature -1 for the label; returns False if ``fixes`` is full."""
    number = int(state[N_FIXES])
    if number == fixes.shape[0]:
        return False
    fixes[number, 0] = row
    fixes[number, 1] = feature
    fixes[number, 2] = begin
    fixes[number, 3] = end
    state[N_FIXES] = number + 1
    return True


@kernel
def read_comment(text: Bytes, position: int, row: int, documents: Rows, state: Rows) -> int:
    """Skip a comment to its line feed; record the first ``docid = X`` in it."""
    is_done = row < 0  # the comment belongs to no row
    before = BLANK
    position += 1
    while byte_at(text, position) != LINE_FEED:
        byte = byte_at(text, position)
        if byte == 100 and not is_done and before in (BLANK, TAB):  # d
            begin, end = document_in(text, position)
            if end > begin:
                number = state[N_DOCUMENTS]
                documents[number, 0] = row
                documents[number, 1] = begin
                documents[number, 2] = end
                state[N_DOCUMENTS] = number + 1
                is_done = True
        before = byte
        position += 1
    return position


@kernel
def document_in(text: Bytes, position: int) -> tuple[int, int]:
    """Return start and end of the X of a ``docid = X`` at ``position``; they are equal if there is none."""
    for offset in range(5):
        if text[position + offset] != DOCID_LETTERS[offset]:
            return position, position
    position = skip_blanks(text, position + 5)
    if byte_at(text, position) != 61:  # =
        return position, position
    begin = skip_blanks(text, position + 1)
    end = begin
    while not ends_token(text, end) or byte_at(text, end) == HASH:
        end += 1
    return begin, end


@kernel
def widest_id(text: Bytes, position: int, end: int, limit: int, n_lines: int) -> int:
    """Return the largest feature id up to ``limit`` in the next ``n_lines`` lines, ignoring errors."""
    widest = 0
    while position < end and n_lines > 0:
        at_token = True
        while byte_at(text, position) != LINE_FEED:
            if byte_at(text, position) == HASH:
                while byte_at(text, position) != LINE_FEED:
                    position += 1
                break
            if at_token and ZERO <= byte_at(text, position) <= NINE:
                after, number = read_id(text, position)
                if byte_at(text, after) == COLON and widest < number <= limit:
                    widest = number
                position = after
                at_token = False
            else:
                at_token = ends_token(text, position)
                position += 1
        position += 1
        n_lines -= 1
    return widest


@kernel
def count_rows(text: Bytes, end: int) -> int:
    """Return how many lines do not begin as blank or comment: an upper bound of the number of rows."""
    first = int(text[0])
    n_rows = 0
    if end > 0 and first not in (LINE_FEED, CARRIAGE_RETURN, HASH):
        n_rows = 1
    for position in range(end - 1):
        following = text[position + 1]
        n_rows += (
            (text[position] == LINE_FEED)
            & (following != LINE_FEED)
            & (following != CARRIAGE_RETURN)
            & (following != HASH)
        )
    return n_rows


# Numbers and ids.


@kernel
def read_digits(text: Bytes, position: int, number: int) -> tuple[int, int]:
    """Append the digits from a position on to a number; returns the position after them, and the number.

    Overflow is harmless: callers count the digits, and read a number of too many in another way.
    """
    while ZERO <= byte_at(text, position) <= NINE:
        number = number * 10 + (byte_at(text, position) - ZERO)
        position += 1
    return position, number


@kernel
def read_decimals(text: Bytes, position: int, number: int) -> tuple[int, int, int]:
    """The same with the digits behind a dot, if one stands there; returns also how many digits there were."""
    if byte_at(text, position) != DOT:
        return position, number, 0
    first = position + 1
    position, number = read_digits(text, first, number)
    return position, number, position - first


@kernel
def read_id(text: Bytes, position: int) -> tuple[int, int]:
    """Read a feature id; returns position and id. More than 18 digits give ``BEYOND_ANY_LIMIT``."""
    first = position
    position, number = read_digits(text, position, 0)
    if position - first > MOST_DIGITS:
        number = BEYOND_ANY_LIMIT
    return position, number


@kernel
def read_number(text: Bytes, begin: int) -> tuple[int, float, int]:
    """Read a number; returns position, value and precision.

    This is the fast path for at most 18 digits without exponent, which nearly all numbers have.
    """
    position = begin
    is_negative = byte_at(text, position) == MINUS
    position += is_negative
    first = position
    position, mantissa = read_digits(text, position, 0)
    n_digits = position - first
    position, mantissa, n_decimals = read_decimals(text, position, mantissa)
    n_digits += n_decimals
    if n_digits == 0 or n_digits > MOST_DIGITS or byte_at(text, position) | 32 == 101:
        return read_rare_number(text, begin)
    value = float(mantissa)
    if n_decimals > 0:
        value /= POWERS_OF_TEN[n_decimals]
    status = EXACT if mantissa < EXACT_INTEGER else certainty(value)
    return position, -value if is_negative else value, status


@kernel
def read_rare_number(text: Bytes, begin: int) -> tuple[int, float, int]:
    """Read any number: a word, with an exponent, or long; returns position, value and precision."""
    position = begin
    sign = 0
    if byte_at(text, position) in (PLUS, MINUS):
        sign = -1 if byte_at(text, position) == MINUS else 1
        position += 1
    if byte_at(text, position) > NINE:
        return read_word(text, position, sign)
    position, mantissa, power, n_digits = read_long_digits(text, position)
    if n_digits == 0:
        return begin, 0.0, NO_NUMBER
    if byte_at(text, position) | 32 == 101:  # e or E
        after, exponent = read_exponent(text, position)
        if after == position:
            return begin, 0.0, NO_NUMBER
        position = after
        power += exponent
    value, status = scale(mantissa, power)
    return position, -value if sign < 0 else value, status


@kernel
def read_word(text: Bytes, position: int, sign: int) -> tuple[int, float, int]:
    """Read ``nan``, ``inf``, ``infinity`` or ``null``; returns position, value and precision.

    ``sign`` is 0 if none was written; ``null`` takes no sign.
    """
    if matches(text, position, NAN_LETTERS):
        return position + 3, np.nan, EXACT
    if sign == 0 and matches(text, position, NULL_LETTERS):
        return position + 4, np.nan, EXACT
    value = -np.inf if sign < 0 else np.inf
    if matches(text, position, INFINITY_LETTERS):
        return position + 8, value, EXACT
    if matches(text, position, INF_LETTERS):
        return position + 3, value, EXACT
    return position, 0.0, NO_NUMBER


@kernel
def read_long_digits(text: Bytes, position: int) -> tuple[int, int, int, int]:
    """Read any number of digits with at most one dot.

    Returns the position after them, the first 18 significant digits, the power of ten to multiply
    them with, and the number of digits read.
    """
    mantissa = 0
    kept = 0
    power = 0
    n_digits = 0
    after_dot = False
    while True:
        byte = byte_at(text, position)
        if byte == DOT and not after_dot:
            after_dot = True
        elif ZERO <= byte <= NINE:
            n_digits += 1
            if kept < MOST_DIGITS:
                mantissa = mantissa * 10 + (byte - ZERO)
                kept += mantissa > 0
                power -= after_dot
            else:
                power += not after_dot
        else:
            return position, mantissa, power, n_digits
        position += 1


@kernel
def read_exponent(text: Bytes, position: int) -> tuple[int, int]:
    """Read ``e``, a sign and digits; returns position and power, or the start if there are no digits."""
    start = position
    position += 1
    sign = byte_at(text, position)
    if sign in (PLUS, MINUS):
        position += 1
    power = 0
    first = position
    while ZERO <= byte_at(text, position) <= NINE:
        if power < 100_000_000:
            power = power * 10 + byte_at(text, position) - ZERO
        position += 1
    if position == first:
        return start, 0
    return position, -power if sign == MINUS else power


@kernel
def scale(mantissa: int, power: int) -> tuple[float, int]:
    """Return mantissa × 10^power and its precision.

    ``mantissa`` may lack digits after the 18th, which are worth less than 1e-17 of it.
    """
    if mantissa == 0:
        return 0.0, EXACT
    if power > LARGEST_POWER or power < -LARGEST_POWER:
        return 0.0, UNSURE
    value = (
        float(mantissa) * POWERS_OF_TEN[power]
        if power >= 0
        else float(mantissa) / POWERS_OF_TEN[-power]
    )
    if mantissa < EXACT_INTEGER and -EXACT_POWER <= power <= EXACT_POWER:
        return value, EXACT if value < LARGEST_SAFE else UNSURE
    return value, certainty(value)


@kernel
def certainty(value: float) -> int:
    """Return NEAR if all float64 within the error of positive ``value`` round to one float32.

    The float64 nearest to the text is among them and rounds to that float32 too.
    """
    if value > LARGEST_SAFE:
        return UNSURE
    same = np.float32(value * (1.0 - SLACK)) == np.float32(value * (1.0 + SLACK))
    return NEAR if same else UNSURE


@kernel
def matches(text: Bytes, position: int, letters: Bytes) -> bool:
    """Whether the text at ``position`` equals ``letters`` (lower case), ignoring case."""
    for offset in range(letters.size):  # noqa: SIM110 - kernels have no generators
        if byte_at(text, position + offset) | 32 != int(letters[offset]):
            return False
    return True


# Bytes and tokens.


@kernel
def byte_at(text: Bytes, position: int) -> int:
    """Return the byte at a position; an unsigned index avoids the test for negative indices."""
    return int(text[np.uintp(position)])


@kernel
def ends_token(text: Bytes, position: int) -> bool:
    """Whether the byte at ``position`` is a separator."""
    byte = byte_at(text, position)
    if byte > HASH:
        return False
    if byte == CARRIAGE_RETURN:
        return byte_at(text, position + 1) == LINE_FEED
    return byte in (BLANK, LINE_FEED, TAB, HASH)


@kernel
def token_end(text: Bytes, position: int) -> int:
    """Return the position of the first separator from ``position`` on."""
    while not ends_token(text, position):
        position += 1
    return position


@kernel
def skip_blanks(text: Bytes, position: int) -> int:
    """Return the position of the next byte that is no blank, tab, or CR before a line feed."""
    while True:
        byte = byte_at(text, position)
        if byte == CARRIAGE_RETURN:
            if byte_at(text, position + 1) != LINE_FEED:
                return position
        elif byte not in (BLANK, TAB):
            return position
        position += 1
