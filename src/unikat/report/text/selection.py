"""Model selection in words: candidate models, held-out log scores, and model uncertainty.

The facts are those of `auto`, under `fit` in `result.json`, and of the model of households, which
has model uncertainty alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from unikat.models.calibrated import CandidateFacts, ErrorFacts, SelectionFacts, TauFacts
from unikat.report.text import track_record
from unikat.report.text.language import known
from unikat.report.text.numbers import (
    digits,
    estimated,
    interval,
    listed,
    number,
    significant,
    whole_percent,
    with_percent,
)
from unikat.report.text.sentences import about
from unikat.report.text.words import say, wording_of
from unikat.spec.model import ModelSpec

if TYPE_CHECKING:
    from unikat.data.units import Unit
    from unikat.report.facts.result import Result, SampleFacts

NAMES = ("chosen", "candidates", "not_fitted", "model_error", "before", "outside")
"""Facts of the selection, which the section on the fitted model leaves out."""
_FACTS = TypeAdapter(SelectionFacts)
"""Reads them from `result.json`."""


@dataclass(frozen=True, kw_only=True)
class Range:
    """A number with its interval."""

    middle: float
    lower: float
    upper: float

    @property
    def words(self) -> str:
        """The number with its interval."""
        return estimated(self.middle, self)


@dataclass(frozen=True, kw_only=True)
class Candidate:
    """A candidate model."""

    label: str
    words: str
    """What it assumes."""
    selected: bool
    """It is the selected model."""
    selectable: bool
    """Its model error is calibrated, so that it can be selected."""
    narrow: str
    """What its interval covers, where that is less than for a posterior."""
    bias: str
    """Its error in trials, if its intervals mostly missed the true value there."""
    impossible: int
    behind: float | None
    uniques: float | None
    tau1: Range
    converged: bool
    prediction: str
    """Log score minus that of the best candidate, with its standard error."""

    @property
    def excess(self) -> str:
        """Sample uniques in simulated data, relative to this file."""
        if self.uniques is None:
            return say("numbers.unknown")
        return with_percent(signed(100 * self.uniques, 0))

    @property
    def interval(self) -> str:
        """Interval of τ1, or its known error; marked if the fit has not converged."""
        return (self.bias or interval(self.tau1)) + ("" if self.converged else " *")

    @property
    def answered(self) -> str:
        """τ1 with its interval, or with what is known of its error instead."""
        return f"{number(self.tau1.middle)} ({self.bias})" if self.bias else self.tau1.words


@dataclass(frozen=True, kw_only=True)
class ModelError:
    """Model uncertainty of the fitted model; None is not known."""

    model: str
    overdispersion: Range | None
    """Coefficient of variation of the cell probabilities around the model's."""
    factor: Range | None
    """Factor on the model's probabilities of the cells of sample uniques."""
    before: Range | None
    """τ1 of the model without model uncertainty."""


@dataclass(frozen=True, kw_only=True)
class ModelSelection:
    """Candidates, selected model and model uncertainty."""

    candidates: tuple[Candidate, ...]
    not_fitted: tuple[tuple[str, str], ...]
    """Candidates that could not be fitted, with the reason."""
    error: ModelError

    @property
    def selected(self) -> Candidate:
        """The selected model."""
        return next(one for one in self.candidates if one.selected)

    @property
    def first(self) -> Candidate:
        """The first candidate that can be selected."""
        return next(one for one in self.candidates if one.selectable)

    @property
    def best(self) -> Candidate:
        """The candidate with the best log score."""
        known = [one for one in self.candidates if one.behind == 0.0]
        return known[0] if known else self.selected


@dataclass(frozen=True, kw_only=True)
class SelectionPage:
    """The section of the report."""

    opening: str
    reason: str
    candidates: tuple[Candidate, ...]
    answer: str
    """Label of the last row: the final answer."""
    columns: tuple[tuple[str, str], ...]
    """Title and meaning of each column."""
    note: str
    """About the fits of the table."""
    correction: tuple[str, ...]
    """Model uncertainty and its effect on the answer."""
    not_fitted: tuple[tuple[str, str], ...]


