"""The compiled loop over the rows of a LETOR block, in the words of ``letor_kernels``."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood._core.jit import kernel
from rankwood.dtypes import Bytes, Features, Floats, Rows


@kernel
def keep_fix(row: int, feature: Any, begin: int, end: int, fixes: Rows, state: Rows) -> bool:
    """Note a number for Python to convert, feature -1 for the label; False if there is no room."""
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
def read_label(
    text: Bytes, begin: int, row: int, labels: Floats, fixes: Rows, state: Rows
) -> tuple[int, int]:
    """Read the label; returns the place after it and a code."""
    place, value, status = read_number(text, begin)
    if status == NO_NUMBER or not ends_token(text, place) or not 0.0 <= value < np.inf:
        return begin, BAD_LABEL
    labels[row] = value
    if status != EXACT and not keep_fix(row, np.int64(-1), begin, place, fixes, state):
        return begin, FIXES_ARE_FULL
    return place, DONE


@kernel
def read_query(text: Bytes, place: int, row: int, runs: Rows, state: Rows) -> tuple[int, int]:
    """Read ``qid:ID``, which begins a run unless it equals the last one; returns place and code."""
    begin = skip_blanks(text, place)
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
        place = begin
        while place < end and text[place] == text[before]:
            place += 1
            before += 1
        if place == end:
            return end, DONE
    runs[n_runs, 0] = row
    runs[n_runs, 1] = state[LINE]
    runs[n_runs, 2] = begin
    runs[n_runs, 3] = end
    state[N_RUNS] = n_runs + 1
    return end, DONE


@kernel
def judge_id(number: int, previous: int, width: int, limit: int, any_order: bool) -> int:
    """Return DONE if the id may follow ``previous``, else the code of what is wrong with it."""
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
def read_features(
    text: Bytes,
    place: int,
    row: int,
    absent: float,
    limit: int,
    any_order: bool,
    seen: Rows,
    features: Features,
    fixes: Rows,
    state: Rows,
) -> tuple[int, int]:
    """Read all ``id:value`` of a row; returns the place of its line feed or ``#``, and a code."""
    width = features.shape[1]
    previous: Any = np.int64(0)  # a bare 0 is a type of its own to numba
    if any_order:
        features[row, :] = absent
    while True:
        while byte_at(text, place) == BLANK:
            place += 1
        if not ZERO <= byte_at(text, place) <= NINE:
            place = skip_blanks(text, place)
            if byte_at(text, place) in (LINE_FEED, HASH):
                break
        begin = place
        place, number = read_id(text, begin)
        if place == begin or byte_at(text, place) != COLON:
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
        begin = place + 1
        digit = byte_at(text, begin) - ZERO
        if byte_at(text, begin + 1) == BLANK and 0 <= digit <= 9:  # a common kind
            features[row, number - 1] = digit
            place = begin + 1
            continue
        place, value, status = read_number(text, begin)
        if status == NO_NUMBER or not ends_token(text, place):
            return begin, BAD_VALUE
        if status == UNSURE:
            if not keep_fix(row, number - 1, begin, place, fixes, state):
                return begin, FIXES_ARE_FULL
        else:
            features[row, number - 1] = value
    if not any_order:
        for feature in range(previous, width):
            features[row, feature] = absent
    return place, DONE


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
    """Parse the lines from state[PLACE] to ``end``; returns why it stopped.

    Unless it stopped for an error, state describes whole lines only, and a further call goes on
    from there.
    """
    place = int(state[PLACE])
    row = int(state[ROW])
    code = DONE
    while place < end:
        state[PLACE] = place
        n_runs, n_documents, n_fixes = state[N_RUNS], state[N_DOCUMENTS], state[N_FIXES]
        place = skip_blanks(text, place)
        is_row = not (byte_at(text, place) == LINE_FEED or byte_at(text, place) == HASH)
        if is_row:
            place, code = read_label(text, place, row, labels, fixes, state)
            if code == DONE:
                place, code = read_query(text, place, row, runs, state)
            if code == DONE:
                place, code = read_features(
                    text, place, row, absent, limit, any_order, seen, features, fixes, state
                )
            if code != DONE:
                break
        if byte_at(text, place) == HASH:
            place = read_comment(text, place, row if is_row else -1, documents, state)
        place += 1
        row += is_row
        state[LINE] += 1
    state[ROW] = row
    if code in (FIXES_ARE_FULL, TOO_NARROW):  # the row is parsed again: forget what it left
        state[N_RUNS], state[N_DOCUMENTS], state[N_FIXES] = n_runs, n_documents, n_fixes
        if any_order:
            seen[:] = 0
    else:
        state[PLACE] = place
    return code


