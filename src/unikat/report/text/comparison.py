"""The sentences of a comparison, for its page, its JSON and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import TYPE_CHECKING

from unikat.report.text import track_record
from unikat.report.text.numbers import columns, counted, interval, listed, number, percent, verb
from unikat.report.text.sentences import PROVISIONAL, at_risk
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
            "Expected number of correct matches of an intruder who matches each of the "
            f"{at_risk(summary.sample)} to a population unit with the same key values, at random "
            "among several."
        ),
        "checks": (
            "Samples of the same size were simulated from each fitted model. If they have far more "
            "sample uniques than the file, the model spreads people over too many cells; in trials "
            "on real populations such models mostly overstated τ1. Far fewer mean the opposite. A "
            "model that passes can still be wrong, because it was fitted to these counts."
        ),
        "doubted": unreliable(summary),
        "held_out": held_out(summary),
        "refuted": refuted(summary),
        "intervals": intervals(summary),
        "seconds": "Sampling time in seconds, including earlier parts of a resumed run.",
        "rhat": "Agreement of the chains; 1 is perfect.",
        "ess": "Effective sample size: independent draws that would be as precise.",
    }
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
    sample, models = summary.sample, trusted(summary)
    whole = f"among the {at_risk(sample)} in this file"
    if not models:
        every = listed([f"{model.model} {number(model.tau1.median)}" for model in summary.models])
        said = (
            "No model of this comparison gave reliable intervals in trials. Estimated population "
            f"uniques {whole}: {every}."
        )
    elif len(models) == 1:
        said = (
            f"The model {models[0].model} estimates about {number(models[0].tau1.median)} "
            f"population uniques {whole} ({100 * summary.level:g}% interval "
            f"{interval(models[0].tau1)})."
        )
    else:
        found = [model.tau1 for model in models]
        medians = sorted(one.median for one in found)
        low, high = number(medians[0]), number(medians[-1])
        lower, upper = min(one.lower for one in found), max(one.upper for one in found)
        said = (
            f"{_count(len(models))} models estimate "
            f"{f'about {low}' if low == high else f'between {low} and {high}'} population uniques "
            f"{whole}; their intervals reach from {number(lower)} to {number(upper)}."
        )
    return said if summary.converged else f"{PROVISIONAL}{said[:1].lower()}{said[1:]}"


def _count(n: int) -> str:
    """Write a number at the beginning of a sentence."""
    words = ("Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine", "Ten")
    return words[n - 2] if 2 <= n <= 10 else f"{n:,}"


def unreliable(summary: ComparisonSummary) -> str:
    """Name the models without a shown interval, with their error and coverage in trials."""
    records = [(one.model, track_record.of_compared(one, summary.sample)) for one in summary.models]
    said = "; ".join(
        f"{model} was {record.bias}, and its 95% intervals contained the true τ1 in "
        f"{record.coverage}"
        for model, record in records
        if record.unreliable
    )
    return f"†: no interval is shown or drawn. In trials {said}." if said else ""


def shown(summary: ComparisonSummary, model: ModelFacts, measure: Summary) -> str:
    """Write the interval of a measure, or a mark where it is not to be relied on."""
    record = track_record.of_compared(model, summary.sample)
    return "†" if record.unreliable else interval(measure)


def _tau1(summary: ComparisonSummary) -> str:
    """Define τ1, and say what its intervals cover."""
    said = (
        f"Number of population uniques among the {at_risk(summary.sample)}. An interval is correct "
        "if its model is right. It leaves out model error. The differences between the models "
        "indicate the size of that error, but do not bound it."
    )
    covering = [model.model for model in summary.models if model.uncertainty == "calibrated"]
    if covering:
        said += (
            f" The interval of {listed(covering)} includes model uncertainty, calibrated on real "
            "populations with known risk and on this file."
        )
    return said


def intervals(summary: ComparisonSummary) -> str:
    """Say what the intervals cover, unless all are posterior intervals."""
    kinds: dict[str, list[str]] = {}
    for model in summary.models:
        kinds.setdefault(model.uncertainty, []).append(model.model)
    if set(kinds) == {"posterior"}:
        return ""
    said = [f"{listed(names)} ({KINDS[kind].brief})" for kind, names in kinds.items()]
    differ = "different kinds of uncertainty" if len(kinds) > 1 else "this uncertainty"
    covering = kinds.get("calibrated", [])
    rest = "" if covering else " None includes model error."
    if covering and len(kinds) > 1:
        include = "includes" if len(covering) == 1 else "include"
        rest = f" Only {listed(covering)} {include} model uncertainty."
    return f"The intervals cover {differ}: {'; '.join(said)}.{rest}"


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
        return "Too few records were held out to tell which model predicts best."
    equals = [name for name, score in scores.items() if _as_good(score)]
    which = listed(equals) if 0 < len(equals) <= MOST_NAMED else f"{len(equals)} others"
    converged = all(score.sampling.converged for score in scores.values())
    said = f"{'' if converged else 'Provisionally, '}{best} predicts the held-out records best"
    said += f"; {which} not significantly worse." if equals else "."
    out = [name for name, score in scores.items() if score.refuted]
    if out:
        which = listed(out) if len(out) <= MOST_NAMED else f"{len(out)} models"
        said += (
            f" {which} {'gives' if len(out) == 1 else 'give'} probability zero to more of these "
            f"records and {'ranks' if len(out) == 1 else 'rank'} last."
        )
    return said


def refuted(summary: ComparisonSummary) -> str:
    """Name the models that the figure leaves out because held-out records refute them."""
    out = [
        f"{model.model} ({counted(model.held_out.n_zero, 'record')})"
        for model in summary.models
        if model.held_out is not None and model.held_out.refuted
    ]
    if not out:
        return ""
    return (
        f"Not drawn: {listed(out)}. A held-out record with probability zero refutes a model. "
        "Models are ranked by the number of such records first and by the score second."
    )


def _unlike(models: Sequence[ModelFacts]) -> str:
    """Name the models whose simulated samples differ from the file in sample uniques."""
    wrong = [model for model in models if not passes(model)]
    if not wrong:
        return ""
    have = f"have {_amount(wrong)} sample uniques than the file"
    if len(models) == 1:
        return f"Samples simulated from the model {have}, so do not rely on its interval."
    if len(wrong) == len(models):
        return f"Samples simulated from all models {have}, so do not rely on the intervals."
    names = [model.model for model in wrong]
    which = listed(names) if len(names) <= MOST_NAMED else f"{len(names)} of the models"
    return f"Samples simulated from {which} {have}."


def _amount(models: Sequence[ModelFacts]) -> str:
    """Say on which side of the file's number of sample uniques all these models are."""
    excess = [model.checks[0].mean - model.checks[0].observed for model in models]
    if min(excess) > 0.0:
        return "more"
    return "fewer" if max(excess) < 0.0 else "a different number of"


