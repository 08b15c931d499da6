"""What a run says at its end."""

from __future__ import annotations

import contextlib
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from unikat.report.summary import Result

DONE, UNCONVERGED = 0, 2


@contextlib.contextmanager
def quietly_closed() -> Iterator[None]:
    """Let a reader that stops reading, such as `head`, be no error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes the stream once more at exit; it must find an open one.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def say(text: str = "") -> None:
    """Print to standard output; a reader that is gone is no reason to fail."""
    with quietly_closed():
        click.echo(text)


def show(result: Result, folder: Path) -> None:
    """Print the answer, the two measures and where the report is."""
    from unikat.report import wording
    from unikat.report.results import REPORT

    lines = ["", *_wrapped(wording.answer(result))]
    if not result.known_exactly:
        lines += _wrapped(f"{wording.condition(result)} {wording.share(result)}")
    level = wording.level(result.tau1)
    rows = [
        ("", "median", f"{level} interval", "R-hat"),
        ("τ1  unique in file and population", *_cells(result.tau1)),
        ("τ2  correct links by an intruder", *_cells(result.tau2)),
    ]
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    lines.append("")
    lines += [
        f"{row[0]:<{widths[0]}}  "
        + "  ".join(f"{cell:>{width}}" for cell, width in zip(row[1:], widths[1:], strict=True))
        for row in rows
    ]
    lines.append("")
    state = "" if result.converged else "NOT CONVERGED. "
    lines += _wrapped(state + wording.verdict(result))
    for warning in result.warnings:
        lines += _wrapped(f"Note: {warning}")
    lines += [f"Report: {folder / REPORT}", ""]
    say("\n".join(lines))


def ending(
    result: Result,
    folder: Path,
    *,
    allow_unconverged: bool = False,
    remedy: str = "give the same command with --resume",
) -> int:
    """Say how to go on with a run that is not finished, and give the exit code."""
    if result.converged:
        return DONE
    if result.stop_reason == "interrupted":
        click.echo(f"Interrupted. What was done is in {folder}; to go on, {remedy}.", err=True)
        return UNCONVERGED
    click.echo(
        f"Not converged ({result.stop_reason}). The results in {folder} are marked so; to go on, "
        f"{remedy} and a higher limit.",
        err=True,
    )
    return DONE if allow_unconverged else UNCONVERGED


def _cells(summary: object) -> tuple[str, str, str]:
    from unikat.report import wording
    from unikat.risk.estimate import Summary

    assert isinstance(summary, Summary)
    rhat = "–" if summary.rhat is None else f"{summary.rhat:.3f}"
    return wording.number(summary.median), wording.interval(summary), rhat


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, width=88)
