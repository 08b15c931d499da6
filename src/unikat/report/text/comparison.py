"""The sentences of a comparison, for its page, its JSON and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

from unikat.models.base import CHAINS
from unikat.report.text import track_record
from unikat.report.text.numbers import (
    columns,
    digits,
    estimated,
    interval,
    level,
    listed,
    number,
    significant,
)
from unikat.report.text.sentences import at_risk, first
from unikat.report.text.words import say, small, wording_of
from unikat.studies.path import SIZES

if TYPE_CHECKING:
    from unikat.report.facts.comparison import (
        ComparisonSummary,
        HeldOutFacts,
        ModelFacts,
        PathFacts,
    )
    from unikat.risk.estimate import Summary
    from unikat.studies.compare import SamplingRecord
    from unikat.studies.predictive import PredictiveCheck

TIMES = ("once", "twice", "3 times", "4 times", "5 or more")
"""How often a cell is seen, in the order of the checks."""
SURPRISE = 0.05
"""Predictive p-value below which a check is said to have failed."""
MOST_NAMED = 3
"""Models named in the sentence at the head; the tables name all."""


def explained(summary: ComparisonSummary) -> ComparisonSummary:
    """Add the sentences, by name, and which intervals are shown."""
    sure = trusted(summary)
    models = tuple(replace(one, interval_shown=one in sure) for one in summary.models)
    return replace(summary, sentences=_sentences(summary), models=models)


def _sentences(summary: ComparisonSummary) -> dict[str, str]:
    """Return what the numbers of the comparison mean, by their names in `summary.json`."""
    risky = at_risk(summary.sample, summary.unit)
    said = {
        "answer": answer(summary),
        "evidence": evidence(summary),
        "converged": verdict(summary),
        "tau1": _tau1(summary),
        "doubted": unreliable(summary),
        "held_out": held_out(summary),
        "refuted": refuted(summary),
        "intervals": intervals(summary),
    }
    for name in ("tau2", "checks", "seconds", "rhat", "ess"):
        said[name] = say(f"comparison.{name}", at_risk=risky)
    for position, path in enumerate(summary.paths):
        said[f"paths.{position}"] = path_sentence(path)
    return said


def trusted(summary: ComparisonSummary) -> tuple[ModelFacts, ...]:
    """Return the models whose intervals may be shown, by their trials (`track_record`)."""
    return tuple(
        model
        for model in summary.models
        if not track_record.of_compared(model, summary.sample).unreliable
    )


def answer(summary: ComparisonSummary) -> str:
    """Say in one sentence what the models estimate."""
    models = trusted(summary)
    found = [model.tau1 for model in models]
    medians = sorted(one.median for one in found) or [0.0]
    if len(models) < 2:
        which = "one" if models else "none"
    else:
        which = "same" if number(medians[0]) == number(medians[-1]) else "between"
    said = say(
        f"comparison.answer.{which}",
        at_risk=at_risk(summary.sample, summary.unit),
        models=models,
        level=level(summary.level),
        every=listed([f"{model.model} {number(model.tau1.median)}" for model in summary.models]),
        n=_count(len(models)),
        low=medians[0],
        high=medians[-1],
        lower=min((one.lower for one in found), default=0.0),
        upper=max((one.upper for one in found), default=0.0),
    )
    begins = first(summary.converged)
    return f"{begins}{small(said)}" if begins else said


def _count(n: int) -> str:
    """Write a number at the beginning of a sentence."""
    return say(f"comparison.count.{n}") if 2 <= n <= 10 else number(n)


def unreliable(summary: ComparisonSummary) -> str:
    """Name the models without a shown interval, with their error and coverage in trials."""
    records = [(one.model, track_record.of_compared(one, summary.sample)) for one in summary.models]
    said = "; ".join(
        say("comparison.doubted.one", model=model, record=record)
        for model, record in records
        if record.unreliable
    )
    return say(bool(said) and "comparison.doubted.all", models=said)


def shown(summary: ComparisonSummary, model: ModelFacts, measure: Summary) -> str:
    """Write the interval of a measure, or a mark where it is not to be relied on."""
    record = track_record.of_compared(model, summary.sample)
    return "†" if record.unreliable else interval(measure)


def _tau1(summary: ComparisonSummary) -> str:
    """Define τ1, and say what its intervals cover."""
    covering = [model.model for model in summary.models if model.uncertainty == "calibrated"]
    return say(
        "comparison.tau1.defined",
        covering and "comparison.tau1.covering",
        at_risk=at_risk(summary.sample, summary.unit),
        covering=listed(covering or [""]),
    )


def intervals(summary: ComparisonSummary) -> str:
    """Say what the intervals cover, unless all are posterior intervals."""
    kinds: dict[str, list[str]] = {}
    for model in summary.models:
        kinds.setdefault(model.uncertainty, []).append(model.model)
    if set(kinds) == {"posterior"}:
        return ""
    said = [f"{listed(names)} ({say(wording_of(kind, 'brief'))})" for kind, names in kinds.items()]
    covering = kinds.get("calibrated", [])
    rest = None if covering else "comparison.intervals.none"
    if covering and len(kinds) > 1:
        rest = "comparison.intervals.only"
    return say(
        f"comparison.intervals.{'several' if len(kinds) > 1 else 'one'}",
        rest,
        kinds="; ".join(said),
        covering=listed(covering or [""]),
        n=len(covering),
    )


def evidence(summary: ComparisonSummary) -> str:
    """Say which model the file supports."""
    return " ".join(part for part in (_best(summary.models), _unlike(summary.models)) if part)


def _best(models: Sequence[ModelFacts]) -> str:
    """Say which model predicts the held-out records best, as far as that is known."""
    scores = {model.model: model.held_out for model in models if model.held_out is not None}
    if len(scores) < 2:
        return ""
    best = next(name for name, score in scores.items() if score.best)
    if any(isnan(score.difference_standard_error) for score in scores.values() if not score.best):
        return say("comparison.evidence.too_few")
    equals = [name for name, score in scores.items() if _as_good(score)]
    out = [name for name, score in scores.items() if score.refuted]
    code = "comparison.evidence.best_equal" if equals else "comparison.evidence.best"
    if not all(score.sampling.converged for score in scores.values()):
        code += "_provisional"
    return say(
        code,
        out and "comparison.evidence.zero",
        best=best,
        equals=_named(equals, "others"),
        out=_named(out, "models"),
        n=len(out),
    )


def _named(models: Sequence[str], many: str) -> str:
    """Name a few models, or say how many they are."""
    if 0 < len(models) <= MOST_NAMED:
        return listed(models)
    return say(f"comparison.evidence.{many}", n=len(models))


def refuted(summary: ComparisonSummary) -> str:
    """Name the models that the figure leaves out because held-out records refute them."""
    out = [
        say("comparison.refuted.one", model=model)
        for model in summary.models
        if model.held_out is not None and model.held_out.refuted
    ]
    return say(out and "comparison.refuted.models", models=listed(out or [""]))


def _unlike(models: Sequence[ModelFacts]) -> str:
    """Name the models whose simulated samples differ from the file in sample uniques."""
    wrong = [model for model in models if not passes(model)]
    if not wrong:
        return ""
    which = "one" if len(models) == 1 else "all" if len(wrong) == len(models) else "some"
    return say(
        f"comparison.evidence.{which}",
        amount=_amount(wrong),
        which=_named([model.model for model in wrong], "of_models"),
    )


def _amount(models: Sequence[ModelFacts]) -> str:
    """Say on which side of the file's number of sample uniques all these models are."""
    excess = [model.checks[0].mean - model.checks[0].observed for model in models]
    side = "more" if min(excess) > 0.0 else "fewer" if max(excess) < 0.0 else "different"
    return say(f"comparison.evidence.{side}")


