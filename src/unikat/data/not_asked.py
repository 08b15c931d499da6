"""Which codes that a file declares missing are answers of a group: those who were not asked.

"Not applicable" as the occupation of children is often declared missing, as "refused" is. But it
says no less than an occupation: everybody knows it of a child. Taken as missing it would be
imputed, and the risk would be that of a child with an unknown occupation.

A labelled code is the answer of a group, and so a level, if other keys tell who has it:

- A *set of levels* of another key belongs to the group if at least 95% of its records have the
  code: single levels, all levels up to one, or all from one on. And more of them have it than
  chance explains: of as many records drawn from all at random, as many have the code with a
  probability below 0.001 divided by the number of sets that were looked at.
- The group is who has a level of any of these sets. At least 95% of its records have the code, and
  they are more than half of all that have it; and there are records outside.

Records whose answer is missing otherwise tell nothing. Refusals do not look so. A question that
95% of a group refuses is one that was not put to it; slips of interviewers, and edits, leave fewer
than 5% of other answers. Others may have the code too, who were not asked for reasons that no key
tells: those who never had an occupation. But where most of the records with a code are such, it is
no answer of the group. A level of a code that is itself declared missing
counts only once it was found to be a level: who refuses two questions is no group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from unikat._typing import Bool, Int64
from unikat.data.columns import CodedKey, Column
from unikat.data.engine import quoted
from unikat.data.table import Missing

if TYPE_CHECKING:
    import duckdb

SHARE = 0.95
"""Share of the records of a group that have the code."""
MOST = 0.5
"""Share of the records with the code that has to be exceeded in the group."""
CHANCE = 0.001
"""Probability of finding a set of levels by chance alone, over all that are looked at."""

_WORTH_NAMING = 0.1
"""Share of the records with the code that a key tells, from which on it is named."""


class Counted(NamedTuple):
    """Records of each level of a key."""

    n: Int64
    """(n_levels,)."""
    n_with: Int64
    """(n_levels,): those that have the code."""


def telling_levels(keys: Sequence[Counted], n_records: int, n_with: int) -> tuple[Bool, ...]:
    """Find the levels of other keys of which nearly all records have a code.

    Returns
    -------
    tuple
        (n_levels,) of each key: levels that tell it.

    Examples
    --------
    >>> age = Counted(np.array([50, 50, 50]), np.array([50, 1, 0]))
    >>> [levels.tolist() for levels in telling_levels([age], 150, 51)]
    [[True, False, False]]
    """
    from scipy.stats import binom

    n_sets = sum(len(key.n) + 2 for key in keys)
    limit, share = CHANCE / max(n_sets, 1), n_with / n_records

    def tells(n: Int64, n_has: Int64) -> Bool:
        found: Bool = (n > 0) & (n_has >= SHARE * n) & (binom.sf(n_has - 1, n, share) <= limit)
        return found

    told = []
    for key in keys:
        levels = tells(key.n, key.n_with)
        for way in (slice(None), slice(None, None, -1)):
            n, n_has = np.cumsum(key.n[way]), np.cumsum(key.n_with[way])
            if len(n):
                # The end at which those with the code outnumber the others most.
                last = int(np.argmax(2 * n_has - n))
                levels[way][: last + 1] |= tells(n[last : last + 1], n_has[last : last + 1])
        told.append(levels)
    return tuple(told)


def is_group(n_records: int, n_with: int, n_inside: int, n_inside_with: int) -> bool:
    """Whether a group has a code, up to few, and most of those who have it are in the group.

    Examples
    --------
    >>> is_group(1000, 200, 201, 198), is_group(1000, 200, 150, 150), is_group(1000, 200, 90, 90)
    (True, True, False)
    """
    return (
        0 < n_inside < n_records
        and n_inside_with >= SHARE * n_inside
        and n_inside_with > MOST * n_with
    )


def keep_answers(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[Column],
    coded: list[CodedKey],
    missing: Missing,
) -> None:
    """Make levels of codes that are declared missing and are answers of groups.

    Parameters
    ----------
    connection
        With the view ``source``.
    columns
        The keys.
    coded
        The same, coded; those with a new level are coded again.
    missing
        What a missing key is.
    """
    found = True
    while found:
        # A level that was found may tell who was not asked another question.
        found = False
        for place, column in enumerate(columns):
            for code in column.candidates():
                if told_by := _told_by(connection, columns, coded, place, code):
                    column.answers[code] = told_by
                    column.prepare()
                    coded[place] = column.code(missing)
                    found = True


def _told_by(
    connection: duckdb.DuckDBPyConnection,
    columns: Sequence[Column],
    coded: Sequence[CodedKey],
    place: int,
    code: str,
) -> tuple[str, ...]:
    """Names of the keys that tell who has a code; none if they do not."""
    has_code, answer = columns[place].has_code(code), columns[place].clean_sql
    # Who refused could have answered or not: it tells nothing.
    answered = f"(SELECT * FROM source WHERE {has_code} OR {answer} IS NOT NULL)"
    n_with = columns[place].declared_codes[code]
    n_records = int(connection.execute(f"SELECT count(*) FROM {answered}").fetchall()[0][0])
    others = [j for j in range(len(columns)) if j != place]
    counted = []
    for j in others:
        rows = connection.execute(
            f"SELECT {columns[j].value_sql} AS v, count(*), count(*) FILTER (WHERE hit) FROM "
            f"(SELECT {columns[j].clean_sql} AS k{j}, {has_code} AS hit FROM {answered}) "
            "GROUP BY v"
        ).fetchall()
        n, n_has = np.zeros((2, len(coded[j].codes)), np.int64)
        for value, n_all, n_hit in rows:
            if value is not None:
                n[coded[j].codes[value]], n_has[coded[j].codes[value]] = n_all, n_hit
        counted.append(Counted(n, n_has))
    told = telling_levels(counted, n_records, n_with)
    inside, names = [], []
    for j, levels, counts in zip(others, told, counted, strict=True):
        values = [value for value, level in coded[j].codes.items() if levels[level]]
        if values:
            inside.append(f"{columns[j].value_sql} IN ({', '.join(map(_literal, values))})")
            if counts.n_with[levels].sum() >= _WORTH_NAMING * n_with:
                names.append(columns[j].spec.name)
    if not inside:
        return ()
    listed = ", ".join(f"{columns[j].clean_sql} AS k{j}" for j in others)
    row = connection.execute(
        f"SELECT count(*), count(*) FILTER (WHERE hit) FROM "
        f"(SELECT {listed}, {has_code} AS hit FROM {answered}) WHERE {' OR '.join(inside)}"
    ).fetchall()[0]
    return tuple(names) if is_group(n_records, n_with, int(row[0]), int(row[1])) else ()


def _literal(value: object) -> str:
    return quoted(value) if isinstance(value, str) else repr(value)
