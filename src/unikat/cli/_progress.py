"""Progress on standard error: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import contextlib
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from unikat.inference.progress import ProgressEvent
    from unikat.risk.evaluate import StudyProgress

PLAIN_EVERY = 20.0
"""Seconds between two plain lines."""


@dataclass(frozen=True, kw_only=True)
class Watcher:
    """The functions that a run reports to."""

    progress: Callable[[ProgressEvent | StudyProgress], None]
    stage: Callable[[str], None]
    note: Callable[[str], None]
    """For what is to stay in sight."""


@contextlib.contextmanager
def watching(*, quiet: bool, stages: bool = False) -> Iterator[Watcher | None]:
    """Watch a run; None if nothing is to be shown.

    Parameters
    ----------
    quiet
        Show nothing.
    stages
        The run has several fits: show which one it is.
    """
    if quiet:
        yield None
    elif sys.stderr.isatty():
        with _live(stages=stages) as watcher:
            yield watcher
    else:
        yield _plain(stages=stages)


@contextlib.contextmanager
def _live(*, stages: bool) -> Iterator[Watcher]:
    from rich.console import Console
    from rich.live import Live
    from rich.spinner import Spinner
    from rich.text import Text

    spinner = Spinner("dots", text=Text("Starting"))
    console = Console(stderr=True, highlight=False)
    with Live(spinner, console=console, refresh_per_second=8, transient=True):
        current = ""

        def progress(event: ProgressEvent | StudyProgress) -> None:
            spinner.update(text=Text(f"{current}{describe(event)}"))

        def stage(words: str) -> None:
            nonlocal current
            current = f"{words}\n  " if stages else ""
            spinner.update(text=Text(words))

        def note(words: str) -> None:
            # Above the live line, which goes on below.
            console.print(Text(words))

        yield Watcher(progress=progress, stage=stage, note=note)


def _plain(*, stages: bool) -> Watcher:
    last = time.monotonic()

    def progress(event: ProgressEvent | StudyProgress) -> None:
        nonlocal last
        if time.monotonic() - last >= PLAIN_EVERY:
            last = time.monotonic()
            click.echo(describe(event), err=True)

    def stage(words: str) -> None:
        """Show which fit begins; other stages are shown on a terminal only."""
        if stages:
            click.echo(words, err=True)

    def note(words: str) -> None:
        click.echo(words, err=True)

    return Watcher(progress=progress, stage=stage, note=note)


def describe(event: ProgressEvent | StudyProgress) -> str:
    """Put an event in one line."""
    from unikat.risk.evaluate import StudyProgress

    if isinstance(event, StudyProgress):
        return _describe_study(event)
    if event.preparing:
        words = f"{event.preparing[:1].upper()}{event.preparing[1:]}"
        return f"{words}  {_clock(event.seconds)}"
    if not event.sweeps:
        return "Sampling: compiling and starting"
    parts = [f"Sampling: {event.sweeps:,} sweeps", _clock(event.seconds)]
    if event.seconds_left is not None:
        parts.append(f"about {_clock(event.seconds_left)} left")
    if "tau1" in event.means:
        parts.append(f"τ1 {event.means['tau1']:,.1f}")
    if event.rhat is not None:
        parts.append(f"R-hat {event.rhat:.3f}")
    if event.ess is not None:
        parts.append(f"ESS {event.ess:,.0f}")
    return "  ".join(parts)


def _describe_study(event: StudyProgress) -> str:
    parts = [f"Fitting: {event.done:,} of {event.total:,} done", _clock(event.seconds)]
    if event.seconds_left is not None:
        parts.append(f"about {_clock(event.seconds_left)} left")
    if event.failed:
        parts.append(f"{event.failed:,} failed")
    return "  ".join(parts)


def _clock(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02d}:{rest:02d}" if hours else f"{minutes}:{rest:02d}"