def _as_good(score: HeldOutFacts) -> bool:
    near = score.difference >= -2.0 * score.difference_standard_error
    return near and not score.best and not score.refuted


def passes(model: ModelFacts) -> bool:
    """Return whether the model passes the check on the number of sample uniques."""
    return not model.checks[0].p_value < SURPRISE


def held_out(summary: ComparisonSummary) -> str:
    """Explain the held-out log score."""
    score = summary.models[0].held_out
    if score is None:
        return "No records were held out, so there is no log score."
    n = summary.sample.n_records
    return (
        f"{counted(score.n_records, 'record')} ({percent(score.n_records / n)}, the same for all "
        f"models) {verb(score.n_records, 'were')} held out and the models were fitted "
        "to the rest. The score of a held-out record is the log of its probability under the "
        "model, in nats; the table has the mean over the records. Higher is better. A difference "
        f"of 0.01 per record makes these records together e^{0.01 * score.n_records:.3g} times as "
        "probable. Records with probability zero are counted separately and left out of the mean. "
        "The best model has the fewest of them, and among such models the highest mean. The score "
        "depends on all cells, τ1 on the rarest: a better score does not guarantee a better τ1."
    )


def path_question(path: PathFacts) -> str:
    """Write the title of the section on a path."""
    if path.option in SIZES:
        return f"Stability of τ1 over {path.option}"
    return f"Sensitivity of τ1 to {path.option}"


