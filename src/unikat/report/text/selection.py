"""What is said of the choice of a model: the candidates, the evidence, and the model's own error.

The facts are those that `risk.auto` tells, as they stand under `fit` in `result.json`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from unikat.report.text import track_record
from unikat.report.text.assessment import level
from unikat.report.text.numbers import counted, number
from unikat.report.text.uncertainty import KINDS
from unikat.spec.tables import ModelSpec

if TYPE_CHECKING:
    from unikat.report.facts.assessment import Result, SampleFacts

NAMES = ("chosen", "candidates", "not_fitted", "model_error", "before")
"""Facts that are told here, and not among those of the fitted model."""
_KINDS = {
    "latent-class": "people fall into classes; within a class no key goes with another",
    "hdp": "every person mixes several profiles, as many as the file asks for",
    "gom": "every person mixes several profiles, of a fixed number",
    "loglinear": "keys go together as its terms say, every two of them unless told otherwise",
    "elamir-skinner": (
        "no key goes with another unless told otherwise, and every combination strays from that by "
        "itself"
    ),
    "skinner-holmes": (
        "no key goes with another unless told otherwise, and every combination strays from that by "
        "itself"
    ),
    "mixed-effects": "keys go together as its terms say, and every combination strays from that",
    "individual-risk": "combinations by themselves: their records and weights tell how many people",
    "superpopulation-1": "combinations by themselves, their sizes and sampling rates from one law",
    "superpopulation-2": "combinations by themselves, with a sampling rate each, by the weights",
}
"""What a model supposes, in plain words."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """A number that is not known for sure."""

    middle: float
    lower: float
    upper: float

    @property
    def words(self) -> str:
        """The number with its interval."""
        return f"{number(self.middle)} ({number(self.lower)} to {number(self.upper)})"


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A model that was tried."""

    label: str
    words: str
    """What it supposes."""
    chosen: bool
    choosable: bool
    """Whether its error is known."""
    narrow: str
    """What its interval holds, where that is less than that of a posterior."""
    bias: str
    """How far off it was in trials, if its intervals mostly missed the truth there."""
    impossible: int
    behind: float | None
    behind_error: float | None
    uniques: float | None
    tau1: Range
    converged: bool

    @property
    def answered(self) -> str:
        """τ1 with its interval, or with what is known of its error instead."""
        return f"{number(self.tau1.middle)} ({self.bias})" if self.bias else self.tau1.words


@dataclass(frozen=True, kw_only=True)
class ModelSelection:
    """What `auto` found out."""

    candidates: tuple[Candidate, ...]
    not_fitted: tuple[tuple[str, str], ...]
    """Candidates that refused the file, with the reason."""
    scatter: Range | None
    """Relative deviation of the combinations' shares from what the model says."""
    factor: Range | None
    """On what the model says on the whole."""
    before: Range | None
    """τ1 of the chosen model before its error was put on it."""

    @property
    def chosen(self) -> Candidate:
        """The model that gives the answer."""
        return next(one for one in self.candidates if one.chosen)

    @property
    def first(self) -> Candidate:
        """The first that could be chosen."""
        return next(one for one in self.candidates if one.choosable)

    @property
    def best(self) -> Candidate:
        """The one that predicts best."""
        known = [one for one in self.candidates if one.behind == 0.0]
        return known[0] if known else self.chosen


@dataclass(frozen=True, kw_only=True)
class Row:
    """A line of the table."""

    label: str
    words: str
    prediction: str
    impossible: str
    uniques: str
    tau1: str
    interval: str
    final: bool = False


