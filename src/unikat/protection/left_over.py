"""The risk with columns that are left in a file, beside its keys, from the states of one fit.

An intruder who knows a column C beside the keys looks for records that are alone with what they
show of both. The fit tells the probability p of a cell of the keys. A share π of the persons of the
cell has the record's value of C, so the cell of both has the probability p π, and its risk follows
as that of any cell. π is not modelled by the fit. It is estimated within each cell, by

    π ~ Beta(n_rc + α b, n_r - n_rc + α (1 - b))

with n_r records of the cell, n_rc of them with the value, and b the share of the value among the
records of other cells that agree in all keys but the one that tells least of C. That is drawn in
the same way towards the share by one key less, and so on to the share in the file; each α is the
most probable one. Where cells tell nothing of C, α is large and π is b; where they tell all, α is
small and π follows them. A π is drawn for every state. Several columns are added one after the
other, each within the cells of the keys and the columns before, so that all together are one more
question to the same states.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.companions import companions_of
from unikat.data.patterns import distinct
from unikat.protection.linked import Pairs
from unikat.protection.recoded_law import recoded_exposure
from unikat.protection.recoding import Recoding
from unikat.protection.what_if import Posterior
from unikat.risk.by_class import Look
from unikat.risk.estimate import Summary
from unikat.risk.exposure import Exposure
from unikat.risk.law import State, others
from unikat.risk.predictive import Law

N_STATES = 128
"""States by which the risk is computed."""
_MOST_BEFORE = 12
"""Columns among which the one is looked for that tells most of the next, where all are known."""
_ALPHAS = (1e-3, 1e7)
_NODES = 100
"""Of log α, where it is drawn."""
_USUAL = 20.0
"""Median of α before anything is seen."""
_NOTHING = np.full(3, np.nan)


class Known(NamedTuple):
    """The risk of an intruder who knows more than the keys."""

    n_uniques: int
    """Complete records that are alone with what he knows."""
    tau1: Summary | None
    """Those alone in the population; None if no state tells it."""


class Share(NamedTuple):
    """The law of the share of a record's cell that has its value of a column, (n,) each."""

    ours: Float64
    """First parameter of the Beta distribution."""
    rest: Float64
    """The second one."""

    @classmethod
    def of(cls, values: Int64, contexts: Sequence[Int64]) -> Share:
        """Estimate it.

        Parameters
        ----------
        values
            (n,): the value of each record.
        contexts
            (n,) each: the cell of each record by ever more of what is known, the last by all of it.
        """
        n, half = len(values), 0.5 * float(np.count_nonzero(np.bincount(values)))
        n_both, n_cell, alpha = np.bincount(values)[values], np.full(n, n), half
        base = np.full(n, 0.5 / half)
        for context in contexts:
            n_finer, n_context = _together(values, context), np.bincount(context)[context]
            # What the other records say; else each context would be predicted by itself.
            base = (n_both - n_finer + alpha * base) / (n_cell - n_context + alpha)
            n_both, n_cell, alpha = n_finer, n_context, best(values, context, base)
        base = np.clip(base, 1e-12, 1.0 - 1e-12)
        return cls(n_both + alpha * base, n_cell - n_both + alpha * (1.0 - base))


def _together(values: Int64, cell: Int64) -> Int64:
    """Records of the same cell and value as each one, (n,)."""
    both = cell * (int(values.max(initial=0)) + 1) + values
    _, place, counts = np.unique(both, return_inverse=True, return_counts=True)
    found: Int64 = counts[place.ravel()].astype(np.int64)
    return found


def best(values: Int64, cell: Int64, base: Float64) -> float:
    """The α with which the cells are most probable, each a multinomial with Dirichlet shares."""
    from scipy.optimize import minimize_scalar

    likelihood = Concentration.of(values, cell, base)
    found = minimize_scalar(
        lambda log: -likelihood.log(np.exp(log)),
        bounds=np.log(_ALPHAS),
        method="bounded",
        options={"xatol": 0.02},
    )
    return float(np.exp(found.x))


