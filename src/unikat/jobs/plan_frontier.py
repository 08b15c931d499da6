"""The frontier of *What if*: of each kind of plan those that no other of its kind beats.

All plans compare in one number, the share of the information lost (`protection.lost`). Recodings
are searched, so that of each limit of τ1 the cheapest is there (`protection.search`). Some of them,
spread over their frontier, are then looked at with each share of the records and with each
threshold of suppression, and the best of these are kept. What comes first is by few states; all
states tell every plan again, as a look at it does.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from unikat.errors import SpecError
from unikat.jobs.looks import Point, Points, Range
from unikat.protection.hierarchies import Choices
from unikat.protection.recoding import Recoding
from unikat.protection.release import Releases
from unikat.protection.released_plans import THRESHOLDS
from unikat.protection.search import (
    NONE,
    Plan,
    Search,
    SearchProgress,
    Tell,
    Value,
    frontier,
    undominated,
)
from unikat.protection.what_if import FEW, Posterior
from unikat.report.facts.protection import KINDS, kind_of

SHARES = (0.9, 0.75, 0.5, 0.33, 0.25, 0.1)
"""Shares of the records that are looked at."""
_STEP = 0.98
"""Share of a plan's τ1 that the next recoding of the frontier has at most."""
_BASES = 10
"""Recodings that are sampled and suppressed, at most."""
_MOST = 8
"""Of these, those that are kept of each kind: all states take seconds for suppressed values."""
_SOON = 0.8
"""Seconds after which the plans so far are told; then after twice as long, and so on."""


@dataclass(frozen=True, kw_only=True, eq=False)
class _Weighed:
    """A plan, and what is done besides recoding, as options of `protect`."""

    plan: Plan
    besides: Mapping[str, str] = field(default_factory=dict)
    tau1: Range | None = None
    """By all states; None until they are asked."""

    @property
    def kind(self) -> str:
        return kind_of(self.besides)

    @property
    def shown(self) -> Range:
        return self.tau1 or Range.at(self.plan.value.tau1)

    def beats(self, other: _Weighed) -> bool:
        return self.plan.cost < other.plan.cost and self.shown.mean <= other.shown.mean


@dataclass(kw_only=True, eq=False)
class PlanFrontier:
    """The frontier of a file whose states are there."""

    parts: Sequence[Choices]
    """Recodings of each key."""
    posterior: Posterior
    """Of the file as it was."""
    releases: Releases
    """How its records are released; with `SHARES`, if samples are looked at."""
    suppress: bool
    """Whether suppressed values are looked at."""
    understated: str
    """The model, if they are not because it understates their risk; else empty."""
    look: Callable[[Sequence[int], Mapping[str, str]], tuple[Range, float]]
    """τ1 of a plan by all states, and the information that it loses."""
    between: Callable[[], None] = lambda: None
    """Called before each look; what it raises ends the search."""
    tell: Tell | None = None
    early: Callable[[Points], None] = lambda _: None
    """Given the plans so far: soon, as the search goes on, and after each kind."""
    _began: float = field(default_factory=time.monotonic)
    _due: float = _SOON
    _every: bool = False
    _n_others: int = 0
    _so_far: list[Plan] = field(default_factory=list)

    def found(self) -> Points:
        """Find the plans of each kind that no other of it beats in τ1 and in what it costs."""
        self._search = Search.of(self.parts, self._quick, tell=self.tell)
        found = frontier(self._search, None, step=_STEP)
        self._every = found.complete
        every = [_Weighed(plan=plan) for plan in found.plans]
        self.early(self._points(every))
        some = np.linspace(0, len(every) - 1, _BASES).round().astype(int).tolist()
        bases = [found.plans[place] for place in dict.fromkeys(some)]
        for name, others in (("Samples", self._sampled), ("Suppression", self._suppressed)):
            looked_at = self._told(name, others(bases), len(bases))
            self._n_others += len(looked_at)
            best = undominated([one.plan for one in looked_at])
            places = np.linspace(0, len(best) - 1, min(len(best), _MOST)).round().astype(int)
            best = [best[place] for place in places.tolist()]
            every += [one for one in looked_at if any(one.plan is plan for plan in best)]
            self.early(self._points(every))
        looks = self._told("Plans", map(self._by_all, every), len(every))
        return self._points(
            [
                one
                for one in looks
                if not any(other.kind == one.kind and other.beats(one) for other in looks)
            ]
        )

    def _quick(self, recoding: Recoding) -> Value:
        self.between()
        tau1 = self.posterior.tau1(recoding)
        value = Value(tau1, tau1)
        self._so_far.append(self._search.plan(self._search.place(recoding), value))
        if (seconds := time.monotonic() - self._began) > self._due:
            self._due = 2.0 * seconds
            self.early(self._points([_Weighed(plan=one) for one in undominated(self._so_far)]))
        return value

    def _sampled(self, bases: Sequence[Plan]) -> Iterator[_Weighed]:
        shares = self.releases.shares
        for plan in bases if shares is not None else ():
            assert shares is not None
            for share, held in zip(shares.shares, shares.held, strict=True):
                self.between()
                recoding = replace(plan.recoding, held=held)
                tau1, lost = self.posterior.tau1(recoding), shares.lost(plan.lost, share)
                one = replace(plan, recoding=recoding, lost=lost, value=Value(tau1, tau1))
                yield _Weighed(plan=one, besides={"subsample": f"{share:.0%}"})

    def _suppressed(self, bases: Sequence[Plan]) -> Iterator[_Weighed]:
        for plan in bases if self.suppress else ():
            for threshold in THRESHOLDS[1::2]:
                self.between()
                rule = f"r1 <= {threshold:g}"
                try:
                    release = self.releases.of(plan, {}, rule, n_states=FEW)
                except SpecError:
                    # No suppression makes all records safe.
                    break
                tau1 = self.releases.matches(release, n_states=FEW).tau1.mean
                one = replace(plan, lost=release.lost, value=Value(tau1, tau1))
                yield _Weighed(plan=one, besides={"suppress": rule})
                if tau1 < NONE:
                    break

    def _by_all(self, one: _Weighed) -> _Weighed:
        self.between()
        tau1, lost = self.look(self._search.place(one.plan.recoding), one.besides)
        return replace(one, plan=replace(one.plan, lost=lost), tau1=tau1)

    def _told(self, name: str, looks: Iterator[_Weighed], n_bases: int) -> list[_Weighed]:
        """Tell where looks stand, before each."""
        found: list[_Weighed] = []
        began, most = time.monotonic(), n_bases * (1 if name == "Plans" else len(SHARES))
        while True:
            if self.tell is not None:
                self.tell(
                    SearchProgress(
                        name=name,
                        looks=min(len(found) + 1, most),
                        most_looks=most,
                        lost=None,
                        seconds=time.monotonic() - began,
                    )
                )
            if (one := next(looks, None)) is None:
                return found
            found.append(one)

    def _points(self, found: Sequence[_Weighed]) -> Points:
        return Points(
            points=tuple(
                Point(
                    kind=one.kind,
                    steps=self._search.place(one.plan.recoding),
                    besides=dict(one.besides),
                    rules={key.name: key.text for key in one.plan.recoding.keys if key.changes},
                    tau1=one.shown,
                    lost=one.plan.lost,
                    beaten=any(other.beats(one) for other in found),
                )
                for one in sorted(found, key=lambda one: (KINDS.index(one.kind), one.plan.cost))
            ),
            n_plans=int(self._search.lost.size),
            n_others=self._n_others,
            every=self._every,
            understated=self.understated,
        )
