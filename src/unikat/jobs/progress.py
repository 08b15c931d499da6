"""Progress of a run: a live line on a terminal, plain lines in a log, a bar in a notebook."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Iterator
from html import escape
from typing import TypeAlias

from unikat.errors import visible
from unikat.inference.progress import SILENT, ProgressEvent, Watcher
from unikat.protection.search import SearchProgress
from unikat.report.text.numbers import interval, number, percent
from unikat.studies.evaluate import StudyProgress

PLAIN_EVERY = 20.0
"""Seconds between two plain lines."""
QUIET_SECONDS = 2.0
"""A log has only the notes of a run that is shorter."""
NOTEBOOK_EVERY = 0.5
"""Seconds between two updates of a notebook."""
Event: TypeAlias = ProgressEvent | StudyProgress | SearchProgress


@contextlib.contextmanager
def watching(show: bool | None = None) -> Iterator[Watcher]:
    """Show the progress of a run.

    Parameters
    ----------
    show
        True: in a notebook as a bar, on a terminal as a live line, elsewhere as plain lines on
        standard error. None: the same, but no plain lines. False: not at all.
    """
    if show is False:
        yield SILENT
    elif _in_notebook():
        with _notebook() as watcher:
            yield watcher
    elif sys.stderr is not None and sys.stderr.isatty():
        with _live() as watcher:
            yield watcher
    elif show:
        with _plain() as watcher:
            yield watcher
    else:
        yield SILENT


def _in_notebook() -> bool:
    """Whether this process serves a notebook, which shows HTML and replaces what it has shown."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and hasattr(shell, "kernel")


@contextlib.contextmanager
def _live() -> Iterator[Watcher]:
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    spinner = Spinner("dots", text=Text("Starting"))
    console = Console(stderr=True, highlight=False)
    with Live(spinner, console=console, refresh_per_second=8, transient=True):
        current = "Starting"

        def progress(event: Event) -> None:
            spinner.update(text=Text(f"{visible(current)}\n  {visible(describe(event))}"))

        def stage(words: str) -> None:
            nonlocal current
            current = words
            spinner.update(text=Text(visible(words)))

        def note(words: str) -> None:
            # Above the live line, which goes on below.
            console.print(Text(visible(words)))

        yield Watcher(progress=progress, stage=stage, note=note)


@contextlib.contextmanager
def _plain() -> Iterator[Watcher]:
    started = last = time.monotonic()
    waiting: list[str] = []
    notes: list[str] = []

    def write(lines: list[str]) -> None:
        if lines:
            print(*map(visible, lines), sep="\n", file=sys.stderr, flush=True)  # noqa: T201  # as asked for
        waiting.clear()
        notes.clear()

    def stage(words: str) -> None:
        waiting.append(words)
        if time.monotonic() - started >= QUIET_SECONDS:
            write(waiting)

    def progress(event: Event) -> None:
        nonlocal last
        if time.monotonic() - last >= PLAIN_EVERY:
            last = time.monotonic()
            stage(describe(event))
        elif waiting and time.monotonic() - started >= QUIET_SECONDS:
            write(waiting)

    def note(words: str) -> None:
        notes.append(words)
        stage(words)

    try:
        yield Watcher(progress=progress, stage=stage, note=note)
    finally:
        # What was read, and what cannot be trusted about it, is said of short runs too.
        write(notes)


@contextlib.contextmanager
def _notebook() -> Iterator[Watcher]:
    """Show a bar that replaces itself, with the plain means that every notebook has."""
    from IPython.display import HTML, display

    current, last = "Starting", 0.0
    notes: list[str] = []
    handle = display(HTML(_bar(current, notes, None)), display_id=True)

    def show(event: Event | None = None) -> None:
        handle.update(HTML(_bar(current, notes, event)))

    def progress(event: Event) -> None:
        nonlocal last
        if time.monotonic() - last >= NOTEBOOK_EVERY:
            last = time.monotonic()
            show(event)

    def stage(words: str) -> None:
        nonlocal current
        current = words
        show()

    def note(words: str) -> None:
        notes.append(words)
        show()

    try:
        yield Watcher(progress=progress, stage=stage, note=note)
    finally:
        # The answer follows; what was found on the way stays.
        handle.update(HTML("".join(f"<div>{escape(words)}</div>" for words in notes)))


def _bar(stage: str, notes: list[str], event: Event | None) -> str:
    """Write notes, stage and a bar as HTML."""
    done = None if event is None else share_done(event)
    value = "" if done is None else f' value="{done:.3f}"'
    line = stage if event is None else f"{stage} · {describe(event)}"
    found = "".join(f"<div>{escape(words)}</div>" for words in notes)
    return (
        f"{found}<div><progress max='1'{value} aria-label='Progress of the run'></progress> "
        f"{escape(line)}</div>"
    )


def share_done(event: Event) -> float | None:
    """Part of the work, or of the time, that is done, if it can be estimated."""
    if isinstance(event, StudyProgress):
        return event.done / max(event.total, 1)
    if event.share is not None:
        return event.share
    if isinstance(event, SearchProgress):
        # It mostly ends long before the most that it may look at.
        return None
    if event.seconds_left is None or not event.sweeps:
        return None
    return event.seconds / max(event.seconds + event.seconds_left, 1e-9)


def describe(event: Event) -> str:
    """Put an event in one line."""
    if isinstance(event, StudyProgress):
        return _describe_study(event)
    if isinstance(event, SearchProgress):
        return _describe_search(event)
    if event.preparing:
        words = f"{event.preparing[:1].upper()}{event.preparing[1:]}"
        return f"{words}  {_clock(event.seconds)}"
    if not event.sweeps:
        return "Compiling and starting"
    parts = [f"{event.sweeps:,} sweeps", _clock(event.seconds)]
    if event.time_left is not None:
        parts.append(f"{event.time_left} left{'' if event.whole_run else ' of this fit'}")
    if event.tau1 is not None:
        level = f"{100 * event.tau1.level:g}%"
        of = f" of {event.tau1_of}" if event.tau1_of else ""
        range_ = interval(event.tau1)
        parts.append(f"τ1{of} {number(event.tau1.median)} ({level} interval {range_})")
    if event.rhat is not None:
        parts.append(f"R-hat {event.rhat:.3f}")
    if event.ess is not None:
        target = "" if event.target_ess is None else f" of {event.target_ess:,.0f}"
        parts.append(f"effective draws {event.ess:,.0f}{target}")
    return "  ".join(parts)


def _describe_study(event: StudyProgress) -> str:
    parts = [f"{event.done:,} of {event.total:,} fits done", _clock(event.seconds)]
    if event.time_left is not None:
        parts.append(f"{event.time_left} left")
    if event.failed:
        parts.append(f"{event.failed:,} failed")
    return "  ".join(parts)


def _describe_search(event: SearchProgress) -> str:
    words = f"{event.name}: {event.unit} {event.looks:,} of at most {event.most_looks:,}"
    if event.looks > event.most_looks:
        words = f"{event.name}: look {event.looks:,}, making the best plan finer"
    if event.lost is not None:
        words += f", least information lost so far {percent(event.lost)}"
    left = "" if event.time_left is None else f"  {event.time_left} left"
    return f"{words}  {_clock(event.seconds)}{left}"


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
