"""Links of a file with an external one, in words."""

from __future__ import annotations

from dataclasses import replace
from textwrap import wrap
from typing import Any

from unikat.report.facts.attack import AttackSummary
from unikat.report.text.language import wording
from unikat.report.text.numbers import between, columns, number, percent
from unikat.report.text.words import say
from unikat.spec.key_errors import Rates
from unikat.synthesis.attacks.linkage import Accepted, LinkFacts

SURE = 0.9
"""Probability from which on a link is one that the answer counts."""


def explained(summary: AttackSummary) -> AttackSummary:
    """Add the sentences."""
    found, external = summary.linkage, summary.external
    assert found is not None
    assert external is not None
    known = "unknown" if found.n_shared is None else "known"
    facts: dict[str, Any] = {
        "found": found,
        "n": summary.original.n_records,
        "external": external,
        "every": found.accepted[0],
        "sure": next(one for one in found.accepted if one.probability == SURE),
        "sure_from": SURE,
        "joined": found.joined,
    }
    said = {
        "answer": say(f"linked.answer.{known}", **facts),
        "sure": say(f"linked.sure.{known}", **facts),
        "joined": say(f"linked.joined.{known}", **facts),
        "compared": say("linked.compared", **facts),
        "rates": say(
            bool(found.observed) and "linked.rates",
            (found.n_shared or 0) > found.n_single and "linked.several",
            rates=_rates(found),
            **facts,
        ),
        "limit": say("linked.limit", **facts),
    }
    return replace(summary, sentences=said)


def _rates(found: LinkFacts) -> str:
    """Write the rates that true pairs have as `--key-errors` takes them."""
    return "; ".join(
        f"{name}: {Rates(round(wrong, 4), round(missing, 4))}"
        for name, wrong, missing in found.observed
    )


def head() -> list[str]:
    """Return the titles of the table."""
    return list(wording("linked.head"))


def rows(summary: AttackSummary) -> list[tuple[str, ...]]:
    """Return the table: links by the probability from which they are accepted, and the join."""
    found = summary.linkage
    assert found is not None
    every = [(_from(one), one) for one in found.accepted]
    return [_row(name, one) for name, one in (*every, (say("linked.join"), found.joined))]


def _from(one: Accepted) -> str:
    return say("linked.from" if one.probability else "linked.every", one=one)


def _row(name: str, one: Accepted) -> tuple[str, ...]:
    right, correct = (
        "–" if rate is None else f"{percent(rate.value)} ({between(rate.lower, rate.upper)})"
        for rate in (one.right, one.correct)
    )
    n_correct = "–" if one.n_correct is None else number(one.n_correct)
    return name, number(one.n_links), n_correct, right, correct


def terminal_lines(summary: AttackSummary) -> list[str]:
    """Return the answer and the table for the terminal."""
    said = summary.sentences
    lines = wrap(f"{said['answer']} {said['sure']}", width=88)
    lines += ["", *columns([head(), *rows(summary)]), ""]
    for name in ("joined", "compared", "rates"):
        # An option stays whole.
        lines += wrap(said[name], width=88, break_on_hyphens=False)
    return lines
