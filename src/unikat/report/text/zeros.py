"""Structural zeros (impossible combinations) in words: rules, cells, records, probability."""

from __future__ import annotations

from math import isnan

from unikat.report.facts.zeros import MOST_LISTED, RuleFacts, ZerosFacts, ZerosResult
from unikat.report.text.words import say
from unikat.risk.estimate import EXPECTED_RHAT

FEW = 0.01
"""Part of the file up to which rows that break a rule are few."""


def shown_rules(facts: ZerosFacts) -> list[RuleFacts]:
    """Return the rules that a page lists: those that rows break come first."""
    return sorted(facts.rules, key=lambda rule: not rule.n_records)[:MOST_LISTED]


def cells_sentence(facts: ZerosFacts) -> str:
    """Say how many combinations are impossible."""
    return say("zeros.cells", facts=facts)


def conflicts_sentence(facts: ZerosFacts) -> str:
    """Say how many rows break a rule and what was done with them."""
    n = facts.n_conflicts
    if not n:
        return say("zeros.no_conflict")
    part = 0.0 if facts.n_rows is None else n / facts.n_rows
    return say(
        "zeros.dropped" if facts.n_dropped else "zeros.set_missing",
        part > FEW and "zeros.many",
        n=n,
        rows=say("zeros.rows", n=n),
        part=say(facts.n_rows is not None and "zeros.part", part=part),
    )


def terminal_sentence(facts: ZerosFacts | None) -> str:
    """Summarise rules and broken rules for the terminal; nothing if there are no rules."""
    if facts is None:
        return ""
    cells, conflicts = cells_sentence(facts), conflicts_sentence(facts)
    return say("zeros.terminal", cells=cells, conflicts=conflicts)


def mass_sentence(facts: ZerosFacts) -> str:
    """Say how much probability the rules cut off; nothing if it is not known."""
    mass = facts.impossible_mass if isinstance(facts, ZerosResult) else None
    if mass is None:
        return ""
    remark = None
    if mass.rhat is None or isnan(mass.rhat):
        remark = "zeros.few_draws"
    elif mass.rhat > EXPECTED_RHAT:
        remark = "zeros.disagree"
    return say("zeros.mass", remark, mass=mass)


def sentences(facts: ZerosFacts | None) -> dict[str, str]:
    """Return what each number on structural zeros means, by its path in `result.json`."""
    if facts is None:
        return {}
    said = {
        "zeros": cells_sentence(facts),
        "zeros.rules": say("zeros.rules"),
        "zeros.n_conflicts": conflicts_sentence(facts),
        "zeros.impossible_mass": mass_sentence(facts),
    }
    return {path: text for path, text in said.items() if text}
