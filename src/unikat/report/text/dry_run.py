"""A dry run in words, for the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from unikat.inference.progress import range_between
from unikat.report.facts.dry_run import DryRunFacts, FitForeseen, Span
from unikat.report.text.numbers import columns, counted, duration, listed
from unikat.report.text.zeros import terminal_sentence

WIDTH = 88
MOST_KEYS = 12


def lines(facts: DryRunFacts) -> list[str]:
    """Say what a run would do, in lines."""
    found = [*_wrapped(_data(facts)), *_wrapped(_missing(facts))]
    found += _wrapped(terminal_sentence(facts.zeros))
    if facts.known_exactly:
        found += ["", *_wrapped("The file itself tells the risk. No model will be fitted.")]
    elif facts.fits:
        found += ["", *_fits(facts.fits), ""]
        found += _wrapped(_sampling(facts))
    for fit in facts.fits:
        if fit.refused is not None:
            found += _wrapped(f"Without {fit.model}: {fit.refused}")
    found += [""]
    found += _wrapped(f"Expected time: {_time(facts)}")
    found += _wrapped(f"Expected memory: {_memory(facts)}")
    found += _wrapped(f"Files: {_files(facts)}")
    return [*found, "Dry run: nothing was written."]


def size(n_bytes: float) -> str:
    """Write a number of bytes.

    Examples
    --------
    >>> size(812), size(204_065), size(3.2 * 2**30)
    ('812 bytes', '200 KB', '3.2 GB')
    """
    if n_bytes < 1000:
        return f"{n_bytes:.0f} bytes"
    for unit in ("KB", "MB", "GB", "TB"):
        n_bytes /= 1024
        if n_bytes < 999.5 or unit == "TB":
            break
    written = f"{n_bytes:.1f}" if n_bytes < 9.95 else f"{float(f'{n_bytes:.2g}'):.0f}"
    return f"{written.removesuffix('.0')} {unit}"


def _data(facts: DryRunFacts) -> str:
    name = "" if facts.data is None else f"{facts.data}: "
    if facts.command == "evaluate":
        return (
            f"{name}population of {counted(facts.n_records, 'unit')}, "
            f"{counted(len(facts.keys), 'key')}, {counted(facts.n_cells, 'distinct combination')}, "
            f"{counted(facts.n_sample_uniques, 'population unique')}."
        )
    return (
        f"{name}{counted(facts.n_records, 'record')}, {counted(len(facts.keys), 'key')}, "
        f"{counted(facts.n_cells, 'distinct combination')}, "
        f"{counted(facts.n_sample_uniques, 'sample unique')}; population {facts.n_units:,}."
    )


def _missing(facts: DryRunFacts) -> str:
    missing = [key for key in facts.keys if key.n_missing]
    if not missing:
        return "No missing values."
    first = ", ".join(f"{key.name} {key.n_missing:,}" for key in missing[:MOST_KEYS])
    more = len(missing) - MOST_KEYS
    rest = f" and {more:,} more keys" if more > 0 else ""
    return f"Missing values: {first}{rest}."


def _fits(fits: Sequence[FitForeseen]) -> list[str]:
    rows: list[tuple[str, ...]] = [
        ("model", "fit", "fits", "chains", "ms per sweep", "sweeps", "time of one")
    ]
    for fit in fits:
        if fit.refused is not None:
            continue
        if fit.seconds_per_sweep is None:
            chains = sweeps = pace = "–"
        else:
            chains = f"{fit.n_chains:,}"
            sweeps = f"{fit.fewest_sweeps:,} to {fit.max_sweeps:,}"
            pace = f"{_two(1e3 * fit.seconds_per_sweep)}{'' if fit.measured else ' (counted)'}"
        time = str(range_between(fit.seconds.lower, fit.seconds.upper))
        rows.append((fit.model, fit.purpose, f"{fit.n_fits:,}", chains, pace, sweeps, time))
    return columns(rows, left=(0, 1))


def _sampling(facts: DryRunFacts) -> str:
    chains = [fit for fit in facts.fits if fit.seconds_per_sweep is not None]
    if not chains:
        return ""
    widest = max(chains, key=lambda fit: fit.n_workers or 1)
    processes = widest.n_workers if facts.at_a_time == 1 else facts.at_a_time
    assert processes is not None
    assert widest.n_threads is not None
    where = f"the executor {facts.executor}; times are those of this machine"
    if facts.executor == "processes":
        plural = "process" if processes == 1 else "processes"
        threads = counted(widest.n_threads, "thread")
        where = f"{processes:,} {plural} with {threads}{'' if processes == 1 else ' each'}"
    return (
        f"The last fit stops when R-hat is at most {facts.target_rhat:g} and the effective sample "
        f"size at least {facts.target_ess:g}, or at its limit of sweeps or time. Runs in {where}."
    )


def _time(facts: DryRunFacts) -> str:
    total = range_between(facts.seconds.lower, facts.seconds.upper)
    read = f"reading took {duration(facts.seconds_to_read)}"
    if not facts.fits:
        return f"{total} ({read})."
    fits = [fit for fit in facts.fits if fit.refused is None]
    counted_only = list(dict.fromkeys(fit.model for fit in fits if not fit.measured))
    how = "sweeps were measured here"
    if counted_only:
        how = f"work of {listed(counted_only)} counted, which may be wrong by a factor of three" + (
            ", that of the others measured here" if any(fit.measured for fit in fits) else ""
        )
    limit = duration(facts.seconds_at_limit)
    return (
        f"{total} ({read}; {how}). How many sweeps the chains need is not known before; if none "
        f"converges, the limits end the run after about {limit}."
    )


def _memory(facts: DryRunFacts) -> str:
    if facts.memory is None:
        return "not known."
    said = f"{_span(facts.memory)} in all processes"
    if facts.machine_memory is None:
        return f"{said}."
    there = f"this machine has {size(facts.machine_memory)}"
    if facts.enough_memory:
        return f"{said}; {there}."
    return (
        f"{said}, and {there}. It may not be enough: take fewer workers (--workers 1) or chains "
        "(--chains 2), group or leave out keys with many levels, or use a machine with more memory."
    )


def _files(facts: DryRunFacts) -> str:
    where = "" if facts.folder is None else f" in {facts.folder}"
    work = "" if facts.work.upper == 0 else f"; up to {size(facts.work.upper)} while it runs"
    return f"{_span(facts.results)}{where}{work}."


def _span(span: Span) -> str:
    lower, upper = size(span.lower), size(span.upper)
    if lower == upper:
        return lower
    if lower.split()[1] == upper.split()[1]:
        lower = lower.split()[0]
    return f"{lower} to {upper}"


def _two(value: float) -> str:
    return f"{float(f'{value:.2g}'):,g}"


def _wrapped(text: str) -> list[str]:
    return wrap(text, width=WIDTH)
