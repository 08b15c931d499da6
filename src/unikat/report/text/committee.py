"""What two pages tell a committee: from any protection or check, in sentences."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from unikat.report.facts.check import CheckSummary
from unikat.report.facts.committee import KeyShares
from unikat.report.facts.protection import ProtectionSummary, RiskFacts
from unikat.report.text import check, protection
from unikat.report.text.numbers import in_turn, level, number, some
from unikat.report.text.plan_words import key_words, method_words
from unikat.report.text.verdict import VerdictText, named
from unikat.report.text.words import say

Facts = ProtectionSummary | CheckSummary
MOST_KEYS, MOST_LIMITS, MOST_WARNINGS = 9, 9, 6
"""Rows for which two pages have room; the report has the others."""
_AT_SIGN = re.compile(r" (?=[≤≥])|(?<=[≤≥]) ")
SIGNED = ("name", "office", "decision", "date")


@dataclass(frozen=True, kw_only=True)
class KeyRow:
    """A key, and what the changes cost it."""

    name: str
    done: str
    cost: str
    shares: KeyShares


@dataclass(frozen=True, kw_only=True)
class Told:
    """The content of the two pages."""

    title: str
    question: str
    verdict: VerdictText | None
    answer: str
    sides: Sequence[str]
    """`before` and `after`, or the file alone."""
    risks: Sequence[RiskFacts]
    """At each side."""
    rows: Sequence[tuple[str, ...]]
    """A measure at each side."""
    limits_head: Sequence[str]
    limits: Sequence[tuple[str, ...]]
    done: Sequence[str]
    keys: Sequence[KeyRow]
    left: Sequence[str]
    assumptions: Sequence[str]


def told(found: Facts) -> Told:
    """Say what a committee needs of a protection or a check."""
    if isinstance(found, CheckSummary):
        return _of_check(found)
    return _of_protection(found)


def _of_protection(found: ProtectionSummary) -> Told:
    said = found.sentences
    scenarios = protection.scenario_rows(found)
    # Scenario, what he knows, target, before, the new fit, verdict.
    picked = [tuple(row[place] for place in (0, 1, 2, 3, 5, 6)) for row in scenarios]
    asked = [one.target.limit for one in found.scenarios] or (
        [found.target.limit] if found.target else []
    )
    file = _short(found.data or say("committee.frame"))
    question = say(
        f"committee.question.{'limits' if asked else 'risk'}",
        file=_short(found.file or file),
        original=file,
        limits=_AT_SIGN.sub("\u00a0", some([named(one) for one in dict.fromkeys(asked)], 3)),
    )
    done = [said[place] for place in _DONE if place in said]
    if found.scenarios and found.perturbation is not None:
        done.append(say("committee.limits_before"))
    unconverged = say("protection.warning.unconverged")
    rows = [_key_row(found, one) for one in found.keys]
    if len(rows) > MOST_KEYS:
        done.append(say("committee.more_keys", n=len(rows) - MOST_KEYS))
    return Told(
        title=say("committee.title.protection", file=file),
        question=question,
        verdict=protection.verdict_of(found),
        answer=said["answer"],
        sides=[say("committee.before"), say("committee.after")],
        risks=[found.before, found.after],
        rows=protection.risk_rows([found.before, found.after], households=found.households),
        limits_head=picked[0] if len(picked) > 1 else (),
        limits=_fitting(picked[1:], MOST_LIMITS),
        done=[say("committee.lost", lost=found.lost), *done],
        keys=rows[:MOST_KEYS],
        left=_some(
            [one for one in found.warnings if one != unconverged],
            [text for one in ("columns_done", "left_over") if (text := said.get(one))],
        ),
        assumptions=[
            *([unconverged] if unconverged in found.warnings else []),
            *_assumptions(
                found.population_size, [one.name for one in found.keys], found.model, found.level
            ),
        ],
    )


_DONE = ("sampled", "suppression", "perturbation", "numeric", "households")
"""Sentences of what was done beside recoding, by their place."""


def _of_check(found: CheckSummary) -> Told:
    said, file = found.sentences, _short(found.data or say("committee.frame"))
    rows = check.limit_rows(found)
    return Told(
        title=say("committee.title.check", file=file),
        question=say("committee.question.policy", file=file, policy=_short(found.policy)),
        verdict=check.verdict_of(found),
        answer=" ".join(said[place] for place in ("answer", "how") if place in said),
        sides=[] if found.risk is None else [say("committee.file")],
        risks=[] if found.risk is None else [found.risk],
        rows=[] if found.risk is None else protection.risk_rows([found.risk]),
        limits_head=[say(f"check.column.{name}") for name in check.HEAD] if rows else (),
        limits=_fitting(rows, 2 * MOST_LIMITS),
        done=[said["left_out"]] if "left_out" in said else [],
        keys=[],
        left=[said["columns"]],
        assumptions=[
            *found.warnings,
            *(said[place] for place in ("errors", "missing") if place in said),
            *_assumptions(found.population_size, found.keys, found.model, found.level),
            said["certificate"],
        ],
    )


def _fitting(rows: Sequence[tuple[str, ...]], most: int) -> list[tuple[str, ...]]:
    """Rows for which there is room, and one that says how many others there are."""
    rows = [tuple(map(_short, row)) for row in rows]
    if len(rows) <= most:
        return rows
    others = say("committee.more_rows", n=len(rows) - most + 1)
    return [*rows[: most - 1], (others, *[""] * (len(rows[0]) - 1))]


def _some(texts: Sequence[str], last: Sequence[str]) -> list[str]:
    """Sentences for which there is room, how many others there are, and those that come last."""
    room = MOST_WARNINGS + 1 - len(last)
    if len(texts) <= room:
        return [*texts, *last]
    more = say("committee.more_rows", n=len(texts) - room)
    return [*texts[:room], more, *last]


def _key_row(found: ProtectionSummary, one: KeyShares) -> KeyRow:
    plan, words = found.chosen, say("committee.unchanged")
    if (done := plan.recodings.get(one.name)) is not None:
        title, n_groups = plan.titles.get(one.name, ""), plan.n_groups.get(one.name)
        words = key_words("", done, title=title, n_groups=n_groups)
    changed = () if found.perturbation is None else found.perturbation.keys
    for key in changed:
        if key.name == one.name:
            method = say("committee.perturbed", one=key, method=method_words(key))
            words = in_turn([words, method]) if done is not None else method
    before = sum(share > 0.0 for share in one.before)
    after = sum(share > 0.0 for _, share in one.after)
    cost = say("committee.cost.levels", before=before, after=after)
    if not one.after:
        cost = say("committee.cost.left_out", before=before)
    elif one.missing[1] > one.missing[0]:
        cost = in_turn([cost, say("committee.cost.missing", share=one.missing[1])])
    return KeyRow(name=_short(one.name, 24), done=_short(words), cost=cost, shares=one)


def _short(text: str, longest: int = 60) -> str:
    return text if len(text) <= longest else f"{text[: longest - 1]}…"


def _assumptions(
    population: int | None, keys: Sequence[str], model: str | None, probability: float
) -> list[str]:
    said = (
        [say("committee.assume.keys", keys=some([_short(key, 24) for key in keys], 12))]
        if keys
        else []
    )
    if model is not None and population is not None:
        said.insert(0, say("committee.assume.population", n=number(population)))
        said.append(say("committee.assume.model", level=level(probability)))
    return [*said, say("committee.assume.identity")]
