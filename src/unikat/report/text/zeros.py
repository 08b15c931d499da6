"""Structural zeros (impossible combinations) in words: rules, cells, records, probability."""

from __future__ import annotations

from math import isnan

from unikat.report.facts.zeros import MOST_LISTED, RuleFacts, ZerosFacts, ZerosResult
from unikat.report.text.numbers import percent, verb
from unikat.risk.estimate import EXPECTED_RHAT

FEW = 0.01
"""Part of the file up to which rows that break a rule are few."""


def shown_rules(facts: ZerosFacts) -> list[RuleFacts]:
    """Return the rules that a page lists: those that rows break come first."""
    return sorted(facts.rules, key=lambda rule: not rule.n_records)[:MOST_LISTED]


def cells_sentence(facts: ZerosFacts) -> str:
    """Say how many combinations are impossible."""
    return (
        f"{facts.n_impossible:,} of the {facts.n_cells:,} combinations of the keys "
        f"{verb(facts.n_impossible, 'were')} declared impossible "
        f"({percent(facts.impossible_share)})."
    )


def conflicts_sentence(facts: ZerosFacts) -> str:
    """Say how many rows break a rule and what was done with them."""
    n = facts.n_conflicts
    if not n:
        return "No row of the file breaks a rule."
    rows = "1 row of the file breaks a rule" if n == 1 else f"{n:,} rows of the file break a rule"
    share = 0.0 if facts.n_rows is None else n / facts.n_rows
    part = "" if facts.n_rows is None else f", {percent(share)} of it"
    many = (
        " These are many: check the rules and the file before you use any number."
        if share > FEW
        else ""
    )
    if facts.n_dropped:
        return (
            f"{rows} and {verb(n, 'were')} left out{part}: no number here includes "
            f"{'it' if n == 1 else 'them'}.{many}"
        )
    return (
        f"{rows}{part}; the keys of the broken rules were set missing in "
        f"{'it' if n == 1 else 'them'}.{many}"
    )


def terminal_sentence(facts: ZerosFacts | None) -> str:
    """Summarise rules and broken rules for the terminal; nothing if there are no rules."""
    if facts is None:
        return ""
    return f"Impossible combinations: {cells_sentence(facts)} {conflicts_sentence(facts)}"


def mass_sentence(facts: ZerosFacts) -> str:
    """Say how much probability the rules cut off; nothing if it is not known."""
    mass = facts.impossible_mass if isinstance(facts, ZerosResult) else None
    if mass is None:
        return ""
    said = (
        "The model gives them probability zero. The rules cut off "
        f"{percent(mass.mean)} ({percent(mass.lower)} to {percent(mass.upper)}) of the "
        "probability of its components. The file hardly determines this share. A model fitted "
        "without the rules often gives these combinations much less probability."
    )
    if mass.rhat is None or isnan(mass.rhat):
        return f"{said} There are too few draws to tell whether the chains agree on it."
    if mass.rhat > EXPECTED_RHAT:
        said += (
            f" The chains do not agree on it (R-hat {mass.rhat:.2f}), so its interval is "
            "provisional."
        )
    return said


def sentences(facts: ZerosFacts | None) -> dict[str, str]:
    """Return what each number on structural zeros means, by its path in `result.json`."""
    if facts is None:
        return {}
    said = {
        "zeros": cells_sentence(facts),
        "zeros.rules": (
            "Rules of impossible combinations, and how many rows of the file break each; a row "
            "that breaks several rules counts for each."
        ),
        "zeros.n_conflicts": conflicts_sentence(facts),
        "zeros.impossible_mass": mass_sentence(facts),
    }
    return {path: text for path, text in said.items() if text}