@dataclass(frozen=True, kw_only=True)
class Answer:
    """A τ1 with its interval, for the figure."""

    label: str
    tau1: Range
    final: bool = False
    narrow: bool = False
    """The interval covers less than that of a posterior."""


def of(result: Result) -> ModelSelection | None:
    """Read the selection by `auto`; None if the model was named."""
    if "candidates" not in result.fit or "chosen" not in result.fit:
        return None
    fit = _facts(result)
    rows = fit.candidates or ()
    return ModelSelection(
        candidates=tuple(_candidate(one, _prediction(one, rows), result.sample) for one in rows),
        not_fitted=tuple((one.model, one.reason) for one in fit.not_fitted or ()),
        error=_model_error(fit, str(fit.chosen)),
    )


def _facts(result: Result) -> SelectionFacts:
    return _FACTS.validate_python({name: result.fit[name] for name in NAMES if name in result.fit})


def error_of(result: Result) -> ModelError | None:
    """Read the model uncertainty of a model that was named; None if it has none."""
    if "candidates" in result.fit or "model_error" not in result.fit:
        return None
    found = _facts(result)
    # The preliminary answer of `auto` is that of one candidate.
    return _model_error(found, found.chosen or result.model)


def _model_error(fit: SelectionFacts, model: str) -> ModelError:
    errors = {error.what: error for error in fit.model_error or ()}
    overdispersion, factor, before = errors.get("overdispersion"), errors.get("level"), fit.before
    return ModelError(
        model=model,
        # The variance of a factor of mean 1; its root is a coefficient of variation.
        overdispersion=None if overdispersion is None else _range(overdispersion, root=True),
        factor=None if factor is None else _range(factor),
        before=None if before is None else _range(before),
    )


def _candidate(one: CandidateFacts, prediction: str, sample: SampleFacts) -> Candidate:
    record = track_record.of_label(one.model, sample)
    kind = f"selection.model.{ModelSpec.of(one.model).name}"
    posterior = one.uncertainty == "posterior"
    return Candidate(
        label=one.model,
        words=say(known(kind) and kind),
        selected=one.chosen,
        selectable=one.choosable,
        narrow="" if posterior else say(wording_of(one.uncertainty, "brief")),
        bias=say(record.unreliable and "selection.candidate.biased", bias=record.bias),
        impossible=one.impossible,
        behind=one.behind,
        uniques=one.uniques,
        tau1=Range(middle=one.tau1_median, lower=one.tau1_lower, upper=one.tau1_upper),
        converged=one.converged,
        prediction=prediction,
    )


def _prediction(one: CandidateFacts, candidates: Sequence[CandidateFacts]) -> str:
    """Write how well a candidate predicts, compared with the best."""
    best = next((other for other in candidates if other.behind == 0.0), None)
    best = next(other for other in candidates if other.chosen) if best is None else best
    if one is best:
        return say("selection.candidate.best")
    if one.impossible > best.impossible:
        # Ranked after those that give fewer records probability zero, whatever the score.
        return say("selection.candidate.refuted")
    if one.behind is None:
        return say("numbers.unknown")
    return f"{signed(one.behind, 3)} ± {digits(one.behind_error or 0.0, 3)}"


def _range(found: ErrorFacts | TauFacts, *, root: bool = False) -> Range:
    middle, lower, upper = found.median, found.lower, found.upper
    if root:
        middle, lower, upper = math.sqrt(middle), math.sqrt(lower), math.sqrt(upper)
    return Range(middle=middle, lower=lower, upper=upper)


def candidates(result: Result) -> tuple[Answer, ...]:
    """Return the estimates of the candidates.

    Candidates whose intervals mostly missed the true value in trials are in the table alone.
    """
    selection = of(result)
    return (
        ()
        if selection is None
        else tuple(
            Answer(label=one.label, tau1=one.tau1, narrow=bool(one.narrow))
            for one in selection.candidates
            if not one.bias
        )
    )


