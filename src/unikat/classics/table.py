"""All classic measures of a file together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from unikat._typing import Float64, Int32
from unikat.classics.diversity import Closeness, Diversity, l_diversity, t_closeness
from unikat.classics.frequencies import Anonymity, Frequencies, frequencies, k_anonymity
from unikat.classics.histogram import Uniques
from unikat.classics.individual import household_risk, individual_risk
from unikat.classics.population_uniques import population_uniques
from unikat.classics.suda import Suda, n_sets, suda2
from unikat.data.table import CellTable
from unikat.errors import SpecError

KS = (2, 3, 5)
"""Sizes that committees ask for."""
AFFORDABLE = 2 * 10**9
"""Sets of keys times patterns that SUDA2 looks at if nothing is said: half a minute."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sensitive:
    """A sensitive variable: what the keys of a record give away of it."""

    name: str
    codes: Int32
    """(n_records,): -1 where missing."""
    diversity: Diversity
    closeness: Closeness


@dataclass(frozen=True, kw_only=True, eq=False)
class Classics:
    """Classic measures of a file; arrays are (n_cells,) unless said."""

    frequencies: Frequencies
    anonymity: Anonymity
    individual: Float64
    """Individual risk, exact."""
    household: Float64 | None
    """(n_records,) risk of the record's household; None if no households are known."""
    suda: Suda | None
    """None if there are too many sets of keys."""
    suda_largest: int
    """Most keys of a minimal sample unique that was looked for."""
    suda_problem: str
    """Why there is no SUDA; empty if there is."""
    sensitive: tuple[Sensitive, ...]
    recursion: float
    """c of recursive (c, l)-diversity."""
    uniques: tuple[Uniques, ...]


def classics(
    table: CellTable,
    *,
    household: Int32 | None = None,
    sensitive: Mapping[str, Int32] | None = None,
    missing_match: float = 1.0,
    recursion: float = 2.0,
    largest: int | None = None,
    dis_fraction: float = 0.01,
) -> Classics:
    """Compute the classic measures of a file.

    Parameters
    ----------
    table
        The sample; its weights count, its classes do not.
    household
        (n_records,) code of each record's household, -1 where missing.
    sensitive
        (n_records,) codes of sensitive variables by name, -1 where missing.
    missing_match
        Weight of a record that matches only because a key is missing, 0 to 1.
    recursion
        c of recursive (c, l)-diversity, above 0.
    largest
        Most keys of a minimal sample unique; None: as many as can be looked at in half a minute.
    dis_fraction
        Fraction of units that DIS takes to be in both files.

    Raises
    ------
    SpecError, DataError
        If an option or an array is out of range.

    Examples
    --------
    >>> from unikat.data import Key
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> table = CellTable.from_codes([[0, 2], [0, 2], [1, 1], [1, 0]], keys, population_size=40)
    >>> found = classics(table)
    >>> found.anonymity.violating.tolist(), found.suda.score[table.record_cell].tolist()
    ([2, 4, 4], [0.0, 0.0, 1.0, 1.0])
    """
    counted = frequencies(table, missing_match)
    individual = individual_risk(table, "exact", counted)
    if largest is None:
        affordable = [
            k for k in range(1, table.n_keys + 1)
            if n_sets(table.n_keys, k) * table.n_cells <= AFFORDABLE
        ]  # fmt: skip
        largest = max(affordable, default=1)
    suda, problem = None, ""
    try:
        suda = suda2(table, largest=largest, dis_fraction=dis_fraction)
    except SpecError as error:
        problem = str(error)
    return Classics(
        frequencies=counted,
        anonymity=k_anonymity(counted, KS),
        individual=individual,
        household=None
        if household is None
        else household_risk(individual[table.record_cell], household),
        suda=suda,
        suda_largest=largest,
        suda_problem=problem,
        sensitive=tuple(
            Sensitive(
                name=name,
                codes=codes,
                diversity=l_diversity(table, codes, recursion),
                closeness=t_closeness(table, codes),
            )
            for name, codes in (sensitive or {}).items()
        ),
        recursion=recursion,
        uniques=population_uniques(table),
    )
