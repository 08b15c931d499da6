"""The sentences of a comparison, for its page, its JSON and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from unikat.report.uncertainty import KINDS
from unikat.report.wording import PROVISIONAL, counted, interval, number, percent, uniques
from unikat.risk.path import SIZES

if TYPE_CHECKING:
    from unikat.report.comparison_summary import (
        ComparisonSummary,
        HeldOutFacts,
        ModelFacts,
        PathFacts,
    )
    from unikat.risk.predictive import PredictiveCheck

TIMES = ("once", "twice", "3 times", "4 times", "5 or more")
"""How often a cell is seen, in the order of the checks."""
SURPRISE = 0.05
"""Predictive p-value below which a check is said to have failed."""
MOST_NAMED = 3
"""Models named in the sentence at the head; the tables name all."""


def sentences(summary: ComparisonSummary) -> dict[str, str]:
    """Return what the numbers of the comparison mean, by their names in `summary.json`."""
    said = {
        "answer": answer(summary),
        "evidence": evidence(summary),
        "converged": verdict(summary),
        "tau1": _tau1(summary),
        "tau2": (
            "Number of correct links of an intruder who links every sample unique, at random among "
            "the people of the population who agree with it on all keys."
        ),
        "checks": (
            "Each fitted model has produced new samples of the same size. Where they are unlike "
            "the file, the model is wrong in a way that matters: far more sample uniques than "
            "there are mean that it spreads people over too many combinations, and in trials on "
            "real populations such a model mostly overstated τ1; far fewer mean the opposite. A "
            "model that passes may still be wrong, as it was fitted to the very counts it is held "
            "against."
        ),
        "held_out": held_out(summary),
        "intervals": intervals(summary),
        "seconds": "Time spent sampling, earlier parts of a resumed run included.",
        "rhat": "Agreement of the chains; 1 is perfect.",
        "ess": "Number of independent draws that would tell as much.",
    }
    for position, path in enumerate(summary.paths):
        said[f"paths.{position}"] = path_sentence(path)
    return said


def answer(summary: ComparisonSummary) -> str:
    """Say in one sentence what the models answer."""
    models = summary.models
    if len(models) == 1:
        said = (
            f"With the model {models[0].model}, about {number(models[0].tau1.median)} of the "
            f"{_judged(summary)} are also unique in the population "
            f"({interval(models[0].tau1)})."
        )
    else:
        low = min(model.tau1.median for model in models)
        high = max(model.tau1.median for model in models)
        lower = min(model.tau1.lower for model in models)
        upper = max(model.tau1.upper for model in models)
        between = (
            f"about {number(low)}" if number(low) == number(high)
            else f"between {number(low)} and {number(high)}"
        )  # fmt: skip
        said = (
            f"Of the {_judged(summary)}, {len(models)} models take {between} to be also unique in "
            f"the population; their intervals reach from {number(lower)} to {number(upper)}."
        )
    return said if summary.converged else f"{PROVISIONAL}{said[:1].lower()}{said[1:]}"


def _tau1(summary: ComparisonSummary) -> str:
    """Say what τ1 is, and what its intervals hold."""
    said = (
        "Number of sample uniques that are unique in the population too. The interval holds if the "
        "model is right; it leaves out the error of the model itself, which the differences "
        "between the models give an idea of, but no bound."
    )
    held = [model.model for model in summary.models if model.uncertainty == "calibrated"]
    if held:
        said += (
            f" That of {listed(held)} holds the model's error too, as large as it was in "
            "populations of known truth and as this file shows it."
        )
    return said


def _judged(summary: ComparisonSummary) -> str:
    sample = summary.sample
    doubt = ", or may be," if sample.n_incomplete and sample.missing == "integrate" else ""
    return f"{uniques(sample.n_uniques, doubt)} in this file"


def intervals(summary: ComparisonSummary) -> str:
    """Say that intervals are not of one kind, where they are not those of posteriors."""
    kinds: dict[str, list[str]] = {}
    for model in summary.models:
        kinds.setdefault(model.uncertainty, []).append(model.model)
    if set(kinds) == {"posterior"}:
        return ""
    said = [f"{listed(names)} {_brief(kind)}" for kind, names in kinds.items()]
    alike = "The intervals are not all of one kind" if len(kinds) > 1 else "What the intervals hold"
    held = kinds.get("calibrated", [])
    if not held:
        rest = "None holds the error of the model itself"
    elif len(kinds) == 1:
        rest = "None holds errors of a kind that those populations did not have"
    else:
        rest = f"Only {'that' if len(held) == 1 else 'those'} of {listed(held)} "
        rest += f"{'holds' if len(held) == 1 else 'hold'} the error of the model itself"
    return f"{alike}: {'; '.join(said)}. {rest}."


def _brief(kind: str) -> str:
    return next(f"({words.brief})" for name, words in KINDS.items() if name == kind)


def evidence(summary: ComparisonSummary) -> str:
    """Say which model the file itself speaks for."""
    return " ".join(part for part in (_best(summary.models), _unlike(summary.models)) if part)


def _best(models: Sequence[ModelFacts]) -> str:
    """Say which model predicts the records left out best, as far as that can be told."""
    scores = {model.model: model.held_out for model in models if model.held_out is not None}
    if len(scores) < 2:
        return ""
    best = next(name for name, score in scores.items() if score.best)
    if any(isnan(score.difference_standard_error) for score in scores.values() if not score.best):
        return "Too few records were left out to tell which model predicts best."
    equals = [name for name, score in scores.items() if _as_good(score)]
    which = listed(equals) if 0 < len(equals) <= MOST_NAMED else f"{len(equals)} others"
    converged = all(score.sampling.converged for score in scores.values())
    return (
        f"{'' if converged else 'Provisionally, '}{best} predicts the records left out best"
        f"{f', {which} as well within the error' if equals else ''}."
    )


def _unlike(models: Sequence[ModelFacts]) -> str:
    """Name the models that would not produce a file with so many sample uniques."""
    wrong = [model for model in models if not passes(model)]
    if not wrong:
        return ""
    would = f"would produce {_amount(wrong)} sample uniques than the file has"
    if len(models) == 1:
        return f"The model {would}, so its interval should not be relied on as it stands."
    if len(wrong) == len(models):
        return f"All models {would}, so none of the intervals should be relied on as it stands."
    names = [model.model for model in wrong]
    return (
        f"{listed(names) if len(names) <= MOST_NAMED else f'{len(names)} of the models'} {would}."
    )


def _amount(models: Sequence[ModelFacts]) -> str:
    """Say on which side of the file's number of sample uniques all these models are."""
    checks = [model.checks[0] for model in models]
    if all(check.mean > check.observed for check in checks):
        return "more"
    if all(check.mean < check.observed for check in checks):
        return "fewer"
    return "a different number of"