def answer(result: Result) -> Answer:
    """Return the final answer."""
    selection, error = of(result), error_of(result)
    label = say("selection.answer.plain", model=result.model)
    if selection is not None:
        label = _final(selection.error)
    if error is not None:
        label = _final(error)
    return Answer(label=label, tau1=_now(result), final=True)


def on_page(result: Result) -> SelectionPage | None:
    """Lay out the selection for the report; None if the model was named."""
    selection = of(result)
    if selection is None:
        return None
    return SelectionPage(
        opening=_opening(selection, result),
        reason=_reason(selection),
        candidates=selection.candidates,
        answer=_final(selection.error),
        columns=_columns(selection, result),
        note=_note(selection),
        correction=tuple(
            filter(None, (*_error(selection.error, result.unit), _change(selection.error, result)))
        ),
        not_fitted=selection.not_fitted,
    )


def error_on_page(result: Result) -> tuple[str, ...]:
    """Say the model uncertainty of a model that was named, for the report; empty without."""
    error = error_of(result)
    if error is None:
        return ()
    return (*_error(error, result.unit), _change(error, result))


def brief(result: Result) -> str:
    """Say the selection and model uncertainty in some lines for the terminal, if there are any."""
    selection = of(result)
    if selection is None:
        error = error_of(result)
        return "" if error is None else _change(error, result)
    tried = ", ".join(f"{one.label} {one.answered}" for one in selection.candidates)
    several = len(selection.candidates) > 1 and "selection.terminal.candidates"
    parts = (_reason(selection), say(several, tried=tried), _change(selection.error, result))
    return " ".join(filter(None, parts))


def sentences(result: Result) -> dict[str, str]:
    """Return what the facts of the selection mean, by their path in `result.json`."""
    selection = of(result)
    if selection is None:
        *error, change = error_on_page(result) or ("",)
        return {"fit.model_error": " ".join(error), "fit.before": change} if error else {}
    said = {
        "model": f"{_opening(selection, result)} {_reason(selection)}",
        "fit.chosen": _reason(selection),
        "fit.candidates": " ".join(
            (*(f"{title}: {text}" for title, text in _columns(selection, result)), _note(selection))
        ),
    }
    if selection.not_fitted:
        names = ", ".join(name for name, _ in selection.not_fitted)
        said["fit.not_fitted"] = say("selection.terminal.not_fitted", names=names)
    if selection.error.overdispersion is not None:
        said["fit.model_error"] = " ".join(_error(selection.error, result.unit))
    said["fit.before"] = _change(selection.error, result)
    return said


def _opening(selection: ModelSelection, result: Result) -> str:
    n = len(selection.candidates)
    return about(result)(
        f"selection.opening.{'one' if n == 1 else 'several'}", n=n, held_out=_held_out(result)
    )


def _held_out(result: Result) -> int:
    """Held-out records, as `data.split` counts them."""
    n, share = result.sample.n_records, result.model_options.get("held_out", 0.5)
    return min(max(round(float(share) * n), 1), n - 1)


def _reason(selection: ModelSelection) -> str:
    """Say which model was selected, and why."""
    selected, first, best = selection.selected, selection.first, selection.best
    if len(selection.candidates) == 1:
        why = "only"
    elif sum(one.selectable for one in selection.candidates) == 1:
        why = "calibrated"
    elif selected is first:
        why = "first"
    else:
        why = "zero" if selected.impossible < first.impossible else "better"
    compared = len(selection.candidates) > 1 and best is not selected and not best.selectable
    return say(
        f"selection.reason.{why}",
        compared and "selection.reason.best",
        selected=selected,
        first=first,
        best=best,
    )


