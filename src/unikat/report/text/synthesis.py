"""The sentences of a synthesis."""

from __future__ import annotations

from dataclasses import replace

from unikat.data.units import HOUSEHOLD, RECORD
from unikat.report.facts.synthesis import IntervalFacts, SynthesisSummary
from unikat.report.text.language import wording
from unikat.report.text.numbers import digits, listed, number, percent, some
from unikat.report.text.words import say

_MOST_LISTED = 20


def explained(found: SynthesisSummary) -> SynthesisSummary:
    """Add the sentences, by the places of what they explain, and the warnings."""
    return replace(found, sentences=_sentences(found), warnings=_warnings(found))


def _sentences(found: SynthesisSummary) -> dict[str, str]:
    """Say what every number means, by its place."""
    original, homes = found.original, found.original.n_households is not None
    said = {
        "files": _files(found),
        "fit": say(
            f"synthesis.{'fit_converged' if found.fit.converged else 'fit_unconverged'}",
            fit=found.fit,
        ),
        "margins": say(
            "synthesis.margins.explained",
            found.replaced and "synthesis.margins.kept",
            weighted(found) and "synthesis.margins.weighted",
            homes and "synthesis.margins.homes",
        ),
        "repeated": say("synthesis.repeated", found=found),
    }
    if original.left_out:
        columns = _some(original.left_out)
        said["left_out"] = say("synthesis.left_out", n=len(original.left_out), columns=columns)
    if original.n_rows_left_out:
        why = "rows_left_out_homes" if homes else "rows_left_out"
        said["rows_left_out"] = say(f"synthesis.{why}", n=original.n_rows_left_out)
    if found.fit.method is not None and (found.fit.method == "flat" or found.impossible):
        said["method"] = say(f"synthesis.method.{found.fit.method}")
    if found.impossible is not None:
        worst = max(found.impossible.shares)
        said["impossible"] = say(
            "synthesis.possible" if worst == 0.0 else "synthesis.impossible",
            unit=HOUSEHOLD if found.impossible.unit == HOUSEHOLD.one else RECORD,
            worst=worst,
        )
    if found.shares:
        kind = "synthesis.shares_weighted" if weighted(found) else "synthesis.shares"
        said["shares"] = say(kind, level=percent(found.level))
    return said


def _warnings(found: SynthesisSummary) -> tuple[str, ...]:
    """Warn of what should be looked at before the files are used."""
    return () if found.converged else (say("synthesis.unconverged", fit=found.fit),)


def order_name(order: int) -> str:
    """Name the margins of so many keys."""
    return say(f"synthesis.order.{order}")


def weighted(found: SynthesisSummary) -> bool:
    """Whether records have sample weights."""
    return any(one.distance_weighted is not None for one in found.margins)


def _files(found: SynthesisSummary) -> str:
    homes = found.original.n_households is not None
    records = "synthesis.households" if homes else "synthesis.records"
    what = "synthesis.replaced" if found.replaced else "synthesis.all_keys"
    return say(
        "synthesis.files",
        found=found,
        units=say(
            "synthesis.with" if found.datasets == 1 else "synthesis.each_with",
            records=say(records, original=found.original),
        ),
        what=say(
            f"{what}_homes" if homes else what,
            keys=listed(found.replaced or [""]),
            n=len(found.replaced),
        ),
    )


def _some(names: tuple[str, ...]) -> str:
    return listed(names) if len(names) <= _MOST_LISTED else some(names, _MOST_LISTED)


def terminal_rows(found: SynthesisSummary) -> list[tuple[str, ...]]:
    """Rows of the table of margins."""
    kind = "margins_weighted" if weighted(found) else "margins"
    rows: list[tuple[str, ...]] = [tuple(wording(f"synthesis.head.{kind}"))]
    rows += [
        (
            order_name(one.order),
            number(one.n_margins),
            digits(one.distance, 4),
            digits(one.distance_expected, 4),
            *(() if one.distance_weighted is None else (digits(one.distance_weighted, 4),)),
            digits(one.pmse_ratio, 2),
        )
        for one in found.margins
    ]
    return rows


def share_rows(found: SynthesisSummary) -> list[tuple[str, ...]]:
    """Rows of the table of probabilities within households."""
    rows: list[tuple[str, ...]] = [tuple(wording("synthesis.head.shares"))]
    for share in found.shares:
        rows.append((share.text, interval(share.original), interval(share.synthetic)))
    return rows


def interval(found: IntervalFacts | None) -> str:
    """Write a probability with its interval."""
    return say("synthesis.no_household" if found is None else "synthesis.interval", found=found)
