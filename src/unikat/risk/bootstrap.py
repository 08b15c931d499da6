"""Parametric bootstrap of plug-in estimates: draws of tau that include the error of the fit.

A plug-in model treats its estimated cell probabilities as the truth. The error of tau that follows
is found by simulation, where the truth is known: a sample and the rest of the population are
simulated from the fit, the model is fitted to that sample, and the error

    e = tau (of the simulated population) - estimate (from the simulated sample)

is added to the real estimate. The draws then have the bias and variance of the estimator, and the
randomness of the population, as they are under the fitted model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import numpy as np

from unikat._typing import Bool, Int32
from unikat.data.design import Sampling
from unikat.data.keys import MISSING
from unikat.data.table import CellTable
from unikat.inference.draws import Observer
from unikat.models.base import AnyModel, Stream
from unikat.risk.by_class import Look
from unikat.risk.exposure import BySampling, Exposure, exposure_of, fitted_table
from unikat.risk.margins import moved
from unikat.risk.measures import TAUS, RiskMeasures
from unikat.risk.shown import SHOWN

_TAUS = ("tau1", "tau2", "tau1_expected", "tau2_expected")
_REFIT_COST = 1e8
"""Nanoseconds, at least. So much that every draw is a round of its own at first, in which a run can
be watched and stopped."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bootstrapped(Observer):
    """Observer that adds bootstrap errors to the tau's of another one.

    The model can `refit`: fit itself to another table of the same keys.
    """

    measures: Observer
    """Computes everything else."""
    table: CellTable
    """The sample."""
    fitted: CellTable
    """What the model is fitted to."""
    exposure: Exposure
    """How unobserved units relate to the records."""
    most: int
    """Records that can be sample unique: the uniques, and those that are imputed."""
    masks: Bool
    """(n_incomplete_cells, n_keys): keys that are missing in the incomplete patterns."""

    monitored: ClassVar[tuple[str, ...]] = TAUS

    @classmethod
    def of(cls, measures: Observer, table: CellTable) -> Bootstrapped:
        """Prepare for a table."""
        return cls(
            measures=measures,
            table=table,
            fitted=fitted_table(table),
            exposure=exposure_of(table),
            most=table.n_uniques + _n_imputed(table),
            masks=table.cells[table.incomplete] == MISSING,
        )

    def compile(self) -> None:
        """Compile the kernels of the measures."""
        self.measures.compile()

    def start(self) -> Any:
        """Empty totals."""
        return self.measures.start()

    def risk_totals(self, totals: Any) -> Any:
        """Those of the measures."""
        return self.measures.risk_totals(totals)

    def cost(self, model: AnyModel, data: Any) -> float:
        """Counted work of one observation."""
        return self.measures.cost(model, data) + _REFIT_COST

    def observe(
        self, stream: Stream, model: Any, state: Any, data: Any, totals: Any
    ) -> Mapping[str, float]:
        """Observe the state; replace its tau's by bootstrap draws."""
        scalars = dict(self.measures.observe(stream, model, state, data, totals))
        # They have no error of the fit, and without it their intervals would be too narrow.
        for name in SHOWN:
            scalars.pop(name, None)
        truth, estimate = self._error(stream, model, state, data)
        for name in _TAUS:
            expected = name if name.endswith("expected") else f"{name}_expected"
            drawn = scalars[expected] + truth[name] - estimate[expected]
            scalars[name] = float(np.clip(drawn, 0.0, self.most))
        # A count.
        scalars["tau1"] = float(round(scalars["tau1"]))
        return scalars

    def _error(
        self, stream: Stream, model: Any, state: Any, data: Any
    ) -> tuple[Mapping[str, float], Mapping[str, float]]:
        """Return tau in a simulated sample, and its estimate by a fit to that sample."""
        # Chain numbers beyond any run's: no random number is used twice.
        elsewhere = stream._replace(chain=stream.chain + 2**31)
        table, n_keys = self.table, self.table.n_keys
        codes = np.array(model.simulate(elsewhere, state, data, table.n_records), np.int32)
        complete = CellTable.from_codes(
            codes[:, :n_keys],
            table.keys,
            table.n_units,
            zeros=table.zeros,
            layout=table.layout,
        )
        # Simulated records are exchangeable, so it does not matter which of them are masked.
        n_masked = table.counts[table.incomplete]
        masks = np.repeat(self.masks, n_masked, axis=0)
        codes[: len(masks), :n_keys][masks] = MISSING
        sample = replace(self._tabulated(codes[:, :n_keys], table), sampling=self._sampling(codes))
        sample = replace(sample, margins=moved(table, sample))
        # Where a missing key matches any level, so it does in the population: what is unique is a
        # pattern. Else the uniques are those of the complete records.
        uniques = sample if table.missing == "wildcard" else complete
        unique = uniques.cells[uniques.unique]
        # As many unobserved units of each class as there are: a stratum taken whole stays so.
        exposure = self.exposure
        chances = exposure.chances(Look(stream, model, state, data), unique)
        poisson = model.population == "poisson"
        r1, r2 = exposure.risk(chances, np.ones(len(unique)), poisson)
        tau1, tau2 = exposure.draw(elsewhere, chances, poisson)
        truth = {
            "tau1": tau1,
            "tau2": tau2,
            "tau1_expected": float(r1.sum()),
            "tau2_expected": float(r2.sum()),
        }
        fresh = model.refit(self._tabulated(codes, self.fitted), data)
        measures = RiskMeasures.of(sample)
        begin = model.init(elsewhere, fresh)
        estimate = measures.observe(elsewhere, model, begin, fresh, measures.start())
        return truth, estimate

    def _tabulated(self, codes: Int32, like: CellTable) -> CellTable:
        size = like.n_units
        return CellTable.from_codes(
            codes, like.keys, size, like.missing, zeros=like.zeros, layout=like.layout
        )

    def _sampling(self, codes: Int32) -> Sampling | None:
        """Sampling of a simulated sample."""
        exposure = self.exposure
        if self.table.sampling is None or not isinstance(exposure, BySampling):
            return None
        # A level without a record is in no class that is known.
        strata = np.maximum(exposure.class_of[codes[:, exposure.column]], 0).astype(np.int32)
        n_h = np.bincount(strata, minlength=len(exposure.unobserved))
        return Sampling(
            weights=np.ones(len(codes)),
            strata=strata,
            sizes=exposure.unobserved + n_h,
            from_weights=exposure.appended,
        )


def _n_imputed(table: CellTable) -> int:
    """Records with missing keys that every draw completes."""
    return 0 if table.missing == "wildcard" else int(table.counts[table.incomplete].sum())
