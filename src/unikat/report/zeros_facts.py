"""What results and pages say of impossible combinations: rules, cells, records, and mass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isnan
from typing import Any

import numpy as np

from unikat.data import Key
from unikat.inference.diagnostics import diagnose
from unikat.inference.draws import Draws
from unikat.report.wording import percent
from unikat.risk.estimate import EXPECTED_RHAT, Summary, summary_of
from unikat.zeros import Rule, rule_text
from unikat.zeros.conflicts import Handled

MASS = "impossible_mass"
"""Name of the scalar that models keep with their draws where combinations are impossible."""
FEW = 0.01
"""Part of the file up to which rows that break a rule are few."""
MOST_LISTED = 30
"""Rules that a page lists."""


@dataclass(frozen=True, kw_only=True)
class RuleFacts:
    """A rule, and how many rows of the file break it."""

    name: str | None
    text: str
    n_records: int


@dataclass(frozen=True, kw_only=True)
class ZerosFacts:
    """The impossible combinations, and what was done with records that have one."""

    rules: tuple[RuleFacts, ...]
    n_cells: int
    """Combinations of the keys' levels, possible or not."""
    n_impossible: int
    impossible_share: float
    """Part of the combinations that is impossible."""
    on_conflict: str
    n_conflicts: int
    """Rows of the file that break a rule."""
    n_dropped: int
    """Rows that were left out for it."""
    n_set_missing: int
    """Rows in which keys were set missing for it."""
    n_rows: int | None = None
    """Rows of the file; None in results of before it was kept."""


@dataclass(frozen=True, kw_only=True)
class ZerosResult(ZerosFacts):
    """The same, and what the rules did to the model of an assessment."""

    impossible_mass: Summary | None = None
    """Share of what the fitted components spread that the rules cut off; None if not known. Not
    what a model fitted without the rules would put on impossible combinations."""


def zeros_facts(handled: Handled | None) -> ZerosFacts | None:
    """Say what is impossible and what was done with the file.

    Parameters
    ----------
    handled
        What was done; None if every combination is possible.
    """
    return None if handled is None else ZerosFacts(**_facts(handled))


def zeros_result(handled: Handled | None, draws: Draws | None, level: float) -> ZerosResult | None:
    """Say what is impossible, and what that did to the model.

    Parameters
    ----------
    handled
        What was done with the file; None if every combination is possible.
    draws
        Of the model, if there are any.
    level
        Probability of the interval.
    """
    if handled is None:
        return None
    mass = None
    if draws is not None and MASS in draws.scalars:
        kept = draws.retained(MASS)
        mass = summary_of(kept, level, diagnose(kept))
    return ZerosResult(**_facts(handled), impossible_mass=mass)


def _facts(handled: Handled) -> dict[str, Any]:
    zeros = handled.conflicts.zeros
    return {
        "rules": tuple(
            RuleFacts(name=rule.name, text=rule.text, n_records=rule.n_records)
            for rule in handled.conflicts.rules
        ),
        "n_cells": int(zeros.n_cells),
        "n_impossible": int(zeros.n_impossible),
        "impossible_share": int(zeros.n_impossible) / int(zeros.n_cells),
        "on_conflict": handled.on_conflict,
        "n_conflicts": handled.conflicts.n_records,
        "n_dropped": handled.n_dropped,
        "n_set_missing": handled.n_set_missing,
        "n_rows": handled.conflicts.table.n_records,
    }


def zeros_spec(handled: Handled) -> dict[str, Any]:
    """Write the rules as the `[zeros]` table of a specification; tables become rules."""
    rules: list[dict[str, Any]] = []
    for rule in handled.conflicts.zeros.rules:
        texts = _texts(rule, handled.table.keys) if rule.from_table else [rule.text]
        rules += [{"rule": text, "name": rule.name} for text in texts]
    return {"rules": rules, "on_conflict": handled.on_conflict}


def _texts(rule: Rule, keys: Sequence[Key]) -> list[str]:
    """Conditions of a table as rules, but for those whose labels no rule can hold."""
    offsets = rule.offsets
    texts = []
    for condition in rule.conditions:
        sets = {
            j: np.flatnonzero(condition[offsets[j] : offsets[j + 1]]).tolist()
            for j in rule.constrained
            if not condition[offsets[j] : offsets[j + 1]].all()
        }
        texts.append(rule_text(keys, sets))
    return [text for text in texts if text is not None]


def on_page(facts: ZerosFacts | None, file: str) -> dict[str, Any] | None:
    """Return what `zeros.html.j2` shows: sentences, and rules, those that rows break first.

    Parameters
    ----------
    facts
        What is impossible; None if nothing was declared.
    file
        Where all rules are found, if the page does not list them.
    """
    if facts is None:
        return None
    ordered = sorted(facts.rules, key=lambda rule: not rule.n_records)
    return {
        "cells": cells_sentence(facts),
        "conflicts": conflicts_sentence(facts),
        "mass": mass_sentence(facts),
        "rules": ordered[:MOST_LISTED],
        "n_more": max(len(ordered) - MOST_LISTED, 0),
        "file": file,
    }


def cells_sentence(facts: ZerosFacts) -> str:
    """Say how many combinations are impossible."""
    return (
        f"{facts.n_impossible:,} of the {facts.n_cells:,} combinations of the keys "
        f"{'was' if facts.n_impossible == 1 else 'were'} declared impossible "
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
        " That is more than a few: look at the rules and at the file before relying on any number."
        if share > FEW
        else ""
    )
    if facts.n_dropped:
        return (
            f"{rows} and {'was' if n == 1 else 'were'} left out{part}: no number here is about "
            f"{'it' if n == 1 else 'them'}.{many}"
        )
    return (
        f"{rows}{part}; the keys that the broken rules are about were set missing in "
        f"{'it' if n == 1 else 'them'}.{many}"
    )


def terminal_sentence(facts: ZerosFacts | None) -> str:
    """Say on the terminal what is impossible and what was done; nothing if nothing is."""
    if facts is None:
        return ""
    return f"Impossible combinations: {cells_sentence(facts)} {conflicts_sentence(facts)}"


def mass_sentence(facts: ZerosFacts) -> str:
    """Say how much the rules cut off the model's components; nothing if it is not known."""
    mass = facts.impossible_mass if isinstance(facts, ZerosResult) else None
    if mass is None:
        return ""
    said = (
        "The model gives them no probability: of what its components spread, the rules cut off "
        f"{percent(mass.mean)} ({percent(mass.lower)} to {percent(mass.upper)}). The file hardly "
        "tells this share, and it is not what a model fitted without the rules would put on them, "
        "which is often much less."
    )
    if mass.rhat is None or isnan(mass.rhat):
        return f"{said} The draws are too few to tell whether the chains agree on it."
    if mass.rhat > EXPECTED_RHAT:
        said += (
            f" The chains do not agree on it (R-hat {mass.rhat:.2f}), so its interval is "
            "provisional."
        )
    return said


def sentences(facts: ZerosFacts | None) -> dict[str, str]:
    """What each number about impossible combinations means, by its path in `result.json`."""
    if facts is None:
        return {}
    said = {
        "zeros": cells_sentence(facts),
        "zeros.rules": (
            "What was declared impossible, and how many rows of the file break each rule; a row "
            "that breaks several counts for each."
        ),
        "zeros.n_conflicts": conflicts_sentence(facts),
        "zeros.impossible_mass": mass_sentence(facts),
    }
    return {path: text for path, text in said.items() if text}