@kernel
def widest_id(text: Bytes, place: int, end: int, limit: int, n_lines: int) -> int:
    """Return the largest feature id up to ``limit`` in the next lines, whatever else they hold."""
    widest = 0
    while place < end and n_lines > 0:
        at_token = True
        while byte_at(text, place) != LINE_FEED:
            if byte_at(text, place) == HASH:
                while byte_at(text, place) != LINE_FEED:
                    place += 1
                break
            if at_token and ZERO <= byte_at(text, place) <= NINE:
                after, number = read_id(text, place)
                if byte_at(text, after) == COLON and widest < number <= limit:
                    widest = number
                place = after
                at_token = False
            else:
                at_token = ends_token(text, place)
                place += 1
        place += 1
        n_lines -= 1
    return widest


# The compiled half of the LETOR reader: bytes of whole lines in, a table of numbers out.
#
# Words used here
#     place      a position in the bytes of the block
#     row        a line that holds a document; blank lines and lines of comment only are no rows
#     run        neighbouring rows with the same query id
#     fix        a number whose last bit the kernel is not sure of; Python's ``float`` decides it
#     separator  what ends a token: blank, tab, line feed, ``#``, carriage return before a line feed
#
# Every block ends in a line feed and is followed by ``PADDING`` zero bytes, so that no loop needs to
# look for the end and no look-ahead leaves the array. Functions that read a token return first the
# place after it.


PADDING = 16
LINE_FEED, CARRIAGE_RETURN, TAB, BLANK, HASH = 10, 13, 9, 32, 35
PLUS, MINUS, DOT, ZERO, NINE, COLON = 43, 45, 46, 48, 57, 58

# Places in ``state``.
PLACE, ROW, LINE, N_RUNS, N_DOCUMENTS, N_FIXES, DETAIL = range(7)
STATE_SIZE = 7

# What ``parse_rows`` stopped for. At an error, state[PLACE] is where the offending text begins.
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

# How far ``read_number`` got.
EXACT = 0  # the float64 nearest to the text
NEAR = 1  # rounds to the same float32 as the text
UNSURE = 2  # a number, but Python must convert it
NO_NUMBER = 3

MOST_DIGITS = 18  # decimal digits that surely fit into an int64
BEYOND_ANY_LIMIT = 10**MOST_DIGITS
EXACT_INTEGER = 1 << 53  # integers below are exact in float64 ...
EXACT_POWER = 22  # ... and so is 10 to this power, hence one rounding gives the nearest float64
LARGEST_POWER = 60
LARGEST_SAFE = 3.4e38  # a little below float32's largest value
SLACK = (
    2.0**-50
)  # 8 times the rounding unit of float64; conversion, power and product err by 3.1 at most
POWERS_OF_TEN = np.array([float(f"1e{power}") for power in range(LARGEST_POWER + 1)])
POWERS_OF_TEN.flags.writeable = False


@kernel
def byte_at(text: Bytes, place: int) -> int:
    """Return the byte at a place; an unsigned index spares the test for counting from the end."""
    return int(text[np.uintp(place)])


@kernel
def count_rows(text: Bytes, end: int) -> int:
    """Return how many lines do not begin as blank or comment: the number of rows, or more."""
    first = int(text[0])
    n_rows = 0
    if end > 0 and first not in (LINE_FEED, CARRIAGE_RETURN, HASH):
        n_rows = 1
    for place in range(end - 1):
        following = text[place + 1]
        n_rows += (
            (text[place] == LINE_FEED)
            & (following != LINE_FEED)
            & (following != CARRIAGE_RETURN)
            & (following != HASH)
        )
    return n_rows


