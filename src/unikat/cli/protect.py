"""The commands `protect`, `apply` and `verify`."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from unikat.cli._options import DATA, Once, given
from unikat.cli._output import UNCONVERGED, judged, say, tell
from unikat.cli._runs import perform, print_numbers, run_command
from unikat.spec.addresses import is_address
from unikat.spec.kinds import PROTECT, VERIFY

if TYPE_CHECKING:
    from unikat.report.facts.protection import ProtectionSummary


@run_command(PROTECT)
def protect(source: str | Path, **values: Any) -> int:
    """Recode FILE so that a target is reached and the least information is lost.

    Or perturb some keys, --pram and --swap, with or without a target.

    Writes protected, in the format of FILE, report.html, protect.json, plans.parquet, plan.toml and
    protect.toml into DIR, all readable by you alone. plan.toml does the same to another file with
    the same columns: unikat apply plan.toml FILE2 --out FILE3.
    """
    found, folder = perform(PROTECT, source, values)
    if values["as_json"]:
        print_numbers(PROTECT, folder)
    elif not values["quiet"]:
        _show(found.summary, folder)
    return _ended(found, folder, values, PROTECT.numbers)


def _ended(found: Any, folder: Path, values: dict[str, Any], file: str) -> int:
    """Return the exit code, and say if a run has not converged."""
    if found.converged or values["allow_unconverged"]:
        return judged(found.verdict)
    tell(f"Not converged. The result in {folder} is marked so in {file}.")
    return UNCONVERGED


@run_command(VERIFY)
def verify(source: str | Path, **values: Any) -> int:
    """Say what any program did to ORIGINAL, and what risk is left in PROTECTED.

    Writes report.html, verify.json and verify.toml into DIR, all readable by you alone.
    """
    from unikat.report.text.numbers import columns
    from unikat.report.text.verification import HEAD, key_rows

    found, folder = perform(VERIFY, source, values)
    if values["as_json"]:
        print_numbers(VERIFY, folder)
    elif not values["quiet"]:
        said = found.summary.sentences
        lines = [""]
        for place in ("verdict", "answer", "records", "method", "local"):
            lines += wrap(said.get(place, ""), width=88)
        lines += ["", *columns([HEAD, *key_rows(found.summary)]), ""]
        for warning in found.summary.warnings:
            lines += wrap(f"Note: {warning}", width=88)
        lines += wrap(said["copied"], width=88)
        say("\n".join([*lines, f"Page: {folder / VERIFY.report}", ""]))
    return _ended(found, folder, values, VERIFY.numbers)


@click.command(cls=Once, asks="plan.PlanSpec")
@click.argument("plan", metavar="plan.toml", type=click.Path(path_type=Path))
@click.argument("source", metavar="FILE", type=DATA)
@click.option(
    "--unseen",
    type=click.Choice(["refuse", "group"]),
    default="refuse",
    help="Levels that the plan does not know are refused, the default, or go into the group of "
    "rare levels, of an ordered key into the nearest band.",
)
@click.option(
    "--target",
    metavar="TEXT",
    help="A limit of k, which is counted; exit code 3 if it is not met, or not known.",
)
@click.option("--out", metavar="FILE2", type=click.Path(path_type=Path), required=True)
@click.option("--overwrite", is_flag=True, help="Replace FILE2.")
@click.option("--quiet", is_flag=True, help="Print errors alone.")
def apply(plan: Path, source: str | Path, **values: Any) -> int:
    """Recode FILE as a plan.toml says, and write it to FILE2; nothing is estimated.

    Options say how FILE is read, where it differs from the file of the plan.
    """
    from unikat.errors import SpecError
    from unikat.jobs.applied import apply as carry_out
    from unikat.jobs.progress import watching
    from unikat.report.text.verdict import verdict_text
    from unikat.spec.from_options import specify
    from unikat.spec.plan import PlanSpec

    if is_address(source):
        raise SpecError("A plan writes a file in the format of FILE, which a database has not.")
    recodings = specify(PlanSpec, plan, given(values), shell=True)[0]
    with watching(not values["quiet"]) as watcher:
        done = carry_out(
            recodings,
            Path(source),
            values["out"],
            overwrite=values["overwrite"],
            unseen=values["unseen"],
            target=values["target"],
            watcher=watcher,
        )
    if not values["quiet"]:
        if done.judged is not None:
            verdict = verdict_text(done.judged, 0.95, remedy="Make a plan for this file.")
            say("\n".join(wrap(f"{verdict.title} {verdict.sentence}", width=88)))
        say("\n".join(wrap(done.said, width=88)))
        for note in done.notes:
            say("\n".join(wrap(f"Note: {note}", width=88)))
        say(f"{done.n_records:,} records recoded: {done.path}")
    return judged(None if done.judged is None else done.judged.verdict)


def _show(summary: ProtectionSummary, folder: Path) -> None:
    """Print what was done, what it reaches, and where it is."""
    from unikat.report.text.numbers import columns
    from unikat.report.text.protection import joined_rows, plan_rows, scenario_rows, table_rows

    said = summary.sentences
    lines = [""]
    for place in (
        "verdict",
        "answer",
        "hidden",
        "plan",
        *(["search"] if summary.least_lost is not None else []),
        "perturbation",
        "matches",
        "links",
        "suppression",
        "refit",
    ):
        lines += wrap(said.get(place, ""), width=88)
    if summary.scenarios:
        lines += ["", *columns(scenario_rows(summary), (0, 1, 2, 6))]
    lines += ["", *columns(plan_rows(summary)), ""] if len(summary.plans) > 1 else [""]
    if joined := joined_rows(summary, most=4):
        lines += [*columns(joined, (0, 1, 2)), ""]
    if summary.utility.tables:
        lines += [*columns(table_rows(summary)), ""]
    for warning in summary.warnings:
        lines += wrap(f"Note: {warning}", width=88)
    lines += wrap(said["columns"], width=88)
    lines += [
        f"Protected file: {folder / (summary.file or '')}",
        f"Page: {folder / PROTECT.report}",
        "",
    ]
    say("\n".join(lines))
