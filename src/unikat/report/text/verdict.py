"""The verdict on a limit in words, the same for every report, the terminal and the workbench."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass

from unikat.data.shared_keys import MOST_TRIED
from unikat.data.units import RECORD, Unit
from unikat.report.text import numbers
from unikat.report.text.words import say
from unikat.risk.limits import Judged, Reason, Verdict
from unikat.spec.limits import Limit

_HOUSEHOLDS = "households."
_DECIMAL = re.compile(r"(?<=[≤≥<>] )\d+\.\d+")
"""In a limit; a column may have a name with a point."""


@dataclass(frozen=True, kw_only=True)
class VerdictText:
    """A verdict for a page."""

    verdict: Verdict
    title: str
    """Beginning of the title of the page: `Limit met: τ1 ≤ 5.`."""
    sentence: str
    """The number that was judged, or why the verdict is not known."""

    @property
    def css(self) -> str:
        """Class of the style sheet."""
        return self.verdict.replace(" ", "-")


def verdict_text(
    found: Judged, level: float, *, of: str = "", remedy: str = "", unit: Unit = RECORD
) -> VerdictText:
    """Say a verdict.

    Parameters
    ----------
    found
        The limit and the verdict.
    level
        Probability of the interval.
    of
        What was judged, where a page has several numbers: ` by the new fit`.
    remedy
        What to do if the limit is not met.
    unit
        Of the file.

    Examples
    --------
    >>> from unikat.risk.limits import judge
    >>> said = verdict_text(judge("tau1 <= 5", [7.0]), 0.95)
    >>> said.title, said.sentence
    ('Limit not met: τ1 ≤ 5.', 'The upper end of the 95% interval of τ1 is 7.')
    """
    word = say(f"verdict.word.{found.verdict}")
    title = say("verdict.title", word=word, limit=named(found.limit))
    if found.verdict == "not known":
        assert found.reason is not None
        sentence = _reason(found.reason)
    else:
        assert found.value is not None
        sentence = measured(Limit.of(found.limit), found.value, level, of, unit)
        if found.verdict == "not met" and remedy:
            sentence += f" {remedy}"
    return VerdictText(verdict=found.verdict, title=title, sentence=sentence)


def verdicts_text(found: Sequence[Judged], verdict: Verdict, remedy: str = "") -> VerdictText:
    """Say the verdict on the limits of several scenarios, all of which have to be met."""
    said_of = [one.verdict for one in found]
    title = say(
        f"verdict.all.{verdict}",
        n=len(found),
        n_missed=said_of.count("not met"),
        n_unknown=said_of.count("not known"),
    )
    reasons = sorted({one.reason for one in found if one.reason is not None})
    said = [remedy] if verdict == "not met" else [_reason(one) for one in reasons]
    return VerdictText(verdict=verdict, title=title, sentence=" ".join(filter(None, said)))


def _reason(reason: Reason) -> str:
    return say(f"verdict.reason.{reason}", most=MOST_TRIED)


def named(limit: str) -> str:
    """Write a limit with the signs of print.

    Examples
    --------
    >>> named("tau1 <= 5"), named("households.tau2_estimate <= 9"), named("k >= 3")
    ('τ1 ≤ 5', 'posterior mean of τ2 of households ≤ 9', 'k ≥ 3')
    """
    limit = limit.replace("<=", "≤").replace(">=", "≥")
    limit = _DECIMAL.sub(lambda found: numbers.localised(found[0]), limit)
    measure, _, rest = limit.partition(" ")
    if "tau" not in measure:
        if measure.startswith(_HOUSEHOLDS):
            name = measure.removeprefix(_HOUSEHOLDS)
            return f"{say('verdict.measure.households', symbol=name)} {rest}"
        return limit.replace("population_k", say("verdict.measure.population_k"))
    return f"{_symbol(measure)} {rest}"


def _symbol(measure: str) -> str:
    name = measure.removeprefix(_HOUSEHOLDS)
    symbol = f"τ{name.removeprefix('tau')[0]}"
    if name.endswith("_estimate"):
        symbol = say("verdict.measure.estimate", symbol=symbol)
    return symbol if name == measure else say("verdict.measure.households", symbol=symbol)


def measured(limit: Limit, value: float, level: float, of: str = "", unit: Unit = RECORD) -> str:
    """Say the number that a limit is judged by."""
    if limit.of_interval:
        code = "interval"
    elif limit.plain.startswith("tau"):
        code = "estimate"
    else:
        counted = ("k", "population_k", "records", "diversity")
        code = limit.plain if limit.plain in counted else "r1"
    return say(
        f"verdict.measured.{code}",
        unit=unit,
        value=apart(value, limit.bound),
        n=value if math.isnan(value) else round(value),
        level=numbers.level(level),
        symbol=_symbol(limit.measure) if "tau" in limit.measure else "",
        above=None if limit.above is None else numbers.significant(limit.above, 15),
        which=of,
        column=limit.column,
    )


def apart(value: float, bound: float) -> str:
    """Write a number so that it does not look like a bound that it is not.

    Examples
    --------
    >>> apart(5.04, 5.0), apart(4.0, 5.0), apart(0.1234, 0.2)
    ('5.04', '4', '0.12')
    """
    plain = value >= 10.0 or value == round(value)
    said = f"{round(value):,}" if plain else f"{value:.1f}" if value >= 1.0 else f"{value:.2g}"
    for digits in (3, 4, 6, 9, 12):
        if value == bound or float(said.replace(",", "")) != bound:
            break
        said = f"{value:,.{digits}g}"
    return numbers.localised(said)
