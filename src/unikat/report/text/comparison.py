"""The sentences of a comparison, for its page, its JSON and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from unikat.report.text import track_record
from unikat.report.text.assessment import PROVISIONAL, at_risk
from unikat.report.text.numbers import counted, interval, number, percent
from unikat.report.text.uncertainty import KINDS
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


def sentences(summary: ComparisonSummary) -> dict[str, str]:
    """Return what the numbers of the comparison mean, by their names in `summary.json`."""
    said = {
        "answer": answer(summary),
        "evidence": evidence(summary),
        "converged": verdict(summary),
        "tau1": _tau1(summary),
        "tau2": (
            "Number of correct links of an intruder who links each of the "
            f"{at_risk(summary.sample)}, at random among the people of the population who agree "
            "with it on all keys."
        ),
        "checks": (
            "Each fitted model has produced new samples of the same size. Where they are unlike "
            "the file, the model is wrong in a way that matters: far more sample uniques than "
            "there are mean that it spreads people over too many combinations, and in trials on "
            "real populations such a model mostly overstated τ1; far fewer mean the opposite. A "
            "model that passes may still be wrong, as it was fitted to the very counts it is held "
            "against."
        ),
        "doubted": doubted(summary),
        "held_out": held_out(summary),
        "refuted": refuted(summary),
        "intervals": intervals(summary),
        "seconds": "Time spent sampling, earlier parts of a resumed run included.",
        "rhat": "Agreement of the chains; 1 is perfect.",
        "ess": "Number of independent draws that would tell as much.",
    }
    for position, path in enumerate(summary.paths):
        said[f"paths.{position}"] = path_sentence(path)
    return said


def trusted(summary: ComparisonSummary) -> tuple[ModelFacts, ...]:
    """Return the models whose intervals may be shown, by their trials (`track_record`)."""
    return tuple(
        model
        for model in summary.models
        if not track_record.of_compared(model, summary.sample).doubted
    )


def answer(summary: ComparisonSummary) -> str:
    """Say in one sentence what the models answer."""
    sample, models = summary.sample, trusted(summary)
    where = "in the file and in the population" if sample.n_possible else "in the population too"
    whole = f"of the {at_risk(sample)} in this file"
    if not models:
        found = listed([f"{model.model} {number(model.tau1.median)}" for model in summary.models])
        said = (
            "No model of this comparison has given reliable intervals in trials. "
            f"{whole[0].upper()}{whole[1:]}, so many are unique {where} by each: {found}."
        )
    elif len(models) == 1:
        said = (
            f"{whole[0].upper()}{whole[1:]}, about {number(models[0].tau1.median)} are unique "
            f"{where} by the model {models[0].model} ({interval(models[0].tau1)})."
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
            f"{whole[0].upper()}{whole[1:]}, {len(models)} models estimate that {between} are "
            f"unique {where}; their intervals reach from {number(lower)} to {number(upper)}."
        )
    return said if summary.converged else f"{PROVISIONAL}{said[:1].lower()}{said[1:]}"


def doubted(summary: ComparisonSummary) -> str:
    """Say of which models no interval is shown, and how far off they were in trials."""
    said = []
    for model in summary.models:
        record = track_record.of_compared(model, summary.sample)
        if record.doubted:
            said.append(
                f"{model.model} was {record.bias}, and its 95% intervals contained the true τ1 in "
                f"{record.held}"
            )
    if not said:
        return ""
    return f"†: no interval is shown, and none is drawn. In trials {'; '.join(said)}."


def shown(summary: ComparisonSummary, model: ModelFacts, measure: Summary) -> str:
    """Write the interval of a measure, or a mark where it is not to be relied on."""
    record = track_record.of_compared(model, summary.sample)
    return "†" if record.doubted else interval(measure)


def _tau1(summary: ComparisonSummary) -> str:
    """Say what τ1 is, and what its intervals hold."""
    said = (
        "Number of records that are unique in the file and in the population: of the "
        f"{at_risk(summary.sample)}. The interval holds if the model is right. It leaves out the "
        "error of the model itself. The differences between the models give an idea of that "
        "error, but no bound."
    )
    held = [model.model for model in summary.models if model.uncertainty == "calibrated"]
    if held:
        said += (
            f" That of {listed(held)} holds the model's error too, as large as it was in "
            "populations of known truth and as this file shows it."
        )
    return said


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
    said = (
        f"{'' if converged else 'Provisionally, '}{best} predicts the held-out records best"
        f"{f', {which} as well within the error' if equals else ''}."
    )
    out = [name for name, score in scores.items() if score.refuted]
    if out:
        which = listed(out) if len(out) <= MOST_NAMED else f"{len(out)} models"
        said += (
            f" {which} {'gives' if len(out) == 1 else 'give'} probability zero to more of these "
            f"records and {'is' if len(out) == 1 else 'are'} ranked after the others."
        )
    return said


def refuted(summary: ComparisonSummary) -> str:
    """Say which models are not drawn beside the others, since records refute them."""
    out = [
        f"{model.model} ({counted(model.held_out.n_zero, 'record')})"
        for model in summary.models
        if model.held_out is not None and model.held_out.refuted
    ]
    if not out:
        return ""
    return (
        f"Not drawn: {listed(out)}. A model that gives probability zero to a held-out record is "
        "refuted by it. Models are ranked by the number of such records first and by the score "
        "second, so these come after the others, even if they predict the remaining records better."
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
    if score.best or score.refuted:
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
        "others. The best model has the fewest such records, and among these models the highest "
        "mean. A better score says that a model predicts records of this kind better. It is no "
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
    independent = [KINDS[model.uncertainty].independent for model in summary.models]
    late = [model for model in summary.models if not model.converged]
    if not late and all(independent):
        return "The draws of all fits are independent of each other, and there are enough of them."
    if not late and any(independent):
        return (
            "The chains of all fits that have chains agree; the other fits have independent draws, "
            "and enough of them."
        )
    if not late:
        return "The chains of all fits agree."
    said = []
    chains = [model.model for model in late if not KINDS[model.uncertainty].independent]
    if chains:
        which = "all models" if len(chains) == len(summary.models) else listed(chains)
        said.append(f"The chains of {which} do not agree yet or have too few draws.")
    few = [model.model for model in late if KINDS[model.uncertainty].independent]
    if few:
        said.append(
            f"{listed(few)} {'has' if len(few) == 1 else 'have'} too few draws yet; these are "
            "independent, so there are no chains that have to agree."
        )
    return (
        f"{' '.join(said)} Their numbers are provisional: let it run longer (a higher limit and "
        "--resume) before relying on them."
    )


def state(summary: ComparisonSummary) -> str:
    """Say in a word or two whether the computation is finished."""
    late = [model for model in summary.models if not model.converged] or list(summary.models)
    enough = all(KINDS[model.uncertainty].independent for model in late)
    if summary.converged:
        return "Enough draws." if enough else "Converged."
    return "Not enough draws." if enough else "Not converged."


def unfinished(model: ModelFacts) -> str:
    """Say what a fit of a model that is not finished lacks."""
    return "too few draws" if KINDS[model.uncertainty].independent else "not converged"


def mark(model: ModelFacts, sampling: SamplingRecord) -> str:
    """What stands behind the name of a model one of whose fits is not finished."""
    return "" if sampling.converged else f" ({unfinished(model)})"


def rhat(model: ModelFacts, value: float) -> str:
    """Write R-hat; independent draws have no chains that have to agree."""
    if KINDS[model.uncertainty].independent or value != value:
        return "–"
    return f"{value:.3f}"


def check_sentence(check: PredictiveCheck) -> str:
    """Say a check in numbers."""
    return f"{number(check.mean)} ({number(check.lower)} to {number(check.upper)})"


def p_value(check: PredictiveCheck, n_simulated: int) -> str:
    """Write a predictive p-value, not finer than the simulated samples can tell.

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
    if score_.refuted:
        return "refuted"
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
    table = short_table(summary)
    widths = [max(len(row[i]) for row in table) for i in range(len(table[0]))]
    lines = [
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in table
    ]
    return [*lines, "", *notes(summary)]