def _as_good(score: HeldOutFacts) -> bool:
    near = score.difference >= -2.0 * score.difference_standard_error
    return near and not score.best and not score.refuted


def passes(model: ModelFacts) -> bool:
    """Return whether the model passes the check on the number of sample uniques."""
    return not model.checks[0].p_value < SURPRISE


def held_out(summary: ComparisonSummary) -> str:
    """Explain the held-out log score."""
    score = summary.models[0].held_out
    how = "none" if score is None else "explained"
    return say(f"comparison.held_out.{how}", unit=summary.unit, score=score, sample=summary.sample)


def path_question(path: PathFacts) -> str:
    """Write the title of the section on a path."""
    kind = "stability" if path.option in SIZES else "sensitivity"
    return say(f"comparison.path.{kind}", path=path)


def path_sentence(path: PathFacts) -> str:
    """Say from which value on τ1 is stable, or how much it depends on the option."""
    if path.option in SIZES:
        codes = ["moving" if path.chosen is None else "stable"]
    else:
        flat = number(path.tau1_lowest) == number(path.tau1_highest)
        codes = ["flat" if flat else "range", "choose"]
    codes += ["provisional"] if path.provisional else []
    return say(*(f"comparison.path.{code}" for code in codes), path=path)


def verdict(summary: ComparisonSummary) -> str:
    """Say whether all fits have converged."""
    late = [model for model in summary.models if not model.converged]
    if not late and all(map(_independent, summary.models)):
        return say("comparison.converged.independent")
    if not late:
        mixed = any(map(_independent, summary.models))
        return say(f"comparison.converged.{'mixed' if mixed else 'all'}")
    chains = [model.model for model in late if not _independent(model)]
    few = [model.model for model in late if _independent(model)]
    every = "all_late" if len(chains) == len(summary.models) else "late"
    return say(
        chains and f"comparison.converged.{every}",
        few and "comparison.converged.few",
        "comparison.converged.provisional",
        chains=listed(chains or [""]),
        few=listed(few or [""]),
        n=len(few),
    )


