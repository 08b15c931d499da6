"""The sentences that say what each number means, for the report, the JSON and the terminal."""

from __future__ import annotations

import math
from dataclasses import replace
from math import isnan
from typing import TYPE_CHECKING

from unikat.data.units import HOUSEHOLD, RECORD
from unikat.inference.progress import range_of, work_needed
from unikat.report.text import track_record
from unikat.report.text.numbers import counted, duration, estimated, interval, number, percent
from unikat.report.text.uncertainty import INDEPENDENT, KINDS, POSTERIOR, Kind

if TYPE_CHECKING:
    from unikat.data.table import CellTable
    from unikat.data.units import Unit
    from unikat.report.facts.result import Result, SampleFacts
    from unikat.risk.estimate import Summary

PROVISIONAL = "Provisional, not converged: "
PRELIMINARY = "Preliminary, other models are still being compared: "
CONDITION = POSTERIOR.condition
MIXTURES = ("hdp", "gom", "latent-class")
"""Models whose chains start from many classes."""
_ENDS = {
    "sweep limit": " Sampling stopped at the limit of sweeps.",
    "time limit": " Sampling stopped at the time limit.",
    "interrupted": " Sampling was interrupted.",
}


def in_line(result: Result, summary: Summary) -> str:
    """Write a measure with its interval; for unreliable intervals τ1 with its known error."""
    record = track_record.of_result(result)
    if not record.unreliable:
        return estimated(summary.median, summary)
    known = f" (in trials {record.bias})" if summary is result.tau1 else ""
    return f"{number(summary.median)}{known}"


def level(summary: Summary) -> str:
    """Write the probability of a summary's interval."""
    return f"{100 * summary.level:g}%"


def interval_name(result: Result) -> str:
    """Name an interval: one that mostly missed the true value in trials is nominal."""
    name = f"{level(result.tau1)} interval"
    return f"nominal {name}" if track_record.of_result(result).unreliable else name


def understood(table: CellTable) -> str:
    """Say what was read, before a long run begins."""
    share = table.n_records / table.n_units
    return (
        f"{counted(table.n_records, 'record')}, {counted(table.n_keys, 'key')}, "
        f"{counted(table.n_uniques, 'sample unique')}; population {table.n_units:,} "
        f"(sampling fraction {percent(share)})"
    )


def understood_households(table: CellTable, n_persons: int) -> str:
    """Say what was read, of a table of households."""
    assert table.layout is not None
    known = table.population_size
    population = "" if known is None else f"; population {counted(known, 'household')}"
    return (
        f"{counted(table.n_records, 'household')} of {counted(n_persons, 'person')}, "
        f"{counted(len(table.variables), 'key')}, {table.n_uniques:,} of them unique in the sample"
        f"{population}"
    )


def preliminary(result: Result) -> str:
    """Say the preliminary answer of `auto` in one line."""
    tau1 = result.tau1
    return (
        f"Preliminary answer: τ1 about {number(tau1.median)} ({level(tau1)} interval "
        f"{interval(tau1)}). Other models are still being compared."
    )


def headline(result: Result) -> str:
    """Say the result in one sentence, and first that it is provisional if it is."""
    said = _headline(result)
    begins = first(result.converged, preliminary=result.stage == "preliminary")
    return f"{begins}{said[:1].lower()}{said[1:]}" if begins else said


def first(converged: bool, *, preliminary: bool = False) -> str:
    """What a heading says first: that a run has not converged."""
    if converged:
        return ""
    return PRELIMINARY if preliminary else PROVISIONAL


def _headline(result: Result) -> str:
    sample, tau1, unit = result.sample, result.tau1, result.unit
    # What wildcards match is a convention, not a fact.
    sure = "" if sample.missing == "wildcard" and sample.n_incomplete else " This is known exactly."
    if result.known_exactly and sample.population_size == sample.n_records:
        return (
            f"The file holds the whole population, so {_each(sample.n_uniques)}"
            f"{at_risk(sample, unit)} is unique in the population.{sure}"
        )
    if result.known_exactly:
        return (
            f"The file has no sample unique on these keys, so no {unit.one} is also unique in the "
            f"population.{sure}"
        )
    record = track_record.of_result(result)
    if record.unreliable:
        estimate = _estimate(result)
        return f"{record.warning} Its estimate: {estimate[:1].lower()}{estimate[1:]}."
    said = kind(result).headline.format(level=level(tau1), ends=interval(tau1))
    return f"{_estimate(result)}; {said}."