class Concentration(NamedTuple):
    """What cells tell of α."""

    share: Float64
    """(n_both,): b of each value that a cell has."""
    counts: Int64
    """(n_both,): records with it."""
    sizes: Int64
    """(n_cells,): records of each cell."""

    @classmethod
    def of(cls, values: Int64, cell: Int64, base: Float64) -> Concentration:
        """Gather it; (n,) each, `base` b of the record's value in its cell."""
        both = cell * (int(values.max(initial=0)) + 1) + values
        _, first, counts = np.unique(both, return_index=True, return_counts=True)
        sizes = np.bincount(cell)
        return cls(np.maximum(base[first], 1e-12), counts, sizes[sizes > 0])

    def log(self, alpha: float) -> float:
        """Log-probability of the cells, up to a constant."""
        from scipy.special import gammaln

        share, counts, sizes = self
        found = (gammaln(alpha * share + counts) - gammaln(alpha * share)).sum()
        return float(found - (gammaln(alpha + sizes) - gammaln(alpha)).sum())


def draw_concentration(
    likelihood: Callable[[float], float], n: int, generator: np.random.Generator
) -> Float64:
    """Draw α, (n,), by its log-likelihood; beforehand it is log-logistic about `_USUAL`.

    One draw lies in each n-th of its distribution, so that few draws show all of it.
    """
    low, high = np.log(_ALPHAS)
    logs = np.linspace(low, high, _NODES)
    prior = logs - 2.0 * np.logaddexp(logs, np.log(_USUAL))
    weights = np.array([likelihood(float(alpha)) for alpha in np.exp(logs)]) + prior
    weights = np.exp(weights - weights.max())
    ends = np.append(logs - 0.5 * (logs[1] - logs[0]), logs[-1] + 0.5 * (logs[1] - logs[0]))
    below = np.append(0.0, weights.cumsum() / weights.sum())
    places = (generator.permutation(n) + generator.random(n)) / n
    found: Float64 = np.exp(np.interp(places, below, ends))
    return found


def known(
    posterior: Posterior,
    recoding: Recoding,
    visible: Int32,
    columns: Mapping[str, Int32],
    level: float,
    exact: Collection[str] = (),
    released: Int64 | None = None,
) -> dict[str | None, Known]:
    """Tell the risk with each column beside the keys, and with all of them.

    Parameters
    ----------
    posterior
        Of the keys as they were.
    recoding
        Of the keys.
    visible
        (n, n_recoded_keys): what the records show, -1 where nothing.
    columns
        (n,) numbers of the values of each, -1 where missing, which is a value like others.
    level
        Probability of the intervals.
    exact
        Columns of exact measurements: their values in the population are others than those of the
        records, so that sample uniques are counted alone, and they are not among all columns.
    released
        Which of the records are in the file; None: all. The others stay in the population.

    Returns
    -------
    dict
        By column, "" for none beside the keys and None for all, where there are several.
    """
    complete = np.flatnonzero((visible >= 0).all(axis=1))
    if not len(complete):
        return {name: Known(0, None) for name in ("", *columns)}
    there = np.ones(len(visible), np.bool_)
    if released is not None:
        there = np.isin(np.arange(len(visible)), released)
    there, keys = there[complete], visible[complete]
    found = distinct(keys, [one.key.n_levels for one in recoding.keys if one.key is not None])
    cell = found.place.astype(np.int64)
    values = {
        name: np.unique(one[complete], return_inverse=True)[1].ravel().astype(np.int64)
        for name, one in columns.items()
    }
    asked: dict[str | None, _Asked] = {"": _Asked(cell, ())}
    before, joint, shares = [*keys.T.astype(np.int64)], cell, []
    counted = {}
    for name in sorted(values, key=lambda one: int(values[one].max(initial=0))):
        one = values[name]
        if name in exact:
            counted[name] = Known(_n_uniques(numbered(cell, one)[there]), None)
            continue
        alone = Share.of(one, contexts(one, before[: keys.shape[1]]))
        asked[name] = _Asked(numbered(cell, one), (alone,))
        (closest,) = contexts(one, [*before[: keys.shape[1]], *before[-_MOST_BEFORE:]], 1)
        shares.append(Share.of(one, (closest, joint)))
        joint, before = numbered(joint, one), [*before, one]
    if len(shares) > 1:
        asked[None] = _Asked(joint, tuple(shares))
    rows = [
        np.flatnonzero(there & (np.bincount(one.cell)[one.cell] == 1)) for one in asked.values()
    ]
    laws = _laws(posterior, recoding, keys[found.first], cell, asked.values(), rows)
    return counted | {
        name: Known(_n_uniques(one.cell[there]), None if law is None else law.tau1(level))
        for (name, one), law in zip(asked.items(), laws, strict=True)
    }


