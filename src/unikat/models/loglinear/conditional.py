"""Log-linear models fitted by maximum likelihood (Skinner and Shlomo 2008).

    f_c ~ Poisson(pi lambda_c),    log lambda_c = sum of effects of the keys and their interactions

| symbol | here |
|---|---|
| lambda_c | N p_c, the expected count in the population |
| pi | n / N |
| mu_c = pi lambda_c | fitted mean count in the sample |

`cell_probabilities` is lambda_c / N, so that (1 - pi) lambda_c = M p_c. The estimate is plugged in:
all draws have the same p and differ in the population only (Rinott and Shlomo's conditional
variance). The uncertainty of p itself comes from a bootstrap (`risk/bootstrap.py`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple, TypeAlias, cast

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.errors import SpecError, shown
from unikat.models.base import Facts, Info, Model, PopulationLaw, Stream, Uncertainty
from unikat.models.loglinear.decomposable import DecomposableFit
from unikat.models.loglinear.factored import Fit
from unikat.models.loglinear.maximum_likelihood import MOST_CELLS, fit
from unikat.models.loglinear.selection import (
    CRITERIA,
    Criterion,
    Evidence,
    Step,
    evidence,
    select,
)
from unikat.models.loglinear.terms import Generators, elimination, parse_terms, write_terms
from unikat.models.options import TOLERANCE, check_choice, check_numbers
from unikat.models.records import compile_plug_in, generator_of

Interval: TypeAlias = Literal["conditional", "bootstrap"]
INTERVALS = ("conditional", "bootstrap")
_MOST_LISTED = 40
"""Steps of a selection that are listed."""


@dataclass(frozen=True, kw_only=True)
class StepFacts:
    """A model on the way of a selection: the term that was added, its tests, risk and score."""

    added: str
    B1: float
    B2: float
    tau1: float
    tau2: float
    held_out: float
    """Mean log score of the held-out records, nats per record, fitted to the others."""
    gain: float
    """Score less that of the step before; not finite for the first model, as the next."""
    gain_error: float
    """Standard error of the gain."""


@dataclass(frozen=True, kw_only=True)
class LogLinearFacts(Facts):
    """Terms, tests of fit, zero margins, and the path of a selection; None is left out."""

    terms: str
    cells: int | None
    """With positive probability; None, as the next, for a fit in closed form."""
    zero_margins: int | None
    margin_error: float | None
    """Largest difference of an observed and a fitted margin, in records."""
    B1: float | None
    """Test of fit, standardised; None, as the next, where there are too many cells for it."""
    B2: float | None
    criterion: str | None = None
    """None, as the next ones, if the terms were given."""
    terms_added: int | None = None
    path: tuple[StepFacts, ...] | None = None
    """The last steps."""


class LogLinearData(NamedTuple):
    """A fitted model, and the incomplete patterns that are imputed with it."""

    fit: Fit | DecomposableFit
    path: tuple[Step, ...]
    """Models on the way of a selection; one if the terms were given."""
    evidence: Evidence | None
    """Tests of fit; None where there are too many cells for them."""
    names: tuple[str, ...]
    patterns: Int32
    """(n_patterns, n_keys): patterns with missing keys."""
    counts: Int64
    """(n_patterns,)"""


class LogLinearState(NamedTuple):
    """Empty: the fitted parameters count as known."""


@dataclass(frozen=True, kw_only=True)
class LogLinear(Model[LogLinearState, LogLinearData]):
    """Log-linear model of given or selected terms, fitted by maximum likelihood.

    Parameters
    ----------
    terms
        ``independence``, ``two-way``, ``three-way``, terms such as ``A + B:C`` (every key's main
        effect is in the model), or ``select``.
    criterion
        What a selection goes by: ``B1`` or ``B2``, the test of fit of Skinner and Shlomo (2008)
        weighted by r1 or r2, or ``held-out``, the log score of held-out records.
    underfitting
        Value of B over its standard error above which a term is missing, or of the gain in score
        over its standard error above which a term is added; from 1e-6 to 1e6.
    tolerance
        Largest difference of an observed and a fitted margin, in records; from 1e-12, near the
        rounding error of a record, to 1e6.
    smoothing
        Records added, spread as if the keys were independent, so that no margin is zero; from 0 to
        1e9.
    interval
        ``conditional``: the parameters count as known; ``bootstrap``: with their uncertainty.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 2)]
    >>> table = CellTable.from_codes([[0, 1], [0, 1], [1, 1], [0, 0]], keys, population_size=8)
    >>> model = LogLinear(terms="independence")
    >>> data = model.prepare(table)
    >>> state = model.init(Stream(1, 0, 0), data)
    >>> model.cell_probabilities(Stream(1, 0, 0), state, data, table.cells).round(4).tolist()
    [0.1875, 0.5625, 0.1875]
    """

    name: ClassVar[str] = "loglinear"
    population: ClassVar[PopulationLaw] = "poisson"
    terms: str = "two-way"
    criterion: str = "B2"
    underfitting: float = 1.645
    tolerance: float = 1e-4
    smoothing: float = 0.0
    interval: str = "conditional"

    @property
    def uncertainty(self) -> Uncertainty:
        """Of the population alone, or of the estimate too."""
        return "bootstrap" if self.interval == "bootstrap" else "conditional"

    def __post_init__(self) -> None:
        """Check the options; the terms are checked where the keys are known."""
        if not isinstance(self.terms, str) or not self.terms.strip():
            raise SpecError(
                f"model option terms is {shown(self.terms)}; write independence, two-way, "
                "three-way, select, or terms such as 'A + B:C'."
            )
        check_choice("criterion", self.criterion, CRITERIA)
        if self.criterion == "held-out" and self.terms != "select":
            raise SpecError(
                "model option criterion is 'held-out', but no terms are selected; add "
                "terms=select, or leave the criterion out."
            )
        check_choice("interval", self.interval, INTERVALS)
        check_numbers(
            self, {"underfitting": (1e-6, 1e6), "tolerance": TOLERANCE, "smoothing": (0.0, 1e9)}
        )

    def compile(self, zeros: bool = False) -> None:
        """Compile the kernels, or load them from the cache; the terms do not matter."""
        compile_plug_in(replace(self, terms="two-way"), zeros)

    def check_keys(self, names: Sequence[str]) -> None:
        """Refuse terms of other keys than these."""
        if self.terms != "select":
            parse_terms(self.terms, names)

    def prepare(self, table: CellTable) -> LogLinearData:
        """Fit the model."""
        names = tuple(key.name for key in table.keys)
        path: tuple[Step, ...] = ()
        if self.terms == "select":
            chosen = cast(Criterion, self.criterion)
            path = select(table, chosen, self.underfitting, self.tolerance, self.smoothing)
            generators = path[-1].generators
        else:
            generators = parse_terms(self.terms, names)
        fitted = best_fit(table, generators, self.tolerance, self.smoothing)
        found = evidence(table, fitted) if isinstance(fitted, Fit) else None
        if not path and found is not None:
            path = (Step(generators, (), found, math.nan, math.nan, math.nan),)
        incomplete = table.incomplete
        return LogLinearData(
            fit=fitted,
            path=path,
            evidence=found,
            names=names,
            patterns=table.cells[incomplete],
            counts=table.counts[incomplete],
        )

    def refit(self, table: CellTable, data: LogLinearData) -> LogLinearData:
        """Fit the same terms to another table of the same keys, starting from a fit."""
        fitted: Fit | DecomposableFit
        if isinstance(data.fit, DecomposableFit):
            fitted = DecomposableFit.of(table, list(data.fit.order))
        else:
            generators = data.path[-1].generators
            fitted = fit(
                table,
                generators,
                tolerance=max(self.tolerance, 1e-2),
                smoothing=self.smoothing,
                start=data.fit,
            )
        incomplete = table.incomplete
        return data._replace(
            fit=fitted, patterns=table.cells[incomplete], counts=table.counts[incomplete]
        )

    def init(self, stream: Stream, data: LogLinearData) -> LogLinearState:
        """Return the state, which is empty."""
        return LogLinearState()

    def step(
        self, stream: Stream, state: LogLinearState, data: LogLinearData, n_threads: int
    ) -> tuple[LogLinearState, Info]:
        """Do nothing: the fit is what it is."""
        return state, Info({})

    def cell_probabilities(
        self, stream: Stream, state: LogLinearState, data: LogLinearData, cells: Int32
    ) -> Float64:
        """Probability of each cell, (n,); -1 leaves a key out."""
        return data.fit.probabilities(cells)

    def predictive_probabilities(
        self, stream: Stream, state: LogLinearState, data: LogLinearData, cells: Int32
    ) -> Float64:
        """As `cell_probabilities`: nothing is drawn."""
        return data.fit.probabilities(cells)

    def impute(self, stream: Stream, state: LogLinearState, data: LogLinearData) -> Int32:
        """Draw the missing keys of the incomplete records, pattern by pattern."""
        if not isinstance(data.fit, Fit):
            return np.empty((0, len(data.names)), np.int32)
        return data.fit.complete(generator_of(stream, 1), data.patterns, data.counts)

    def simulate(
        self, stream: Stream, state: LogLinearState, data: LogLinearData, n_records: int
    ) -> Int32:
        """Draw new individuals, (n_records, n_keys)."""
        return data.fit.simulate(generator_of(stream, 2), n_records)

    def cost(self, data: LogLinearData) -> tuple[float, float]:
        """Nothing for a sweep; of a cell the factors are multiplied."""
        return 0.0, 3.0 * len(data.names) ** 2

    def simulation_cost(self, data: LogLinearData, n_records: int, n_keys: int) -> float:
        """Work of `simulate`: a walk over the cells."""
        n_cells = data.fit.n_cells if isinstance(data.fit, Fit) else 0
        return 2.0 * n_cells + 500.0 * n_records

    def facts(self, data: LogLinearData) -> Facts:
        """Terms, tests of fit, zero margins, and the path of a selection."""
        fit = data.fit if isinstance(data.fit, Fit) else None
        facts = LogLinearFacts(
            terms=write_terms(data.path[-1].generators, data.names) if data.path else self.terms,
            cells=None if fit is None else fit.n_cells,
            zero_margins=None if fit is None else fit.n_zero_margins,
            margin_error=None if fit is None else fit.margin_error,
            B1=None if data.evidence is None else data.evidence.b1,
            B2=None if data.evidence is None else data.evidence.b2,
            warnings=_warnings(self, data),
        )
        if self.terms != "select":
            return facts
        path = tuple(
            StepFacts(
                added=":".join(data.names[j] for j in step.added) or "independence",
                B1=step.evidence.b1,
                B2=step.evidence.b2,
                tau1=step.evidence.tau1,
                tau2=step.evidence.tau2,
                held_out=step.score,
                gain=step.gain,
                gain_error=step.gain_error,
            )
            for step in data.path[-_MOST_LISTED:]
        )
        return replace(facts, criterion=self.criterion, terms_added=len(data.path) - 1, path=path)


def best_fit(
    table: CellTable, generators: Generators, tolerance: float, smoothing: float
) -> Fit | DecomposableFit:
    """Fit on the cells, or in closed form where there are too many of them and there is one."""
    size = math.prod(table.n_levels)
    closed = table.zeros is None and smoothing == 0.0 and not table.incomplete.any()
    if size > MOST_CELLS and closed:
        order = elimination(generators, table.n_keys)
        if order is not None:
            return DecomposableFit.of(table, order)
    return fit(table, generators, tolerance=tolerance, smoothing=smoothing)


def _warnings(model: LogLinear, data: LogLinearData) -> tuple[str, ...]:
    warnings = []
    if isinstance(data.fit, Fit) and not data.fit.converged:
        warnings.append(
            f"The fit stopped {data.fit.margin_error:.2g} records from the observed margins, more "
            f"than the tolerance of {model.tolerance:g}."
        )
    if data.evidence is None:
        return tuple(warnings)
    test = "B1" if model.criterion == "B1" else "B2"
    statistic = data.evidence.b1 if test == "B1" else data.evidence.b2
    if statistic > model.underfitting:
        remedy = "Add terms, or use terms = 'select'."
        if model.terms == "select":
            remedy = (
                "No further term helps: compare with models that let rates vary, such as "
                "elamir-skinner or latent-class."
            )
        warnings.append(
            f"The model underfits ({test}/√ν = {statistic:.1f}, above {model.underfitting:g}): the "
            "rates of the cells vary around its terms. τ1 and τ2 can be too high or too low. "
            f"{remedy}"
        )
    if statistic < -model.underfitting:
        warnings.append(
            f"The model overfits ({test}/√ν = {statistic:.1f}, below −{model.underfitting:g}): it "
            "follows the sample further than the sample can tell. Leave terms out, or use terms = "
            "'select'."
        )
    return tuple(warnings)
