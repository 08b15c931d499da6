"""Individual risk of Benedetti and Franconi, of records, of households and of the file.

A cell's F units are each in the sample with probability p, estimated by p = f/F with the sum of the
weights for F; then F given f is negative binomial, and a record's risk is E[1/F | f].
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from unikat._typing import Float64
from unikat.classics.frequencies import Frequencies
from unikat.classics.frequencies import frequencies as frequencies_of
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError, suggest
from unikat.kernels import individual as kernels

Method: TypeAlias = Literal["exact", "approx"]


def individual_risk(
    table: CellTable, method: Method = "exact", frequencies: Frequencies | None = None
) -> Float64:
    """E[1/F | f] of every pattern, (n_cells,); of the records by ``[table.record_cell]``.

    Parameters
    ----------
    table
        Cells and weights.
    method
        ``exact``: p^f/f 2F1(f, f; f+1; 1-p), for any f; ``approx``: the same up to f = 2 and
        p / (f - 1 + p) beyond, as in sdcMicro, at most 4.1 % too high for whole f.
    frequencies
        f and F; by default those with missing keys matching any level
        (`unikat.classics.frequencies.frequencies`).

    Notes
    -----
    Benedetti and Franconi (1998), "Statistical and technological solutions for controlled data
    dissemination"; Franconi and Polettini (2004), "Individual risk estimation in mu-Argus: a
    review". Weights below 1 on average would make p exceed 1: it is then 1, and the risk 1/f.

    Raises
    ------
    SpecError
        If there is no such method.

    Examples
    --------
    >>> from unikat.data import Key
    >>> table = CellTable.from_codes([[0], [0], [1]], [Key.of_size("SEX", 2)], population_size=30)
    >>> individual_risk(table).round(4).tolist()
    [0.0827, 0.2558]
    """
    compute = {"exact": kernels.exact_risk, "approx": kernels.approximate_risk}.get(method)
    if compute is None:
        raise SpecError(
            f"method is {method!r}; the individual risk is 'exact' or 'approx'."
            + suggest(str(method), ("exact", "approx"))
        )
    found = frequencies_of(table) if frequencies is None else frequencies
    risk = np.empty(len(found.sample))
    compute(found.sample, np.minimum(found.sample / found.population, 1.0), risk)
    return risk


def household_risk(risk: Float64, household: ArrayLike) -> Float64:
    """Risk of the household of every record, (n_records,): that of any member, 1 - prod(1 - r).

    Members are taken to be re-identified independently.

    Parameters
    ----------
    risk
        (n_records,) risks of the records, 0 to 1.
    household
        (n_records,) whole numbers, the same for the records of one household; -1: the record is a
        household of its own.

    Raises
    ------
    DataError
        If the households are not one whole number of -1 or more per record.

    Examples
    --------
    >>> household_risk(np.array([0.5, 0.1, 0.5]), [7, 3, 7]).round(12).tolist()
    [0.75, 0.1, 0.75]
    """
    codes = np.asarray(household)
    if codes.shape != risk.shape or codes.dtype.kind not in "iu" or codes.min(initial=0) < -1:
        raise DataError(
            f"Households must be {len(risk):,} whole numbers, one per record, -1 for a record "
            f"without a household; got an array of {codes.dtype} of shape {codes.shape}."
        )
    alone = codes == -1
    _, number = np.unique(codes, return_inverse=True)
    # A risk of 1 has the logarithm -inf, and leaves a household the risk 1.
    with np.errstate(divide="ignore"):
        none = np.bincount(number, np.log1p(-risk))
    found: Float64 = np.where(alone, risk, -np.expm1(none)[number])
    return found
