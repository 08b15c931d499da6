"""Risk of the records of a registry, by population counts estimated from a survey.

A registry (a disease register, a company's customers) is no random sample of the population, so no
model can be fitted to it. A survey that shares its keys gives an estimate of how many units of the
population have each combination; these counts are matched on the registry's records (paper 2,
section 6). Of a combination that f records of the survey and m of the registry have, the population
has F = f + X, X the units that the survey does not show: given the model, Poisson of mean mu. Units
are registered with chance rho, whether they are in the survey or not. So a of the f are registered,
and m - a of the X:

    P(a, m | f, mu) = Binomial(a; f, rho) Poisson(m - a; rho mu)
                    = rho^m C(f, a) (1 - rho)^(f - a) mu^(m - a) / (m - a)! exp(-rho mu).

Its sum over a is the evidence of the m records for mu, by which each draw of the survey's
parameters counts for the combination: somebody is known to be there. Its shares are the
probabilities of the overlap a. Given a, F = f + m - a + R with R Poisson of mean (1 - rho) mu: the
others would be registered, and seen. Where the survey does not have the combination the evidence is
mu^m exp(-rho mu). Where both files have one record, it is (1 + (1 - rho) mu) exp(-rho mu), and they
are the same unit with probability 1 / (1 + (1 - rho) mu). Where the model has an error of its own,
the f + m - a units are those seen of the survey's and of rho times the unobserved ones; evidence
and overlap are those of the model without it.

rho, the registry's coverage, differs between groups (a register of old people has most of them). Of
each level of each key it is the registry's records over the survey's estimate of the population's
units, drawn towards the whole registry's; of a combination it is taken from its level of greatest
coverage, which is cautious unless more of the combination is registered than of any of its levels.

For the totals tau1, tau2 the draws keep their spread and are brought to the mean that the records'
risks then add up to.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.matching import UNKNOWN, codes_among
from unikat.data.patterns import agreeing, distinct
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError
from unikat.inference.diagnostics import diagnose
from unikat.inference.draws import Draws, Observer
from unikat.models.base import AnyLaw, Stream
from unikat.risk.by_class import Look
from unikat.risk.estimate import Summary, histogram_quantiles, summary_of
from unikat.risk.measures import RiskMeasures, RiskTotals
from unikat.rng import chain_key

MANY_CELLS = 100_000
"""Beyond so many patterns histograms are coarser, so that the totals stay small."""
MOST_ABOVE = 0.1
"""Most records of a registry beyond the population's size, which may be estimated, as a share."""
FEW_RECORDS = 2.0
"""The units that so many records of the survey stand for, at the whole registry's coverage, are
added to every level: of a level that the survey hardly has the coverage would be chance alone."""
MOST_TIMES = 5
"""Records of a combination that count as evidence of it, at most; with more it is safe anyway. And
records of the overlap that may be fewer than they could be."""
_OTHER_CHAIN = 2**30
"""Added to the chain's number: random numbers of their own."""


