"""The sentences of a verification."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from unikat.protection.perturbed import CorrectMatches
from unikat.report.facts.protection import RiskFacts
from unikat.report.facts.verification import VerifySummary
from unikat.report.text.classics import inferred_sentences
from unikat.report.text.declared import copied_words
from unikat.report.text.numbers import estimated, number, percent
from unikat.report.text.sentences import first
from unikat.report.text.verdict import VerdictText, verdict_text
from unikat.report.text.words import say


def risk_after(found: VerifySummary) -> RiskFacts | CorrectMatches:
    """Return the risk of the protected file: the less favourable estimate, if there are two."""
    after = found.matches or found.after or found.before
    if found.by_original is None:
        return after
    both = after, found.by_original
    return replace(
        after,
        tau1=max((one.tau1 for one in both), key=lambda tau: (tau.upper, tau.mean)),
        tau2=max((one.tau2 for one in both), key=lambda tau: (tau.upper, tau.mean)),
    )


def explained(found: VerifySummary) -> VerifySummary:
    """Add the sentences, by the places of what they explain, and the warnings."""
    return replace(found, sentences=_sentences(found), warnings=_warnings(found))


def _sentences(found: VerifySummary) -> dict[str, str]:
    before, after = found.before.tau1, risk_after(found).tau1
    some = found.before, found.after
    hides = any(one is not None and one.tau1_hidden is not None for one in some)
    ends: dict[str, Any] = {
        "before": estimated(before.mean, before),
        "after": estimated(after.mean, after),
    }
    how = "identical" if found.identical else "answer_shown" if hides else "answer"
    matched = "by_order" if found.matched_by is None else "by_column"
    said = {
        "answer": say(f"verification.{how}", begins=first(found.converged), **ends),
        "records": say(f"verification.{matched}", found=found),
        "copied": say("verification.copied"),
    }
    if found.matches is not None and not found.identical:
        said["method"] = say("verification.perturbed", what=found.matches)
    elif not found.identical:
        two = found.by_original is not None and found.after is not None
        said["method"] = say(
            "verification.suppressed",
            "assessment.published.counted",
            two and "verification.two_fits",
            new=None if found.after is None else found.after.tau1,
            old=None if found.by_original is None else found.by_original.tau1,
        )
    if any(one.action == "recoded from record to record" for one in found.keys):
        said["local"] = say("verification.local")
    if found.inferred:
        said["inferred"] = inferred_sentences(found.inferred)
    if (verdict := verdict_of(found)) is not None:
        said["verdict"] = f"{verdict.title} {verdict.sentence}"
    return said


def verdict_of(found: VerifySummary) -> VerdictText | None:
    """Say whether the target is met; None if there is none."""
    if found.target is None:
        return None
    of, remedy = say("verification.which"), say("verification.remedy")
    return verdict_text(found.target, found.level, of=of, remedy=remedy)


def _warnings(found: VerifySummary) -> tuple[str, ...]:
    return (
        *(say("verification.surviving", one=one) for one in found.keys if one.n_surviving),
        *copied_words(found.telling, found.identifying),
        *([] if found.converged else [say("protection.warning.unconverged")]),
    )


HEAD = ("key", "action", "levels", "unchanged", "recoded", "suppressed", "perturbed", "missing")
"""Of the table of keys, and codes of their words."""


def key_rows(found: VerifySummary) -> list[tuple[str, ...]]:
    """Rows of the table of keys: shares of the records."""
    rows = []
    for one in found.keys:
        parts = [one.n_unchanged, one.n_recoded, one.n_suppressed, one.n_otherwise]
        # The others are missing in both files.
        parts.append(found.n_protected - sum(parts))
        shares = (percent(part / max(found.n_protected, 1)) for part in parts)
        levels = number(one.n_levels)
        if one.n_values != one.n_levels:
            levels += f" → {number(one.n_values)}"
        rows.append((one.name, one.action, levels, *shares))
    return rows
