"""What results and pages say of impossible combinations: rules, cells, records, and mass."""

from __future__ import annotations

from math import isnan
from typing import Any

from unikat.report.facts.zeros import MOST_LISTED, ZerosFacts, ZerosResult
from unikat.report.text.numbers import percent
from unikat.risk.estimate import EXPECTED_RHAT

FEW = 0.01
"""Part of the file up to which rows that break a rule are few."""


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
