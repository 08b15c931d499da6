"""What a run says at its end."""

from __future__ import annotations

import codecs
import contextlib
import io
import json
import os
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unikat.errors import OutputError, hidden, visible
from unikat.spec.kinds import ASSESS, EVALUATE

if TYPE_CHECKING:
    from unikat.report.facts.evaluation import EvaluationSummary
    from unikat.report.facts.result import Result

DONE, FAILED, UNCONVERGED, NOT_MET = 0, 1, 2, 3


@contextlib.contextmanager
def quietly_closed() -> Iterator[None]:
    """Let a reader that stops reading, such as `head`, be no error."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes the stream once more at exit; it must find an open one.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def write_any_character() -> None:
    """Let streams write escapes of the characters that the locale's encoding does not have."""
    codecs.register_error("unikat", _escaped)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="unikat")


def _escaped(error: UnicodeError) -> tuple[str, int]:
    assert isinstance(error, UnicodeEncodeError)
    # As JSON has them, so that --json writes JSON in every locale.
    return json.dumps(error.object[error.start : error.end])[1:-1], error.end


def tell(text: str) -> None:
    """Print to standard error, without passwords and what a terminal would obey."""
    click.echo(visible(hidden(text)), err=True)


def say(text: str = "") -> None:
    """Print to standard output; a reader that is gone is no reason to fail.

    What a terminal would obey is printed as escapes, which JSON reads as the same text.
    """
    try:
        with quietly_closed():
            click.echo(visible(text))
    except OSError as error:
        raise OutputError(
            f"Cannot write to standard output: {error.strerror or error}. Files that were to be "
            "written are complete."
        ) from None


def show(result: Result, folder: Path) -> None:
    """Print the answer, the two measures and where the report is."""
    from unikat.report.pages import fitted
    from unikat.report.text import (
        classics,
        numbers,
        overview,
        selection,
        sentences,
        track_record,
    )

    lines = [
        "",
        *_wrapped(result.sentences.get("threshold", "")),
        *_wrapped(sentences.headline(result)),
    ]
    if not result.known_exactly:
        lines += _wrapped(f"{sentences.condition(result)} {sentences.share(result)}")
    level = numbers.level(result.tau1.level)
    rows: list[tuple[str, ...]] = [
        ("", "median", f"{level} interval", "R-hat"),
        ("τ1  unique in file and population", *_cells(result.tau1)),
        ("τ2  correct matches by an intruder", *_cells(result.tau2)),
    ]
    if sentences.independent(result):
        # There are no chains that have to agree.
        rows = [row[:-1] for row in rows]
    if track_record.of_result(result).unreliable:
        # Its interval is in the report, with what is known of it.
        rows = [(*row[:2], *row[3:]) for row in rows]
    lines += ["", *numbers.columns(rows)]
    further = [row for row in overview.beside(result) if "τ2" not in row[0]]
    lines += ["", *numbers.columns(further), ""]
    if result.households is not None:
        lines += _wrapped(_said(result, "households", "households.rules"))
        lines += _wrapped(_said(result, "households.tau1_independent"))
    state = "" if result.converged else f"{sentences.state(result).upper()} "
    lines += _wrapped(" ".join((state + sentences.verdict(result), sentences.chain_means(result))))
    lines += _wrapped(selection.brief(result))
    lines += _wrapped(fitted.brief(result))
    if drawn := _said(result, "design", "sample.n_households"):
        lines += _wrapped(f"Design: {drawn}")
    if result.margins:
        lines += _wrapped(f"Margins: {result.sentences['margins']}")
    if result.release is not None:
        lines += _wrapped(f"Two releases: {result.sentences['release']}")
    if result.registry is not None:
        lines += _wrapped(f"Registry: {result.sentences['registry']}")
    if result.linkage is not None:
        lines += _wrapped(f"Linkage: {result.sentences['linkage']}")
    if result.zeros is not None:
        said = _said(result, "zeros", "zeros.impossible_mass", "zeros.n_conflicts")
        lines += _wrapped(f"Impossible combinations: {said}")
    if table := classics.brief(result.classics):
        lines += ["", "The classic measures", *table, ""]
        lines += _wrapped(result.sentences["classics.model"])
    for warning in result.warnings:
        lines += _wrapped(f"Note: {warning}")
    if result.stage == "final":
        lines.append(f"Report: {folder / ASSESS.report}")
    lines.append("")
    say("\n".join(lines))


