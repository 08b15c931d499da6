"""What pairs of records tell of correct matches, without a model.

An intruder takes a unit of the population at random among those that match a sample unique. With F
units in the cell of a sample unique, the share of such matches that are correct is

    theta = n1 / sum of F over the n1 sample uniques,

and sample twins tell how many others there are: records i and j that are alone together in a cell
with chances pi_i and pi_j stand for (1 - pi_j) / pi_j units besides a sample unique i, and the
other way round. So theta is estimated by

    n1 / (n1 + sum over the records of pairs of (w - 1)),

w = 1 / pi the weight of a record; with equal chances, pi n1 / (pi n1 + 2 (1 - pi) n2). A mean of
inverses is not below the inverse of the mean, so n1 theta bounds tau2 from below, up to sampling
error.

C. J. Skinner and M. J. Elliot (2002), A measure of disclosure risk for microdata, *Journal of the
Royal Statistical Society B* 64, 855-867; with weights C. J. Skinner and R. G. Carter (2003),
Estimation of a measure of disclosure risk for survey microdata under unequal probability sampling,
*Survey Methodology* 29, 177-180.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from unikat.data.table import CellTable

Z = 3.0
"""Standard errors by which the interval of tau2 has to end below the bound to be doubted: about one
file in a thousand by chance."""
FEWEST_PAIRS = 10.0
"""Pairs of equal weight that tell as much, at least. Of fewer the number varies too much for the
standard error, and none at all would say that all matches are correct."""


@dataclass(frozen=True, kw_only=True)
class MatchBound:
    """A lower bound of tau2 that no model was needed for."""

    value: float
    """n1 theta, correct matches."""
    standard_error: float
    """Of the value, from the sampling of the records."""

    def contradicts(self, upper: float) -> bool:
        """Whether an interval that ends there is too low to be sampling error."""
        return self.value - Z * self.standard_error > upper

    @property
    def warning(self) -> str:
        """Say that tau2 is too low."""
        return (
            f"Pairs of records in the file tell, without a model, of {self.value:.1f} correct "
            f"matches or more (standard error {self.standard_error:.1f}), which the interval of τ2 "
            "is below: the population size, the weights or the model are wrong. Do not rely on τ1 "
            "and τ2."
        )


def match_bound(table: CellTable) -> MatchBound | None:
    """Estimate the bound; None where the pairs of the file do not tell it.

    That is of a census, of files without sample uniques or with fewer than ten pairs, with missing
    keys or records held back, and where members of households were drawn together.

    Examples
    --------
    A tenth of the population, 30 sample uniques and 10 pairs.

    >>> from unikat.data.keys import Key
    >>> codes = [[i] for i in [*range(40), *range(30, 40)]]
    >>> table = CellTable.from_codes(codes, [Key.of_size("K", 40)], population_size=500)
    >>> bound = match_bound(table)
    >>> round(bound.value, 2), round(bound.standard_error, 2)
    (4.29, 1.86)
    """
    drawn_together = table.households is not None or table.layout is not None
    if drawn_together or table.held is not None or bool(table.incomplete.any()):
        return None
    n1 = float(table.n_uniques)
    if n1 == 0.0 or table.n_units == table.n_records:
        return None
    pairs = np.flatnonzero(table.counts == 2)
    others = np.maximum(table.cell_weights[pairs] - 2.0, 0.0)
    squares = float(np.square(others).sum())
    if float(others.sum()) ** 2 < FEWEST_PAIRS * squares or squares == 0.0:
        return None
    total = n1 + float(others.sum())
    value = n1 * n1 / total
    # Cells are sampled independently: the variance of a number of cells is at most their number.
    by_unique = (2.0 * n1 * total - n1 * n1) / total**2
    by_pair = n1 * n1 / total**2
    variance = by_unique**2 * n1 + by_pair**2 * squares
    return MatchBound(value=value, standard_error=math.sqrt(variance))