def _as_good(score: HeldOutFacts) -> bool:
    if score.best or score.n_zero:
        return False
    return score.difference >= -2.0 * score.difference_standard_error


def passes(model: ModelFacts) -> bool:
    """Return whether the number of sample uniques is one that the model would produce."""
    return not model.checks[0].p_value < SURPRISE


def held_out(summary: ComparisonSummary) -> str:
    """Say what the log score means."""
    score = summary.models[0].held_out
    if score is None:
        return "No records were left out, so there is no log score."
    n = summary.sample.n_records
    return (
        f"{counted(score.n_records, 'record')} ({percent(score.n_records / n)}, the same for all "
        f"models) {'was' if score.n_records == 1 else 'were'} left out, "
        "the models fitted to the rest, and each record left out was scored by the "
        "log of the probability that the model gave it, in nats; the mean over the records is "
        "shown. Higher is better. A difference of 0.01 per record makes all these records together "
        f"e^{0.01 * score.n_records:.3g} times as probable; its standard error says whether other "
        "records would have told the same. A record that a model takes to be "
        "impossible scores minus infinity: such records are counted, and the mean is over the "
        "others. A better score says that a model predicts records of this kind better. It is no "
        "guarantee for τ1, which depends on the rarest combinations, while the score depends on "
        "all."
    )


def path_question(path: PathFacts) -> str:
    """Say what a path is to tell."""
    if path.option in SIZES:
        return f"From which {path.option} on is the answer stable?"
    return f"How much depends on {path.option}?"


