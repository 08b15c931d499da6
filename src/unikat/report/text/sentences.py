"""Which sentences say what each number means, for the report, the JSON and the terminal."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from unikat.data.units import RECORD
from unikat.inference.progress import range_of, work_needed
from unikat.models.base import CHAINS
from unikat.report.text import track_record
from unikat.report.text.numbers import estimated, level, listed, number
from unikat.report.text.words import counted, nouns, say, small, table, wording_of
from unikat.spec.models import CATALOGUE

if TYPE_CHECKING:
    from unikat.data.table import CellTable
    from unikat.data.units import Unit
    from unikat.report.facts.result import Result, SampleFacts
    from unikat.risk.estimate import Summary

_ENDS = {
    "sweep limit": "assessment.converged.ended_at_sweeps",
    "time limit": "assessment.converged.ended_at_time",
    "interrupted": "assessment.converged.ended_by_hand",
}


def about(result: Result) -> Callable[..., str]:
    """Return `say` for an assessment: with its unit, and the facts that most sentences take."""
    return partial(
        say,
        unit=result.unit,
        result=result,
        sample=result.sample,
        sampling=result.sampling,
        level=level(result.tau1.level),
        at_risk=at_risk(result.sample, result.unit),
    )


def in_line(result: Result, summary: Summary) -> str:
    """Write a measure with its interval; for unreliable intervals τ1 with its known error."""
    record = track_record.of_result(result)
    if not record.unreliable:
        return estimated(summary.median, summary)
    if summary is not result.tau1:
        return number(summary.median)
    return say("assessment.answer.with_error", median=summary.median, bias=record.bias)


def interval_name(result: Result) -> str:
    """Name an interval: one that mostly missed the true value in trials is nominal."""
    name = "nominal" if track_record.of_result(result).unreliable else "name"
    return say(f"assessment.interval.{name}", level=level(result.tau1.level))


def understood(table: CellTable) -> str:
    """Say what was read, before a long run begins."""
    what = "file" if table.population_size is None else "records"
    return say(f"assessment.understood.{what}", table=table)


def understood_households(table: CellTable, n_persons: int) -> str:
    """Say what was read, of a table of households."""
    said = say(
        "assessment.understood.households",
        table=table,
        n_persons=n_persons,
        n_keys=len(table.variables),
    )
    known = table.population_size
    if known is None:
        return said
    return say("assessment.understood.population", households=said, n=known)


def preliminary(result: Result) -> str:
    """Say the preliminary answer of `auto` in one line."""
    return about(result)("assessment.answer.preliminary")


def headline(result: Result) -> str:
    """Say the result in one sentence, and first that it is provisional if it is."""
    said = _headline(result)
    begins = first(result.converged, preliminary=result.stage == "preliminary")
    return f"{begins}{small(said)}" if begins else said


def first(converged: bool, *, preliminary: bool = False) -> str:
    """What a heading says first: that a run has not converged."""
    if converged:
        return ""
    return say(f"assessment.state.{'preliminary' if preliminary else 'provisional'}")


def _headline(result: Result) -> str:
    sample, speak = result.sample, about(result)
    if result.known_exactly:
        census = sample.population_size == sample.n_records
        # What wildcards match is a convention, not a fact.
        sure = not (sample.missing == "wildcard" and sample.n_incomplete)
        return speak(
            f"assessment.answer.{'census' if census else 'no_uniques'}",
            sure and "assessment.answer.exactly",
        )
    estimate = speak(
        f"assessment.answer.estimate{'_incomplete' if sample.n_possible else ''}",
        tau1=result.tau1.median,
        part=result.tau1.median / max(result.records.n_judged, 1),
    )
    record = track_record.of_result(result)
    if record.unreliable:
        return speak("assessment.answer.unreliable", warning=record.warning, estimate=estimate)
    return speak(
        "assessment.answer.with_interval", estimate=estimate, interval=of_kind(result, "headline")
    )


def at_risk(sample: SampleFacts, unit: Unit = RECORD) -> str:
    """Name the records at risk, those that τ1 and τ2 are about.

    Examples
    --------
    >>> from unikat.report.facts.result import SampleFacts
    >>> facts = dict(n_records=99, n_keys=2, n_cells=50, population_size=900)
    >>> at_risk(SampleFacts(n_uniques=8, n_incomplete=0, missing="integrate", **facts))
    '8 sample uniques'
    >>> at_risk(SampleFacts(n_uniques=8, n_incomplete=1, missing="integrate", **facts))
    '8 sample uniques and 1 incomplete record'
    """
    parts = []
    if sample.n_uniques or not sample.n_possible:
        parts.append(counted(sample.n_uniques, "sample unique"))
    if sample.n_possible:
        parts.append(counted(sample.n_possible, nouns(unit), "incomplete"))
    return listed(parts)


def of_kind(result: Result, part: str, **facts: Any) -> str:
    """Write a phrase about the kind of uncertainty of the draws."""
    code = wording_of(result.uncertainty or "posterior", part)
    return about(result)(code, **facts)


def independent(result: Result) -> bool:
    """Return whether the draws are independent: there are no chains that have to converge."""
    return result.uncertainty is not None and result.uncertainty not in CHAINS


def proviso(result: Result) -> str:
    """Say when the intervals should contain the true value."""
    record = track_record.of_result(result)
    if record.unreliable:
        return say("assessment.proviso.unreliable", coverage=record.coverage)
    return say("assessment.proviso.reliable", proviso=of_kind(result, "proviso"))


def condition(result: Result) -> str:
    """Say what the interval of the answer depends on."""
    if result.known_exactly:
        return ""
    record = track_record.of_result(result)
    if record.unreliable:
        return say(
            "assessment.condition.unreliable", options=record.options, coverage=record.coverage
        )
    bootstrap = result.uncertainty == "conditional" and "interval" in result.model_options
    said = of_kind(result, "condition")
    return f"{said} {say('assessment.condition.bootstrap')}" if bootstrap else said


def share(result: Result) -> str:
    """Say which part of the file the answer is."""
    sample, tau1, n_judged = result.sample, result.tau1, result.records.n_judged
    facts: dict[str, Any] = {"whole": tau1.median / sample.n_records}
    if not sample.n_uniques:
        return about(result)("assessment.share.whole", **facts)
    facts["parts"] = [value / n_judged for value in (tau1.median, tau1.lower, tau1.upper)]
    unreliable = track_record.of_result(result).unreliable
    facts["ends"] = "" if unreliable else say("assessment.share.ends", **facts)
    which = "incomplete" if sample.n_possible else "uniques"
    return about(result)(f"assessment.share.{which}", **facts)


def matches(result: Result) -> str:
    """Say what τ2 means."""
    return about(result)(
        f"assessment.matches.{'exactly' if result.known_exactly else 'about'}",
        interval_name=interval_name(result),
    )


def two_counts(shown: str, hidden: str) -> str:
    """Say τ1 of a file with missing values, as it is shown and with what they hide.

    Examples
    --------
    >>> two_counts("41 (30 to 52)", "52 (40 to 63)")
    'By the values that the file shows τ1 is 41 (30 to 52), and with combinations that missing ...'
    """
    return say("assessment.published.two_counts", shown=shown, hidden=hidden)


def published(result: Result) -> str:
    """Say τ1 by the values that the file shows; nothing where it is that of all records."""
    tau1 = result.tau1_shown
    if tau1 is None:
        return ""
    both = (f"{number(one.median)}{_ends(result, one)}" for one in (tau1, result.tau1))
    return f"{two_counts(*both)} {about(result)('assessment.published.judged')}"


def published_matches(result: Result) -> str:
    """Say τ2 by the values that the file shows; nothing where it is that of all records."""
    tau2 = result.tau2_shown
    if tau2 is None:
        return ""
    ends = _ends(result, tau2)
    return about(result)("assessment.published.matches", times=tau2.median, ends=ends)


def _ends(result: Result, summary: Summary) -> str:
    """Write an interval in brackets; none where trials showed that it is not reliable."""
    if track_record.of_result(result).unreliable:
        return ""
    return about(result)("assessment.published.ends", measure=summary)


def verdict(result: Result) -> str:
    """Say whether the computation has converged."""
    if result.known_exactly or result.stage == "preliminary":
        why = "exactly" if result.known_exactly else "preliminary"
        return say(f"assessment.converged.{why}")
    sampling, alone = result.sampling, independent(result)
    assert sampling is not None
    # What the stopping rule looks at; the expected measures have a warning of their own.
    found = [result.tau1, result.tau2]
    rhats = [sampling.rhat, *(s.rhat for s in found)]
    sizes = [sampling.ess, *(e for s in found for e in (s.ess_bulk, s.ess_tail))]
    # What is not known is None or NaN.
    worst = max((r for r in rhats if r and r > 0.0), default=math.nan)
    size = min((e for e in sizes if e and e > 0.0), default=math.nan)
    speak = partial(about(result), worst=worst, size=size)

    def said(name: str, **facts: str) -> str:
        return speak(f"assessment.converged.{name}", **facts)

    both = {
        "rhat": said("no_rhat" if math.isnan(worst) else "rhat"),
        "ess": said("no_ess" if math.isnan(size) else "ess"),
    }
    short = []
    if not alone and not worst <= sampling.rhat_target:
        short.append(said("unknown_rhat" if math.isnan(worst) else "short_rhat"))
    if not size >= sampling.ess_target:
        short.append(said("unknown_ess" if math.isnan(size) else "short_ess"))
    if not result.converged:
        why = listed(short) if short else said("both", **both)
        parts = [said("few" if alone else "not", why=why)]
    elif alone:
        parts = [said("independent", **both)]
    else:
        parts = [said("yes", both=said("both", **both))]
    if result.uncertainty == "calibrated":
        parts.append(said("calibrated"))
    parts.append(say(_ENDS.get(result.stop_reason)))
    if not result.converged:
        parts.append(said("continue"))
    return " ".join(filter(None, parts))


def more_time(result: Result) -> str:
    """Say how much longer a run that did not converge would take, and what to do.

    For a run that ended at a limit of time or sweeps.
    """
    sampling = result.sampling
    assert sampling is not None
    factor = None
    if sampling.ess is not None:
        rhat = 1.0 if independent(result) else (sampling.rhat or math.inf)
        factor = work_needed(rhat, sampling.ess, sampling.rhat_target, sampling.ess_target)
    if factor is None:
        return say("assessment.more.unknown")
    left = str(range_of(result.seconds * (factor - 1.0)))
    limit = f"--max-sweeps {_round_up(1.5 * factor * sampling.n_sweeps)}"
    if result.stop_reason == "time limit":
        # A limit of time is one of each call.
        limit = f"--max-seconds {_round_up(1.5 * (factor - 1.0) * result.seconds)}"
    how = "needed" if left.startswith(("less than", "more than")) else "needed_about"
    return say(f"assessment.more.{how}", left=left, limit=limit)


def _round_up(value: float) -> int:
    """Round to one digit that is not 0, up."""
    unit = 10 ** max(math.floor(math.log10(max(value, 10.0))), 1)
    return int(math.ceil(value / unit) * unit)


def state(result: Result) -> str:
    """Say in a word or two whether the computation is finished."""
    if result.known_exactly:
        name = "known"
    elif independent(result):
        name = "enough" if result.converged else "not_enough"
    else:
        name = "converged" if result.converged else "not_converged"
    return say(f"assessment.state.{name}")


def computation(result: Result) -> str:
    """Say how the posterior was sampled."""
    if independent(result):
        return about(result)("assessment.computation.independent")
    starts = "mixture" if CATALOGUE[result.fitted_model].many_classes else "others"
    return about(result)(f"assessment.computation.{starts}", "assessment.computation.sweeps")


def sentences(result: Result) -> dict[str, str]:
    """Return what each number of the result means, by its path in `result.json`."""
    sample, alone = result.sample, independent(result)
    sampling = result.sampling
    speak = partial(
        about(result),
        population_source=population_source(result),
        rhat_target=1.01 if sampling is None else sampling.rhat_target,
    )

    def also(path: str, more: str) -> str:
        return " ".join(filter(None, (speak(f"assessment.paths.{path}"), more)))

    start = "assessment.paths"
    said = {code.removeprefix(f"{start}."): speak(code) for code in table(start)} | {
        "answer": headline(result),
        "condition": condition(result),
        "tau1": " ".join(filter(None, (headline(result), condition(result), share(result)))),
        "tau2": matches(result),
        "tau1_expected": also("tau1_expected", of_kind(result, "expected")),
        "converged": verdict(result),
        "sample.n_records": _records(result),
        "sample.n_uniques": _sample_uniques(result),
        "sample.n_incomplete": incomplete(result),
        "uncertainty": condition(result) or say("assessment.more_paths.not_estimated"),
        "mean, median": of_kind(result, "centre"),
        "lower, upper, level": of_kind(result, "ends"),
        "rhat": also("rhat", say(alone and "assessment.more_paths.independent_rhat")),
    }
    if result.chains:
        said["chains"] = chains(result)
    if result.tau1_shown is not None:
        said |= {"tau1_shown": published(result), "tau2_shown": published_matches(result)}
    if result.tau2_bound is not None:
        said["tau2_bound"] = speak("assessment.matches.bound")
    if sample.n_possible:
        said["r1_shown"] = speak("assessment.more_paths.r1_shown")
    return said


def _sample_uniques(result: Result) -> str:
    """Define sample uniques, which depend on how missing keys are treated."""
    sample = result.sample
    which = "complete" if sample.n_possible else "all"
    if sample.missing == "wildcard" and sample.n_incomplete:
        which = "wildcard"
    return about(result)(f"assessment.uniques.{which}", n=sample.n_uniques)


def population_source(result: Result) -> str:
    """Say where the size of the population comes from."""
    source = "user"
    if result.margins:
        source = "margins"
    elif result.design is not None:
        source = "strata" if result.design.weights is None else "weights"
    return say(f"assessment.population.{source}")


def chains(result: Result) -> str:
    """Say what different estimates of the chains mean."""
    return say("assessment.chains.differ")


def chain_means(result: Result) -> str:
    """Write the mean of τ1 of each chain on one line; nothing where they have converged."""
    if not result.chains:
        return ""
    means = ", ".join(number(chain.tau1) for chain in result.chains)
    return say("assessment.chains.means", means=means)


def _records(result: Result) -> str:
    some = result.zeros is not None and result.zeros.n_dropped
    return about(result)(f"assessment.records.{'left_out' if some else 'all'}")


def incomplete(result: Result) -> str:
    """Say how many keys are missing, and how they are treated."""
    sample = result.sample
    how = "none" if not sample.n_incomplete and sample.missing != "level" else sample.missing
    n_missing = sum(key.n_missing for key in result.keys)
    return about(result)(f"assessment.incomplete.{how}", n_missing=n_missing)
