"""Error and coverage of each model in trials on populations with known risk.

`TRIALS` has the numbers of docs/accuracy.md, from which a test computes them again. A model whose
95% intervals contained the true τ1 in at most half of the samples is *unreliable*: reports give its
error in trials before its estimate, and show no interval in the headline.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import TYPE_CHECKING, Any

from unikat.data.shared_keys import MOST_TRIED
from unikat.data.units import HOUSEHOLD, RECORD
from unikat.files.toml import packaged_toml
from unikat.models.named import ALL
from unikat.report.facts.result import sample_facts
from unikat.report.text.numbers import listed
from unikat.report.text.words import say
from unikat.spec.model import ModelSpec
from unikat.spec.models import HOUSEHOLDS

if TYPE_CHECKING:
    from unikat.report.facts.comparison import ModelFacts
    from unikat.report.facts.result import Result, SampleFacts
    from unikat.risk.estimate import RiskEstimate
    from unikat.risk.limits import Reason

ONE_SIDED = 0.05
"""A model errs to one side if its errors to the other side were no larger than this."""
_NO_MATTER = ("split_merge", "tolerance", "evidence_seconds")
"""Options that change how fast or how exactly a fit is made, and not what it estimates."""


@dataclass(frozen=True, kw_only=True)
class Trials:
    """τ1 by one model in samples from populations with known risk."""

    model: str
    options: Mapping[str, Any] = field(default_factory=dict)
    """Those that are not the defaults."""
    label: str = ""
    """Code of the words for these options; empty: they are listed, or are the defaults."""
    dense: bool
    """The samples had at least as many records as there are combinations of levels."""
    samples: int
    covered: int
    """Samples in which the 95% interval contained the true value."""
    error: float
    """Mean error of the posterior mean, relative to the true value."""
    lowest: float
    highest: float
    above: int | None = None
    """Samples whose true value lay above the interval; None, as the next, if that was not kept."""
    below: int | None = None
    least: int = 0
    """True τ1 from which samples count."""
    spread: str
    """Code of what `lowest` and `highest` are the range of."""
    where: str
    """Code of the populations."""

    @property
    def called(self) -> str:
        """Words for the options."""
        options = [f"{name}={_option(value)}" for name, value in self.options.items()]
        code = self.label or ("options" if options else "default")
        return say(f"trials.label.{code}", options=listed(options or [""]))


_ALL = packaged_toml(__package__, "trials.toml")
SEARCHED: Mapping[str, Any] = _ALL["searched"]
"""Of files that a search protected to a target: how many, and how many kept it."""


def _trials() -> Iterator[Trials]:
    """What a group says goes for all its trials."""
    for group in _ALL["groups"]:
        for trials in group.pop("trials"):
            yield Trials(**group, **trials)


TRIALS = tuple(_trials())


@dataclass(frozen=True, kw_only=True)
class TrackRecord:
    """Error and coverage of a model with its options, on files like this one."""

    model: str
    trials: Trials | None
    """Of these very options; of the default options if `same_options` is False; None: none."""
    same_options: bool
    same_density: bool

    @property
    def unreliable(self) -> bool:
        """The 95% intervals contained the true value in at most half of the samples."""
        return self.trials is not None and 2 * self.trials.covered <= self.trials.samples

    @property
    def coverage(self) -> str:
        """Coverage: how often the intervals contained the true value."""
        return "" if self.trials is None else say("trials.coverage", trials=self.trials)

    @property
    def bias(self) -> str:
        """Error of the estimates in a few words."""
        if self.trials is None:
            return ""
        low, high = self.trials.lowest, self.trials.highest
        if low < -ONE_SIDED and high > ONE_SIDED:
            return say("trials.either_way", error=max(-low, high))
        return say("trials.on_average", error=_off(self.trials.error))

    @property
    def warning(self) -> str:
        """What a report says before the estimate of an unreliable model."""
        if not self.unreliable:
            return ""
        code = "trials.warning" if self.same_density else "trials.warning_others"
        return say(code, options=self.options, bias=self.bias)

    @property
    def options(self) -> str:
        """A remark if the trials were with other options; begins with a blank."""
        return "" if self.same_options else say("trials.default_options")

    @property
    def sentence(self) -> str:
        """Error and coverage in trials."""
        trials = self.trials
        if trials is None:
            return say("trials.none", model=self.model)
        other = None
        if not self.same_options:
            other = "trials.other_options"
        elif not self.same_density:
            other = "trials.other_dense" if trials.dense else "trials.other_sparse"
        missed = trials.samples - trials.covered
        sides = "not_recorded" if trials.above is None or trials.below is None else "sides"
        return say(
            other,
            "trials.said",
            missed and f"trials.{sides}",
            unit=HOUSEHOLD if self.model == HOUSEHOLDS else RECORD,
            model=self.model,
            trials=trials,
            missed=missed,
            where=say(f"trials.where.{trials.where}"),
            spread=say(f"trials.spread.{trials.spread}"),
            label=trials.called,
            least=say(trials.least and "trials.least", trials=trials),
            error=_off(trials.error),
            range=_range(trials.lowest, trials.highest),
        )


def track_record(model: str, options: Mapping[str, Any], *, dense: bool) -> TrackRecord:
    """Look up a fitted model (`auto` if it has its own error); options left out are the defaults.

    `dense` files have at least as many records as there are combinations of levels.

    Examples
    --------
    >>> track_record("hdp", {}, dense=False).coverage
    '98 of 140 samples'
    >>> track_record("loglinear", {"interval": "bootstrap"}, dense=False).unreliable
    True
    """
    asked = _changed_options(model, options)
    # What kind of file it is matters more than the options: a model that fails where cells are
    # sparse is not acquitted by dense tables.
    for there in (dense, not dense):
        for wanted in (asked, {}):
            for trials in TRIALS:
                if (trials.model, trials.dense, dict(trials.options)) == (model, there, wanted):
                    return TrackRecord(
                        model=model,
                        trials=trials,
                        same_options=wanted == asked,
                        same_density=there == dense,
                    )
    return TrackRecord(model=model, trials=None, same_options=True, same_density=True)


def of_result(result: Result) -> TrackRecord:
    """Look up the model of an assessment; where the risk is known exactly there are no trials."""
    if result.known_exactly:
        return TrackRecord(model=result.model, trials=None, same_options=True, same_density=True)
    return _of(
        result.model,
        result.model_options,
        result.uncertainty,
        result.fit.get("chosen"),
        result.sample,
    )


def unknown_of(spec: ModelSpec, found: RiskEstimate, *, converged: bool) -> tuple[Reason, ...]:
    """Say why an estimate may not tell whether a limit is met."""
    if not converged:
        return ("not converged",)
    if found.draws is None:
        return ()
    chosen = found.draws.facts.values.get("chosen")
    uncertainty = found.draws.model.uncertainty
    sample = sample_facts(found.table)
    return _reasons(_of(spec.name, spec.options, uncertainty, chosen, sample), sample)


def unknown_of_result(result: Result) -> tuple[Reason, ...]:
    """Say why the numbers of an assessment may not tell whether a limit is met."""
    if result.stage != "final" or result.stop_reason == "interrupted":
        return ("not finished",)
    if not result.converged:
        return ("not converged",)
    return () if result.known_exactly else _reasons(of_result(result), result.sample)


def _reasons(record: TrackRecord, sample: SampleFacts) -> tuple[Reason, ...]:
    found: list[Reason] = ["unreliable interval"] if record.unreliable else []
    if sample.n_shared_keys is not None and sample.n_shared_keys > MOST_TRIED:
        found.append("shared keys")
    if sample.copies is not None:
        found.append("copies")
    return tuple(found)


def of_compared(model: ModelFacts, sample: SampleFacts) -> TrackRecord:
    """Look up a model of a comparison."""
    return _of(model.name, model.options, model.uncertainty, model.fit.get("chosen"), sample)


def of_label(label: str, sample: SampleFacts) -> TrackRecord:
    """Look up a model by its name with options, as on the command line."""
    spec = ModelSpec.of(label)
    return track_record(spec.name, spec.options, dense=sample.dense)


def _of(
    name: str,
    options: Mapping[str, Any],
    uncertainty: str | None,
    chosen: str | None,
    sample: SampleFacts,
) -> TrackRecord:
    if uncertainty != "calibrated" and chosen is not None:
        return of_label(chosen, sample)
    return track_record(name, options, dense=sample.dense)


def _changed_options(model: str, options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are not the defaults."""
    kind = ALL[model]
    defaults = {option.name: getattr(kind(), option.name) for option in fields(kind)}
    return {
        name: value
        for name, value in options.items()
        if name not in _NO_MATTER and _plain(value) != _plain(defaults.get(name))
    }


def _plain(value: Any) -> Any:
    """JSON has lists for tuples."""
    return list(value) if isinstance(value, tuple) else value


def _option(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _off(error: float) -> str:
    """Write an error in words.

    Examples
    --------
    >>> _off(0.04), _off(-0.368), _off(0.001)
    ('4% too high', '37% too low', 'within 1% of the true value')
    """
    if abs(error) < 0.01:
        return say("trials.within")
    return say("trials.too_high" if error > 0.0 else "trials.too_low", size=abs(error))


def _range(low: float, high: float) -> str:
    """Write a range of errors in words.

    Examples
    --------
    >>> _range(-0.86, -0.05), _range(-0.03, 0.11)
    ('between 5% and 86% too low', 'between 3% too low and 11% too high')
    """
    code = "both_low" if high <= 0.0 else "both_high" if low >= 0.0 else "low_to_high"
    return say(f"trials.{code}", low=low, high=high)
