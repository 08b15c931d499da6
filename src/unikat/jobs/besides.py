"""What is done to a file besides recoding, looked at by the states of one fit.

A sample of the records has the law of a coarser table: records that are held back stay known.
Suppressed and perturbed values have that of the correct matches with what is shown. Which records
and values are drawn is not what a protection will draw: it has a secret seed of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.jobs.protection_target import lost_by
from unikat.protection.going_on import N_STATES
from unikat.protection.perturbed import check_perturbation
from unikat.protection.recoding import Recoding, recodable
from unikat.protection.release import Release, Releases
from unikat.protection.search import Plan, Value
from unikat.protection.subsample import Shares
from unikat.protection.what_if import Posterior
from unikat.spec.from_options import specify
from unikat.spec.perturbation import SwapRule
from unikat.spec.protection import BY_SEARCH, ProtectionSpec
from unikat.spec.trust import Trust

_SEED = 0
"""The same question has the same answer, also after a restart."""
_KNOWN = ("subsample", "suppress", "pram", "swap")


@dataclass(frozen=True, kw_only=True, eq=False)
class Besides:
    """What is done besides recoding. Made by :meth:`of`."""

    spec: ProtectionSpec
    shares: Shares | None
    """Of the records, of which the only one is released; None: all are."""

    @classmethod
    def of(
        cls, texts: Mapping[str, str], specification: Path, trust: Trust, table: Posterior
    ) -> Besides | None:
        """Read it as `protect` does; None if nothing is done.

        Parameters
        ----------
        texts
            `subsample`, `suppress`, `pram` and `swap`, as options take them.
        specification, trust
            Of the assessment, and what of it counts.
        table
            The posterior, whose table it is done to.
        """
        given = {name: text.strip() for name, text in texts.items() if text.strip()}
        if strange := [name for name in given if name not in _KNOWN]:
            raise SpecError(f"{strange[0]} is no option of what is done besides recoding.")
        if not given:
            return None
        sample = table.table
        if sample.layout is not None:
            raise SpecError(
                "Of households as units the page looks at recodings alone; name the rest in the "
                "form of a protection."
            )
        # Suppression alone is refused without a target; this one is always met.
        asked = {"target": "k >= 1", **given}
        spec, _ = specify(
            ProtectionSpec, specification, asked, caller="The page", shell=True, trust=trust
        )
        if spec.suppress == BY_SEARCH or len(spec.perturbations) > 1 or len(spec.subsample) > 1:
            raise SpecError(
                "The page looks at one plan: name one rule of suppression, one probability for "
                "each key and one share. A protection with a target chooses among several."
            )
        match = [] if spec.swap is None else spec.swap_match
        swap = () if spec.swap is None else SwapRule.of(spec.swap).keys
        check_perturbation(sample, pram=spec.pram, swap=swap, match=match)
        return cls(spec=spec, shares=shares_of(spec.subsample, sample) if spec.subsample else None)

    @property
    def changes_values(self) -> bool:
        """Whether values are suppressed or perturbed."""
        return self.spec.suppress is not None or self.spec.perturbs

    def held(self, recoding: Recoding) -> Recoding:
        """The recoding with the records that are held back."""
        return recoding if self.shares is None else replace(recoding, held=self.shares.held[0])

    def lost(self, lost: float) -> float:
        """Share of the information that is lost where recoding has lost some."""
        return lost if self.shares is None else self.shares.lost(lost, self.shares.shares[0])

    def release(
        self,
        posterior: Posterior,
        recoding: Recoding,
        level: float,
        n_states: int | None,
        between: Callable[[], None] | None,
    ) -> tuple[Releases, Release]:
        """What the records show, and how they are released.

        Parameters
        ----------
        posterior, recoding, level
            States, what is recoded (`held`), and the probability of intervals.
        n_states
            By which it is computed; None: all.
        between
            Called before each state; what it raises ends the look.
        """
        posterior = replace(posterior, between=between)
        table, n = posterior.table, n_states or N_STATES
        releases = releases_of(self.spec, posterior, level, self.shares)
        nothing = Value(np.nan, np.nan)
        plan = Plan(recoding=recoding, lost=lost_by(table, recoding), value=nothing)
        release = releases.of(plan, self.spec.pram, self.spec.suppress, n_states=n)
        return releases, release


def shares_of(shares: Sequence[float], table: CellTable) -> Shares:
    """Draw who is released of the records that were assessed."""
    return Shares.of(
        shares,
        table.n_records,
        household=table.households,
        classes=None if table.sampling is None else table.sampling.strata,
        seed=_SEED,
    )


def releases_of(
    spec: ProtectionSpec, posterior: Posterior, level: float, shares: Shares | None
) -> Releases:
    """How the records that were assessed are released under any plan."""
    table = posterior.table
    return Releases(
        posterior=posterior,
        codes=table.cells[table.record_cell],
        assessed=np.arange(table.n_records),
        weights=[1.0] * len(recodable(table)),
        level=level,
        weight_of_suppressed=spec.weight_of_suppressed,
        shares=shares,
        household=table.households,
        swap=SwapRule.of(spec.swap) if spec.swap else None,
        swap_match=spec.swap_match,
        seed=_SEED,
    )