@kernel
def ends_token(text: Bytes, place: int) -> bool:
    """Whether the byte at ``place`` is a separator."""
    byte = byte_at(text, place)
    if byte > HASH:
        return False
    if byte == CARRIAGE_RETURN:
        return byte_at(text, place + 1) == LINE_FEED
    return byte in (BLANK, LINE_FEED, TAB, HASH)


@kernel
def token_end(text: Bytes, place: int) -> int:
    """Return the place of the first separator from ``place`` on."""
    while not ends_token(text, place):
        place += 1
    return place


@kernel
def skip_blanks(text: Bytes, place: int) -> int:
    """Return the place of the next byte that is no blank, tab, or CR before a line feed."""
    while True:
        byte = byte_at(text, place)
        if byte == CARRIAGE_RETURN:
            if byte_at(text, place + 1) != LINE_FEED:
                return place
        elif byte not in (BLANK, TAB):
            return place
        place += 1


@kernel
def matches(text: Bytes, place: int, letters: Bytes) -> bool:
    """Whether ``letters`` (lower case) stand at ``place``, in any case."""
    for offset in range(letters.size):  # noqa: SIM110 - kernels have no generators
        if byte_at(text, place + offset) | 32 != int(letters[offset]):
            return False
    return True


NAN_LETTERS = np.frombuffer(b"nan", np.uint8)
NULL_LETTERS = np.frombuffer(b"null", np.uint8)
INFINITY_LETTERS = np.frombuffer(b"infinity", np.uint8)
INF_LETTERS = np.frombuffer(b"inf", np.uint8)


@kernel
def read_word(text: Bytes, place: int, sign: int) -> tuple[int, float, int]:
    """Read ``nan``, ``inf``, ``infinity`` or ``null``; returns place, value and how sure we are.

    ``sign`` is 0 where none was written: ``null`` takes none.
    """
    if matches(text, place, NAN_LETTERS):
        return place + 3, np.nan, EXACT
    if sign == 0 and matches(text, place, NULL_LETTERS):
        return place + 4, np.nan, EXACT
    value = -np.inf if sign < 0 else np.inf
    if matches(text, place, INFINITY_LETTERS):
        return place + 8, value, EXACT
    if matches(text, place, INF_LETTERS):
        return place + 3, value, EXACT
    return place, 0.0, NO_NUMBER


@kernel
def read_long_digits(text: Bytes, place: int) -> tuple[int, int, int, int]:
    """Read digits with at most one dot among them, however many.

    Returns the place after them, the first 18 digits from the first that is not 0, the power of
    ten they are to be multiplied with, and the number of digits read.
    """
    mantissa = 0
    kept = 0
    power = 0
    n_digits = 0
    after_dot = False
    while True:
        byte = byte_at(text, place)
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
            return place, mantissa, power, n_digits
        place += 1


@kernel
def read_exponent(text: Bytes, place: int) -> tuple[int, int]:
    """Read ``e``, a sign and digits; returns place and power, or where it began if digits lack."""
    start = place
    place += 1
    sign = byte_at(text, place)
    if sign in (PLUS, MINUS):
        place += 1
    power = 0
    first = place
    while ZERO <= byte_at(text, place) <= NINE:
        if power < 100_000_000:
            power = power * 10 + byte_at(text, place) - ZERO
        place += 1
    if place == first:
        return start, 0
    return place, -power if sign == MINUS else power


@kernel
def scale(mantissa: int, power: int) -> tuple[float, int]:
    """Return mantissa × 10^power and how sure we are of it.

    ``mantissa`` may lack digits after the 18th: they are worth 1e-17 of it.
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

    The float64 nearest to the text is among them, so it rounds to that float32 too.
    """
    if value > LARGEST_SAFE:
        return UNSURE
    same = np.float32(value * (1.0 - SLACK)) == np.float32(value * (1.0 + SLACK))
    return NEAR if same else UNSURE


