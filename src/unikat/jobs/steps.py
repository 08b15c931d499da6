"""The steps of a run as functions: from a matrix of codes to τ1 without a file or a folder.

    table = tabulate(codes, population_size=712_174)
    found = fit(HDP(), table)
    estimate_risk(found).tau1.mean
    recode(found, {"key1": "width(5)"}).tau1.mean

`fit` stands in `studies.fit`. `unikat.synthesize` and `unikat.attack` take matrices of codes too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from unikat.data import CellTable, Design, Key, Missing, read
from unikat.data.frames import matrix_of
from unikat.errors import SpecError, brief, shown
from unikat.language.keys import split_keys
from unikat.protection.recoding import Rule
from unikat.protection.what_if import Posterior
from unikat.risk.estimate import RiskEstimate
from unikat.studies.fit import Fit


def tabulate(
    data: Any,
    keys: str | Sequence[str] | None = None,
    *,
    population_size: int,
    n_levels: Sequence[int] | None = None,
    missing: Missing = "integrate",
) -> CellTable:
    """Count the combinations of keys of a matrix of codes, or of a data frame.

    Parameters
    ----------
    data
        (n_records, n_keys) whole numbers: the code of each record in each key, from 0, and -1 where
        the key is missing, or masked. Or a pandas or polars frame, a pyarrow table or a DuckDB
        relation, whose values are the levels; :func:`read` takes files too, weights, strata and
        codebooks.
    keys
        Names of the keys, as a list or with commas between. Of a matrix one for each column; None:
        `key1`, `key2`, ... Of a frame the columns that are keys, with rules that group numbers:
        `"AGE:width(5)"`.
    population_size
        N, units in the population, at least n_records.
    n_levels
        Of a matrix, levels of each key, from 1 to 100,000: its codes are below. None: the largest
        code and 1. Levels without a record belong to the population too, so give them if they are
        known.
    missing
        What a missing key is: `"integrate"` (unknown, integrated over) or `"wildcard"` (matches
        every level). Of a frame also `"level"` (a level of its own).

    Raises
    ------
    DataError
        If the codes are not whole numbers in a matrix, or outside the levels; if the frame cannot
        be read.
    SpecError
        If keys are not named, or an option is out of range.

    Examples
    --------
    >>> table = tabulate([[0, 2], [1, 1], [0, 2]], population_size=100, n_levels=[2, 3])
    >>> table.counts.tolist(), table.n_uniques, table.n_levels
    ([2, 1], 1, (2, 3))
    >>> import pandas as pd
    >>> frame = pd.DataFrame({"SEX": ["f", "m", "f"], "AGE": [68, 44, 67]})
    >>> tabulate(frame, "SEX, AGE:width(10)", population_size=100).counts.tolist()
    [2, 1]
    """
    if not isinstance(data, (list, tuple, np.ndarray)):
        if keys is None or n_levels is not None:
            raise SpecError(
                "Of a frame, name the columns that are keys, as in keys=['AGE', 'SEX'], and leave "
                "n_levels out: its levels are its values."
            )
        return read(data, keys, Design(population_size=population_size), missing=missing).tabulate()
    codes = matrix_of(data)
    names = _names(keys, codes.shape[1])
    sizes = [max(int(code), 0) + 1 for code in codes.max(axis=0)] if n_levels is None else n_levels
    if not isinstance(sizes, (Sequence, np.ndarray)) or len(sizes) != len(names):
        raise SpecError(
            f"n_levels is {shown(n_levels)}; it must have one number for each of the {len(names)} "
            "keys."
        )
    for name, size in zip(names, sizes, strict=True):
        if not isinstance(size, (int, np.integer)) or size < 1:
            raise SpecError(
                f"n_levels of the key {brief(name)!r} is {shown(size)}; it must be a whole number, "
                "1 or above."
            )
    made = [Key.of_size(name, int(size)) for name, size in zip(names, sizes, strict=True)]
    return CellTable.from_codes(codes, made, population_size, missing)


def _names(keys: Any, n_keys: int) -> list[str]:
    """Return the names of the columns of a matrix (SpecError if they do not fit)."""
    if keys is None:
        return [f"key{j + 1}" for j in range(n_keys)]
    names = split_keys(keys) if isinstance(keys, str) else list(keys)
    texts = all(isinstance(name, str) for name in names)
    if not texts or len(set(names)) != n_keys or len(names) != n_keys:
        raise SpecError(
            f"keys is {shown(keys)}; it must name each of the {n_keys} columns of the matrix, each "
            "by another text."
        )
    return names


def estimate_risk(fit: Fit, level: float = 0.95) -> RiskEstimate:
    """Estimate the risk of a table from a model that was fitted to it.

    Parameters
    ----------
    fit
        From :func:`fit`.
    level
        Probability of the equal-tailed intervals, between 0 and 1.

    Returns
    -------
    RiskEstimate
        τ1, the sample uniques that are unique in the population, and τ2, the correct matches of an
        intruder: numbers of records, as mean, median and interval. The risks r1 and r2 of each
        combination of keys, (n_cells,) probabilities, NaN where records share it;
        `table.record_cell` says which combination a record has.

    Raises
    ------
    SpecError
        If the level is not between 0 and 1, or there is no fit.

    Examples
    --------
    >>> from unikat import HDP, fit
    >>> found = estimate_risk(fit(HDP(), tabulate([[0, 2], [1, 1], [0, 2]], population_size=3)))
    >>> found.tau1.mean, found.records.r1[found.table.record_cell].tolist()
    (1.0, [nan, 1.0, nan])
    """
    return _checked_fit(fit).estimate(level)


def recode(fit: Fit, rules: Mapping[str, Rule], level: float = 0.95) -> RiskEstimate:
    """Estimate the risk of the file with coarser keys, without another fit.

    Parameters
    ----------
    fit
        From :func:`fit`, of a mixture model, alone or selected by `auto`.
    rules
        For each key that is recoded a rule: `"width(5)"`, `"cut(18,65)"`, `"top(80)"`,
        `"rare(0.01)"`; a mapping of levels to names of groups; a list of lists of levels; or None,
        which leaves the key out. Other keys stay as they are.
    level
        Probability of the equal-tailed intervals, between 0 and 1.

    Returns
    -------
    RiskEstimate
        As of :func:`estimate_risk`. Its `table` has the recoded keys: their codes are
        `table.cells[table.record_cell]`, (n_records, n_recoded_keys).

    Raises
    ------
    SpecError
        If a rule cannot be used, the model does not know the law of coarser keys, or there is no
        fit.

    Examples
    --------
    >>> from unikat import HDP, fit
    >>> found = fit(HDP(), tabulate([[0, 2], [1, 1], [0, 2]], population_size=3))
    >>> coarse = recode(found, {"key1": None})
    >>> coarse.tau1.mean, coarse.table.cells[coarse.table.record_cell].tolist()
    (1.0, [[2], [1], [2]])
    """
    _checked_fit(fit)
    if fit not in _POSTERIORS:
        _POSTERIORS[fit] = Posterior.of(fit)
    return _POSTERIORS[fit].what_if(rules, level)


_POSTERIORS: WeakKeyDictionary[Fit, Posterior] = WeakKeyDictionary()
"""States drawn of a fit, kept as long as it is: all recodings are looked at with the same."""


def _checked_fit(fit: Any) -> Fit:
    if not isinstance(fit, Fit):
        raise SpecError(
            f"There is no fit, but a value of type {type(fit).__name__}; fit a model to a table "
            "first: unikat.fit(unikat.Auto(), unikat.tabulate(codes, population_size=N))."
        )
    return fit