class RegistryTotals(NamedTuple):
    """Totals of the survey's measures, and sums over draws for the registry's patterns."""

    risk: RiskTotals
    weight: Float64
    """(n_cells,): probability of the registry's records under each draw, up to a factor; 0 for
    draws that give the combination no probability."""
    r1: Float64
    """(n_cells,): times the weight, as what follows."""
    r2: Float64
    """(n_cells,)"""
    unseen: Float64
    """(n_cells,): expected units of the population beyond max(f, m)."""
    histogram_r1: Float64
    """(n_cells, n_bins): over the square root of r1."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Registry:
    """A registry in the levels of a survey. Made by :meth:`of`.

    Examples
    --------
    >>> import unikat
    >>> survey = unikat.tabulate([[0, 2], [1, 1], [0, 2]], population_size=90)
    >>> registry = unikat.tabulate([[0, 2], [1, 2], [1, 1]], population_size=90)
    >>> found = unikat.Registry.of(registry, survey)
    >>> found.counts.tolist(), found.n_surveyed
    ([1, 1, 1], 3)
    """

    cells: Int32
    """(n_patterns, n_keys): patterns, in the survey's codes, -1 where a key is missing."""
    counts: Int64
    """(n_patterns,): records of the registry that have the pattern."""
    registered: Int64
    """(n_patterns,): records of the registry, m: of a pattern with missing keys also those complete
    ones that agree with it."""
    surveyed: Int64
    """(n_patterns,): records of the survey, f, counted likewise."""
    unknown: Bool
    """(n_patterns,): has a level that no record of the survey has, so nothing is known of it."""
    complete: Bool
    """(n_patterns,): no key is missing."""
    record_cell: Int32
    """(n_records,): pattern of each record."""
    coverage: Float64
    """(n_patterns,): share of the units with such keys that is in the registry."""
    n_surveyed: int
    population_size: int

    @classmethod
    def of(cls, registry: CellTable, survey: CellTable) -> Registry:
        """Match the levels of a registry with those of a survey, by their labels.

        Raises
        ------
        DataError
            If no record has only levels that the survey has, or the registry is larger than the
            population.
        SpecError
            If keys differ, or one is grouped by quantiles, which are not the same in both files.
        """
        names = [[key.name for key in table.keys] for table in (registry, survey)]
        if names[0] != names[1]:
            raise SpecError("The registry and the survey must have the same keys.")
        if registry.n_records > (1.0 + MOST_ABOVE) * survey.n_units:
            raise DataError(
                f"The registry has {registry.n_records:,} records, but the population has only "
                f"{survey.n_units:,} units. Correct the population size or the weights of the "
                "survey, or keep one record of the registry for each unit."
            )
        codes = registry.cells.copy()
        unknown = np.zeros(registry.n_cells, bool)
        for j, (ours, theirs) in enumerate(zip(survey.keys, registry.keys, strict=True)):
            to = codes_among(ours, theirs, "the registry", "the survey")
            codes[:, j] = to[registry.cells[:, j]]
            unknown |= codes[:, j] == UNKNOWN
        if unknown.all():
            raise DataError(
                "No record of the registry has values that the survey knows for all keys; are the "
                "keys coded in the same way in both files?"
            )
        # Some combination that a model can be asked for: what it says is not used.
        codes[unknown] = np.maximum(survey.cells[0], 0)
        known = np.concatenate((survey.cells, codes))
        counts = np.concatenate((survey.counts, np.where(unknown, 0, registry.counts)))
        of = np.arange(len(counts)) < survey.n_cells
        registered, surveyed = (
            _agreeing(known, np.where(which, counts, 0), survey.n_levels)[survey.n_cells :]
            for which in (~of, of)
        )
        return cls(
            cells=codes,
            counts=registry.counts,
            registered=np.where(unknown, registry.counts, registered),
            surveyed=np.where(unknown, 0, surveyed),
            unknown=unknown,
            complete=~registry.incomplete,
            record_cell=registry.record_cell,
            coverage=_coverage(codes, registry.counts, survey, unknown),
            n_surveyed=survey.n_records,
            population_size=survey.n_units,
        )

    @property
    def shown(self) -> Int64:
        """Units of the population that the files show at least, max(f, m), (n_cells,)."""
        return np.maximum(self.registered, self.surveyed)

    def evidence(self, means: Float64) -> Float64:
        """Probability of the registry's records by overlap, up to a factor, (n_overlaps, n_cells).

        Row i: the overlap is min(f, m) - i. means (n_cells,): expected units that the survey does
        not show. See above; (1 - rho)^f, rho^m and powers of the mean beyond `MOST_TIMES` are left
        out.
        """
        most = np.minimum(self.surveyed, self.registered)
        beyond = self.registered - most
        times = np.minimum(beyond, MOST_TIMES)
        base = means**times * np.exp(-self.coverage * means)
        # The survey has it all the same; of a combination without a known key a model may say
        # nothing.
        base = np.where((means <= 0.0) & (self.surveyed > 0), 1.0, base)
        found = np.zeros((min(int(most.max(initial=0)), MOST_TIMES) + 1, len(means)))
        found[0] = np.nan_to_num(base, nan=1.0)
        for i in range(1, len(found)):
            # C(f, a) / (m - a)! of one less, times what one unit more of the others costs.
            overlap = np.maximum(most - i + 1, 0)
            ratio = overlap / ((self.surveyed - overlap + 1.0) * (beyond + i))
            found[i] = found[i - 1] * ratio * np.nan_to_num((1.0 - self.coverage) * means)
        return found

    @property
    def unique(self) -> Bool:
        """Unique in the registry: complete, with one record of it. The survey has no say."""
        unique: Bool = (self.registered == 1) & self.complete
        return unique

    @property
    def shared(self) -> Bool:
        """Unique in the registry, but two or more records of the survey have the combination.

        So they are not unique in the population.
        """
        shared: Bool = self.unique & (self.surveyed > 1)
        return shared

    @property
    def possible(self) -> Bool:
        """Unique in the registry, of known levels, and in the survey once at most.

        These may be unique in the population.
        """
        possible: Bool = self.unique & ~self.shared & ~self.unknown
        return possible


