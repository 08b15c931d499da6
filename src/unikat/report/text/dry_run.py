"""A dry run in words, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from unikat.data.units import HOUSEHOLD, RECORD
from unikat.inference.progress import range_between
from unikat.report.facts.dry_run import DryRunFacts, FitForeseen, Span
from unikat.report.text.columns import proposed_words
from unikat.report.text.language import wording
from unikat.report.text.numbers import columns, listed, localised, number
from unikat.report.text.plan_words import level_words
from unikat.report.text.words import counted, say
from unikat.report.text.zeros import terminal_sentence

WIDTH = 88
MOST_KEYS = 12


def lines(facts: DryRunFacts) -> list[str]:
    """Say what a run would do, in lines."""
    found = [*_wrapped(_data(facts)), *_wrapped(_missing(facts))]
    if levels := [key.levels for key in facts.keys if key.levels is not None]:
        found += _wrapped(say("dry_run.levels", levels=level_words(levels)))
    found += _wrapped(terminal_sentence(facts.zeros))
    for said in proposed_words(facts.other_columns):
        found += _wrapped(said)
    if facts.known_exactly:
        found += ["", *_wrapped(say("dry_run.exactly"))]
    elif facts.fits:
        found += ["", *_fits(facts.fits), ""]
        found += _wrapped(_sampling(facts))
    for fit in facts.fits:
        if fit.refused is not None:
            found += _wrapped(say("dry_run.refused", fit=fit))
    found += [""]
    for said in time_words(facts):
        found += _wrapped(said)
    found += _wrapped(say("dry_run.memory_is", memory=_memory(facts)))
    found += _wrapped(say("dry_run.files_are", files=_files(facts)))
    return [*found, say("dry_run.nothing_written")]


def time_words(facts: DryRunFacts) -> list[str]:
    """Say how long a run would take."""
    said = say("dry_run.time_is", time=_time(facts))
    return [said, *filter(None, [say(facts.command == "attack" and "dry_run.attacks")])]


def size(n_bytes: float) -> str:
    """Write a number of bytes.

    Examples
    --------
    >>> size(812), size(204_065), size(3.2 * 2**30)
    ('812 bytes', '200 KB', '3.2 GB')
    """
    if n_bytes < 1000:
        return say("dry_run.files.bytes", n=round(n_bytes))
    for unit in ("KB", "MB", "GB", "TB"):
        n_bytes /= 1024
        if n_bytes < 999.5 or unit == "TB":
            break
    written = f"{n_bytes:.1f}" if n_bytes < 9.95 else f"{float(f'{n_bytes:.2g}'):.0f}"
    return f"{localised(written.removesuffix('.0'))} {unit}"


def _data(facts: DryRunFacts) -> str:
    name = "" if facts.data is None else f"{facts.data}: "
    what = "sample" if facts.n_units else "records"
    what = "population" if facts.command == "evaluate" else what
    unit = HOUSEHOLD if facts.unit == HOUSEHOLD.one else RECORD
    return say(f"dry_run.{what}", unit=unit, name=name, facts=facts, n_keys=len(facts.keys))


def _missing(facts: DryRunFacts) -> str:
    missing = [key for key in facts.keys if key.n_missing]
    if not missing:
        return say("dry_run.none_missing")
    first = ", ".join(f"{key.name} {number(key.n_missing)}" for key in missing[:MOST_KEYS])
    more = len(missing) - MOST_KEYS
    rest = say(more > 0 and "dry_run.more_keys", n=more)
    return say("dry_run.missing", first=first, rest=rest)


def _fits(fits: Sequence[FitForeseen]) -> list[str]:
    rows: list[tuple[str, ...]] = [tuple(wording("dry_run.head"))]
    for fit in fits:
        if fit.refused is not None:
            continue
        if fit.seconds_per_sweep is None:
            chains = sweeps = pace = "–"
        else:
            chains = number(fit.n_chains or 0)
            sweeps = say("dry_run.sweeps", fit=fit)
            pace = _two(1e3 * fit.seconds_per_sweep)
            pace = pace if fit.measured else say("dry_run.counted", pace=pace)
        time = _between(fit.seconds.lower, fit.seconds.upper)
        rows.append((fit.model, fit.purpose, number(fit.n_fits), chains, pace, sweeps, time))
    return columns(rows, left=(0, 1))


def _sampling(facts: DryRunFacts) -> str:
    chains = [fit for fit in facts.fits if fit.seconds_per_sweep is not None]
    if not chains:
        return ""
    widest = max(chains, key=lambda fit: fit.n_workers or 1)
    processes = widest.n_workers if facts.at_a_time == 1 else facts.at_a_time
    assert processes is not None
    assert widest.n_threads is not None
    where = "processes" if facts.executor == "processes" else "executor"
    return say(
        "dry_run.stops",
        facts=facts,
        where=say(f"dry_run.{where}", facts=facts, n=processes, threads=widest.n_threads),
    )


def _between(lower: float, upper: float) -> str:
    first, last = range_between(lower, upper).ends
    of = [one and counted(one.number, one.unit) for one in (first, last)]
    if first is None or last is None:
        return say(f"dry_run.between.{'less' if first is None else 'more'}", time=of[0] or of[1])
    low = number(first.number) if first.unit == last.unit else of[0]
    return say("dry_run.between.ends", low=low, high=of[1])


def _time(facts: DryRunFacts) -> str:
    total = _between(facts.seconds.lower, facts.seconds.upper)
    if not facts.fits:
        return say("dry_run.time.no_fits", total=total, facts=facts)
    fits = [fit for fit in facts.fits if fit.refused is None]
    counted_only = list(dict.fromkeys(fit.model for fit in fits if not fit.measured))
    how = "measured"
    if counted_only:
        how = "mixed" if any(fit.measured for fit in fits) else "counted"
    said = say(f"dry_run.time.{how}", models=listed(counted_only or [""]))
    return say("dry_run.time.said", total=total, facts=facts, how=said)


def _memory(facts: DryRunFacts) -> str:
    if facts.memory is None:
        return say("dry_run.memory.unknown")
    how, machine = "alone", ""
    if facts.machine_memory is not None:
        how = "enough" if facts.enough_memory else "scarce"
        machine = size(facts.machine_memory)
    return say(f"dry_run.memory.{how}", memory=_span(facts.memory), machine=machine)


def _files(facts: DryRunFacts) -> str:
    upper = facts.work.upper
    return say(
        "dry_run.files.said",
        results=_span(facts.results),
        where=say(facts.folder is not None and "dry_run.files.where", folder=facts.folder),
        work=say(upper and "dry_run.files.work", work=size(upper)),
    )


def _span(span: Span) -> str:
    lower, upper = size(span.lower), size(span.upper)
    if lower == upper:
        return lower
    if lower.split()[1] == upper.split()[1]:
        lower = lower.split()[0]
    return say("dry_run.files.range", lower=lower, upper=upper)


def _two(value: float) -> str:
    return localised(f"{float(f'{value:.2g}'):,g}")


def _wrapped(text: str) -> list[str]:
    return wrap(text, width=WIDTH)
