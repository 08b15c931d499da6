"""The verdict on a limit in words, the same for every report, the terminal and the workbench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from unikat.data.units import RECORD, Unit
from unikat.report.text.numbers import number
from unikat.risk.limits import Judged, Verdict
from unikat.spec.limits import Limit

_TITLES: dict[Verdict, str] = {
    "met": "Limit met",
    "not met": "Limit not met",
    "not known": "Not known whether the limit is met",
}
_REASONS = {
    "not finished": "The run is not finished. Continue the run.",
    "not converged": "The run has not converged. Give it more time.",
    "unreliable interval": "In trials, intervals of the model used here were not reliable. "
    "Take the default model.",
    "shared keys": "With so many keys that members of a household share, the intervals are too "
    "narrow. Leave shared keys out, or assess whole households with the model households.",
    "copies": "With copies of households, the risk is too high. Find out how the file was made, "
    "remove the copies, and assess again.",
    "perturbed": "The number after perturbation is not known, and the one before it is no bound. "
    "Set a limit of tau1 or tau2.",
    "not computed": "This run does not compute the measure.",
}


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
    title = f"{_TITLES[found.verdict]}: {named(found.limit)}."
    if found.verdict == "not known":
        assert found.reason is not None
        sentence = _REASONS[found.reason]
    else:
        assert found.value is not None
        sentence = measured(Limit.of(found.limit), found.value, level, of, unit)
        if found.verdict == "not met" and remedy:
            sentence += f" {remedy}"
    return VerdictText(verdict=found.verdict, title=title, sentence=sentence)


def verdicts_text(found: Sequence[Judged], verdict: Verdict, remedy: str = "") -> VerdictText:
    """Say the verdict on the limits of several scenarios, all of which have to be met."""
    n, n_met = len(found), sum(one.verdict == "met" for one in found)
    title = {
        "met": f"All {n} limits met.",
        "not met": f"Limits not met: {n - n_met} of {n}.",
        "not known": f"Not known whether the limits are met: {n - n_met} of {n}.",
    }[verdict]
    reasons = {one.reason for one in found if one.reason is not None}
    said = [remedy] if verdict == "not met" else [_REASONS[one] for one in sorted(reasons)]
    return VerdictText(verdict=verdict, title=title, sentence=" ".join(filter(None, said)))


def named(limit: str) -> str:
    """Write a limit with the signs of print.

    Examples
    --------
    >>> named("tau1 <= 5"), named("households.tau2_estimate <= 9"), named("k >= 3")
    ('τ1 ≤ 5', 'estimate of τ2 of households ≤ 9', 'k ≥ 3')
    """
    limit = limit.replace("<=", "≤").replace(">=", "≥")
    measure, _, rest = limit.partition(" ")
    if "tau" not in measure:
        return limit.replace("population_k", "population k")
    return f"{_symbol(measure)} {rest}"


def _symbol(measure: str) -> str:
    name = measure.removeprefix("households.")
    symbol = f"τ{name.removeprefix('tau')[0]}"
    estimate = "estimate of " if name.endswith("_estimate") else ""
    return f"{estimate}{symbol}{' of households' if name != measure else ''}"


def measured(limit: Limit, value: float, level: float, of: str = "", unit: Unit = RECORD) -> str:
    """Say the number that a limit is judged by."""
    said = apart(value, limit.bound)
    end = f"{100.0 * level:g}% interval"
    if limit.of_interval:
        return f"The upper end of the {end} of {_symbol(limit.measure)}{of} is {said}."
    if limit.plain.startswith("tau"):
        return f"The {_symbol(limit.measure)}{of} is {said}."
    if limit.measure == "k":
        return f"The smallest combination of key values has {unit.counted(round(value))}."
    if limit.measure == "population_k":
        return (
            f"In the population, the lower end of the {end} of the smallest combination{of} is "
            f"{said}."
        )
    if limit.measure == "records":
        return (
            f"{unit.counted(round(value))} {'has' if value == 1 else 'have'} an r1 above "
            f"{limit.above:.15g}{of}."
        )
    return f"The largest r1 of a {unit.one}{of} is {said}."


def apart(value: float, bound: float) -> str:
    """Write a number so that it does not look like a bound that it is not.

    Examples
    --------
    >>> apart(5.04, 5.0), apart(4.0, 5.0), apart(0.1234, 0.2)
    ('5.04', '4', '0.12')
    """
    said = number(value) if value >= 1.0 or value == round(value) else f"{value:.2g}"
    for digits in (3, 4, 6, 9, 12):
        if value == bound or float(said.replace(",", "")) != bound:
            break
        said = f"{value:,.{digits}g}"
    return said