@kernel
def read_rare_number(text: Bytes, begin: int) -> tuple[int, float, int]:
    """Read any number, be it a word, with an exponent, or long; returns place, value, how sure."""
    place = begin
    sign = 0
    if byte_at(text, place) in (PLUS, MINUS):
        sign = -1 if byte_at(text, place) == MINUS else 1
        place += 1
    if byte_at(text, place) > NINE:
        return read_word(text, place, sign)
    place, mantissa, power, n_digits = read_long_digits(text, place)
    if n_digits == 0:
        return begin, 0.0, NO_NUMBER
    if byte_at(text, place) | 32 == 101:  # e or E
        after, exponent = read_exponent(text, place)
        if after == place:
            return begin, 0.0, NO_NUMBER
        place = after
        power += exponent
    value, status = scale(mantissa, power)
    return place, -value if sign < 0 else value, status


@kernel
def read_number(text: Bytes, begin: int) -> tuple[int, float, int]:
    """Read a number; returns place, value and how sure we are of it.

    Here is the short way for what nearly all look like: 18 digits at most, no exponent.
    """
    place = begin
    is_negative = byte_at(text, place) == MINUS
    place += is_negative
    first = place
    mantissa = 0
    while ZERO <= byte_at(text, place) <= NINE:
        mantissa = mantissa * 10 + (
            byte_at(text, place) - ZERO
        )  # may wrap; then there are too many digits
        place += 1
    n_digits = place - first
    n_decimals = 0
    if byte_at(text, place) == DOT:
        first = place + 1
        place = first
        while ZERO <= byte_at(text, place) <= NINE:
            mantissa = mantissa * 10 + (byte_at(text, place) - ZERO)
            place += 1
        n_decimals = place - first
        n_digits += n_decimals
    if n_digits == 0 or n_digits > MOST_DIGITS or byte_at(text, place) | 32 == 101:
        return read_rare_number(text, begin)
    value = float(mantissa)
    if n_decimals > 0:
        value /= POWERS_OF_TEN[n_decimals]
    status = EXACT if mantissa < EXACT_INTEGER else certainty(value)
    return place, -value if is_negative else value, status


@kernel
def read_id(text: Bytes, place: int) -> tuple[int, int]:
    """Read a feature id; returns place and id. More than 18 digits are beyond any limit."""
    first = place
    number = 0
    while ZERO <= byte_at(text, place) <= NINE:
        number = number * 10 + (byte_at(text, place) - ZERO)
        place += 1
    if place - first > MOST_DIGITS:
        number = BEYOND_ANY_LIMIT
    return place, number


DOCID_LETTERS = np.frombuffer(b"docid", np.uint8)


@kernel
def read_comment(text: Bytes, place: int, row: int, documents: Rows, state: Rows) -> int:
    """Pass over a comment to its line feed, noting the first ``docid = X`` in it."""
    is_found = row < 0  # a comment that belongs to no row
    before = BLANK
    place += 1
    while byte_at(text, place) != LINE_FEED:
        byte = byte_at(text, place)
        if byte == 100 and not is_found and before in (BLANK, TAB):  # d
            begin, end = document_in(text, place)
            if end > begin:
                number = state[N_DOCUMENTS]
                documents[number, 0] = row
                documents[number, 1] = begin
                documents[number, 2] = end
                state[N_DOCUMENTS] = number + 1
                is_found = True
        before = byte
        place += 1
    return place


@kernel
def document_in(text: Bytes, place: int) -> tuple[int, int]:
    """Return where the X of a ``docid = X`` at ``place`` begins and ends: the same if none is."""
    for offset in range(5):
        if text[place + offset] != DOCID_LETTERS[offset]:
            return place, place
    place = skip_blanks(text, place + 5)
    if byte_at(text, place) != 61:  # =
        return place, place
    begin = skip_blanks(text, place + 1)
    end = begin
    while not ends_token(text, end) or byte_at(text, end) == HASH:
        end += 1
    return begin, end
