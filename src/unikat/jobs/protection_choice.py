"""What a protection releases: the plan that is told, or the best that a search finds."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from unikat.jobs.protect_inputs import Loaded
from unikat.jobs.protection_target import (
    aim_of,
    closer_look,
    explicit_plan,
    verified,
    with_release,
)
from unikat.jobs.schedule import Schedule
from unikat.protection.recoding import Recoding
from unikat.protection.release import Release, Releases
from unikat.protection.released_plans import Reaching
from unikat.protection.scenarios import Scenarios
from unikat.protection.search import Plan, Search, frontier
from unikat.protection.utility import Tables
from unikat.protection.what_if import Posterior
from unikat.report.facts.protection import PlanFacts, RiskFacts
from unikat.risk.estimate import RiskEstimate
from unikat.spec.perturbation import SwapRule, pram_text
from unikat.spec.protection import ProtectionSpec

SEARCH, CLOSELY = "search", "plans by all states"
"""Parts of the run."""


class Chosen(NamedTuple):
    """What is released, and the plans that are shown beside it."""

    releases: Releases
    release: Release
    shown: list[tuple[Plan, RiskEstimate]]
    variants: tuple[Reaching, ...] = ()
    """With perturbed or suppressed values."""
    n_plans: int = 1
    n_looked_at: int = 1
    least: float | None = None
    """See `Search.least`."""

    @property
    def of_persons(self) -> Recoding:
        """The recoding of the columns of the file."""
        return self.releases.of_persons(self.release.plan.recoding)

    def facts(self, tables: Tables) -> tuple[PlanFacts, ...]:
        """What the page shows of the plans; tables: those whose utility is asked for."""
        found = []
        for plan, risk in self.shown:
            share, out = self.releases.released(plan.recoding)
            utility = tables.kept(self.releases.of_persons(plan.recoding), None, out)
            chosen = plan is self.release.plan
            found.append(PlanFacts.of(plan, RiskFacts.of(risk), utility, share, chosen))
        for one in self.variants:
            release, gone = one.release, one.release.suppressed
            table = self.releases.table(release, release.visible)
            utility = tables.kept(release.plan.recoding, release.visible, release.records)
            after = RiskFacts.of_matches(one.matches, table)
            plan = replace(release.plan, lost=release.lost)
            found.append(
                replace(
                    PlanFacts.of(plan, after, utility, release.share, False),
                    perturb=pram_text(release.pram) or None,
                    suppress=release.rule,
                    n_suppressed=0 if gone is None else int(gone.sum()),
                )
            )
        return tuple(found)


def releases_of(spec: ProtectionSpec, asked: Loaded, posterior: Posterior) -> Releases:
    """How the records of the file are released under any plan."""
    return Releases(
        posterior=posterior,
        codes=asked.every.cells[asked.every.record_cell],
        assessed=asked.assessed,
        weights=asked.weights,
        level=spec.report.level,
        keep=spec.keep,
        weight_of_suppressed=spec.weight_of_suppressed,
        shares=asked.shares,
        household=asked.household,
        swap=SwapRule.of(spec.swap) if spec.swap else None,
        swap_match=spec.swap_match,
        seed=spec.perturbation_seed,
        homes=asked.homes,
    )


def choose(
    spec: ProtectionSpec,
    asked: Loaded,
    scenarios: Scenarios,
    releases: Releases,
    schedule: Schedule,
) -> Chosen:
    """Find the plan that is carried out: the one that is told, or by a search."""
    posterior, level = scenarios.posterior, scenarios.level

    def look(recoding: Recoding) -> RiskEstimate:
        return posterior.what_if(recoding, level)

    if not spec.seeks:
        plans = [asked.plan]
        if asked.plan.recoding.changes:
            plans.insert(0, explicit_plan(asked.table, {}, asked.weights))
        release = releases.of(asked.plan, spec.pram, spec.suppress)
        return Chosen(releases, release, [(one, look(one.recoding)) for one in plans])
    watcher = schedule.begin(SEARCH)
    watcher.stage("Searching")
    aim = aim_of(spec, scenarios)
    shares = None if asked.shares is None else asked.shares.assessed(asked.assessed)
    search = Search.of(asked.parts, aim.quick, asked.weights, shares=shares, tell=watcher.progress)
    found = frontier(search, aim.goal, aim.tau1)
    variants: tuple[Reaching, ...] = ()
    if spec.seeks_release:
        watcher.stage("Perturbing and suppressing")
        release, variants = with_release(spec, search, found, aim, releases)
    else:
        plan = verified(search, found.reached, aim, spec.keep)
        release = releases.of(plan, spec.pram, spec.suppress)
    others = [one for one in found.plans if not _same(one.recoding, release.plan.recoding)]
    tell = schedule.begin(CLOSELY).progress
    shown = closer_look([*others, release.plan], release.plan, look, tell)
    return Chosen(
        releases,
        release,
        shown,
        variants,
        n_plans=int(search.lost.size),
        n_looked_at=found.n_looked_at,
        least=None if spec.seeks_release else search.least,
    )


def _same(one: Recoding, other: Recoding) -> bool:
    return one.keys == other.keys and one.held is other.held
