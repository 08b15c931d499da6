"""The risk of recoded keys from the states of a fit, without another fit.

Every state of the posterior gives the probabilities of the recoded cells (`models.recoded`), and
these the risk measures. So one fit answers for every recoding, with the same intervals as a fit of
the recoded file. States of the chains are drawn once; all recodings are looked at with the same
states, so that differences between them are more precise than their values.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache, partial, reduce
from itertools import islice
from typing import Any

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.companions import companions_of
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.inference.diagnostics import diagnose
from unikat.inference.draws import Draws, add_totals
from unikat.inference.processes import available_cores
from unikat.models.base import AnyLaw, AnyModel, Stream
from unikat.models.recoded import Recoded
from unikat.protection.decided import decided, told
from unikat.protection.going_on import N_STATES, Ends, GoingOn
from unikat.protection.recoded_law import grouping, recoded_exposure, recoded_model
from unikat.protection.recoding import Recoding, Rule, parse_recoding
from unikat.protection.search import Value
from unikat.risk.by_class import Look, probabilities
from unikat.risk.estimate import RiskEstimate, assess, known_exactly
from unikat.risk.exposure import EqualChances, exposure_of, fitted_table
from unikat.risk.law import Moments, State, moments, others, smallest_at_least
from unikat.risk.limits import Measured, smallest
from unikat.risk.measures import TAUS, RiskMeasures
from unikat.risk.predictive import Law, by_law
from unikat.risk.shown import SHOWN
from unikat.spec.limits import Limit
from unikat.studies.fit import Fit

FEW = 8
"""States by which a search looks at a recoding first."""
_STAGES = FEW, 32, 128
"""Numbers of states that are looked at before all are."""
_THRESHOLDS = 12
"""Sizes of the smallest combination of the population that are asked for at a time."""
_PARTS = 8
"""In which states are looked at at the same time, whatever the number of threads."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Posterior:
    """States of the posterior of a fit, kept to look at recoded keys. Made by :meth:`of`."""

    table: CellTable = field(repr=False)
    """The sample."""
    fitted: CellTable = field(repr=False)
    """The table that the model was fitted to: with a design the class is one more key."""
    model: AnyModel
    data: Any = field(repr=False)
    states: tuple[tuple[tuple[Stream, Any], ...], ...] = field(repr=False)
    """Of each chain; none where the file itself tells the risk."""
    stop_reason: str = "converged"
    """Of the fit: states of chains that have not converged tell no more than these."""
    between: Callable[[], None] | None = field(default=None, repr=False)
    """Called before a state is looked at; what it raises ends the look."""

    @classmethod
    def of(
        cls,
        fit: Fit,
        n_states: int = N_STATES,
        n_threads: int | None = None,
        progress: Callable[[float], None] | None = None,
    ) -> Posterior:
        """Go on from the last states of the chains of a fit, and keep states.

        Parameters
        ----------
        fit
            Of a mixture model, alone or selected by `auto`, to records drawn one by one or by a
            design.
        n_states
            Kept of all chains; fewer where they would take more than `MOST_BYTES`.
        n_threads
            Chains that go on at the same time; None: one for each core. No number depends on it.
        progress
            Given the share that is done, now and then.
        """
        if fit.draws is None:
            return cls.without_model(fit.table, fit.model)
        grouping(fit.model)
        fitted = fitted_table(fit.table)
        data = fit.model.prepare(fitted)
        ends = Ends.of(fit.draws)
        going = GoingOn(ends=ends, n_states=n_states, n_threads=n_threads, progress=progress)
        states = going.states(fit.model, data)
        return cls(
            table=fit.table,
            fitted=fitted,
            model=fit.model,
            data=data,
            states=states,
            stop_reason=fit.draws.stop_reason,
        )

    @classmethod
    def without_model(cls, table: CellTable, model: Any = None) -> Posterior:
        """Without states, for what the table itself tells."""
        return cls(table=table, fitted=table, model=model, data=None, states=())

    @cached_property
    def within_sample(self) -> Posterior:
        """The same for one who knows who is in the sample: nobody is unobserved, N = n."""
        table = replace(
            self.table,
            population_size=self.table.n_records,
            sampling=None,
            margins=(),
            presence_known=True,
        )
        return replace(self, table=table)

    def look(
        self,
        recoding: Recoding,
        *,
        n_states: int | None = None,
        n_threads: int | None = None,
        between: Callable[[], None] | None = None,
        laws: dict[str, Law] | None = None,
    ) -> Draws | None:
        """Draw the risk measures of a recoded table, as of a fit to it.

        Parameters
        ----------
        recoding
            Of the keys of the table.
        n_states
            States that are looked at, spread over the chains; None: all.
        n_threads
            None: one for each core. No number depends on it.
        between
            Called before each state, by any thread; what it raises ends the look.
        laws
            The laws of `TAUS` are put into it, by the first's name, and where records are imputed
            those of `SHOWN`.

        Returns
        -------
        Draws or None
            None where the recoded file itself tells the risk.
        """
        table = recoding.table(self.table)
        if known_exactly(table) or not self.states:
            return None
        model = self.recoded(recoding, table)
        # Which key raises the risk is asked by recoding it.
        exposure = recoded_exposure(self.table, recoding, table)
        measures = RiskMeasures.of(table, each_key=False, exposure=exposure)
        each = len(self.states[0]) if n_states is None else n_states // len(self.states)
        each = min(max(each, 1), len(self.states[0]))
        taken = np.linspace(0, len(self.states[0]) - 1, each).round().astype(int).tolist()
        looks = [
            (c, i, chain[at]) for c, chain in enumerate(self.states) for i, at in enumerate(taken)
        ]
        scalars: dict[str, Float64] = {}
        found: list[Mapping[str, float] | None] = [None] * len(looks)
        said: list[dict[str, State]] = [{} for _ in looks]

        def observe(part: int) -> Any:
            totals = measures.start()
            for number in range(part, len(looks), _PARTS):
                if between is not None:
                    between()
                stream, state = looks[number][2]
                look = Look(stream, model, state, self.data)
                found[number] = measures.look(look, totals, None if laws is None else said[number])
            return totals

        with ThreadPoolExecutor(n_threads or available_cores()) as pool:
            totals = reduce(add_totals, pool.map(observe, range(_PARTS)))
        for (chain, draw, _), values in zip(looks, found, strict=True):
            assert values is not None
            for name, value in values.items():
                if name not in scalars:
                    scalars[name] = np.empty((len(self.states), each))
                scalars[name][chain, draw] = value
        if laws is not None:
            for name in (TAUS[0], SHOWN[0]):
                if states := [one[name] for one in said if name in one]:
                    laws[name] = Law(states)
        return Draws(
            scalars=scalars,
            n_discarded=0,
            totals=totals,
            thin=1,
            n_sweeps=each,
            n_chains=len(self.states),
            seed=looks[0][2][0].seed,
            seconds=0.0,
            converged=self.stop_reason == "converged",
            stop_reason=self.stop_reason,
            diagnostics={name: diagnose(scalars[name]) for name in measures.monitored},
            model=model,
            observer=measures,
        )

    def what_if(self, rules: Mapping[str, Rule] | Recoding, level: float = 0.95) -> RiskEstimate:
        """Estimate the risk of the file with recoded keys.

        Parameters
        ----------
        rules
            See `parse_recoding`; or a recoding.
        level
            Probability of the equal-tailed intervals, between 0 and 1.

        Returns
        -------
        RiskEstimate
            τ1, τ2 and the risk of each pattern of the recoded table; without the falls in risk by
            key.
        """
        recoding = rules if isinstance(rules, Recoding) else parse_recoding(self.table, rules)
        return self.estimate(recoding, level)

    def estimate(
        self,
        recoding: Recoding,
        level: float,
        *,
        n_states: int | None = None,
        between: Callable[[], None] | None = None,
    ) -> RiskEstimate:
        """Estimate the risk of the file with recoded keys, by all states or some of them.

        τ1, τ2 and their intervals are those of the laws of the states (`risk.predictive`): no
        population is drawn. Arguments as of `look`.
        """
        laws: dict[str, Law] = {}
        draws = self.look(recoding, n_states=n_states, between=between, laws=laws)
        table = recoding.table(self.table)
        found = assess(draws, table, level=level)
        if draws is None:
            return found
        return by_law(found, laws[TAUS[0]], laws.get(SHOWN[0]), self.sizes(table))

    def sizes(self, table: CellTable) -> Int64 | None:
        """Persons of the households of a recoded table, (n_cells,); None if units are persons."""
        # The size is never recoded, and stands first.
        return None if self.table.layout is None else table.cells[:, 0].astype(np.int64) + 1

    def measured(
        self,
        recoding: Recoding,
        limit: Limit,
        level: float,
        found: RiskEstimate | None = None,
    ) -> float:
        """Find the number that a limit of a recoded file is judged by, by all states.

        Parameters
        ----------
        recoding, limit
            What is recoded, and the limit.
        level
            Probability of the intervals.
        found
            The estimate of the recoding (`what_if`), if there is one already.
        """
        if limit.plain == "population_k":
            return self._population_k(recoding, level)
        found = self.what_if(recoding, level) if found is None else found
        value = Measured.of(found).value(limit)
        if value is None:
            raise SpecError(f"{limit.measure} is not known of this file; set another limit.")
        return value

    def value(self, recoding: Recoding, limit: Limit, level: float) -> Value:
        """Find on which side of a limit a recoding is: by few states if they tell, else by all.

        The measure is that of the states that were looked at. τ1 is a mean of expected values; it
        is not known (NaN) of measures that are counted or looked at record by record.
        """
        table = recoding.table(self.table)
        if limit.plain == "k":
            return Value(smallest(table), math.nan)
        if limit.plain == "population_k":
            return self._population_k_beside(limit.bound, recoding, table, level)
        if known_exactly(table) or not self.states:
            found = assess(None, table, level=level)
            return Value(self.measured(recoding, limit, level, found), found.tau1.mean)
        if _imputes(table) and limit.plain in ("r1", "records"):
            found = self.estimate(recoding, level)
            return Value(self.measured(recoding, limit, level, found), found.tau1.mean)
        n_all = sum(map(len, self.states))
        for law in self._laws(recoding, table, of_sums=limit.plain.startswith("tau2")):
            known, value = told(law, limit, level, every=len(law.states) >= n_all)
            if known:
                break
        return value

    def tau1(self, recoding: Recoding) -> float:
        """Expected τ1 of a recoding by few states; by all of them it is that of `what_if`."""
        table = recoding.table(self.table)
        if known_exactly(table) or not self.states:
            return assess(None, table).tau1.mean
        return float(self.law(recoding, table, FEW, of_sums=False).means.mean())

    def law(
        self, recoding: Recoding, table: CellTable, n_states: int, *, of_sums: bool = True
    ) -> Law:
        """Return the laws of τ1 and τ2 by some states; of incomplete records by what they show.

        Without `of_sums` that of τ2, which takes most of the time, is not known (NaN).
        """
        return next(self._laws(recoding, table, (n_states,), of_sums=of_sums))

    def _laws(
        self,
        recoding: Recoding,
        table: CellTable,
        stages: Sequence[int] | None = None,
        *,
        of_sums: bool,
    ) -> Iterator[Law]:
        """Laws by more and more states, at last by all; what was looked at is kept."""
        stages = _stages(sum(map(len, self.states))) if stages is None else stages
        if _imputes(table):
            for n_states in stages:
                laws: dict[str, Law] = {}
                self.look(recoding, n_states=n_states, laws=laws)
                yield laws.get(SHOWN[0], laws[TAUS[0]])
            return
        unique = table.unique
        if not of_sums:
            # A cell of which records are held back has no population unique.
            unique = unique & (table.frequency == 1)
        cells = np.ascontiguousarray(table.cells[unique])
        states: Iterator[State]
        if of_sums:
            frequency = table.frequency[unique].astype(np.float64)
            states = map(State.of, self.moments(recoding, table, cells, frequency, None))
        else:
            nothing = np.full(3, np.nan)
            states = (State(r1, nothing) for r1 in self._alone(recoding, table, cells, None))
        seen: list[State] = []
        places = _spread(sum(map(len, self.states)))
        for n_states in stages:
            seen += islice(states, n_states - len(seen))
            # In the order of the states, so that all of them give the numbers of the page.
            order = np.argsort(places[: len(seen)])
            yield Law([seen[place] for place in order])

    def _alone(
        self,
        recoding: Recoding,
        table: CellTable,
        patterns: Int32,
        n_states: int | None,
        model: Recoded | None = None,
    ) -> Iterator[Float64]:
        """P(X = 0) of patterns of one record, state by state; `moments`, and the recoded law."""
        model = model or self.recoded(recoding, table)
        exposure = recoded_exposure(self.table, recoding, table)
        companions = companions_of(table, patterns)
        ones = np.ones(len(patterns))
        for look in self._looks(model, n_states):
            chances = exposure.chances(look, patterns, companions)
            # A drawn error would differ from set to set of keys, and lucky ones be taken.
            yield others(look, exposure, chances, ones).alone

    def moments(
        self,
        recoding: Recoding,
        table: CellTable,
        patterns: Int32,
        frequency: Float64,
        n_states: int | None,
    ) -> Iterator[Moments]:
        """Tell the risks of patterns, state by state.

        Parameters
        ----------
        recoding, table
            The recoding, and the table that it gives.
        patterns, frequency
            (n, n_recoded_keys), -1 for a key that is not shown; and (n,) records that agree.
        n_states
            States that are looked at, spread over the chains; None: all, the first of which are so.
        """
        model = self.recoded(recoding, table)
        exposure = recoded_exposure(self.table, recoding, table)
        companions = companions_of(table, patterns)
        for look in self._looks(model, n_states):
            chances = exposure.chances(look, patterns, companions)
            yield moments(look, exposure, chances, frequency)

    def recoded(
        self,
        recoding: Recoding,
        recoded: CellTable,
        matrices: Mapping[int, Float64] | None = None,
    ) -> Recoded:
        """Return the law of the recoded keys; arguments as of `recoded_model`."""
        return recoded_model(self.model, self.fitted, self.table, recoding, recoded, matrices)

    def _looks(self, model: AnyLaw, n_states: int | None) -> Iterator[Look]:
        """Some of the states, spread over the chains; None: all, so that the first are spread."""
        every = [at for chain in self.states for at in chain]
        if n_states is None:
            taken = _spread(len(every))
        else:
            n_taken = min(n_states, len(every))
            taken = tuple(np.linspace(0, len(every) - 1, n_taken).round().astype(int).tolist())
        for at in taken:
            if self.between is not None:
                self.between()
            yield Look(every[at][0], model, every[at][1], self.data)

    def margin_risk(
        self, recoding: Recoding, n_states: int = N_STATES
    ) -> Callable[[Int32], Float64]:
        """Return what tells r1 of a record that shows some of the recoded keys.

        It takes patterns (n, n_recoded_keys), -1 for a key that is not shown, each of one record
        that no other agrees with, and gives the probability that nobody else of the population
        does, (n,).
        """
        table = recoding.table(self.table)
        if not self.states:  # Nobody is unobserved: who is alone in the sample is alone.
            return lambda patterns: np.ones(len(patterns))
        model = self.recoded(recoding, table)

        def risk(patterns: Int32) -> Float64:
            total = np.zeros(len(patterns))
            if not len(patterns):
                return total
            for r1 in self._alone(recoding, table, patterns, n_states, model):
                total += r1
            mean: Float64 = total / min(n_states, sum(map(len, self.states)))
            return mean

        return risk

    def arrivals(
        self,
        recoding: Recoding,
        table: CellTable,
        matrices: Mapping[int, Float64],
        cells: Int32,
        n_states: int,
    ) -> Iterator[tuple[Float64, Float64]] | None:
        """Expected persons truly in recoded cells, and others whom PRAM would put there.

        PRAM acts on each profile of a mixture by itself, so that the second is exact, but for keys
        that members of sampled households share: there the law of both levels is that of the
        perturbed keys, which in trials was off by some percent.

        Parameters
        ----------
        recoding, table
            The recoding, and the table that it gives.
        matrices
            Transition matrix of some recoded keys, by their column.
        cells
            (n, n_recoded_keys), no key missing.
        n_states
            States that are looked at, spread over the chains.

        Returns
        -------
        iterator or None
            Both (n,), state by state; None where the persons of a cell are not simply N p: with a
            design or impossible cells, or where nobody is unobserved.
        """
        exposure = exposure_of(table)
        if not self.states or self.fitted.zeros is not None:
            return None
        if not isinstance(exposure, EqualChances):
            return None
        model, drawn = self.recoded(recoding, table), self.recoded(recoding, table, matrices)
        stays = np.ones(len(cells))
        for column, matrix in matrices.items():
            stays *= np.diag(matrix)[cells[:, column]]
        size, companions = float(table.n_units), companions_of(table, cells)

        def states() -> Iterator[tuple[Float64, Float64]]:
            for look in self._looks(model, n_states):
                stream, _, state, data = look
                p = model.cell_probabilities(stream, state, data, cells)
                q = drawn.cell_probabilities(stream, state, data, cells)
                own = probabilities(look, cells, companions)
                erring = look.erring(own, np.ones(len(cells)), None)
                yield size * erring, size * np.maximum(q - p * stays, 0.0)

        return states()

    def _population_k(self, recoding: Recoding, level: float) -> float:
        """Lower end of the interval of the smallest F of a record's combination."""
        table = recoding.table(self.table)
        low = _least_known(table)
        if self._shows_population(table):
            return low
        n_all = sum(map(len, self.states))
        law = partial(self._smallest, recoding, table, n_all)
        return _lower_end(law, low, table.n_units + 1.0, level)

    def _population_k_beside(
        self, bound: float, recoding: Recoding, table: CellTable, level: float
    ) -> Value:
        """The same, if it is below a bound; by few states if they tell that, else by all."""
        tau1 = assess(None, table).tau1.mean if known_exactly(table) else math.nan
        low, bound = _least_known(table), math.ceil(bound)
        if low >= bound or self._shows_population(table):
            # F is at least the number of records.
            return Value(low, tau1)
        needed, n_all = (1.0 + level) / 2.0, sum(map(len, self.states))
        for n_states in _stages(n_all):
            law = partial(self._smallest, recoding, table, n_states)
            reached = law(np.array([float(bound)]))[:, 0]
            if decided(reached, needed):
                break
        met = float(reached.mean()) > needed
        return Value(float(bound) if met else _lower_end(law, low, bound, level), tau1)

    def _shows_population(self, table: CellTable) -> bool:
        """Nobody is unobserved, or the sample has no uniques and was not modelled."""
        return not self.states or table.n_units == table.n_records

    def _smallest(
        self, recoding: Recoding, table: CellTable, n_states: int, thresholds: Float64
    ) -> Float64:
        """P(smallest F >= k) of each state for some k, (n_states, n_thresholds)."""
        model = self.recoded(recoding, table)
        exposure = recoded_exposure(self.table, recoding, table)
        counts = (table.released_matches if table.presence_known else table.matches).astype(
            np.float64
        )
        # No cell with more records has fewer than k.
        few = np.flatnonzero((counts < thresholds[-1]) & (table.released > 0))
        cells, counts = np.ascontiguousarray(table.cells[few]), counts[few]
        companions, found = companions_of(table, cells), []
        for look in self._looks(model, n_states):
            p = exposure.chances(look, cells, companions)
            law = others(look, exposure, p, counts, by_mean=True)
            found.append(smallest_at_least(law, counts, thresholds))
        return np.array(found)