class _Asked(NamedTuple):
    """What an intruder knows."""

    cell: Int64
    """(n,): cell of each record by it."""
    shares: tuple[Share, ...]
    """Of each column beside the keys, within the cells of what comes before it."""


def _n_uniques(cell: Int64) -> int:
    """Records that are alone in their cell."""
    return int((np.bincount(cell) == 1).sum())


def _laws(
    posterior: Posterior,
    recoding: Recoding,
    cells: Int32,
    cell: Int64,
    asked: Collection[_Asked],
    rows: Sequence[Int64],
) -> list[Law | None]:
    """Tell the law of τ1 of some records for everything that is asked, by the same states."""
    table = recoding.table(posterior.table)
    if table.n_units == table.n_records:
        return [Law([State(np.ones(len(some)), _NOTHING)]) for some in rows]
    if not posterior.states:
        return [None] * len(asked)
    states: list[list[State]] = [[] for _ in asked]
    for number, look, exposure, chances in looks(posterior, recoding, cells, N_STATES):
        generator = np.random.default_rng([look.stream.seed, number])
        for one, some, found in zip(asked, rows, states, strict=True):
            of_both = exposure.taken(chances, cell[some])
            if one.shares:
                p = exposure.probabilities(of_both)
                for share in one.shares:
                    p = p * generator.beta(share.ours[some], share.rest[some])
                of_both = exposure.scaled(of_both, p)
            r1 = others(look, exposure, of_both, np.ones(len(some))).alone
            found.append(State(r1, _NOTHING))
    return [Law(one) for one in states]


def looks(
    posterior: Posterior, recoding: Recoding, cells: Int32, most: int
) -> Iterator[tuple[int, Look, Exposure, Any]]:
    """Look at states of the posterior, with their chances of some cells.

    Parameters
    ----------
    recoding, cells
        Of the keys, and (n, n_recoded_keys) cells of the recoded table.
    most
        States, spread over the chains, at most.

    Returns
    -------
    iterator
        Number of the state from 0, the state, how unobserved units relate to records, and the
        chances, as `risk.law.others` takes them.
    """
    table = recoding.table(posterior.table)
    exposure = recoded_exposure(posterior.table, recoding, table)
    model, companions = posterior.recoded(recoding, table), companions_of(table, cells)
    every = [at for chain in posterior.states for at in chain]
    places = np.linspace(0, len(every) - 1, min(most, len(every))).round().astype(int)
    for number, at in enumerate(places):
        stream, state = every[at]
        look = Look(stream, model, state, posterior.data)
        chances = exposure.chances(look, cells, companions)
        yield number, look, exposure, chances


def contexts(values: Int64, columns: Sequence[Int64], most: int | None = None) -> list[Int64]:
    """Cells by ever more columns, first those that tell most of the values."""
    return [context for _, context in nested(values, columns, most)]


def nested(
    values: Int64, columns: Sequence[Int64], most: int | None = None
) -> list[tuple[int, Int64]]:
    """Which column is taken next, and the cells by all that are taken."""
    found: list[tuple[int, Int64]] = []
    left, context = list(range(len(columns))), np.zeros_like(values)
    for _ in range(len(columns) if most is None else most):
        finer = [numbered(context, columns[one]) for one in left]
        gains = [
            Pairs.of(values, one).follows(np.zeros(int(one.max()) + 1, np.int32)) for one in finer
        ]
        place = int(np.argmax(gains))
        context = finer[place]
        found.append((left.pop(place), context))
    return found


def numbered(one: Int64, two: Int64) -> Int64:
    """Number the pairs of two numbers, (n,) each, from 0 in their order."""
    both = one * (int(two.max(initial=0)) + 1) + two
    found: Int64 = np.unique(both, return_inverse=True)[1].ravel().astype(np.int64)
    return found
