"""The compiled loop over the rows of a LETOR block, in the words of ``letor_kernels``."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankwood._jit import kernel
from rankwood.data.letor_kernels import (
    BAD_FEATURE,
    BAD_LABEL,
    BAD_QUERY,
    BAD_VALUE,
    BLANK,
    COLON,
    DETAIL,
    DONE,
    DUPLICATE_ID,
    EXACT,
    FIXES_ARE_FULL,
    HASH,
    ID_ABOVE_LIMIT,
    LINE,
    LINE_FEED,
    N_DOCUMENTS,
    N_FIXES,
    N_RUNS,
    NINE,
    NO_NUMBER,
    NOT_ASCENDING,
    PLACE,
    ROW,
    TOO_NARROW,
    UNSURE,
    ZERO,
    ZERO_ID,
    byte_at,
    ends_token,
    read_comment,
    read_id,
    read_number,
    skip_blanks,
    token_end,
)
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
