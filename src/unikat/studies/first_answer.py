"""The first sweeps of `auto`, and the preliminary answer that is made out of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from unikat.data.table import CellTable
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.draws import Draws
from unikat.inference.plan import Plan
from unikat.inference.progress import Watcher
from unikat.models.auto import Auto
from unikat.models.base import Start
from unikat.models.calibrated import Calibrated, SelectionFacts
from unikat.risk.estimate import RiskEstimate, assess
from unikat.risk.observe import observe
from unikat.studies.compare import Candidate
from unikat.studies.known_error import known_beforehand, with_known_error


@dataclass(frozen=True, kw_only=True)
class FirstSweeps:
    """Makes the first sweeps of a fit to all records, where it then goes on.

    These are sweeps that the fit discards. The preliminary answer is what the answer will be, but
    for the choice of the model and the evidence of its error, which are not there yet: predictions
    of τ1 with the error as it is known beforehand. So as many sweeps again are made from where the
    chains stand, with that error put on the model. Whether it is asked for moves no other number.
    """

    auto: Auto
    candidate: Candidate
    table: CellTable
    seed: int
    plan: Plan
    """Of these sweeps."""
    level: float
    workers: Workers | None
    watcher: Watcher
    """Of the first sweeps, and..."""
    answering: Watcher
    """...of those for the answer."""
    tell: Callable[[RiskEstimate], None] | None

    def __call__(self) -> Start:
        """Return where the fit goes on.

        Raises
        ------
        KeyboardInterrupt
            On Ctrl-C.
        """
        label, model = self.candidate.label, self.candidate.model
        draws = self._sample(model, None, self.watcher)
        start = Start(draws.states, draws.n_before + draws.n_sweeps)
        if self.tell is None:
            return start
        estimate = assess(draws, self.table, level=self.level)
        if self.auto.calibrate:
            weights = known_beforehand(self.table, model, estimate.tau1)
            told = SelectionFacts(chosen=label)
            calibrated = Calibrated(
                wrapped=model,
                weights=tuple(weights.ravel().tolist()),
                asked=self.auto,
                told=with_known_error(told, self.table, model, estimate.tau1, weights),
            )
            self.watcher.stage(f"{label}: preliminary answer")
            answer = self._sample(calibrated, start, self.answering)
            estimate = assess(answer, self.table, level=self.level)
        self.tell(estimate)
        self.watcher.stage(f"{label}: fitting all records")
        return start

    def _sample(self, model: Any, start: Start | None, watcher: Watcher) -> Draws:
        fitted, observer = observe(model, self.table)
        draws = sample(
            model,
            fitted,
            observer,
            seed=self.seed,
            plan=self.plan,
            start=start,
            workers=self.workers,
            progress=watcher.progress,
        )
        if draws.stop_reason == "interrupted":
            raise KeyboardInterrupt
        return draws