def ending(
    result: Result,
    folder: Path,
    *,
    allow_unconverged: bool = False,
    remedy: str = "give the same command with --resume",
) -> int:
    """Say how to continue a run that is not finished, and give the exit code."""
    from unikat.report.text.sentences import more_time

    if result.stage == "preliminary":
        tell(
            "Interrupted before a model was selected: this is the preliminary answer of one "
            f"candidate. What was done is kept in {folder}; to continue, {remedy}."
        )
        return UNCONVERGED
    if result.converged:
        return judged(result.verdict)
    if result.stop_reason == "interrupted":
        tell(f"Interrupted. What was done is in {folder}; to continue, {remedy}.")
        return UNCONVERGED
    tell(
        f"Not converged ({result.stop_reason}). The results in {folder} are marked so. To "
        f"continue, {remedy} and a higher limit. {more_time(result)}"
    )
    return judged(result.verdict) if allow_unconverged else UNCONVERGED


def judged(verdict: str | None) -> int:
    """Give the exit code of a finished run: 0 only if no limit is asked for, or it is met."""
    return DONE if verdict in (None, "met") else NOT_MET


def undecided(folder: Path, *, remedy: str = "give the same command with --resume") -> None:
    """Say how to go on after an interrupt before a model was chosen."""
    tell(
        "Interrupted before a model was selected. The fits that were done are kept in "
        f"{folder}; to continue, {remedy}."
    )


def show_evaluation(summary: EvaluationSummary, folder: Path) -> None:
    """Print how each model did."""
    from unikat.report.text.evaluation import (
        head,
        rows,
        side_by_side,
        synthesizer_head,
        synthesizer_rows,
    )
    from unikat.report.text.numbers import columns
    from unikat.report.text.zeros import terminal_sentence

    lines = []
    titles = ("τ1  unique in sample and population", "τ2  correct matches by an intruder")
    for measure, title in zip(("tau1", "tau2"), titles, strict=True) if summary.results else ():
        lines += ["", title, *columns([head(), *rows(summary.results, measure)], left=(1,))]
    if summary.synthesizers:
        beside = [synthesizer_head(summary), *synthesizer_rows(summary)]
        lines += ["", "Generators of synthetic files", *columns(beside, left=(1,))]
    if len(summary.results) > len(summary.study.sizes):
        beside = [head("side"), *side_by_side(summary)]
        lines += ["", "τ1 side by side, the least error first", *columns(beside, left=(1,))]
    lines.append("")
    lines += _wrapped(terminal_sentence(summary.zeros))
    for warning in summary.warnings:
        lines += _wrapped(f"Note: {warning}")
    for failure in summary.failures[:_MOST_FAILURES]:
        where = f"{failure.model}, n {failure.n:,}, repeat {failure.repeat}"
        lines += _wrapped(f"Failed: {where}: {failure.message}")
    if len(summary.failures) > _MOST_FAILURES:
        lines.append(
            f"... and {len(summary.failures) - _MOST_FAILURES:,} more in {EVALUATE.numbers}"
        )
    lines += [f"Page: {folder / EVALUATE.report}", ""]
    say("\n".join(lines))


def evaluated(summary: EvaluationSummary, folder: Path, *, allow_unconverged: bool = False) -> int:
    """Say how to go on with a study that is not finished, and give the exit code."""
    from unikat.report.text.numbers import counted

    fits = counted(summary.n_fits, "fit")
    if not summary.complete:
        tell(
            f"Interrupted after {summary.n_done:,} of {fits}. What was done is in {folder}; to go "
            "on, give the same command with --resume."
        )
        return UNCONVERGED
    if summary.n_failed:
        tell(f"{summary.n_failed:,} of {fits} failed; --resume tries what failed again.")
        return FAILED if summary.n_failed == summary.n_fits else UNCONVERGED
    if summary.converged:
        return DONE
    tell(
        f"{summary.n_unconverged:,} of {fits} did not converge. The results in {folder} are marked "
        "so; raise the limits for better ones."
    )
    return DONE if allow_unconverged else UNCONVERGED


_MOST_FAILURES = 5


def _cells(summary: object) -> tuple[str, str, str]:
    from unikat.report.text import numbers
    from unikat.risk.estimate import Summary

    assert isinstance(summary, Summary)
    rhat = "–" if summary.rhat is None else f"{summary.rhat:.3f}"
    return numbers.number(summary.median), numbers.interval(summary), rhat


def _said(result: Result, *paths: str) -> str:
    return " ".join(result.sentences[path] for path in paths if path in result.sentences)


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, width=88)