def _least_known(table: CellTable) -> float:
    """Persons who are known to be in the smallest combination of a released record."""
    known = table.released_matches if table.presence_known else table.matches
    return float(known[table.released > 0].min(initial=table.n_records))


def _imputes(table: CellTable) -> bool:
    return table.missing == "integrate" and bool(table.incomplete.any())


@lru_cache(maxsize=8)
def _spread(n: int) -> tuple[int, ...]:
    """Numbers below n in an order whose beginnings are spread over all of them, as fits in one."""
    golden = (math.sqrt(5.0) - 1.0) / 2.0
    return tuple(np.argsort(np.argsort(np.arange(1, n + 1) * golden % 1.0)).tolist())


def _stages(n_all: int) -> tuple[int, ...]:
    """Numbers of states by which a recoding is looked at, until they tell."""
    return (*(n for n in _STAGES if n < n_all), n_all)


def _lower_end(law: Callable[[Float64], Float64], low: float, high: float, level: float) -> float:
    """Largest k that the smallest F reaches with probability (1 + level) / 2.

    `law` tells the probabilities of some k by state; `low` is reached, and `high` is not.
    """
    while high - low > 1.0:
        if high - low <= _THRESHOLDS:
            some = np.arange(low + 1.0, high)
        else:
            some = np.unique(np.geomspace(low + 1.0, high - 1.0, _THRESHOLDS).round())
        n_reached = int((law(some).mean(axis=0) > (1.0 + level) / 2.0).sum())
        ends = np.array([low, *some, high])
        low, high = float(ends[n_reached]), float(ends[n_reached + 1])
    return low
