"""Membership by a model: a test with its densities, and a bound of what any test can reach.

The bound. Each synthetic file is drawn with one draw theta of the posterior given the original D.
Without the record x it would be p(theta | D - x), proportional to p(theta | D) / f(x | theta). An
intruder knows the model and all other records. Of any test that he computes from the file, the
share of members who are recognised exceeds that of false alarms by at most the total variation

    TV_x = 1/2 E | 1 - w / E w |,    w = 1 / f(x | theta),    theta given D,

and 1 - (1 - TV_x)^L with L files. See docs/design/attacks.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np

from unikat._typing import Float64, Int32
from unikat.data.keys import Key
from unikat.data.patterns import distinct, numbered
from unikat.data.table import CellTable
from unikat.inference.chains import sample
from unikat.inference.draws import Draws, Observer
from unikat.models.base import AnyModel, Stream
from unikat.studies.held_out import PredictiveProbabilities
from unikat.synthesis.attacks.membership import Scores, by_halves
from unikat.synthesis.attacks.model_free import Setting
from unikat.synthesis.attacks.persons import MOST_PERSONS
from unikat.synthesis.attacks.posterior import Fitting

NAME = "model"
"""Of the test."""
STEP, N_BINS = 0.125, 480
"""Bins of log f(x | theta), from 0 down; below -60 all are one."""
LEAST_EFFECTIVE = 20.0
"""Draws, by their weights w, with fewer of which a record may be recognised for certain."""


class BinTotals(NamedTuple):
    """Draws by the log probability of each cell."""

    n: Float64
    """(n_cells, N_BINS): draws."""
    weight: Float64
    """(n_cells, N_BINS): sum of w."""


@dataclass(frozen=True, kw_only=True)
class CellLaw(Observer):
    """Observer of the law of f(x | theta) for each cell of the original."""

    monitored: ClassVar[tuple[str, ...]] = ("log_probability",)
    cells: Int32 = field(repr=False)
    """(n_cells, n_keys)"""
    counts: Float64 = field(repr=False)
    """(n_cells,): records of each."""

    @classmethod
    def of(cls, table: CellTable, seed: int) -> CellLaw:
        """Of the cells of a table; of more than `MOST_PERSONS` of them, so many are drawn."""
        generator = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(7,)))
        n = min(MOST_PERSONS, table.n_cells)
        chosen = np.sort(generator.choice(table.n_cells, n, replace=False))
        return cls(cells=table.cells[chosen], counts=table.counts[chosen].astype(np.float64))

    def start(self) -> BinTotals:
        """Empty totals."""
        shape = len(self.cells), N_BINS
        return BinTotals(np.zeros(shape), np.zeros(shape))

    def observe(
        self, stream: Stream, model: AnyModel, state: Any, data: Any, totals: BinTotals
    ) -> Mapping[str, float]:
        """Add one state."""
        p = np.maximum(model.cell_probabilities(stream, state, data, self.cells), 1e-26)
        log = np.log(p)
        at = np.arange(len(p)), np.minimum((-log / STEP).astype(np.int64), N_BINS - 1)
        totals.n[at] += 1.0
        totals.weight[at] += 1.0 / p
        return {"log_probability": float(np.average(log, weights=self.counts))}

    def cost(self, model: AnyModel, data: Any) -> float:
        """Counted work of one observation."""
        return float(len(self.cells) * model.cost(data)[1])


def total_variation(totals: BinTotals) -> Float64:
    """Total variation between the posterior with each cell's record and without it, (n_cells,).

    1 where the weights rest on too few draws to tell.
    """
    share = totals.n / totals.n.sum(axis=1, keepdims=True)
    without = totals.weight / totals.weight.sum(axis=1, keepdims=True)
    squares = (totals.weight**2 / np.maximum(totals.n, 1.0)).sum(axis=1)
    effective = totals.weight.sum(axis=1) ** 2 / squares
    found: Float64 = 0.5 * np.abs(share - without).sum(axis=1)
    return np.where(effective >= LEAST_EFFECTIVE, found, 1.0)


@dataclass(frozen=True, kw_only=True)
class BoundFacts:
    """What no test of membership can exceed if the files were drawn by the model."""

    model: str
    advantage: float
    """Detection less false alarms, with all files together, mean over the records."""
    one_file: float
    """The same with one file."""
    largest: float
    """With all files, of the most exposed record."""
    n_certain: int
    """Records of which the draws tell too little, so that 1 is taken."""
    converged: bool

    @property
    def pairs(self) -> float:
        """Largest share of pairs of a member and a non-member that a test tells apart."""
        return 0.5 + self.advantage - self.advantage**2 / 2.0


def membership_bound(model: AnyModel, table: CellTable, how: Fitting, n_files: int) -> BoundFacts:
    """Fit the model to the original, and bound what any test of membership can reach."""
    how.execution.watcher.stage(f"Fitting {how.label} for the bound of membership")
    law = CellLaw.of(table, how.seed)
    draws = _fitted("bound", model, table, law, how)
    one = total_variation(draws.totals)
    every = 1.0 - (1.0 - one) ** n_files
    return BoundFacts(
        model=how.label,
        advantage=float(np.average(every, weights=law.counts)),
        one_file=float(np.average(one, weights=law.counts)),
        largest=float(every.max()),
        n_certain=int(law.counts[one == 1.0].sum()),
        converged=draws.converged,
    )


@dataclass(frozen=True, kw_only=True, eq=False)
class ModelRatio:
    """The test of membership by the predictions of a model.

    It is fitted to the synthetic file, and to the half of the control file that is the reference; a
    record looks like a member if the first fit gives it more probability than the second.
    """

    model: AnyModel
    how: Fitting
    converged: list[bool] = field(default_factory=list)
    """Of every fit."""
    _logs: dict[str, Float64] = field(default_factory=dict)

    def __call__(self, setting: Setting, synthetic: Int32) -> Scores:
        """Score the records of the original and of the control file."""
        files = setting.files
        number = next(i for i, one in enumerate(files.synthetic) if one is synthetic)
        n_levels = files.n_levels[: files.n_keys]
        keys = [Key.of_size(f"K{j}", n) for j, n in enumerate(n_levels)]
        targets = np.concatenate(
            (files.original[setting.original], files.control[setting.control])
        )[:, : files.n_keys]
        cells = targets[distinct(targets, n_levels).first]

        def log(name: str, what: str, file: Int32) -> Float64:
            """Log of the predictive probability of each of the cells."""
            if name not in self._logs:
                label = self.how.label
                self.how.execution.watcher.stage(f"Fitting {label} to {what} for membership")
                table = CellTable.from_codes(file[:, : files.n_keys], keys, len(file) + 1, "level")
                counts = np.ones(len(cells), np.int64)
                observer = PredictiveProbabilities(cells=cells, counts=counts)
                draws = _fitted(f"member-{name}", self.model, table, observer, self.how)
                self.converged.append(draws.converged)
                p = draws.totals.probability / draws.totals.n_draws[0]
                self._logs[name] = np.log(np.maximum(p, 1e-300))
            return self._logs[name]

        def ratio(half: int, reference: Int32, records: Int32) -> Float64:
            made = log(f"synthetic-{number}", "a synthetic file", synthetic)
            known = log(f"reference-{half}", "half of the control file", reference)
            at, _, _ = numbered(records[:, : files.n_keys], cells, n_levels)
            found: Float64 = (made - known)[at]
            return found

        return by_halves(setting, self.how.seed, ratio)


def _fitted(
    name: str, model: AnyModel, table: CellTable, observer: Observer, how: Fitting
) -> Draws:
    draws = sample(
        model,
        table,
        observer,
        seed=how.seed,
        plan=how.plan,
        workers=how.execution.workers,
        checkpoint=how.execution.of(name).checkpoint,
        progress=how.execution.watcher.progress,
    )
    if draws.stop_reason == "interrupted":
        raise KeyboardInterrupt
    return draws
