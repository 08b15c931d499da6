"""The sentences of a verification."""

from __future__ import annotations

from dataclasses import replace

from unikat.protection.perturbed import CorrectMatches
from unikat.report.facts.protection import RiskFacts
from unikat.report.facts.verification import VerifySummary
from unikat.report.text.declared import copied_words
from unikat.report.text.numbers import counted, estimated, number, percent
from unikat.report.text.sentences import COUNTED, first
from unikat.report.text.verdict import VerdictText, verdict_text


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


def sentences(found: VerifySummary) -> dict[str, str]:
    """Say what every number means, by its place."""
    before, after = found.before.tau1, risk_after(found).tau1
    some = found.before, found.after
    hides = any(one is not None and one.tau1_hidden is not None for one in some)
    shown = "by the values that the files show " if hides else ""
    said = {
        "answer": f"{first(found.converged)}τ1 {shown}is {estimated(after.mean, after)} in the "
        f"protected file, and {estimated(before.mean, before)} in the original.",
        "records": f"{counted(found.n_protected, 'record')} of {number(found.n_original)} are in "
        "the protected file, matched by "
        + ("their order." if found.matched_by is None else f"the column {found.matched_by}."),
        "copied": "Look at columns that are no keys, too: copies, codes of the place, dates of "
        "birth, names and numbers of persons.",
    }
    if found.identical:
        said["answer"] = (
            f"{first(found.converged)}The keys of the protected file are those of the original: "
            "nothing was protected. τ1 "
            f"is {estimated(before.mean, before)}."
        )
    elif found.matches is None:
        said["method"] = (
            "The same model was fitted to both files. A suppressed value is a missing one: its "
            f"record is known by what it shows. {COUNTED}"
        )
        if found.by_original is not None and found.after is not None:
            new, old = found.after.tau1, found.by_original.tau1
            said["method"] += (
                f" τ1 of the protected file is {estimated(new.mean, new)} by its own fit and "
                f"{estimated(old.mean, old)} by the model of the original. The less favourable of "
                "both is told and judged."
            )
    else:
        what = found.matches
        shown = "shows what is true" if what.n_true == 1 else "show what is true"
        said["method"] = (
            f"Values were perturbed. Of {counted(what.n_uniques, 'unique record')} of the "
            f"protected file {number(what.n_true)} {shown}. τ2 is an intruder's expected number of "
            "correct matches with them, and τ1 the number of population uniques among them, by "
            "the model of the original."
        )
    if any(one.action == "recoded from record to record" for one in found.keys):
        said["local"] = (
            "Some keys were recoded from record to record. Coarser values of these keys count as "
            "if they told the level, so that the risk is rather too high than too low. If one of "
            "these values is a code of suppressed values, such as *, name it (--missing-values)."
        )
    if (verdict := verdict_of(found)) is not None:
        said["verdict"] = f"{verdict.title} {verdict.sentence}"
    return said


def verdict_of(found: VerifySummary) -> VerdictText | None:
    """Say whether the target is met; None if there is none."""
    if found.target is None:
        return None
    remedy = "Recode, suppress or perturb more, or set another target."
    return verdict_text(found.target, found.level, of=" of the protected file", remedy=remedy)


def warnings(found: VerifySummary) -> tuple[str, ...]:
    """Warn of what should be looked at before the file is released."""
    said = []
    said += [
        f"{counted(one.n_surviving, 'record')} "
        f"{'shows its' if one.n_surviving == 1 else 'show their'} level of {one.name}, although "
        "others of this level show a coarser value. Recode these, too."
        for one in found.keys
        if one.n_surviving
    ]
    said += copied_words(found.telling, found.identifying)
    if not found.converged:
        said.append("The chains have not converged: do not decide on these numbers.")
    return tuple(said)


HEAD = ("key", "action", "levels", "unchanged", "recoded", "suppressed", "perturbed", "missing")
"""Of the table of keys."""


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