def _columns(selection: ModelSelection, result: Result) -> tuple[tuple[str, str], ...]:
    held_out = _held_out(result)
    times = math.exp(min(0.01 * held_out, 700.0))
    likely = say("selection.column.score.million")
    if times < 1e6:
        likely = significant(times, 2) if times < 100 else number(times)
    narrow: dict[str, list[str]] = {}
    for one in selection.candidates:
        if one.narrow and not one.bias:
            narrow.setdefault(one.narrow, []).append(one.label)
    unreliable = [one.label for one in selection.candidates if one.bias]
    speak = partial(about(result), held_out=held_out, likely=likely)
    remarks = [
        *(
            say("selection.column.tau1.less", names=listed(names), what=what)
            for what, names in narrow.items()
        ),
        say(unreliable and "selection.column.tau1.none", names=listed(unreliable or [""])),
    ]
    found = [
        (speak(f"selection.column.{name}.title"), speak(f"selection.column.{name}.text"))
        for name in ("score", "uniques", "tau1")
    ]
    title, text = found[-1]
    return (*found[:-1], (title, " ".join(filter(None, (text, *remarks)))))


def _note(selection: ModelSelection) -> str:
    unconverged = not all(one.converged for one in selection.candidates)
    return say("selection.note.short", unconverged and "selection.note.unconverged")


def _error(error: ModelError, unit: Unit) -> tuple[str, str]:
    """Say how large model uncertainty is: deviations of cells, and a factor; empty if unknown."""
    spread = factor = ""
    if (found := error.overdispersion) is not None:
        spread = say("selection.error.spread", unit=unit, found=found)
    if (found := error.factor) is not None:
        ends = {name: rarer(getattr(found, name)) for name in ("middle", "lower", "upper")}
        factor = say("selection.error.factor", unit=unit, **ends)
    return spread, factor


def _change(error: ModelError, result: Result) -> str:
    """Say how model uncertainty changes the answer."""
    before, now = error.before, _now(result)
    if before is None:
        return say("selection.change.none", model=error.model)
    change = now.middle - before.middle
    moved = say("selection.change.same")
    # One record more or less is within the noise of a median.
    if abs(change) > 1.5 and before.middle > 0:
        part = say("selection.change.part", part=abs(change) / before.middle)
        how = "higher" if change > 0 else "lower"
        moved = about(result)(f"selection.change.{how}", by=abs(change)) + part
    width = ""
    if before.upper > before.lower:
        times = (now.upper - now.lower) / (before.upper - before.lower)
        how = "as_wide" if digits(times, 1) == digits(1.0, 1) else "wider"
        width = say(f"selection.change.{how}", times=times)
    return say(
        "selection.change.said",
        model=error.model,
        before=before.words,
        now=now.words,
        moved=moved,
        width=width,
    )


def _now(result: Result) -> Range:
    tau1 = result.tau1
    return Range(middle=tau1.median, lower=tau1.lower, upper=tau1.upper)


def _final(error: ModelError) -> str:
    added = "plain" if error.before is None else "with_error"
    return say(f"selection.answer.{added}", model=error.model)


def rarer(factor: float) -> str:
    """Write a factor on probabilities in words.

    Examples
    --------
    >>> rarer(0.9), rarer(1.2), rarer(1.0)
    ('10% rarer', '20% more frequent', 'no rarer')
    """
    change = whole_percent(abs(factor - 1.0))
    if change == whole_percent(0.0):
        return say("selection.error.no_rarer")
    how = "more_frequent" if factor > 1.0 else "rarer"
    return say(f"selection.error.{how}", change=change)


def signed(value: float, n: int) -> str:
    """Write a number with its sign, and so many digits behind the point.

    Examples
    --------
    >>> signed(-0.01234, 3), signed(0.4, 1), signed(0.0001, 2)
    ('−0.012', '+0.4', '0.00')
    """
    text = digits(value, n)
    if not any(digit in text for digit in "123456789"):
        return text.removeprefix("−")
    return f"+{text}" if value > 0 else text