def short_table(summary: ComparisonSummary) -> list[list[str]]:
    """Return a row per model below a row of titles, for the terminal and for notebooks."""
    level = f"{100 * summary.level:g}%"
    scored = summary.models[0].held_out is not None
    head = ["model", "τ1", f"{level} interval", "τ2", f"{level} interval", "sample uniques (p)"]
    head += ["log score"] if scored else []
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
            row.append(difference(model.held_out))
            if model.held_out.n_zero:
                row[-1] += f", {model.held_out.n_zero:,} impossible"
        table.append([*row, rhat(model, model.sampling.rhat)])
    return table


def notes(summary: ComparisonSummary) -> list[str]:
    """Say what stands in the short table."""
    observed = summary.models[0].checks[0].observed
    lines = [
        "sample uniques (p): mean number in samples simulated from the model, and predictive "
        f"p-value; the file has {observed:,}."
    ]
    if summary.models[0].held_out is not None:
        lines.append("log score: mean per held-out record, minus that of the best model.")
        if any(model.held_out is not None and model.held_out.refuted for model in summary.models):
            lines.append(
                "refuted: it gives probability zero to more records than the best model, and is "
                "ranked after it."
            )
    lines += [
        f"*: a fit of {model.model} is not finished: {unfinished(model)}."
        for model in summary.models
        if not model.converged
    ]
    if said := doubted(summary):
        lines.append(said)
    return lines
