"""The sentences of a check."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from unikat.report.facts.certificate import Certificate, LimitFacts
from unikat.report.facts.check import CheckSummary
from unikat.report.text.numbers import estimated, in_turn, some
from unikat.report.text.sentences import first
from unikat.report.text.verdict import VerdictText, apart, named, verdict_text, verdicts_text
from unikat.report.text.words import say
from unikat.spec.limits import Limit

HEAD = ("scenario", "knows", "limit", "value", "verdict")
"""Of the table of limits, and codes of their words."""


def explained(found: CheckSummary) -> CheckSummary:
    """Add the sentences, by the places of what they explain, and the warnings."""
    verdict = verdict_of(found)
    said = {
        "verdict": f"{verdict.title} {verdict.sentence}".strip(),
        "answer": _answer(found),
        "columns": _columns(found),
        "certificate": say(f"check.certificate.{'file' if 'file' in found.files else 'none'}"),
    }
    if found.n_records is not None:
        said["how"] = say("check.counted" if found.risk is None else "check.modelled")
    if found.n_incomplete:
        said["missing"] = say("check.missing")
    if any(one.errors for one in found.limits):
        said["errors"] = say("check.errors")
    if found.left_out:
        said["left_out"] = say("check.left_out", keys=some(found.left_out, 8))
    warnings = () if found.converged else (say("protection.warning.unconverged"),)
    return replace(found, sentences=said, warnings=warnings)


def verdict_of(found: CheckSummary) -> VerdictText:
    """Say the one verdict on all that the policy asks for."""
    judged = [one.target for one in found.limits]
    if found.forbidden:
        columns = some(found.forbidden, 8)
        title = say("check.forbidden.title", n=len(found.forbidden))
        sentence = say("check.forbidden.sentence", n=len(found.forbidden), columns=columns)
        return VerdictText(verdict="not met", title=title, sentence=sentence)
    if not judged:
        return VerdictText(verdict="met", title=say("check.no_limits"), sentence="")
    remedy = say("check.remedy")
    if len(judged) > 1:
        return verdicts_text(judged, found.verdict, remedy)
    return verdict_text(judged[0], found.level, remedy=remedy)


def _answer(found: CheckSummary) -> str:
    if found.n_records is None:
        return say("check.columns_alone", policy=found.policy)
    risk = ""
    if found.risk is not None:
        risk = say(
            "check.risk",
            begins=first(found.converged),
            tau1=estimated(found.risk.tau1.mean, found.risk.tau1),
        )
    answer = say("check.answer", n=found.n_records, policy=found.policy)
    return " ".join(filter(None, (risk, answer)))


def _columns(found: CheckSummary) -> str:
    known = "check.never" if found.n_never and not found.forbidden else ""
    others = found.columns and "check.others"
    return say(known, others, n=found.n_never, columns=some(found.columns, 12))


def limit_rows(found: CheckSummary | Certificate) -> list[tuple[str, ...]]:
    """Rows of the table of limits."""
    return [
        (
            one.scenario or say("check.minimum_cell"),
            _knows(one),
            named(one.target.limit),
            "–" if one.target.value is None
            else apart(one.target.value, Limit.of(one.target.limit).bound),
            say(f"check.verdict.{one.target.verdict}"),
        )
        for one in found.limits
    ]  # fmt: skip


def _knows(one: LimitFacts) -> str:
    if not one.scenario:
        return ", ".join(one.keys)
    known = "in_sample" if one.in_sample else "keys"
    knows = say(f"protection.knows.{known}", keys=", ".join(one.keys) or "–")
    return in_turn([knows, say("check.with_errors", errors=one.errors)]) if one.errors else knows


def certified_lines(found: Certificate, compared: Sequence[str]) -> list[str]:
    """Say what a certificate certifies, and what was compared with it."""
    names = [say(f"check.file.{what}") for what in compared]
    others = [say(f"check.file.{what}") for what in found.files if what not in compared]
    return [
        say(f"check.certified.{found.verdict}", policy=found.policy),
        say("check.certified.same", files=some(names, 3)),
        *([say("check.certified.others", files=some(others, 3))] if others else []),
        *([say("check.left_out", keys=some(found.left_out, 8))] if found.left_out else []),
        say("check.certified.made", found=found),
        say("check.certified.unsigned"),
    ]
