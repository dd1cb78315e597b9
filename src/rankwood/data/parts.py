"""A file part by part, for files larger than memory."""

from __future__ import annotations

import os
from collections.abc import Iterator

from rankwood import _checks
from rankwood.data.dataset import RankingData
from rankwood.data.reading import ReadOptions, is_table

N_ROWS = 200_000


def read_parts(
    path: str | os.PathLike[str], options: ReadOptions, *, n_rows: int = N_ROWS
) -> Iterator[RankingData]:
    """The parts of a table or of LETOR text, in the file's order, each of whole queries.

    A part has ``n_rows`` rows and those that complete its last query; only the last part may have
    fewer. Memory is needed for one part, for what is read ahead, and for the ids of the queries
    seen. LETOR text needs ``options.n_features``; a larger feature id is an error. The binary cache
    is not used.

    A query whose rows are not together is grouped within a part, with a warning; one that comes
    again in a later part is an error. Ids of text files (LETOR, CSV) are whole numbers where all ids
    of the part are; documents of LETOR text have ids from the first part on that has any.
    """
    rows = _checks.whole_number("n_rows", n_rows, 1)
    if is_table(path):
        from rankwood.data.table_parts import table_parts

        return table_parts(path, options, rows)
    from rankwood.data.letor_parts import letor_parts

    return letor_parts(path, options, rows)
