"""Structural zeros, as `result.json` and `summary.json` hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from unikat.data import Key
from unikat.inference.diagnostics import diagnose
from unikat.inference.draws import Draws
from unikat.risk.estimate import Summary, summary_of
from unikat.zeros import Rule, rule_text
from unikat.zeros.conflicts import Handled

MASS = "impossible_mass"
"""Name of the scalar that models keep with their draws where combinations are impossible."""


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
    """Rows that were left out because they break a rule."""
    n_set_missing: int
    """Rows in which keys were set missing for it."""
    n_rows: int | None = None
    """Rows of the file; None in results of before it was kept."""

    @property
    def file(self) -> str:
        """Where all rules are found."""
        return "summary.json"


@dataclass(frozen=True, kw_only=True)
class ZerosResult(ZerosFacts):
    """The same, and what the rules did to the model of an assessment."""

    impossible_mass: Summary | None = None
    """Share of what the fitted components spread that the rules cut off; None if not known. Not
    what a model fitted without the rules would put on impossible combinations."""

    @property
    def file(self) -> str:
        """Where all rules are found."""
        return "result.json"


def zeros_facts(handled: Handled | None) -> ZerosFacts | None:
    """Say what is impossible and what was done with the file; None if nothing is impossible."""
    if handled is None:
        return None
    conflicts = handled.conflicts
    n_cells, n_impossible = int(conflicts.zeros.n_cells), int(conflicts.zeros.n_impossible)
    return ZerosFacts(
        rules=tuple(
            RuleFacts(name=rule.name, text=rule.text, n_records=rule.n_records)
            for rule in conflicts.rules
        ),
        n_cells=n_cells,
        n_impossible=n_impossible,
        impossible_share=n_impossible / n_cells,
        on_conflict=handled.on_conflict,
        n_conflicts=conflicts.n_records,
        n_dropped=handled.n_dropped,
        n_set_missing=handled.n_set_missing,
        n_rows=conflicts.table.n_records,
    )


def zeros_result(handled: Handled | None, draws: Draws | None, level: float) -> ZerosResult | None:
    """Say the same, and what it did to the model (`draws`); `level` is that of the interval."""
    facts = zeros_facts(handled)
    if facts is None:
        return None
    mass = None
    if draws is not None and MASS in draws.scalars:
        kept = draws.retained(MASS)
        mass = summary_of(kept, level, diagnose(kept))
    return ZerosResult(**vars(facts), impossible_mass=mass)


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
