"""Risk of two releases together: records that an intruder links right, by the keys of both.

Of record i, which is linked right with probability l_i, the keys of both files are known to him who
links it right. With F_i the units of the population that share them,

    τ1 = #{i: linked right, F_i = 1},    τ2 = Σ 1 / F_i over the records that are linked right,

both over the records that are unique in the file by the keys of both. Each draw has a state of the
posterior, a population given it, and links with these probabilities.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unikat._typing import Float64
from unikat.protection.learned import laws_of, summarised
from unikat.protection.recoding import parse_recoding
from unikat.protection.what_if import Posterior
from unikat.risk.estimate import Summary
from unikat.risk.law import Others

DRAWS = 400
"""Of populations and links, at least; as many of each state."""


@dataclass(frozen=True, kw_only=True)
class Cumulative:
    """What an intruder finds who has both releases."""

    tau1: Summary
    """Records that he links right and that are unique in the population by the keys of both."""
    tau2: Summary
    """Correct matches of records that he links right."""


def cumulative(posterior: Posterior, right: Float64, level: float, seed: int) -> Cumulative | None:
    """Estimate the risk of the records that are linked right.

    Parameters
    ----------
    posterior
        Of the keys of both files.
    right
        (n_records,) probability that each record is linked right.
    level
        Probability of the intervals.
    seed
        Of the draws of populations and links.

    Returns
    -------
    Cumulative or None
        None where no state tells the risk.
    """
    table = posterior.table
    if not posterior.states and table.n_units > table.n_records:
        return None
    cells = np.flatnonzero(table.unique & ~table.incomplete)
    chance = np.zeros(table.n_cells)
    # A cell of one record has that record's chance.
    chance[table.record_cell] = right
    chance = chance[cells]
    unchanged = parse_recoding(table, {})
    every = list(laws_of(posterior, unchanged, table.cells[cells], np.ones(len(cells))))
    again = -(-DRAWS // len(every))
    totals = np.array(
        [
            _drawn(law, chance, np.random.default_rng([seed, number, draw]))
            for number, law in enumerate(every)
            for draw in range(again)
        ]
    )
    return Cumulative(tau1=summarised(totals[:, 0], level), tau2=summarised(totals[:, 1], level))


def _drawn(law: Others, chance: Float64, generator: np.random.Generator) -> tuple[float, float]:
    """Draw a population and links: population uniques and the sum of 1/F of those linked right."""
    unseen = law.drawn(generator)
    right = generator.random(len(chance)) < chance
    return float((unseen[right] == 0).sum()), float((1.0 / (1.0 + unseen[right])).sum())
