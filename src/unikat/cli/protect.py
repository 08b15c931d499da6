"""The command `protect`."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from unikat.cli._options import DATA, Once, given
from unikat.cli._output import UNCONVERGED, judged, say, tell
from unikat.cli._runs import perform, run_options
from unikat.spec.addresses import is_address
from unikat.spec.data_options import ReadingOptions
from unikat.spec.protection_options import ProtectOptions

if TYPE_CHECKING:
    from unikat.report.facts.protection import ProtectionSummary


@click.command(cls=Once)
@click.argument("source", metavar="FILE|protect.toml", type=DATA)
@click.option(
    "--apply",
    "plan",
    metavar="PLAN",
    type=click.Path(path_type=Path),
    help="Recode FILE as this plan.toml says, and write it to --out; nothing is estimated. Options "
    "say how FILE is read, where it differs from the file of the plan. A --target of k is judged.",
)
@click.option(
    "--unseen",
    type=click.Choice(["refuse", "group"]),
    help="With --apply: levels that the plan does not know are refused, the default, or go into "
    "the group of rare levels, of an ordered key into the nearest band.",
)
@click.option(
    "--verify",
    "original",
    metavar="ORIGINAL",
    type=click.Path(path_type=Path),
    help="Assess FILE, which was protected elsewhere, against its original; nothing is protected.",
)
@click.option(
    "--id", metavar="COLUMN", help="With --verify: column that identifies records in both files."
)
@run_options(
    ProtectOptions,
    "unikat.spec.protection.ProtectionSpec",
    folder="name of FILE with -protected",
    resume=None,
    replace="protection",
    summary="protect.json",
)
def protect(source: str | Path, plan: Path | None, original: Path | None, **values: Any) -> int:
    """Recode FILE so that a target is reached and the least information is lost.

    Or perturb some keys, --pram and --swap, with or without a target.

    Writes protected, in the format of FILE, report.html, protect.json, plans.parquet, plan.toml and
    protect.toml into DIR, all readable by you alone. plan.toml does the same to another file with
    the same columns: unikat protect --apply plan.toml FILE2 --out FILE3.

    unikat protect --verify ORIGINAL FILE says what any other program did to FILE and what risk is
    left: report.html, verify.json and verify.toml.
    """
    if original is not None:
        return _verify(original, source, plan, values)
    if values.pop("id") is not None:
        from unikat.errors import SpecError

        raise SpecError("--id matches records of two files; it belongs to --verify ORIGINAL.")
    unseen = values.pop("unseen")
    if plan is not None:
        return _apply(plan, source, values, unseen or "refuse")
    if unseen is not None:
        from unikat.errors import SpecError

        raise SpecError("--unseen is about levels that a plan lacks; it belongs to --apply.")
    from unikat.jobs.protect import PROTECTION, run
    from unikat.report.folders.protection import SUMMARY

    found, folder = perform(PROTECTION, run, source, values, ("data", "protected"))
    if values["as_json"]:
        say((folder / SUMMARY).read_text(encoding="utf-8").rstrip())
    elif not values["quiet"]:
        _show(found.summary, folder)
    return _ended(found, folder, values, "protect.json")


def _ended(found: Any, folder: Path, values: dict[str, Any], file: str) -> int:
    """Return the exit code, and say if a run has not converged."""
    if found.converged or values["allow_unconverged"]:
        return judged(found.verdict)
    tell(f"Not converged. The result in {folder} is marked so in {file}.")
    return UNCONVERGED


def _verify(original: Path, source: str | Path, plan: Path | None, values: dict[str, Any]) -> int:
    """Assess a file that was protected elsewhere."""
    from unikat.errors import SpecError
    from unikat.jobs.verify import VERIFICATION, run
    from unikat.report.folders.verification import PAGE, SUMMARY
    from unikat.report.text.numbers import columns
    from unikat.report.text.verification import HEAD, key_rows

    no_use = (
        "unseen",
        "suppress",
        "keep",
        "recodings",
        "recode",
        "weights_of_keys",
        "pram",
        "swap",
        "swap_match",
    )
    others = [name.replace("_", "-") for name in no_use if values[name] is not None]
    others += ["apply"] * (plan is not None)
    others += [name for name in ("zeros", "zeros_conflict") if values[name] is not None]
    if others:
        raise SpecError(f"--verify protects nothing, so --{others[0]} has no use; leave it out.")
    found, folder = perform(
        VERIFICATION, run, original, values | {"protected": source}, ("data", "verified")
    )
    if values["as_json"]:
        say((folder / SUMMARY).read_text(encoding="utf-8").rstrip())
    elif not values["quiet"]:
        said = found.summary.sentences
        lines = [""]
        for place in ("verdict", "answer", "records", "method", "local"):
            lines += wrap(said.get(place, ""), width=88)
        lines += ["", *columns([HEAD, *key_rows(found.summary)]), ""]
        for warning in found.summary.warnings:
            lines += wrap(f"Note: {warning}", width=88)
        lines += wrap(said["copied"], width=88)
        say("\n".join([*lines, f"Page: {folder / PAGE}", ""]))
    return _ended(found, folder, values, SUMMARY)


def _apply(plan: Path, source: str | Path, values: dict[str, Any], unseen: Any) -> int:
    """Recode a file as a plan says."""
    from unikat.errors import SpecError
    from unikat.jobs.applied import apply
    from unikat.jobs.progress import watching
    from unikat.report.text.verdict import verdict_text
    from unikat.spec.from_options import specify
    from unikat.spec.protection import PlanSpec

    if values["out"] is None:
        raise SpecError("Name the recoded file: --out FILE2.")
    reading = given(ReadingOptions, values)
    # What a missing key is to an assessment is none of a plan.
    no_use = [name for name in given(ProtectOptions, values) if name not in (*reading, "target")]
    no_use += [name for name in ("missing",) if reading.pop(name, None)]
    flags = {"json": "as_json", "allow_unconverged": "allow_unconverged"}
    no_use += [name for name, value in flags.items() if values[value]]
    if no_use:
        raise SpecError(
            f"--apply does what the plan says, so --{no_use[0].replace('_', '-')} has no use; "
            "leave it out."
        )
    if is_address(source):
        raise SpecError("--apply writes a file in the format of FILE, which a database has not.")
    recodings = specify(PlanSpec, ReadingOptions, plan, reading, shell=True)[0]
    with watching(not values["quiet"]) as watcher:
        done = apply(
            recodings,
            Path(source),
            values["out"],
            overwrite=values["overwrite"],
            unseen=unseen,
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
    from unikat.report.folders.protection import PAGE
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
    lines += [f"Protected file: {folder / (summary.file or '')}", f"Page: {folder / PAGE}", ""]
    say("\n".join(lines))