def _estimate(result: Result) -> str:
    """Say the estimate: the verb is in the plural unless the number is 1."""
    sample, found = result.sample, number(result.tau1.median)
    verb = "is" if found == "1" else "are"
    both = "unique in the file and in the population"
    where = both if sample.n_possible else "also unique in the population"
    part = percent(result.tau1.median / max(result.records.n_judged, 1))
    return (
        f"About {found} of the {at_risk(sample, result.unit)} in this file ({part}) {verb} {where}"
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
        parts.append(unit.counted(sample.n_possible, "incomplete"))
    return " and ".join(parts)


def _each(n: int) -> str:
    return "the " if n == 1 else "each of the "


def _times(value: float) -> str:
    """Write how often, as `number` does.

    Examples
    --------
    >>> _times(1.0), _times(51.7), _times(0.02)
    ('1 time', '52 times', 'less than 0.1 times')
    """
    said = number(value)
    return f"{said} time{'' if said == '1' else 's'}"


def kind(result: Result) -> Kind:
    """Return the words for the kind of uncertainty that the draws have."""
    found = POSTERIOR if result.uncertainty is None else KINDS[result.uncertainty]
    own = found.covers_households if result.unit is HOUSEHOLD else ""
    records = found.records.format(units=result.unit.many)
    return replace(found, covers=own or found.covers, records=records)


def proviso(result: Result) -> str:
    """Say when the intervals should contain the true value."""
    record = track_record.of_result(result)
    if record.unreliable:
        return f"in trials the intervals of this model contained the true τ1 in {record.coverage}"
    return f"{kind(result).proviso}, their intervals should contain the true value"


def condition(result: Result) -> str:
    """Say what the interval of the answer depends on."""
    if result.known_exactly:
        return ""
    record = track_record.of_result(result)
    if record.unreliable:
        return (
            f"No interval is shown here: in trials the 95% intervals of this model{record.options} "
            f"contained the true value in {record.coverage}. Do not decide on this number. "
            "Assess the file with the default model, and compare several models (unikat compare)."
        )
    said = kind(result).condition
    if result.uncertainty == "conditional" and "interval" in result.model_options:
        said += " The option interval=bootstrap adds the estimation error."
    return said


def share(result: Result) -> str:
    """Say which part of the file the answer is."""
    sample, tau1, n_judged = result.sample, result.tau1, result.records.n_judged
    whole = (
        f"{percent(tau1.median / sample.n_records)} of all {result.unit.counted(sample.n_records)}"
    )
    if not sample.n_uniques:
        return f"That is {whole}."
    parts = [percent(value / n_judged) for value in (tau1.median, tau1.lower, tau1.upper)]
    these = f"these {result.unit.many}" if sample.n_possible else "the sample uniques"
    ends = "" if track_record.of_result(result).unreliable else f" ({parts[1]} to {parts[2]})"
    return f"That is {parts[0]} of {these}{ends} and {whole}."


def matches(result: Result) -> str:
    """Say what τ2 means."""
    tau2, unit = result.tau2, result.unit
    each = f"{_each(result.sample.n_at_risk)}{at_risk(result.sample, unit)} in this file"
    if result.known_exactly:
        return (
            f"An intruder who matches every sample unique to a {unit.in_population} with the same "
            f"key values would be correct {_times(tau2.mean)}."
        )
    return (
        f"An intruder who matches {each} to a {unit.in_population} with the same key values, at "
        f"random among several, would be correct about {_times(tau2.median)} "
        f"({interval_name(result)} {interval(tau2)})."
    )


def two_counts(shown: str, hidden: str) -> str:
    """Say τ1 of a file with missing values, as it is shown and with what they hide.

    Examples
    --------
    >>> two_counts("41 (30 to 52)", "52 (40 to 63)")
    'By the values that the file shows τ1 is 41 (30 to 52), and with combinations that missing ...'
    """
    return (
        f"By the values that the file shows τ1 is {shown}, and with combinations that missing "
        f"values hide {hidden}."
    )


COUNTED = (
    "A sample unique is a complete record whose combination no other complete record has; in the "
    "smallest combination a missing value agrees with every level."
)
"""How both are counted in a file with missing values: a file may have sample uniques, and no
combination of one record."""


def published(result: Result) -> str:
    """Say τ1 by the values that the file shows; nothing where it is that of all records."""
    tau1 = result.tau1_shown
    if tau1 is None:
        return ""
    n, unit = result.sample.n_incomplete, result.unit
    shown, hidden = (f"{number(one.median)}{_ends(result, one)}" for one in (tau1, result.tau1))
    return (
        f"{two_counts(shown, hidden)} An intruder cannot use missing values, which "
        f"{unit.counted(n)} {'has' if n == 1 else 'have'}: a limit is judged by the first number."
    )


def published_matches(result: Result) -> str:
    """Say τ2 by the values that the file shows; nothing where it is that of all records."""
    tau2 = result.tau2_shown
    if tau2 is None:
        return ""
    return (
        f"An intruder who matches its {result.unit.many} by these values would be correct about "
        f"{_times(tau2.median)}{_ends(result, tau2)}."
    )


def _ends(result: Result, summary: Summary) -> str:
    """Write an interval in brackets; none where trials showed that it is not reliable."""
    if track_record.of_result(result).unreliable:
        return ""
    return f" ({level(summary)} interval {interval(summary)})"


def verdict(result: Result) -> str:
    """Say whether the computation has converged."""
    if result.known_exactly:
        return "Nothing was estimated: the file itself determines the answer."
    if result.stage == "preliminary":
        return "The run ended before a model was selected."
    sampling = result.sampling
    assert sampling is not None
    # What the stopping rule looks at; the expected measures have a warning of their own.
    found = [result.tau1, result.tau2]
    rhats = [sampling.worst_rhat, *(s.rhat for s in found)]
    sizes = [sampling.least_ess, *(e for s in found for e in (s.ess_bulk, s.ess_tail))]
    # What is not known is None or NaN.
    worst = max((r for r in rhats if r and r > 0.0), default=math.nan)
    size = min((e for e in sizes if e and e > 0.0), default=math.nan)
    target, needed = sampling.rhat_target, number(sampling.ess_target)
    known = [
        "R-hat not known" if isnan(worst) else f"R-hat of τ1 and τ2 at most {worst:.3f}",
        "no effective size" if isnan(size) else f"effective sample size at least {number(size)}",
    ]
    both = f"{', '.join(known)} (targets: {target:g} and {needed})"
    independent = kind(result).independent
    short = []
    if not independent and not worst <= target:
        rhat = "not known" if isnan(worst) else f"up to {worst:.3f}"
        short.append(f"R-hat is {rhat} (target: at most {target:g})")
    if not size >= sampling.ess_target:
        ess = "not known" if isnan(size) else f"down to {number(size)}"
        short.append(f"the effective sample size is {ess} (target: at least {needed})")
    if not result.converged:
        failed = "There are too few draws" if independent else "The chains have not converged"
        said = f"{failed}: {' and '.join(short) or both}."
    elif independent:
        said = (
            "The draws are independent, so there are no chains to converge, and there are enough "
            f"of them: {known[1]} (target: {needed})."
        )
    else:
        said = f"The chains have converged: {both}."
    if result.uncertainty == "calibrated":
        said += (
            " Both also cover τ1 and τ2 without model uncertainty, by their share of the variance "
            "that is reported."
        )
    said += _ENDS.get(result.stop_reason, "")
    if result.converged:
        return said
    return f"{said} The numbers are provisional: continue the run (--resume) before you use them."


def more_time(result: Result) -> str:
    """Say how much longer a run that did not converge would take, and what to do.

    For a run that ended at a limit of time or sweeps.
    """
    sampling = result.sampling
    assert sampling is not None
    factor = None
    if sampling.least_ess is not None:
        independent = kind(result).independent
        rhat = 1.0 if independent else (sampling.worst_rhat or math.inf)
        factor = work_needed(rhat, sampling.least_ess, sampling.rhat_target, sampling.ess_target)
    if factor is None:
        return (
            "The time left is not known yet: continue with a limit several times as high. If R-hat "
            "stays above 1.1, group the keys into fewer levels, leave a key out, or try another "
            "model."
        )
    left = str(range_of(result.seconds * (factor - 1.0)))
    limit = f"--max-sweeps {_round_up(1.5 * factor * sampling.n_sweeps)}"
    if result.stop_reason == "time limit":
        # A limit of time is one of each call.
        limit = f"--max-seconds {_round_up(1.5 * (factor - 1.0) * result.seconds)}"
    about = "" if left.startswith(("less than", "more than")) else "about "
    return f"It needs {about}{left} more on this machine: continue with {limit} or more."


def _round_up(value: float) -> int:
    """Round to one digit that is not 0, up."""
    unit = 10 ** max(math.floor(math.log10(max(value, 10.0))), 1)
    return int(math.ceil(value / unit) * unit)


def state(result: Result) -> str:
    """Say in a word or two whether the computation is finished."""
    if result.known_exactly:
        return "Known exactly."
    if kind(result).independent:
        return "Enough draws." if result.converged else "Not enough draws."
    return "Converged." if result.converged else "Not converged."


def computation(result: Result) -> str:
    """Say how the posterior was sampled."""
    sampling = result.sampling
    assert sampling is not None
    made = f"{number(sampling.n_draws)} draws were used."
    if kind(result).independent:
        return f"The fit and the draws took {duration(result.seconds)}; {made}"
    chains = counted(sampling.n_chains, "chain")
    sweeps = f"{number(sampling.n_sweeps)} sweeps each, in {duration(result.seconds)}"
    if result.fitted_model in MIXTURES:
        starts = (
            f"{chains} started from many small classes, by different keys in each chain; all "
            "starting points are of this kind."
        )
    else:
        starts = f"{chains} started from different points."
    return f"{starts} They made {sweeps}. {made}"


def sentences(result: Result) -> dict[str, str]:
    """Return what each number of the result means, by its path in `result.json`."""
    sample, said_kind, unit = result.sample, kind(result), result.unit
    said = {
        "answer": headline(result),
        "condition": condition(result),
        "tau1": " ".join(filter(None, (headline(result), condition(result), share(result)))),
        "tau2": matches(result),
        "tau1_expected": (
            "Expected number of population uniques among the sample uniques given the model "
            f"parameters: {estimated(result.tau1_expected.median, result.tau1_expected)}. The "
            "interval leaves out sampling variation of the population; compare τ1, not this, with "
            f"true counts.{said_kind.expected}"
        ),
        "tau2_expected": (
            "Expected number of correct matches given the model parameters: "
            f"{estimated(result.tau2_expected.median, result.tau2_expected)}."
        ),
        "converged": verdict(result),
        "stop_reason": "Why sampling ended.",
        "seconds": "Sampling time in seconds, including earlier parts of a resumed run.",
        "seed": "The same file, specification, seed and version give the same numbers.",
        "model": "The statistical model of the joint distribution of the keys in the population.",
        "sample.n_records": _records(result),
        "sample.n_keys": (
            f"An intruder is assumed to know {sample.n_keys} variables of a {unit.whom}: the keys."
        ),
        "sample.n_cells": (
            f"{counted(sample.n_cells, 'cell')} (combinations of key values) "
            f"occur{'s' if sample.n_cells == 1 else ''} in the file."
        ),
        "sample.n_uniques": _sample_uniques(sample, unit),
        "sample.n_combinations": (
            "Possible combinations of levels: the product of the keys' numbers of levels."
        ),
        "sample.population_size": (
            f"The population has {sample.population_size:,} units, {population_source(result)}. "
            f"The file holds {percent(sample.n_records / sample.population_size)} of them."
        ),
        "sample.n_incomplete": incomplete(result),
        "uncertainty": condition(result) or "Nothing was estimated.",
        "mean, median": said_kind.centre,
        "lower, upper, level": said_kind.ends,
        "rhat": (
            f"Agreement of the chains; 1 is perfect. For τ1 and τ2, above {_rhat_target(result):g} "
            "the run is too short. The expected measures do not decide when sampling ends; above "
            "1.05 they bring a warning."
            f"{INDEPENDENT if said_kind.independent else ''}"
        ),
        "ess_bulk, ess_tail": (
            "Effective sample size: independent draws that would be as precise, for the centre "
            "and for the ends of the interval."
        ),
        "keys.drop": (
            "Reduction of expected τ1 if this key alone is left out, from the margin of the fitted "
            "model."
        ),
        "keys.tau1_without": (
            "Expected τ1 if this key alone is left out, from the margin of the fitted model; the "
            "model is not refitted."
        ),
        "keys.n_missing": f"{unit.many.capitalize()} in which this key is missing.",
        "records.n_judged": (
            f"{at_risk(sample, unit).capitalize()} are the {unit.many} at risk, which "
            "τ1 and τ2 count. The others share their combination of key values within the file, "
            "so they are not unique in the population and have no r1."
        ),
        "records.at_least": f"{unit.many.capitalize()} whose r1 is at least the threshold.",
        "records.histogram": (
            f"{unit.many.capitalize()} by r1, in 20 bins of equal width from 0 to 1."
        ),
        "records.top": (
            f"{unit.many.capitalize()} with the highest risk {unit.by_row}, with the keys whose "
            f"removal lowers r1 most; for incomplete {unit.many} these are not computed."
        ),
        "r1": f"Probability that the {unit.one} is unique in the population.",
        "r2": (
            f"Probability that a match of the {unit.one} to a unit with the same keys is correct."
        ),
    }
    if result.chains:
        said["chains"] = chains(result)
    if result.tau1_shown is not None:
        said |= {"tau1_shown": published(result), "tau2_shown": published_matches(result)}
    if sample.n_possible:
        said["r1_shown"] = (
            f"Probability that no other {unit.one} or unit has the values that the file shows of "
            f"the {unit.one}: the r1 to use for the release of a file with missing values."
        )
    return said


def _sample_uniques(sample: SampleFacts, unit: Unit) -> str:
    """Define sample uniques, which depend on how missing keys are treated."""
    said, one = counted(sample.n_uniques, "sample unique"), sample.n_uniques == 1
    if sample.missing == "wildcard" and sample.n_incomplete:
        who = f"a {unit.one} that matches" if one else f"{unit.many} that match"
        return f"{said}: {who} no other {unit.one}; a missing key matches every level."
    complete = "complete " if sample.n_possible else ""
    who = f"a {complete}{unit.one} that is" if one else f"{complete}{unit.many} that are"
    return f"{said}: {who} alone in the file with {'its' if one else 'their'} combination of keys."


def population_source(result: Result) -> str:
    """Say where the size of the population comes from."""
    if result.margins:
        return "the sum of the known counts"
    if result.design is None:
        return "as stated by the user"
    weighted = result.design.weights is not None
    return f"as stated by the user, or from the {'weights' if weighted else 'stratum sizes'}"


def chains(result: Result) -> str:
    """Say what different estimates of the chains mean."""
    return (
        "Estimate from each chain alone. Chains that stay apart describe the file in different "
        "ways, and the file does not show which is right. If they differ by more than the decision "
        "allows, run longer, with more chains or other seeds. Do not select among chains."
    )


def chain_means(result: Result) -> str:
    """Write the mean of τ1 of each chain on one line; nothing where they have converged."""
    if not result.chains:
        return ""
    means = ", ".join(number(chain.tau1) for chain in result.chains)
    return f"Mean of τ1 by chain: {means}."


def _records(result: Result) -> str:
    n, zeros = result.sample.n_records, result.zeros
    if zeros is None or not zeros.n_dropped:
        return f"The file has {result.unit.counted(n)}."
    were = "was" if zeros.n_dropped == 1 else "were"
    return (
        f"The file has {n + zeros.n_dropped:,} {result.unit.many}; {zeros.n_dropped:,} with an "
        f"impossible combination {were} left out."
    )


def _rhat_target(result: Result) -> float:
    return 1.01 if result.sampling is None else result.sampling.rhat_target


def incomplete(result: Result) -> str:
    """Say how many keys are missing, and how they are treated."""
    sample = result.sample
    if not sample.n_incomplete and sample.missing != "level":
        return f"No {result.unit.one} has a missing key."
    how = {
        "integrate": "the model imputes them in every draw, so intervals cover this uncertainty",
        "wildcard": "a missing value matches every level",
        "level": "missing is treated as a level of its own",
    }
    n_missing = sum(key.n_missing for key in result.keys)
    values = counted(n_missing, "value")
    if sample.missing == "level":
        return f"{values} {'is' if n_missing == 1 else 'are'} missing; {how['level']}."
    return (
        f"{result.unit.counted(sample.n_incomplete)} "
        f"{'has' if sample.n_incomplete == 1 else 'have'} a missing key ({values}); "
        f"{how.get(sample.missing, sample.missing)}."
    )