def path_sentence(path: PathFacts) -> str:
    """Say from where on the estimate no longer changes, or how much depends on the option."""
    if path.option not in SIZES:
        low, high = number(path.tau1_lowest), number(path.tau1_highest)
        between = f"is {low} at every value" if low == high else f"lies between {low} and {high}"
        said = (
            f"The mean of τ1 of {path.base} {between} for {path.option} from {path.values[0]:g} to "
            f"{path.values[-1]:g}. How far it moves shows how much depends on this option. It is "
            "not the size of a model, so no value is chosen: decide by what the option means and "
            "by checks and scores, not by the answer."
        )
    elif path.chosen is None:
        said = (
            f"τ1 of {path.base} cannot be said to have stabilised: it still changes at the end of "
            f"the path, {path.option} = {path.values[-1]:g}, or the path ends too early to tell. "
            "No value is chosen; add larger ones."
        )
    else:
        said = (
            f"From {path.option} = {path.chosen:g} on, τ1 of {path.base} has stabilised: at every "
            "larger value of the path it differs by no more than 5% or half a posterior standard "
            f"deviation, plus twice the Monte Carlo error. {path.option} = {path.chosen:g} is the "
            "value to choose."
        )
    if path.provisional:
        said += " This is provisional: not all fits of the path have converged."
    return said


def verdict(summary: ComparisonSummary) -> str:
    """Say whether the numbers can be relied on as a computation."""
    late = [model.model for model in summary.models if not model.converged]
    independent = [KINDS[model.uncertainty].independent for model in summary.models]
    if not late and all(independent):
        return "The draws of all fits are independent of each other, and there are enough of them."
    if not late and any(independent):
        return (
            "The chains of all fits that have chains agree; the other fits have independent draws, "
            "and enough of them."
        )
    if not late:
        return "The chains of all fits agree."
    which = "all models" if len(late) == len(summary.models) else listed(late)
    return (
        f"The chains of {which} do not agree yet or have too few draws. Their numbers are "
        "provisional: let it run longer (a higher limit and --resume) before relying on them."
    )


def check_sentence(check: PredictiveCheck) -> str:
    """Say a check in numbers."""
    return f"{number(check.mean)} ({number(check.lower)} to {number(check.upper)})"


def p_value(check: PredictiveCheck, n_simulated: int) -> str:
    """Write a predictive p-value, not finer than the simulated samples can tell.

    Examples
    --------
    >>> from unikat.risk.predictive import PredictiveCheck
    >>> numbers = {"size": 1, "observed": 9, "mean": 5.0, "lower": 4.0, "upper": 6.0}
    >>> p_value(PredictiveCheck(**numbers, p_value=0.0), 400)
    'below 0.005'
    """
    if check.p_value != check.p_value:
        return "–"
    finest = 2.0 / n_simulated
    return f"below {finest:.1g}" if check.p_value < finest else f"{check.p_value:.2g}"


def score(value: float) -> str:
    """Write a log score or a difference of scores."""
    if value != value:
        return "–"
    return f"{round(value, 3) + 0.0:.3f}".replace("-", "−")


def difference(score_: HeldOutFacts) -> str:
    """Write the difference to the best model with its standard error."""
    if score_.best:
        return "best"
    return f"{score(score_.difference)} ± {score(score_.difference_standard_error)}"


def listed(names: list[str]) -> str:
    """Write names as a list in a sentence.

    Examples
    --------
    >>> listed(["a"]), listed(["a", "b"]), listed(["a", "b", "c"])
    ('a', 'a and b', 'a, b and c')
    """
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def terminal_table(summary: ComparisonSummary) -> list[str]:
    """Return the lines of the table for the terminal."""
    level = f"{100 * summary.level:g}%"
    scored = summary.models[0].held_out is not None
    head = ["model", "τ1", f"{level} interval", "τ2", f"{level} interval", "uniques said (p)"]
    head += ["log score"] if scored else []
    table = [[*head, "R-hat"]]
    for model in summary.models:
        check = model.checks[0]
        row = [
            model.model if model.converged else f"{model.model} *",
            number(model.tau1.median),
            interval(model.tau1),
            number(model.tau2.median),
            interval(model.tau2),
            f"{number(check.mean)} ({p_value(check, model.n_simulated)})",
        ]
        rhat = model.sampling.rhat
        if model.held_out is not None:
            row.append(difference(model.held_out))
            if model.held_out.n_zero:
                row[-1] += f", {model.held_out.n_zero:,} impossible"
        table.append([*row, "–" if rhat != rhat else f"{rhat:.3f}"])
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = [
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in table
    ]
    observed = summary.models[0].checks[0].observed
    lines.append("")
    lines.append(
        f"uniques said: sample uniques that the model would produce; the file has {observed:,}."
    )
    if scored:
        lines.append("log score: mean per record left out, minus that of the best model.")
    if not summary.converged:
        lines.append("*: a fit of this model has not converged.")
    return lines
