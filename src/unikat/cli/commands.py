"""The commands `assess`, `attack`, `compare`, `evaluate`, `demo` and `report`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unikat.cli._output import (
    DONE,
    UNCONVERGED,
    ending,
    evaluated,
    say,
    show,
    show_evaluation,
    tell,
    undecided,
)
from unikat.cli._runs import foresee, perform, print_numbers, run_command
from unikat.spec.kinds import ASSESS, ATTACK, COMPARE, EVALUATE

if TYPE_CHECKING:
    from unikat.report.facts.attack import AttackSummary
    from unikat.report.facts.comparison import ComparisonSummary


@run_command(ASSESS, resume="Continue the run in DIR that was not finished.", dry_run=True)
def assess(source: str | Path, **values: Any) -> int:
    """Assess FILE, or what an assessment.toml says; options on the command line go first.

    Writes result.json, records.parquet, draws.nc, report.html and assessment.toml into DIR, all
    readable by you alone. Ctrl-C stops at once and keeps what is done; --resume continues. The
    model auto fits several models and selects one; its preliminary answer comes first.
    """
    from unikat.files.json import json_text

    if values["dry_run"]:
        from unikat.jobs.dry_run import of_assessment

        return foresee(ASSESS, source, values, of_assessment)
    found, folder = perform(ASSESS, source, values)
    if found is None:
        undecided(folder)
        return UNCONVERGED
    if values["as_json"]:
        say(json_text(asdict(found.result)).rstrip())
    elif not values["quiet"]:
        show(found.result, folder)
    return ending(found.result, folder, allow_unconverged=values["allow_unconverged"])


@run_command(
    COMPARE,
    resume="Continue the comparison in DIR; finished fits are taken from there, and models can be "
    "added.",
    dry_run=True,
)
def compare(source: str | Path, **values: Any) -> int:
    """Compare models on FILE, or as a comparison.toml says; options here go first.

    Shows τ1 and τ2 of each model side by side, how well it predicts held-out records, and
    whether it would produce a file like this one. Writes comparison.parquet, summary.json,
    comparison.html and comparison.toml into DIR, all readable by you alone. Ctrl-C stops at once
    and keeps what is done; --resume continues.
    """
    if values["dry_run"]:
        from unikat.jobs.dry_run import of_comparison

        return foresee(COMPARE, source, values, of_comparison)
    found, folder = perform(COMPARE, source, values)
    if found is None:
        tell(
            f"Interrupted. The fits that were done are kept in {folder}; to continue, give the "
            "same command with --resume.",
        )
        return UNCONVERGED
    if values["as_json"]:
        print_numbers(COMPARE, folder)
    elif not values["quiet"]:
        _show(found.summary, folder)
    return _ending(found.summary, folder, allow_unconverged=values["allow_unconverged"])


def _show(summary: ComparisonSummary, folder: Path) -> None:
    """Print the answer, the table and where the page is."""
    from textwrap import wrap

    from unikat.report.text.comparison import terminal_table
    from unikat.report.text.zeros import terminal_sentence

    said = summary.sentences
    lines = ["", *wrap(said["answer"], width=88), *wrap(said["evidence"], width=88), ""]
    lines += [*terminal_table(summary), ""]
    lines += wrap(said["intervals"], width=88)
    for position in range(len(summary.paths)):
        lines += wrap(said[f"paths.{position}"], width=88)
    lines += wrap(terminal_sentence(summary.zeros), width=88)
    state = "" if summary.converged else "NOT CONVERGED. "
    lines += [*wrap(state + said["converged"], width=88), f"Page: {folder / COMPARE.report}", ""]
    say("\n".join(lines))


def _ending(
    summary: ComparisonSummary | AttackSummary, folder: Path, *, allow_unconverged: bool
) -> int:
    if summary.converged:
        return DONE
    again = "--overwrite" if hasattr(summary, "attacks") else "--resume"
    tell(
        f"Not all fits have converged. The results in {folder} are marked so; to continue, give "
        f"the same command with {again} and a higher limit.",
    )
    return DONE if allow_unconverged else UNCONVERGED


@run_command(
    EVALUATE,
    resume="Continue the study in DIR; models, sizes, repeats may be added.",
    dry_run=True,
)
def evaluate(source: str | Path, **values: Any) -> int:
    """Try models on samples from a file whose rows are taken as the whole population.

    Draws samples again and again, fits every model to each, and compares with the true values,
    which the file holds. Writes evaluation.parquet, summary.json, evaluation.html and
    evaluation.toml into DIR, all readable by you alone. Ctrl-C stops at once and keeps the fits
    that are done; --resume continues.
    """
    if values["dry_run"]:
        from unikat.jobs.dry_run import of_evaluation

        return foresee(EVALUATE, source, values, of_evaluation)
    found, folder = perform(EVALUATE, source, values)
    if values["as_json"]:
        print_numbers(EVALUATE, folder)
    elif not values["quiet"]:
        show_evaluation(found.summary, folder)
    return evaluated(found.summary, folder, allow_unconverged=values["allow_unconverged"])


@run_command(ATTACK)
def attack(source: str | Path, **values: Any) -> int:
    """Attack synthetic files of ORIGINAL as an intruder would, or as an attack.toml says.

    Shows how often each attack succeeds, how often it does without the synthetic file, and the
    excess. Writes attack.json, attack.html and attack.toml into DIR, all readable by you alone.
    """
    from unikat.report.text.attack import terminal_lines

    found, folder = perform(ATTACK, source, values)
    if values["as_json"]:
        print_numbers(ATTACK, folder)
    elif not values["quiet"]:
        page = folder / ATTACK.report
        say("\n".join(["", *terminal_lines(found.summary), f"Page: {page}", ""]))
    return _ending(found.summary, folder, allow_unconverged=values["allow_unconverged"])


@click.command()
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    default=Path("unikat-demo"),
    show_default=True,
    metavar="DIR",
    help="Folder of the demo.",
)
@click.option(
    "--seed",
    default=1,
    show_default=True,
    type=click.IntRange(0, 2**31),
    help="Seed of the town, the sample and the chains.",
)
@click.option("--overwrite", is_flag=True, help="Replace the demo in DIR.")
@click.option("--quiet", is_flag=True, help="Print the comparison alone.")
def demo(out: Path, seed: int, overwrite: bool, quiet: bool) -> int:
    """Simulate a town, sample it, assess the sample, and compare with the truth."""
    from unikat.jobs.demo import compare as beside_truth
    from unikat.jobs.demo import run_demo
    from unikat.jobs.job import Unfinished
    from unikat.jobs.progress import watching

    try:
        with watching(not quiet) as watcher:
            result, truth = run_demo(out, seed=seed, overwrite=overwrite, watcher=watcher)
    except Unfinished:
        undecided(out, remedy="start again with --overwrite")
        return UNCONVERGED
    if not quiet:
        show(result, out)
    say(beside_truth(result, truth))
    return ending(result, out, remedy="start again with --overwrite")


@click.command()
@click.argument("folder", type=click.Path(path_type=Path))
def report(folder: Path) -> int:
    """Render the page of the run in FOLDER again, whatever made it.

    The files of an assessment are checked first: if one was changed since it was written, nothing
    is rendered.
    """
    from unikat.jobs.load import write_page

    say(str(write_page(folder)))
    return 0