def _agreeing(cells: Int32, counts: Int64, n_levels: Sequence[int]) -> Int64:
    """Units with the keys of each pattern: its own, and the complete ones that agree with it."""
    first, where, _ = distinct(cells, n_levels)
    cells, own = cells[first], np.bincount(where, counts).astype(np.int64)
    complete = (cells >= 0).all(axis=1)
    found = own.copy()
    asking, units = np.flatnonzero(~complete), own[complete]
    for met in agreeing(cells[asking], cells[complete], n_levels):
        sums = np.bincount(met.offered, units[met.answering], met.n_numbers)
        found[asking[met.asking]] += sums[met.wanted].astype(np.int64)
    return found[where]


def _coverage(codes: Int32, counts: Int64, survey: CellTable, unknown: Bool) -> Float64:
    """Share of the population that is in the registry, by combination (see above)."""
    overall = float(counts.sum()) / survey.n_units
    few = FEW_RECORDS * survey.n_units / survey.n_records
    found = np.full(len(codes), overall)
    for j, levels in enumerate(survey.n_levels):
        known = (codes[:, j] >= 0) & ~unknown
        registered = np.bincount(codes[known, j], counts[known], levels)
        surveyed = survey.cells[:, j] >= 0
        units = np.bincount(survey.cells[surveyed, j], survey.cell_weights[surveyed], levels)
        share = (registered + few * overall) / (units + few)
        found[known] = np.maximum(found[known], share[codes[known, j]])
    return found.clip(max=1.0)


