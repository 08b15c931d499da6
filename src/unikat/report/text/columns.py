"""Sentences and tables of the columns that are no keys."""

from __future__ import annotations

from collections.abc import Sequence

from unikat.errors import brief, option, visible
from unikat.report.facts.columns import ColumnFacts, LeftOver, RiskWith
from unikat.report.text.language import wording
from unikat.report.text.numbers import estimated, listed, number, significant, some
from unikat.report.text.words import say

_MOST = 20
"""Columns that a sentence names."""
_WORST = 3
"""Columns that add most to the risk, which a sentence names."""


def reason_words(one: ColumnFacts) -> str:
    """Say why a column has its role."""
    if one.key is None:
        return say(f"columns.reason.{one.reason}")
    code = "member" if one.member else "linked" if one.measure is not None else "follows"
    measure = "" if one.measure is None else significant(one.measure, 2)
    return say(f"columns.reason.{code}", key=visible(brief(one.key)), measure=measure)


def named(columns: Sequence[ColumnFacts]) -> str:
    """Name columns, each with the reason for its role."""
    first = [
        say("columns.named", name=visible(brief(one.name)), reason=reason_words(one))
        for one in columns[:_MOST]
    ]
    more = len(columns) - _MOST
    return ", ".join([*first, *([f"+{number(more)}"] if more > 0 else [])])


def proposed_words(columns: Sequence[ColumnFacts]) -> tuple[str, ...]:
    """Say what would be done to the columns that are no keys, before anything is fitted."""
    removed = [one for one in columns if one.action == "removed"]
    proposed = [one for one in removed if one.reason != "told"]
    linked = [one for one in columns if one.action == "as_key"]
    said = (
        removed and say("columns.would_remove", names=named(removed)),
        proposed and say("columns.overrule", option=_overrule(proposed[0].name)),
        linked and say("columns.linked", names=named(linked)),
        *_others(columns),
    )
    return tuple(sentence for sentence in said if sentence)


def columns_sentence(
    columns: Sequence[ColumnFacts], *, remedies: bool = True, homes: bool = False
) -> str:
    """Say what was done to the columns that are no keys, and how to have it otherwise.

    `homes`: the risk is that of households, by the keys of all members.
    """
    if not columns:
        return say("columns.nothing")
    removed = [one for one in columns if one.action == "removed"]
    proposed = [one for one in removed if one.reason != "told"]
    recoded = [one for one in columns if one.action == "recoded"]
    suppressed = [one for one in columns if one.action == "suppressed"]
    copied = [one for one in columns if one.action == "copied"]
    said = (
        removed and say("columns.removed", names=named(removed)),
        remedies and proposed and say("columns.overrule", option=_overrule(proposed[0].name)),
        recoded and say("columns.recoded", names=named(recoded)),
        suppressed and say("columns.suppressed", names=named(suppressed)),
        *_others(columns, remedies=remedies, homes=homes),
        copied and say("columns.copied", n=len(copied)),
    )
    return " ".join(sentence for sentence in said if sentence)


def left_over_sentence(columns: Sequence[ColumnFacts], left: LeftOver | None) -> str:
    """Say what the columns add to τ1 that were copied."""
    if left is None or left.without.tau1 is None:
        return ""
    known = [(one.risk.tau1.mean, one.name) for one in columns if one.risk and one.risk.tau1]
    if not known:
        return ""
    most = [
        say("columns.with_one", name=visible(brief(name)), tau1=tau1)
        for tau1, name in sorted(known, reverse=True)[:_WORST]
    ]
    together = left.together
    return say(
        "columns.left_over",
        together and together.tau1 and "columns.with_all",
        left.n_hidden and "columns.hidden",
        left=left,
        without=left.without.tau1.mean,
        names=listed(most),
        n=left.n_columns,
        together=together and together.tau1 and together.tau1.mean,
    )


def _others(
    columns: Sequence[ColumnFacts], *, remedies: bool = True, homes: bool = False
) -> tuple[str, ...]:
    renumbered = [one.name for one in columns if one.action == "renumbered"]
    exact = [one.name for one in columns if one.reason == "continuous" and one.action == "copied"]
    return (
        say(bool(renumbered) and "columns.renumbered", names=some(renumbered, _MOST), homes=homes),
        say(
            bool(exact) and "columns.continuous",
            bool(exact) and remedies and "columns.round",
            names=some(exact, _MOST),
            option=option("numeric", f"{exact[0]}: microaggregate(5)") if exact else "",
        ),
    )


def _overrule(name: str) -> str:
    return option("columns", f"{name}: other")


def column_rows(
    columns: Sequence[ColumnFacts], left: LeftOver | None = None
) -> list[tuple[str, ...]]:
    """Rows of the table of columns that are no keys; the last ones of the keys and of all."""
    rows: list[tuple[str, ...]] = [tuple(wording("columns.head.file"))]
    for one in columns:
        rows.append(
            (
                one.name,
                say(f"columns.role.{one.role}"),
                reason_words(one),
                say(f"columns.action.{one.action}"),
                number(one.n_values),
                *_risk(one.risk),
            )
        )
    if left is not None:
        rows.append((say("columns.keys_alone"), "", "", "", "", *_risk(left.without)))
        if left.together is not None:
            together = say("columns.all_of", n=left.n_columns)
            rows.append((together, "", "", "", "", *_risk(left.together)))
    return rows


def _risk(one: RiskWith | None) -> tuple[str, str]:
    if one is None:
        return "", ""
    return number(one.n_uniques), "–" if one.tau1 is None else estimated(one.tau1.mean, one.tau1)


def risk_rows(columns: Sequence[ColumnFacts], left: LeftOver | None) -> list[tuple[str, ...]]:
    """Rows of the table of the risk with columns that are left, for the terminal."""
    shown = [one for one in columns if one.risk is not None]
    shown.sort(key=lambda one: -_tau1(one))
    rows = column_rows(shown[:_MOST], left)
    return [(row[0], *row[5:]) for row in rows]


def _tau1(one: ColumnFacts) -> float:
    assert one.risk is not None
    return float(one.risk.n_uniques) if one.risk.tau1 is None else one.risk.tau1.mean
