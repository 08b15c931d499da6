"""Weights, strata and stratum sizes of the records, from the columns of a design."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.design import LARGEST_POPULATION, Design, Sampling
from unikat.data.numbers import number_meant, number_shown, rows_shown
from unikat.data.table import CellTable
from unikat.data.texts import decimal_hint, find_decimal, number_sql
from unikat.errors import DataError, SpecError, option

if TYPE_CHECKING:
    import duckdb

FARTHEST = 0.1
"""Largest difference of the sum of the weights from N, as a share of N."""
MOST_CLASSES = 10
"""Classes made of weights, at most."""
LEAST_RECORDS = 100
"""Records of a class made of many weights, at least, where there are more than two classes."""
MOST_STRATA = 30
"""Strata that are no key, at most, to be classes by themselves."""
NO_CHANCE = math.log(1e6)
"""Against the logarithm of one over a probability."""
SAME_WEIGHT = 1.05
"""Weights whose ratio is at most this are taken as one."""


def make_sampling(
    connection: duckdb.DuckDBPyConnection,
    design: Design,
    columns: Mapping[str, str],
    name: str,
    decimal: str | None = None,
) -> tuple[Sampling | None, int | None]:
    """Read the columns of a design, and check them: the sampling, None without such columns, and N.

    Raises
    ------
    DataError
        If values are missing, no numbers or out of range; if weights do not sum to N; if a stratum
        has no records or more records than units.
    """
    strata: Int32 | None = None
    labels: list[str] = []
    if design.strata is not None:
        strata, labels = codes_of(connection, columns[design.strata])
        refuse_missing(strata < 0, design.strata, name, "stratum")
    column = design.weights if design.weights is not None else design.inclusion
    numbers = None
    if column is not None and design.stratum_sizes is None:
        numbers = numbers_of(connection, columns[column], column, name, decimal)
    return sampling_from(design, strata, labels, numbers, name)


def sampling_from(
    design: Design,
    strata: Int32 | None,
    labels: list[str],
    numbers: Float64 | None,
    name: str,
) -> tuple[Sampling | None, int | None]:
    """Make the sampling of units from the columns of a design, and N, as `make_sampling` does.

    Parameters
    ----------
    design
        The design.
    strata, labels
        Code of each unit's stratum, and what the strata are called.
    numbers
        Weight or inclusion probability of each unit.
    name
        What messages call the data.
    """
    if design.stratum_sizes is not None:
        assert strata is not None
        assert design.strata is not None
        sizes = _sizes(design.stratum_sizes, labels, design.strata, name)
        return _stratified(strata, sizes, labels, design, name)
    if numbers is None:
        return None, design.population_size
    column = design.weights if design.weights is not None else design.inclusion
    assert column is not None
    weights = numbers
    if design.inclusion is not None:
        refuse(weights > 1.0, column, name, "are above 1", "Inclusion probabilities are at most 1")
        with np.errstate(over="ignore"):
            weights = 1.0 / weights
    return _weighted(weights, strata, design, column, name)


def make_households(
    connection: duckdb.DuckDBPyConnection,
    design: Design,
    columns: Mapping[str, str],
    missing_values: Mapping[str, tuple[object, ...]],
    name: str,
) -> Int32 | None:
    """Number the households of a design, (n_records,); None if records were drawn one by one.

    Several columns identify a household together. A record of which one is missing is a household
    of its own.
    """
    if not design.household:
        return None
    together, alone = np.zeros(1, np.int64), np.zeros(1, bool)
    for column in design.household:
        codes, values = codes_of(connection, columns[column], missing_values.get(column, ()))
        alone = alone | (codes < 0)
        together = np.unique(together * len(values) + codes, return_inverse=True)[1]
    together[alone] = together.max() + 1 + np.arange(np.count_nonzero(alone))
    households = np.unique(together, return_inverse=True)[1].astype(np.int32)
    if len(households) > 1 and not households.any():
        raise DataError(
            f"{name}, {option('household')} {', '.join(map(repr, design.household))}: all "
            f"{len(households):,} records would be one household. Name the column that tells the "
            "households apart, or leave the option out."
        )
    return households


def codes_of(
    connection: duckdb.DuckDBPyConnection, column: str, missing: Iterable[object] = ()
) -> tuple[Int32, list[str]]:
    """Code the values of a column of the view ``source``, of which some mean missing.

    Returns
    -------
    tuple
        Codes (n_records,), -1 for missing, and the values as text, sorted: by number where all are
        numbers.
    """
    import pyarrow.compute as pc

    table = connection.sql(f"SELECT ({column})::VARCHAR AS v FROM source").to_arrow_table()
    encoded = table.column(0).combine_chunks().dictionary_encode()
    values = [str(value).strip() for value in encoded.dictionary.to_pylist()]
    found = np.asarray(pc.fill_null(encoded.indices, -1), dtype=np.int64)
    empty = [value in ("", "nan", "NaN") for value in values]
    shown = [one_way(value) for value in values]
    kept = {text for text, without in zip(shown, empty, strict=True) if not without}
    numeric = all(number_meant(text) is not None for text in kept)
    levels = sorted(kept, key=(lambda text: (number_meant(text) or 0.0, text)) if numeric else str)
    declared = {one_way(str(value)) for value in missing}
    place = {text: -1 if text in declared else code for code, text in enumerate(levels)}
    codes = np.array(
        [-1 if without else place[text] for text, without in zip(shown, empty, strict=True)] + [-1],
        dtype=np.int32,
    )
    return codes[found], levels


def numbers_of(
    connection: duckdb.DuckDBPyConnection,
    column: str,
    called: str,
    name: str,
    decimal: str | None = None,
) -> Float64:
    """Read a column of positive numbers, one for each record, from the view ``source``."""
    kind = connection.execute(f"DESCRIBE SELECT {column} FROM source").fetchall()[0][1]
    is_text = kind == "VARCHAR" or kind.startswith("ENUM")
    text = f"({column})::VARCHAR"
    used = find_decimal(connection, text, decimal) if is_text else "."
    number = number_sql(text, used)
    wrong = f"{number} IS NULL AND {column} IS NOT NULL AND trim({text}) <> ''"
    rows = connection.sql(
        f"SELECT coalesce({number}, 'nan'::DOUBLE) AS v, {wrong} AS text FROM source"
    ).to_arrow_table()
    broken = np.asarray(rows.column(1), dtype=bool)
    hint = decimal_hint(connection, text, wrong, used) if broken.any() else ""
    values = np.asarray(rows.column(0), dtype=np.float64)
    rule = hint.rstrip(".") or "It must hold numbers"
    refuse(broken, called, name, "are no numbers", rule)
    refuse_missing(np.isnan(values), called, name, "number")
    refuse(np.isinf(values), called, name, "are infinite", "It must hold finite numbers")
    refuse(values < 0.0, called, name, "are negative", "It must hold numbers above 0")
    refuse(
        values == 0.0,
        called,
        name,
        "are 0",
        "It must hold numbers above 0; correct them, or leave these records out",
    )
    return values


def refuse_missing(wrong: Bool, column: str, name: str, what: str) -> None:
    """Refuse a column with missing values (DataError): how many, and where the first ones are."""
    refuse(
        wrong,
        column,
        name,
        "are missing",
        f"Every record needs its {what}: fill it in, or leave these records out",
    )


def refuse(wrong: Bool, column: str, name: str, what: str, rule: str) -> None:
    """Refuse a column with wrong values: how many, and where the first ones are."""
    count = int(np.count_nonzero(wrong))
    if count:
        raise DataError(
            f"{name}, column {column!r}: {count:,} of {len(wrong):,} values {what} (rows "
            f"{rows_shown(np.flatnonzero(wrong) + 1)}). {rule}."
        )


def _sizes(given: Mapping[str, int], labels: list[str], column: str, name: str) -> Int64:
    """Sizes of the strata in the order of the labels."""
    known = {one_way(text): size for text, size in given.items()}
    if len(known) < len(given):
        raise SpecError("A stratum is named twice among the sizes of the strata.")
    lacking = [label for label in labels if label not in known]
    if lacking:
        raise SpecError(
            f"{len(lacking)} of the {len(labels)} strata in column {column!r} of {name} have no "
            f"size, and {len(known)} strata have one. Sizes are needed for all strata, written as "
            "in the column."
        )
    empty = [text for text in known if text not in labels]
    if empty:
        raise DataError(
            f"{len(empty)} of the {len(known)} strata whose sizes are given have no record in "
            f"column {column!r} of {name}, so nothing is known of their units. Join each with the "
            "stratum that is most like it, in the column and among the sizes, or leave it out of "
            "the population that the file is about."
        )
    return np.array([known[label] for label in labels], dtype=np.int64)


_NUMBER = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-][0-9]+)?")
"""Identifiers such as 1_23 and 12E4 are no numbers."""


def one_way(text: str) -> str:
    """Write a value one way: 1 and 1.0 are the same value of a column of numbers.

    Examples
    --------
    >>> one_way(" 1.0"), one_way("1_0")
    ('1', '1_0')
    """
    text = text.strip()
    if _NUMBER.fullmatch(text) is None:
        return text
    number = number_meant(text)
    # Long whole numbers, as identifiers are, stay exact.
    if number is None or (isinstance(number, float) and not math.isfinite(number)):
        return text
    return str(number) if isinstance(number, int) else number_shown(number)


def _stratified(
    strata: Int32, sizes: Int64, labels: list[str], design: Design, name: str
) -> tuple[Sampling, int]:
    counts = np.bincount(strata, minlength=len(sizes))
    beyond = int(np.count_nonzero(counts > sizes))
    if beyond:
        raise DataError(
            f"{name}, column {design.strata!r}: {beyond} of {len(sizes)} strata have more records "
            "than units in the population; correct the sizes of the strata."
        )
    total = int(sizes.sum())
    if design.population_size not in (None, total):
        raise SpecError(
            f"The sizes of the strata sum to {total:,}, but the population size is given as "
            f"{design.population_size:,}. Correct one of them, or leave the population size out."
        )
    weights = (sizes / counts)[strata]
    found = Sampling(
        weights=weights, strata=strata, sizes=sizes.astype(np.float64), from_weights=False
    )
    return found, total


def _weighted(
    weights: Float64, strata: Int32 | None, design: Design, column: str, name: str
) -> tuple[Sampling, int]:
    with np.errstate(over="ignore"):
        total = float(weights.sum())
    if total >= LARGEST_POPULATION and not (design.relative_weights and math.isfinite(total)):
        raise DataError(
            f"{name}, column {column!r}: the weights sum to {total:.3g}, which is no size of a "
            "population; correct the column."
        )
    size = round(total) if design.population_size is None else design.population_size
    normalised = abs(total - len(weights)) < 0.01 * len(weights)
    # Weights of 1 each are those of a census.
    unequal = bool(weights.max() > SAME_WEIGHT * weights.min())
    if design.population_size is None and ((normalised and unequal) or size < len(weights)):
        # Taken at their word they would say that the file holds the whole population.
        raise DataError(
            f"{name}, column {column!r}: the weights sum to {total:,.0f}, and the data hold "
            f"{len(weights):,} records, so they are no numbers of units that records stand for. If "
            f"they are relative weights, say so, {option('relative_weights', True)}, and give "
            "the population size; else correct the column."
        )
    Design(population_size=size).check(len(weights))
    if not design.relative_weights and abs(total - size) > FARTHEST * size:
        remedy = (
            "They sum to the number of records, so they are relative weights: say so, "
            f"{option('relative_weights', True)}, and they are scaled to the population."
            if normalised
            else "Correct the population size or the column; if weights are known up to a factor "
            f"only, say so: {option('relative_weights', True)}."
        )
        raise DataError(
            f"{name}, column {column!r}: the weights sum to {total:,.0f}, but the population has "
            f"{size:,} units. {remedy}"
        )
    return sampling_of(weights, size, strata), size


def sampling_of(weights: Float64, population_size: int, strata: Int32 | None = None) -> Sampling:
    """Make classes of records from their weights.

    The strata are the classes where weights are the same within each of them. Else, up to ten
    different weights are a class each; of more, classes are made of neighbouring weights, two to
    ten of 100 records or more. Within them chances are taken as equal.
    Weights, above 0, are scaled to sum to N; each stratum, from 0, has a record.

    Examples
    --------
    >>> found = sampling_of(np.array([9.0, 9.0, 1.0, 1.0]), 20)
    >>> found.sizes.tolist(), found.strata.tolist()
    ([2.0, 18.0], [1, 1, 0, 0])
    """
    weights = weights * (population_size / weights.sum())
    classes = _classes(weights, strata)
    return Sampling(
        weights=weights,
        strata=classes,
        sizes=np.bincount(classes, weights).astype(np.float64, copy=False),
        from_weights=classes is not strata,
    )


def few_classes(table: CellTable) -> CellTable:
    """Return a table whose classes a model can look at one by one.

    Strata that no key tells multiply the work by their number. Where they are many, records of
    about the same weight are a class instead: their units had about the same chances, whatever
    their stratum.
    """
    sampling = table.sampling
    if sampling is None or sampling.n_strata <= MOST_STRATA:
        return table
    if telling_key(sampling, table) is not None:
        return table
    return replace(table, sampling=sampling_of(sampling.weights, table.n_units))


def telling_key(sampling: Sampling, table: CellTable) -> int | None:
    """Return the key that tells the class of every record, with the fewest levels; None if none.

    Levels that occur once tell the class of their record whatever it is. So a key tells it only if
    that records of one level agree would be a chance of one in a million or less, each being of a
    class with the class's share of the records. Else the class is one more key, which is never
    wrong.
    """
    found: list[tuple[int, int]] = []
    surprise = -np.log(sampling.n_sampled / sampling.n_sampled.sum())[sampling.strata]
    for j, levels in enumerate(table.n_levels):
        codes = table.cells[table.record_cell, j]
        if codes.min() < 0:
            continue
        pairs = np.unique(codes.astype(np.int64) * sampling.n_strata + sampling.strata)
        _, first = np.unique(codes, return_index=True)
        if len(pairs) == len(first) and surprise.sum() - surprise[first].sum() > NO_CHANCE:
            found.append((levels, j))
    return min(found)[1] if found and not sampling.from_weights else None


def _classes(weights: Float64, strata: Int32 | None) -> Int32:
    """Classes of records of about the same weight: the strata, where these are such."""
    if strata is not None:
        lowest = np.full(int(strata.max()) + 1, np.inf)
        highest = np.zeros(len(lowest))
        np.minimum.at(lowest, strata, weights)
        np.maximum.at(highest, strata, weights)
        if np.all(highest <= SAME_WEIGHT * lowest):
            return strata
    steps = np.log(weights) / np.log(SAME_WEIGHT)
    # Weights of one step at most are one; rounding errors must not tell two apart.
    distinct, place = np.unique(np.round(steps, 6), return_inverse=True)
    if len(distinct) <= MOST_CLASSES:
        return _joined(place.astype(np.int32), distinct)
    n = len(weights)
    number = int(np.clip(n // LEAST_RECORDS, 2, MOST_CLASSES))
    edges = np.quantile(steps, np.arange(1, number) / number, method="inverted_cdf")
    found = np.searchsorted(edges, steps, side="left")
    _, codes = np.unique(found, return_inverse=True)
    means = np.bincount(codes, steps) / np.bincount(codes)
    return _joined(codes.astype(np.int32), means)


def _joined(codes: Int32, steps: Float64) -> Int32:
    """Join neighbouring classes whose weights are the same but for a step."""
    target = np.zeros(len(steps), np.int32)
    start = steps[0]
    for number in range(1, len(steps)):
        apart = steps[number] - start > 1.0
        target[number] = target[number - 1] + apart
        if apart:
            start = steps[number]
    found: Int32 = target[codes]
    return found