@dataclass(frozen=True, kw_only=True, eq=False)
class RegistryMeasures(Observer):
    """Observer that computes the survey's measures, and those of a registry beside them.

    Scalars per draw: those of the measures, and ``registry_tau1``, ``registry_tau2``: records of
    the registry that are unique in it and in the population, and the sum of 1/F over those that may
    be (`Registry.possible`). Convergence is judged on the survey's measures and on these.
    """

    measures: RiskMeasures
    registry: Registry

    @property
    def monitored(self) -> tuple[str, ...]:
        """Scalars on which convergence is judged."""
        return (*self.measures.monitored, "registry_tau1", "registry_tau2")

    @property
    def parts(self) -> Mapping[str, str]:
        """Those of the measures."""
        return self.measures.parts

    def compile(self) -> None:
        """Compile the kernels (or load them from the cache)."""
        self.measures.compile()

    def judged_without_error(self) -> RegistryMeasures:
        """Judge convergence of the survey's measures without the model's error too."""
        return replace(self, measures=self.measures.judged_without_error())

    def risk_totals(self, totals: RegistryTotals) -> RiskTotals:
        """Those of the survey's measures."""
        return totals.risk

    def start(self) -> RegistryTotals:
        """Empty totals."""
        n = len(self.registry.cells)
        return RegistryTotals(
            risk=self.measures.start(),
            weight=np.zeros(n),
            r1=np.zeros(n),
            r2=np.zeros(n),
            unseen=np.zeros(n),
            histogram_r1=np.zeros((n, 64 if n <= MANY_CELLS else 16)),
        )

    def cost(self, model: AnyLaw, data: Any) -> float:
        """Counted work of one observation."""
        per_cell = model.cost(data)[1] * self.measures.exposure.width
        return self.measures.cost(model, data) + (per_cell + 250.0) * len(self.registry.cells)

    def observe(
        self, stream: Stream, model: AnyLaw, state: Any, data: Any, totals: RegistryTotals
    ) -> Mapping[str, float]:
        """Add one state to the totals, and return its scalars."""
        scalars = dict(self.measures.observe(stream, model, state, data, totals.risk))
        registry, exposure = self.registry, self.measures.exposure
        poisson = model.population == "poisson"
        chances = exposure.chances(Look(stream, model, state, data), registry.cells)
        # What the model takes for impossible is in the registry all the same: of its frequency
        # nothing is known.
        evidence = registry.evidence(exposure.means(chances))
        weight = evidence.sum(axis=0)
        unique = registry.possible & (weight > 0.0)
        overlaps = evidence / np.where(weight > 0.0, weight, 1.0)
        every = np.arange(len(registry.cells))
        found = self._given_overlap(stream, model, data, chances, every, 0)
        alone, r1, r2 = found.chances, overlaps[0] * found.r1, overlaps[0] * found.r2
        unseen = overlaps[0] * exposure.means(alone)
        apart = np.zeros(len(every))
        for fewer in range(1, len(overlaps)):
            # The overlap is by so many smaller than it can be.
            which = np.flatnonzero(overlaps[fewer])
            found = self._given_overlap(stream, model, data, chances, which, fewer)
            r2[which] += overlaps[fewer, which] * found.r2
            unseen[which] += overlaps[fewer, which] * (exposure.means(found.chances) + fewer)
            if fewer == 1:
                apart[which] = found.r2
        r1[~unique] = 0.0
        totals.weight[...] += weight
        totals.r1[...] += weight * r1
        totals.r2[...] += weight * r2
        totals.unseen[...] += weight * unseen
        n_bins = totals.histogram_r1.shape[1]
        bins = np.minimum((np.sqrt(r1) * n_bins).astype(np.int64), n_bins - 1)
        totals.histogram_r1[np.arange(len(bins)), bins] += weight
        elsewhere = stream._replace(chain=stream.chain + _OTHER_CHAIN)
        # Whether the records of the two files are the same unit.
        generator = np.random.Generator(
            np.random.Philox(
                key=chain_key(elsewhere.seed, elsewhere.chain).astype(np.uint64),
                counter=[0, 0, 0, elsewhere.sweep],
            )
        )
        same = generator.random(len(every)) < overlaps[0]
        tau1, tau2 = exposure.draw(elsewhere, exposure.taken(alone, unique & same), poisson)
        tau2 += float(apart[unique & ~same].sum())
        return scalars | {
            "registry_tau1": tau1,
            "registry_tau2": tau2,
            "registry_tau1_expected": float(r1[unique].sum()),
            "registry_tau2_expected": float(r2[unique].sum()),
        }

    def _given_overlap(
        self, stream: Stream, model: AnyLaw, data: Any, chances: Any, which: Int64, fewer: int
    ) -> _GivenOverlap:
        """Risks of some cells, their overlap by so many smaller than it can be."""
        registry, exposure = self.registry, self.measures.exposure
        shown = registry.shown[which].astype(np.float64) + fewer
        coverage = registry.coverage[which]
        chances = exposure.taken(chances, which)
        # That so many units were seen, of those that the two files look at, tells of the rate.
        before = exposure.probabilities(chances)
        unobserved = np.divide(
            exposure.means(chances), before, out=np.zeros(len(which)), where=before > 0.0
        )
        seen = registry.n_surveyed + coverage * unobserved
        population = exposure.population(chances)
        after = model.risk_probabilities(stream, data, before, shown, seen, population)
        if after is not before:
            chances = exposure.scaled(chances, after)
        # Units that are registered would be seen.
        remaining = exposure.probabilities(chances) * (1.0 - coverage)
        chances = exposure.scaled(chances, remaining)
        return _GivenOverlap(chances, *exposure.risk(chances, shown, model.population == "poisson"))