@dataclass(frozen=True, kw_only=True)
class SelectionPage:
    """The section of the report."""

    opening: str
    reason: str
    rows: tuple[Row, ...]
    columns: tuple[tuple[str, str], ...]
    """Title and meaning of each column."""
    note: str
    """About the fits of the table."""
    faint: bool
    """Some of the figure's intervals leave out more than the others."""
    correction: tuple[str, ...]
    """What the model's own error is and does; empty if it was not put on the answer."""
    not_fitted: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A τ1 with its interval, for the figure."""

    label: str
    tau1: Range
    final: bool = False
    narrow: bool = False
    """The interval leaves out more than that of a posterior."""


def of(result: Result) -> ModelSelection | None:
    """Read what `auto` told; None if another model was asked for."""
    fit = result.fit
    if "candidates" not in fit or "chosen" not in fit:
        return None
    errors = {row["what"]: row for row in fit.get("model_error", ())}
    scatter, factor = errors.get("overdispersion"), errors.get("level")
    before = fit.get("before")
    return ModelSelection(
        candidates=tuple(_candidate(row, result.sample) for row in fit["candidates"]),
        not_fitted=tuple((row["model"], row["reason"]) for row in fit.get("not_fitted", ())),
        # The variance of a factor of mean 1; its root is a share of the model's number.
        scatter=None if scatter is None else _range(scatter, root=True),
        factor=None if factor is None else _range(factor),
        before=None if before is None else _range(before),
    )


def _candidate(row: Mapping[str, Any], sample: SampleFacts) -> Candidate:
    kind = KINDS[row["uncertainty"]]
    record = track_record.of_label(row["model"], sample)
    posterior = row["uncertainty"] == "posterior"
    return Candidate(
        label=row["model"],
        words=_KINDS.get(ModelSpec.of(row["model"]).name, ""),
        chosen=row["chosen"],
        choosable=row["choosable"],
        narrow="" if posterior else kind.brief,
        bias=f"in trials {record.bias}" if record.doubted else "",
        impossible=row["impossible"],
        behind=row["behind"],
        behind_error=row["behind_error"],
        uniques=row["uniques"],
        tau1=_range({**row, "median": row["tau1_median"]}, "tau1_"),
        converged=row["converged"],
    )


def _range(row: Mapping[str, Any], prefix: str = "", *, root: bool = False) -> Range:
    middle, lower, upper = row["median"], row[f"{prefix}lower"], row[f"{prefix}upper"]
    if root:
        middle, lower, upper = math.sqrt(middle), math.sqrt(lower), math.sqrt(upper)
    return Range(middle=middle, lower=lower, upper=upper)


def answers(result: Result) -> tuple[Answer, ...]:
    """What the candidates would answer, and last what is answered.

    Candidates whose intervals mostly missed the truth in trials are in the table alone.
    """
    selection = of(result)
    if selection is None:
        return ()
    tried = [
        Answer(label=one.label, tau1=one.tau1, narrow=bool(one.narrow))
        for one in selection.candidates
        if not one.bias
    ]
    return (*tried, Answer(label=_final(selection), tau1=_now(result), final=True))


def on_page(result: Result) -> SelectionPage | None:
    """Lay out the choice for the report; None if the model was named."""
    selection = of(result)
    if selection is None:
        return None
    final = Row(
        label=_final(selection),
        words="fitted anew, for longer",
        prediction="",
        impossible="",
        uniques="",
        tau1=number(result.tau1.median),
        interval=_interval(_now(result)),
        final=True,
    )
    return SelectionPage(
        opening=_opening(selection, result),
        reason=_reason(selection),
        rows=(*(_row(one, selection) for one in selection.candidates), final),
        columns=_columns(selection, result),
        note=_note(selection),
        faint=any(one.narrow and not one.bias for one in selection.candidates),
        correction=tuple(
            filter(None, (_scatter(selection), _factor(selection), _moved(selection, result)))
        ),
        not_fitted=selection.not_fitted,
    )


def brief(result: Result) -> str:
    """Say the choice in some lines for the terminal; nothing if the model was named."""
    selection = of(result)
    if selection is None:
        return ""
    tried = ", ".join(f"{one.label} {one.answered}" for one in selection.candidates)
    several = f" τ1 by each candidate alone: {tried}." if len(selection.candidates) > 1 else ""
    return f"Model: {_reason(selection)}{several} {_moved(selection, result)}"


def sentences(result: Result) -> dict[str, str]:
    """Return what the facts of the choice mean, by their path in `result.json`."""
    selection = of(result)
    if selection is None:
        return {}
    said = {
        "model": f"{_opening(selection, result)} {_reason(selection)}",
        "fit.chosen": _reason(selection),
        "fit.candidates": " ".join(
            (*(f"{title}: {text}" for title, text in _columns(selection, result)), _note(selection))
        ),
    }
    if selection.not_fitted:
        names = ", ".join(name for name, _ in selection.not_fitted)
        said["fit.not_fitted"] = f"Candidates that could not be fitted to this file: {names}."
    if selection.scatter is not None:
        said["fit.model_error"] = f"{_scatter(selection)} {_factor(selection)}"
    said["fit.before"] = _moved(selection, result)
    return said


def _opening(selection: ModelSelection, result: Result) -> str:
    n = len(selection.candidates)
    if n == 1:
        return "One candidate was tried on this file."
    left_out = _left_out(result)
    return (
        f"No model is right for every file, so {n} were tried on this one. "
        f"{counted(left_out, 'record')} of {result.sample.n_records:,} "
        f"{'was' if left_out == 1 else 'were'} left out, and each candidate had to predict them "
        "from the others."
    )


def _left_out(result: Result) -> int:
    """Records that were left out, as `risk.held_out.split` counts them."""
    n, share = result.sample.n_records, result.model_options.get("held_out", 0.5)
    return min(max(round(float(share) * n), 1), n - 1)


def _reason(selection: ModelSelection) -> str:
    """Say which model was chosen, and why."""
    chosen, first, best = selection.chosen, selection.first, selection.best
    if len(selection.candidates) == 1:
        return f"{chosen.label} gives the answer, as the only candidate."
    if sum(one.choosable for one in selection.candidates) == 1:
        said = (
            f"{chosen.label} was chosen: it is the only candidate of which it is known how wrong "
            "such models are."
        )
    elif chosen is first:
        said = (
            f"{chosen.label} was chosen: it is the first of the candidates, and none that can "
            "take its place predicts the records left out better by more than chance explains (two "
            "standard errors)."
        )
    elif chosen.impossible < first.impossible:
        said = (
            f"{chosen.label} was chosen: {first.label}, the first of the candidates, calls "
            f"{counted(first.impossible, 'record')} impossible that are in the file, "
            f"{chosen.label} {number(chosen.impossible)}."
        )
    else:
        said = (
            f"{chosen.label} was chosen: it predicts the records left out better than "
            f"{first.label}, the first of the candidates, by more than chance explains (two "
            "standard errors)."
        )
    if best is not chosen and not best.choosable:
        said += (
            f" {best.label} predicts best, but it is for comparison only: how wrong such models "
            "are is not known."
        )
    return said


def _row(one: Candidate, selection: ModelSelection) -> Row:
    impossible = f"{counted(one.impossible, 'record')} impossible" if one.impossible else ""
    if one is selection.best:
        prediction = "best"
    elif one.impossible > selection.best.impossible:
        # Ranked after those that find fewer records impossible, whatever the score of the others.
        prediction = "refuted"
    elif one.behind is None:
        prediction = "not known"
    else:
        prediction = f"{_signed(one.behind, 3)} ± {one.behind_error or 0.0:.3f}"
    return Row(
        label=one.label + (", chosen" if one.chosen else ""),
        words=one.words,
        prediction=prediction,
        impossible=impossible,
        uniques="not known" if one.uniques is None else f"{_signed(100 * one.uniques, 0)}%",
        tau1=number(one.tau1.middle),
        interval=(one.bias or _interval(one.tau1)) + ("" if one.converged else " *"),
    )


def _columns(selection: ModelSelection, result: Result) -> tuple[tuple[str, str], ...]:
    left_out = _left_out(result)
    times = math.exp(min(0.01 * left_out, 700.0))
    likely = f"{times:.2g}" if times < 100 else f"{times:,.0f}" if times < 1e6 else "over a million"
    narrow: dict[str, list[str]] = {}
    for one in selection.candidates:
        if one.narrow and not one.bias:
            narrow.setdefault(one.narrow, []).append(one.label)
    less = "".join(
        f" That of {_listed(names)} holds less: {what}." for what, names in narrow.items()
    )
    if doubted := [one.label for one in selection.candidates if one.bias]:
        less += (
            f" Of {_listed(doubted)} no interval is shown, since in trials where the truth is "
            "known it mostly missed it."
        )
    return (
        (
            "Prediction",
            "How much less probable the candidate finds the records that were left out than the "
            "best one does: the mean difference of the logarithms, in nats per record (the unit of "
            f"natural logarithms), ± its standard error. At −0.01 the {left_out:,} together are "
            f"{likely} times less probable; within two standard errors it can be chance. Records "
            "that a candidate calls impossible refute it: it is ranked after those that call fewer "
            "impossible, whatever it finds of the other records.",
        ),
        (
            "Uniques",
            "How many more or fewer unique records than this file samples have that are simulated "
            f"from the candidate; the file has {result.sample.n_uniques:,}. One that makes far too "
            "many spreads people over too many combinations; a few percent say little.",
        ),
        (
            "τ1",
            "Records of this file that are unique in the population too, as the candidate alone "
            f"would answer, with the {level(result.tau1)} interval, in records. Its own error is "
            f"not in it.{less}",
        ),
    )


def _note(selection: ModelSelection) -> str:
    said = "These fits are short ones, made for the choice alone."
    if not all(one.converged for one in selection.candidates):
        said += (
            " Where a * stands, their chains did not agree yet or were too short, so that the "
            "numbers are rough."
        )
    return said


def _scatter(selection: ModelSelection) -> str:
    if selection.scatter is None:
        return ""
    parts = (selection.scatter.middle, selection.scatter.lower, selection.scatter.upper)
    middle, lower, upper = (f"{part:.0%}" for part in parts)
    return (
        "The share of people with a combination of keys strays from what the model says, where one "
        f"person is expected to have it typically by about {middle} of it ({lower} to {upper}). "
        "Who is in the file more often has a combination that is commoner than the model says than "
        "one that is rarer, so the more they stray, the fewer unique records are unique in the "
        "population too."
    )


def _factor(selection: ModelSelection) -> str:
    if selection.factor is None:
        return ""
    ends = f"{_rarer(selection.factor.lower)} to {_rarer(selection.factor.upper)}"
    return (
        "On the whole the combinations of unique records are "
        f"{_rarer(selection.factor.middle)} than the model says ({ends}). Both were learned from "
        "samples of populations whose truth is known, and from this file itself: from how often a "
        "record that was kept is matched by records that were left out."
    )


def _moved(selection: ModelSelection, result: Result) -> str:
    """Say what the model's own error has done to the answer."""
    before, now = selection.before, _now(result)
    if before is None:
        return (
            f"The error of {selection.chosen.label} itself was not put on the answer "
            "(calibrate=false), so the interval is too narrow unless the model is right."
        )
    change = now.middle - before.middle
    moved = "about the same"
    # One record more or less is within the noise of a median.
    if abs(change) > 1.5 and before.middle > 0:
        share = f" ({abs(change) / before.middle:.0%})"
        moved = f"{'higher' if change > 0 else 'lower'} by {number(abs(change))} records{share}"
    said = (
        f"By {selection.chosen.label} alone τ1 would be about {before.words}; with the model's own "
        f"error it is {now.words}, {moved}"
    )
    width = before.upper - before.lower
    if width > 0:
        times = f"{(now.upper - now.lower) / width:.1f}"
        said += ", and the interval is "
        said += "as wide as before" if times == "1.0" else f"{times} times as wide"
    return f"{said}."


def _now(result: Result) -> Range:
    tau1 = result.tau1
    return Range(middle=tau1.median, lower=tau1.lower, upper=tau1.upper)


def _final(selection: ModelSelection) -> str:
    error = " with its own error" if selection.before is not None else ""
    return f"Answer: {selection.chosen.label}{error}"


def _interval(found: Range) -> str:
    return f"{number(found.lower)} to {number(found.upper)}"


def _rarer(factor: float) -> str:
    """Write a factor on probabilities in words.

    Examples
    --------
    >>> _rarer(0.9), _rarer(1.2), _rarer(1.0)
    ('10% rarer', '20% more frequent', 'no rarer')
    """
    change = f"{abs(factor - 1.0):.0%}"
    if change == "0%":
        return "no rarer"
    return f"{change} {'more frequent' if factor > 1.0 else 'rarer'}"


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if any(digit in text for digit in "123456789") else text[1:]


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