def path_sentence(path: PathFacts) -> str:
    """Say from which value on τ1 is stable, or how much it depends on the option."""
    if path.option not in SIZES:
        low, high = number(path.tau1_lowest), number(path.tau1_highest)
        between = f"is {low} at every value" if low == high else f"lies between {low} and {high}"
        said = (
            f"The mean of τ1 of {path.base} {between} for {path.option} from {path.values[0]:g} to "
            f"{path.values[-1]:g}. This range shows how sensitive τ1 is to the option. Choose a "
            "value by the meaning of the option, the checks and the scores, not by τ1."
        )
    elif path.chosen is None:
        said = (
            f"τ1 of {path.base} has not stabilised: it still changes at the end of the path, "
            f"{path.option} = {path.values[-1]:g}, or the path ends too early to tell. Add larger "
            "values."
        )
    else:
        said = (
            f"From {path.option} = {path.chosen:g} on, τ1 of {path.base} has stabilised: at every "
            "larger value of the path it differs by no more than 5% or half a posterior standard "
            f"deviation, plus twice the Monte Carlo error. Use {path.option} = {path.chosen:g}."
        )
    if path.provisional:
        said += " This is provisional: not all fits of the path have converged."
    return said


def verdict(summary: ComparisonSummary) -> str:
    """Say whether all fits have converged."""
    late = [model for model in summary.models if not model.converged]
    if not late and all(map(_independent, summary.models)):
        return "The draws of all fits are independent, and there are enough of them."
    if not late and any(map(_independent, summary.models)):
        return (
            "The chains of all fits with chains have converged; the other fits have enough "
            "independent draws."
        )
    if not late:
        return "The chains of all fits have converged."
    said = ""
    if chains := [model.model for model in late if not _independent(model)]:
        which = "all models" if len(chains) == len(summary.models) else listed(chains)
        said += f"The chains of {which} have not converged or have too few draws. "
    if few := [model.model for model in late if _independent(model)]:
        said += f"{listed(few)} {verb(len(few), 'have')} too few independent draws. "
    return (
        f"{said}Their numbers are provisional: continue with a higher limit (--resume) before you "
        "use them."
    )


def _independent(model: ModelFacts) -> bool:
    return KINDS[model.uncertainty].independent


def state(summary: ComparisonSummary) -> str:
    """Say in a word or two whether the computation is finished."""
    late = [model for model in summary.models if not model.converged] or list(summary.models)
    enough = all(map(_independent, late))
    if summary.converged:
        return "Enough draws." if enough else "Converged."
    return "Not enough draws." if enough else "Not converged."


def unfinished(model: ModelFacts) -> str:
    """Say why a fit of a model is not finished."""
    return "too few draws" if _independent(model) else "not converged"


def mark(model: ModelFacts, sampling: SamplingRecord) -> str:
    """Write the remark behind the name of a model with an unfinished fit."""
    return "" if sampling.converged else f" ({unfinished(model)})"


def rhat(model: ModelFacts, value: float) -> str:
    """Write R-hat; independent draws have none."""
    return "–" if _independent(model) or isnan(value) else f"{value:.3f}"


def check_sentence(check: PredictiveCheck) -> str:
    """Write the mean and interval of a predictive check."""
    return f"{number(check.mean)} ({interval(check)})"


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
    return f"below {finest:.1g}" if check.p_value < finest else f"{check.p_value:.2g}"


def score(value: float) -> str:
    """Write a log score or a difference of scores."""
    return "–" if isnan(value) else f"{round(value, 3) + 0.0:.3f}".replace("-", "−")


def difference(score_: HeldOutFacts) -> str:
    """Write the difference to the best model with its standard error."""
    if score_.best:
        return "best"
    if score_.refuted:
        return "refuted"
    return f"{score(score_.difference)} ± {score(score_.difference_standard_error)}"


def terminal_table(summary: ComparisonSummary) -> list[str]:
    """Return the lines of the table for the terminal."""
    return [*columns(short_table(summary)), "", *notes(summary)]


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
                row[-1] += f", probability zero: {model.held_out.n_zero:,}"
        table.append([*row, rhat(model, model.sampling.rhat)])
    return table


def notes(summary: ComparisonSummary) -> list[str]:
    """Explain the columns of the short table."""
    observed = summary.models[0].checks[0].observed
    lines = [
        "sample uniques (p): mean number in samples simulated from the model, and posterior "
        f"predictive p-value; the file has {observed:,}."
    ]
    if summary.models[0].held_out is not None:
        lines.append("log score: mean per held-out record, minus that of the best model.")
        if any(model.held_out is not None and model.held_out.refuted for model in summary.models):
            lines.append(
                "refuted: probability zero for more held-out records than under the best model."
            )
    lines += [
        f"*: {model.model}: {unfinished(model)}." for model in summary.models if not model.converged
    ]
    if said := unreliable(summary):
        lines.append(said)
    return lines