class _GivenOverlap(NamedTuple):
    """Cells with the number of units that are in both files, where that number is known."""

    chances: Any
    """Of units that neither file shows."""
    r1: Float64
    r2: Float64


@dataclass(frozen=True, kw_only=True, eq=False)
class RegistryRisk:
    """Risk of a registry's records; arrays are (n_cells,), NaN where nothing is known.

    Examples
    --------
    >>> import unikat
    >>> survey = unikat.tabulate([[0, 2], [1, 1], [0, 2]], population_size=90)
    >>> registry = unikat.Registry.of(unikat.tabulate([[0, 2], [1, 1]], population_size=90), survey)
    >>> plan = unikat.Plan(n_chains=2, thin=1, stop=unikat.StopRule(max_sweeps=60))
    >>> here = unikat.Execution(workers=unikat.Workers(n_workers=1))
    >>> fit = unikat.fit("latent-class", survey, plan=plan, registry=registry, execution=here)
    >>> found = fit.registry_risk()
    >>> found.r1.shape, 0 <= found.tau1.mean <= 2
    ((2,), True)
    """

    registry: Registry
    impossible: Bool
    """The survey's levels, but a combination that the model gives no probability: nothing is known
    of it either."""
    tau1: Summary
    """Records of the registry that are unique in it and in the population."""
    tau2: Summary
    """Sum of 1/F over the records that are unique in the registry and may be so in the population
    (`Registry.possible`, without impossible ones)."""
    r1: Float64
    """Probability that the record is unique in the population; NaN unless unique in the registry. 0
    where the survey has two or more records."""
    r1_lower: Float64
    r1_upper: Float64
    r2: Float64
    """E(1/F)."""
    population: Float64
    """E(F)."""


def registry_risk(draws: Draws, registry: Registry, *, level: float = 0.95) -> RegistryRisk:
    """Summarise the risk of a registry.

    Parameters
    ----------
    draws
        From `sample` with :class:`RegistryMeasures` as observer.
    registry
        The registry.
    level
        Probability of the equal-tailed intervals, between 0 and 1.
    """
    totals: RegistryTotals = draws.totals
    weight = np.where(totals.weight > 0.0, totals.weight, 1.0)
    tail = (1.0 - level) / 2.0
    lower, upper = histogram_quantiles(totals.histogram_r1, (tail, 1.0 - tail))
    r1, r2 = totals.r1 / weight, totals.r2 / weight
    impossible = (totals.weight == 0.0) & ~registry.unknown
    unique, unknown = registry.possible & ~impossible, registry.unknown | impossible
    tau1, tau2 = (
        _summary(draws, f"registry_{name}", float(mean[unique].sum()), level)
        for name, mean in (("tau1", r1), ("tau2", r2))
    )
    told = unique | registry.shared
    return RegistryRisk(
        registry=registry,
        impossible=impossible,
        tau1=tau1,
        tau2=tau2,
        # Not unique in the population: 0 in every draw.
        r1=np.where(told, r1, np.nan),
        r1_lower=np.where(told, np.where(unique, np.minimum(lower, r1), 0.0), np.nan),
        r1_upper=np.where(told, np.where(unique, np.maximum(upper, r1), 0.0), np.nan),
        r2=np.where(unknown, np.nan, r2),
        population=np.where(unknown, np.nan, registry.shown + totals.unseen / weight),
    )


def _summary(draws: Draws, name: str, mean: float, level: float) -> Summary:
    """Summarise a measure, its draws brought to the mean that the records' risks add up to.

    A state is one state for all cells, so that the evidence of a single cell cannot weigh it: the
    draws keep the spread of the states and of the population around it, in proportion.
    """
    drawn, expected = draws.retained(name), draws.retained(f"{name}_expected")
    ratio = mean / max(float(expected.mean()), 1e-300)
    moved = np.clip(ratio * expected + math.sqrt(ratio) * (drawn - expected), 0.0, None)
    if name == "registry_tau1":
        # A count.
        moved = np.rint(moved)
    return summary_of(moved, level, diagnose(moved))
