"""Model selection in words: candidate models, held-out log scores, and model uncertainty.

The facts are those of `auto`, under `fit` in `result.json`, and of the model of households, which
has model uncertainty alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from pydantic import TypeAdapter

from unikat.data.units import HOUSEHOLD, Unit
from unikat.models.calibrated import CandidateFacts, ErrorFacts, SelectionFacts, TauFacts
from unikat.report.text import track_record
from unikat.report.text.numbers import counted, estimated, interval, listed, number
from unikat.report.text.sentences import level
from unikat.report.text.uncertainty import KINDS
from unikat.spec.model import ModelSpec

if TYPE_CHECKING:
    from unikat.report.facts.result import Result, SampleFacts

NAMES = ("chosen", "candidates", "not_fitted", "model_error", "before", "outside")
"""Facts of the selection, which the section on the fitted model leaves out."""
_FACTS = TypeAdapter(SelectionFacts)
"""Reads them from `result.json`."""
SURVEYS = "seven surveys and censuses"
"""That the error of the model of households was calibrated on."""
_KINDS = {
    "latent-class": "classes of people; keys are independent within a class",
    "hdp": "mixed membership in profiles, whose number follows from the file",
    "gom": "mixed membership in a fixed number of profiles",
    "loglinear": "log-linear terms, by default all two-way interactions",
    "elamir-skinner": "log-linear terms, by default independence, with overdispersed cells",
    "skinner-holmes": "log-linear terms, by default independence, with overdispersed cells",
    "mixed-effects": "log-linear terms with random effects of the cells",
    "individual-risk": "each cell by itself, from its records and their weights",
    "superpopulation-1": "each cell by itself; sizes and sampling rates have one distribution",
    "superpopulation-2": "each cell by itself, with its sampling rate from the weights",
}
"""What a model assumes, in a few words."""


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
        return "not known" if self.uniques is None else f"{_signed(100 * self.uniques, 0)}%"

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
    return Candidate(
        label=one.model,
        words=_KINDS.get(ModelSpec.of(one.model).name, ""),
        selected=one.chosen,
        selectable=one.choosable,
        narrow="" if one.uncertainty == "posterior" else KINDS[one.uncertainty].brief,
        bias=f"in trials {record.bias}" if record.unreliable else "",
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
        return "best"
    if one.impossible > best.impossible:
        # Ranked after those that give fewer records probability zero, whatever the score.
        return "refuted"
    if one.behind is None:
        return "not known"
    return f"{_signed(one.behind, 3)} ± {one.behind_error or 0.0:.3f}"


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
    label = f"Answer: {result.model}" if selection is None else _final(selection.error)
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
    several = f" τ1 by candidate: {tried}." if len(selection.candidates) > 1 else ""
    return f"{_reason(selection)}{several} {_change(selection.error, result)}"


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
        said["fit.not_fitted"] = f"Candidates that could not be fitted to this file: {names}."
    if selection.error.overdispersion is not None:
        said["fit.model_error"] = " ".join(_error(selection.error, result.unit))
    said["fit.before"] = _change(selection.error, result)
    return said


def _opening(selection: ModelSelection, result: Result) -> str:
    n = len(selection.candidates)
    if n == 1:
        return "One candidate model was fitted."
    return (
        f"{n} candidate models were compared by prediction: "
        f"{counted(_held_out(result), 'record')} of {result.sample.n_records:,} "
        f"{'was' if _held_out(result) == 1 else 'were'} held out, and each candidate predicted "
        "them from the others."
    )


def _held_out(result: Result) -> int:
    """Held-out records, as `data.split` counts them."""
    n, share = result.sample.n_records, result.model_options.get("held_out", 0.5)
    return min(max(round(float(share) * n), 1), n - 1)


def _reason(selection: ModelSelection) -> str:
    """Say which model was selected, and why."""
    selected, first, best = selection.selected, selection.first, selection.best
    said = f"Selected model: {selected.label}"
    if len(selection.candidates) == 1:
        return f"{said}, the only candidate."
    if sum(one.selectable for one in selection.candidates) == 1:
        said += ", the only candidate whose model error is calibrated."
    elif selected is first:
        said += (
            ". No other model with calibrated error predicted the held-out records significantly "
            "better (two standard errors)."
        )
    elif selected.impossible < first.impossible:
        said += (
            f". {first.label} gives probability zero to "
            f"{counted(first.impossible, 'held-out record')}, {selected.label} to "
            f"{number(selected.impossible)}."
        )
    else:
        said += (
            ". It predicted the held-out records significantly better than "
            f"{first.label} (two standard errors)."
        )
    if best is not selected and not best.selectable:
        said += (
            f" {best.label} predicted best, but is shown for comparison only, because its model "
            "error is not calibrated."
        )
    return said


def _columns(selection: ModelSelection, result: Result) -> tuple[tuple[str, str], ...]:
    held_out = _held_out(result)
    times = math.exp(min(0.01 * held_out, 700.0))
    likely = f"{times:.2g}" if times < 100 else f"{times:,.0f}" if times < 1e6 else "over a million"
    narrow: dict[str, list[str]] = {}
    for one in selection.candidates:
        if one.narrow and not one.bias:
            narrow.setdefault(one.narrow, []).append(one.label)
    less = "".join(
        f" The interval of {listed(names)} covers less: {what}." for what, names in narrow.items()
    )
    if unreliable := [one.label for one in selection.candidates if one.bias]:
        less += (
            f" No interval is shown for {listed(unreliable)}: in trials it mostly missed the true "
            "value."
        )
    return (
        (
            "Log score",
            "Mean held-out log score minus that of the best candidate, in nats per record, ± "
            f"standard error. At −0.01 the {held_out:,} held-out records together are {likely} "
            "times less probable. A difference within two standard errors can be chance. A "
            "held-out record with probability zero refutes a candidate: candidates with "
            "more such records rank last.",
        ),
        (
            "Sample uniques",
            "Sample uniques in data simulated from the model, relative to this file "
            f"({result.sample.n_uniques:,}). A large excess means that the model spreads people "
            "over too many cells. A few percent matter little.",
        ),
        (
            "τ1",
            "Population uniques among the sample uniques by the candidate alone, with its "
            f"{level(result.tau1)} interval. Model uncertainty is not included.{less}",
        ),
    )


def _note(selection: ModelSelection) -> str:
    said = "These are short fits for model selection only."
    if not all(one.converged for one in selection.candidates):
        said += " * marks fits that had not converged; their numbers are approximate."
    return said


def _error(error: ModelError, unit: Unit) -> tuple[str, str]:
    """Say how large model uncertainty is: deviations of cells, and a factor; empty if unknown."""
    spread = factor = ""
    populations = "populations with known risk"
    if unit is HOUSEHOLD:
        populations = f"the households of {SURVEYS}"
    if (found := error.overdispersion) is not None:
        spread = (
            f"Cell probabilities deviate from the model by {found.middle:.0%} ({found.lower:.0%} "
            f"to {found.upper:.0%}; coefficient of variation at one expected {unit.whom}). A "
            f"{unit.one} of the file is more likely in a cell that is more frequent than the model "
            "says. Larger deviations therefore mean fewer population uniques."
        )
    if (found := error.factor) is not None:
        factor = (
            f"On average, the cells of sample uniques are {rarer(found.middle)} than the model "
            f"says ({rarer(found.lower)} to {rarer(found.upper)}). Both numbers were calibrated "
            f"on samples from {populations}, and on this file, by how often its rare "
            "combinations occur more than once."
        )
    return spread, factor


def _change(error: ModelError, result: Result) -> str:
    """Say how model uncertainty changes the answer."""
    before, now = error.before, _now(result)
    if before is None:
        return (
            f"Model uncertainty of {error.model} was not added (calibrate=false). The "
            "interval is too narrow unless the model is right."
        )
    change = now.middle - before.middle
    moved = "about the same number"
    # One record more or less is within the noise of a median.
    if abs(change) > 1.5 and before.middle > 0:
        share = f" ({abs(change) / before.middle:.0%})"
        by = f"by {number(abs(change))} {result.unit.many}{share}"
        moved = f"{'higher' if change > 0 else 'lower'} {by}"
    said = (
        f"{error.model} alone estimates τ1 at {before.words}. With model uncertainty "
        f"the estimate is {now.words}: {moved}"
    )
    width = before.upper - before.lower
    if width > 0:
        times = f"{(now.upper - now.lower) / width:.1f}"
        said += ", with an interval "
        said += "as wide as before" if times == "1.0" else f"{times} times as wide"
    return f"{said}."


def _now(result: Result) -> Range:
    tau1 = result.tau1
    return Range(middle=tau1.median, lower=tau1.lower, upper=tau1.upper)


def _final(error: ModelError) -> str:
    added = " with model uncertainty" if error.before is not None else ""
    return f"Answer: {error.model}{added}"


def rarer(factor: float) -> str:
    """Write a factor on probabilities in words.

    Examples
    --------
    >>> rarer(0.9), rarer(1.2), rarer(1.0)
    ('10% rarer', '20% more frequent', 'no rarer')
    """
    change = f"{abs(factor - 1.0):.0%}"
    if change == "0%":
        return "no rarer"
    return f"{change} {'more frequent' if factor > 1.0 else 'rarer'}"


def _signed(value: float, digits: int) -> str:
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if any(digit in text for digit in "123456789") else text[1:]
