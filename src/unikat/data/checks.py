"""Warnings about the keys of a table, whatever model is fitted to it."""

from __future__ import annotations

import numpy as np

from unikat.data.binning import grouped
from unikat.data.clues import COPIES, MOST_MEAN
from unikat.data.keys import Key
from unikat.data.numbers import number_meant
from unikat.data.shared_keys import shared_keys_warning
from unikat.data.table import CellTable
from unikat.errors import brief, option, visible

MOST_UNSEEN = 0.05
"""Share of the records above which levels that occur once are warned of."""
IDENTIFIER = 0.5
"""Levels as a share of the records from which a key identifies records rather than groups them."""
MEASUREMENT = 0.1
"""Levels as a share of the records from which numbers are taken for a measurement."""
MANY_LEVELS, MANY_NUMBERS = 50, 150
"""With fewer levels a key is no identifier, with fewer numbers no measurement (ages in years are
fewer), however small the sample."""


def table_warnings(table: CellTable) -> tuple[str, ...]:
    """Warn of what no model can be trusted with: known before anything is sampled.

    A sentence or two for each, with what to do: what columns that are no keys tell
    (`CellTable.clues`), and keys with which no model can be trusted.

    These are keys that have about as many levels as records (identifiers), numbers that were not
    grouped (an income), keys of which the file cannot have all levels, since many of them occur
    once, and many keys that members of a household share.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> codes = [[i, i % 2] for i in range(60)] * 2
    >>> keys = [Key.of_size("ID", 60), Key.of_size("SEX", 2)]
    >>> (warning,) = table_warnings(CellTable.from_codes(codes, keys, 1000))
    >>> print(warning)
    ID has 60 levels in 120 records and looks like an identifier: ...
    """
    warnings, units = [], table.unit.many
    for j, key in enumerate(table.keys):
        codes = table.cells[:, j]
        known = codes >= 0
        if key.missing_level is not None:
            known &= codes != key.missing_level
        seen = np.bincount(codes[known], table.counts[known], key.n_levels)
        n_seen, n_records = int(np.count_nonzero(seen)), int(seen.sum())
        name = visible(brief(key.name))
        if n_seen >= MANY_LEVELS and n_seen >= IDENTIFIER * n_records and key.binning is None:
            warnings.append(
                f"{name} has {n_seen:,} levels in {n_records:,} {units} and looks like an "
                f"identifier: it makes nearly every {table.unit.one} unique, and τ1 says little. "
                "Leave it "
                f"out of the keys{_or_group(key)}."
            )
            continue
        if n_seen >= MANY_NUMBERS and n_seen >= MEASUREMENT * n_records and _is_numeric(key):
            warnings.append(
                f"{name} has {n_seen:,} different numbers in {n_records:,} {units} and looks like "
                "a measurement: an intruder hardly knows it so exactly. Group it, for example "
                f"{grouped(key.name, 'quantile(10)')}; if the numbers are codes, use coarser ones."
            )
        warnings += _rare_levels(table, j)
    if table.households is not None:
        warnings += _odd_households(table.n_records, int(table.households.max()) + 1)
        warnings += shared_keys_warning(table)
    return (*warnings, *table.clues)


def copies_warning(table: CellTable) -> str | None:
    """Return the warning that the file seems to hold copies of households; None if it does not."""
    return next((clue for clue in table.clues if clue.startswith(COPIES)), None)


def _odd_households(n_records: int, n_households: int) -> list[str]:
    """Warn of households that can hardly be any: of one record each, or very large."""
    if n_households == n_records:
        return [
            f"Each of the {n_records:,} records is a household of its own, so that records count "
            "as drawn one by one. If whole households were sampled, name the column that tells "
            f"them apart: {option('household', 'COLUMN')}."
        ]
    if n_records > MOST_MEAN * n_households:
        return [
            f"The {n_households:,} households have {n_records / n_households:,.0f} records each on "
            "average. Is the column a household's number? A region or another group is none, "
            "unless all its members were drawn together."
        ]
    return []


def _or_group(key: Key) -> str:
    if not _is_numeric(key):
        return ""
    return f", or group it if it is a measurement: {grouped(key.name, 'quantile(10)')}"


def _is_numeric(key: Key) -> bool:
    """Whether the levels are numbers that were not grouped and that nobody gave labels."""
    if key.binning is not None:
        return False
    named = [
        (str(level), label)
        for level, label in zip(key.levels, key.labels, strict=True)
        if level is not None
    ]
    # A comma may stand before the decimals.
    return all(
        label == text and number_meant(text.replace(",", ".")) is not None for text, label in named
    )


def _rare_levels(table: CellTable, j: int) -> list[str]:
    """Warn of a key of which the file cannot have all levels: many of them occur once."""
    key, codes = table.keys[j], table.cells[:, j]
    seen = np.bincount(codes[codes >= 0], table.counts[codes >= 0], key.n_levels)
    once = int(np.sum(seen == 1))
    # A level without a record is known from somewhere else, so all of them may be.
    if not np.all(seen > 0) or once <= MOST_UNSEEN * table.n_records:
        return []
    name = visible(brief(key.name))
    return [
        f"{once:,} of the {key.n_levels:,} levels of {name} occur once in the file, so the "
        "population has many that the file has not, and τ1 and τ2 come out too low. Recode "
        f"{name}, or name a codebook with all its levels."
    ]