def _independent(model: ModelFacts) -> bool:
    return model.uncertainty not in CHAINS


def state(summary: ComparisonSummary) -> str:
    """Say in a word or two whether the computation is finished."""
    late = [model for model in summary.models if not model.converged] or list(summary.models)
    enough = all(map(_independent, late))
    if summary.converged:
        return say(f"assessment.state.{'enough' if enough else 'converged'}")
    return say(f"assessment.state.{'not_enough' if enough else 'not_converged'}")


def unfinished(model: ModelFacts) -> str:
    """Say why a fit of a model is not finished."""
    return say(f"comparison.fit.{'few' if _independent(model) else 'unconverged'}")


def mark(model: ModelFacts, sampling: SamplingRecord) -> str:
    """Write the remark behind the name of a model with an unfinished fit."""
    return say(not sampling.converged and "comparison.fit.remark", what=unfinished(model))


def rhat(model: ModelFacts, value: float | None) -> str:
    """Write R-hat; independent draws have none."""
    return "–" if _independent(model) or value is None else digits(value, 3)


def check_sentence(check: PredictiveCheck) -> str:
    """Write the mean and interval of a predictive check."""
    return estimated(check.mean, check)


def p_value(check: PredictiveCheck, n_simulated: int) -> str:
    """Write a predictive p-value, no finer than the number of simulated samples allows.

    Examples
    --------
    >>> from unikat.studies.predictive import PredictiveCheck
    >>> numbers = {"size": 1, "observed": 9, "mean": 5.0, "lower": 4.0, "upper": 6.0}
    >>> p_value(PredictiveCheck(**numbers, p_value=0.0), 400)
    'below 0.005'
    """
    if check.p_value != check.p_value:
        return "–"
    finest = 2.0 / n_simulated
    if check.p_value < finest:
        return say("comparison.fit.below", finest=significant(finest, 1))
    return significant(check.p_value, 2)


def score(value: float) -> str:
    """Write a log score or a difference of scores."""
    return "–" if isnan(value) else digits(round(value, 3) + 0.0, 3)


def difference(score_: HeldOutFacts) -> str:
    """Write the difference to the best model with its standard error."""
    if score_.best:
        return say("comparison.fit.best")
    if score_.refuted:
        return say("comparison.fit.refuted")
    return f"{score(score_.difference)} ± {score(score_.difference_standard_error)}"


def terminal_table(summary: ComparisonSummary) -> list[str]:
    """Return the lines of the table for the terminal."""
    return [*columns(short_table(summary)), "", *notes(summary)]


def short_table(summary: ComparisonSummary) -> list[list[str]]:
    """Return a row per model below a row of titles, for the terminal and for notebooks."""
    ends = say("comparison.table.interval", level=level(summary.level))
    scored = summary.models[0].held_out is not None
    head = [say("comparison.table.model"), "τ1", ends, "τ2", ends, say("comparison.table.uniques")]
    head += [say("comparison.table.score")] if scored else []
    table = [[*head, "R-hat"]]
    for model in summary.models:
        check = model.checks[0]
        row = [
            model.model if model.converged else f"{model.model} *",
            number(model.tau1.median),
            shown(summary, model, model.tau1),
            number(model.tau2.median),
            shown(summary, model, model.tau2),
            f"{number(check.mean)} ({p_value(check, model.n_simulated)})",
        ]
        if model.held_out is not None:
            n_zero, said = model.held_out.n_zero, difference(model.held_out)
            zero = say(n_zero and "comparison.fit.zero", score=said, n=n_zero)
            row.append(zero or said)
        table.append([*row, rhat(model, model.sampling.rhat)])
    return table


def notes(summary: ComparisonSummary) -> list[str]:
    """Explain the columns of the short table."""
    observed = summary.models[0].checks[0].observed
    scores = [model.held_out for model in summary.models if model.held_out is not None]
    lines = [
        say("comparison.notes.uniques", observed=observed),
        say(scores and "comparison.notes.score"),
        say(any(score.refuted for score in scores) and "comparison.notes.refuted"),
        *(
            say("comparison.notes.unfinished", model=model, what=unfinished(model))
            for model in summary.models
            if not model.converged
        ),
        unreliable(summary),
    ]
    return [line for line in lines if line]
