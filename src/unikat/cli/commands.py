"""The commands that make a run, each with what it prints at its end, and what belongs to runs."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from unikat.cli._options import DATA, Once, Single, given
from unikat.cli._output import (
    UNCONVERGED,
    ending,
    evaluated,
    judged,
    say,
    show,
    show_evaluation,
    undecided,
)
from unikat.cli._runs import run_command
from unikat.spec.kinds import (
    ASSESS,
    ATTACK,
    CHECK,
    COMPARE,
    EVALUATE,
    PROTECT,
    SYNTHESIZE,
    VERIFY,
)


@run_command(
    ASSESS,
    ended=lambda _, found, folder, **how: ending(found.result, folder, **how),
)
def assess(found: Any, folder: Path) -> None:
    """Assess FILE, or what an assessment.toml says; options on the command line go first.

    Writes result.json, records.parquet, draws.nc, report.html and assessment.toml into DIR, all
    readable by you alone. Ctrl-C stops at once and keeps what is done; --resume continues. The
    model auto fits several models and selects one; its preliminary answer comes first.
    """
    show(found.result, folder)


@run_command(COMPARE)
def compare(found: Any, folder: Path) -> None:
    """Compare models on FILE, or as a comparison.toml says; options here go first.

    Shows τ1 and τ2 of each model side by side, how well it predicts held-out records, and
    whether it would produce a file like this one. Writes comparison.parquet, summary.json,
    comparison.html and comparison.toml into DIR, all readable by you alone. Ctrl-C stops at once
    and keeps what is done; --resume continues.
    """
    from unikat.report.text.comparison import terminal_table
    from unikat.report.text.zeros import terminal_sentence

    said = found.summary.sentences
    lines = ["", *wrap(said["answer"], width=88), *wrap(said["evidence"], width=88), ""]
    lines += [*terminal_table(found.summary), ""]
    lines += wrap(said["intervals"], width=88)
    for position in range(len(found.summary.paths)):
        lines += wrap(said[f"paths.{position}"], width=88)
    lines += wrap(terminal_sentence(found.summary.zeros), width=88)
    state = "" if found.summary.converged else "NOT CONVERGED. "
    lines += [*wrap(state + said["converged"], width=88), f"Page: {folder / COMPARE.report}", ""]
    say("\n".join(lines))


@run_command(
    EVALUATE,
    ended=lambda _, found, folder, **how: evaluated(found.summary, folder, **how),
)
def evaluate(found: Any, folder: Path) -> None:
    """Try models on samples from a file whose rows are taken as the whole population.

    Draws samples again and again, fits every model to each, and compares with the true values,
    which the file holds. Writes evaluation.parquet, summary.json, evaluation.html and
    evaluation.toml into DIR, all readable by you alone. Ctrl-C stops at once and keeps the fits
    that are done; --resume continues.
    """
    show_evaluation(found.summary, folder)


@run_command(ATTACK)
def attack(found: Any, folder: Path) -> None:
    """Attack synthetic files of ORIGINAL as an intruder would, or as an attack.toml says.

    Shows how often each attack succeeds, how often it does without the synthetic file, and the
    excess. Writes attack.json, attack.html and attack.toml into DIR, and attack-records.parquet
    with --model, all readable by you alone.
    """
    from unikat.report.text.attack import terminal_lines

    page = folder / ATTACK.report
    say("\n".join(["", *terminal_lines(found.summary), f"Page: {page}", ""]))


@run_command(PROTECT)
def protect(found: Any, folder: Path) -> None:
    """Recode or perturb FILE to reach a target with the least loss of information.

    Writes the file, report, committee.html and plan.toml, for unikat apply.
    """
    from unikat.report.text.columns import risk_rows
    from unikat.report.text.numbers import columns
    from unikat.report.text.numeric import linkage_rows, numeric_rows
    from unikat.report.text.protection import joined_rows, plan_rows, scenario_rows, table_rows

    summary = found.summary
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
        "numeric",
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
    if summary.numeric is not None:
        lines += [*columns(numeric_rows(summary.numeric)), ""]
        lines += [*columns(linkage_rows(summary.numeric)), ""]
    for warning in summary.warnings:
        lines += wrap(f"Note: {warning}", width=88)
    lines += wrap(said["columns"], width=88)
    if summary.left_over is not None:
        lines += ["", *columns(risk_rows(summary.other_columns, summary.left_over)), ""]
        lines += wrap(said["left_over"], width=88)
    lines += wrap(said.get("inferred", ""), width=88)
    lines += [
        f"Protected file: {folder / (summary.file or '')}",
        f"Page: {folder / PROTECT.report}",
        "",
    ]
    say("\n".join(lines))
    if found.check is not None:
        _show_check(found.check, found.check.folder)


@run_command(VERIFY)
def verify(found: Any, folder: Path) -> None:
    """Say what any program did to ORIGINAL, and what risk is left in PROTECTED.

    Writes report.html, verify.json and verify.toml into DIR, all readable by you alone.
    """
    from unikat.report.text.numbers import columns
    from unikat.report.text.verification import HEAD, key_rows

    said = found.summary.sentences
    lines = [""]
    for place in ("verdict", "answer", "records", "method", "local", "inferred"):
        lines += wrap(said.get(place, ""), width=88)
    lines += ["", *columns([HEAD, *key_rows(found.summary)]), ""]
    for warning in found.summary.warnings:
        lines += wrap(f"Note: {warning}", width=88)
    lines += wrap(said["copied"], width=88)
    say("\n".join([*lines, f"Page: {folder / VERIFY.report}", ""]))


@run_command(CHECK)
def check(found: Any, folder: Path) -> None:
    """Check whether FILE meets a policy.toml, or verify its certificate.

    Writes certificate.json, policy.toml, report.html, check.json and check.toml into DIR, all
    readable by you alone. A policy is made by unikat policy. Limits that the file itself tells,
    as of k, need no model.
    """
    from unikat.report.text.check import certified_lines

    if found.folder is None:
        for line in certified_lines(found.summary, found.compared):
            say("\n".join(wrap(line, width=88)))
        return
    _show_check(found, folder)


def _show_check(found: Any, folder: Path) -> None:
    from unikat.report.text.check import HEAD, limit_rows
    from unikat.report.text.numbers import columns

    said = found.summary.sentences
    lines = [""]
    for place in ("verdict", "answer", "how", "missing", "left_out"):
        lines += wrap(said.get(place, ""), width=88)
    if rows := limit_rows(found.summary):
        lines += ["", *columns([HEAD, *rows], (0, 1, 2, 4))]
    lines += ["", *wrap(said["columns"], width=88)]
    for warning in found.summary.warnings:
        lines += wrap(f"Note: {warning}", width=88)
    if found.certificate is not None:
        lines.append(f"Certificate: {folder / CHECK.others[0]}")
    say("\n".join([*lines, f"Page: {folder / CHECK.report}", ""]))


@click.command(cls=Single)
@click.argument("name", metavar="[TEMPLATE]", required=False)
@click.option("--ask", is_flag=True, help="Ask for the answers that are not given.")
@click.option(
    "--recipients",
    type=click.Choice(["public", "researchers", "room"]),
    help="Who gets the file: anybody, researchers, or those who work in a safe room.",
)
@click.option("--contract/--no-contract", default=None, help="They sign to identify nobody.")
@click.option(
    "--repeated/--once", default=None, help="The same persons are in several releases, or in one."
)
@click.option("--sensitive", metavar="A,B", help="Columns of sensitive content; '' for none.")
@click.option("--keys", metavar="A,B", help="Columns that an intruder may know.")
@click.option("--never", metavar="A,B", help="Columns that never leave, besides the template's.")
def policy(name: str | None, ask: bool, **answers: Any) -> int:
    """List templates of policies, print one, or fill one in by answers, for unikat check.

    Nothing is written: put what is printed into policy.toml, and read it before you rely on it.
    """
    from unikat.cli._policy import answered
    from unikat.spec.policy import template, templates

    if ask or any(value is not None for value in answers.values()):
        if name is not None:
            raise click.UsageError("Answers choose the template; leave its name out.")
        say(answered(answers, ask).rstrip())
    elif name is not None:
        say(template(name).rstrip())
    else:
        known = templates()
        width = max(map(len, known))
        say("\n".join(f"{one:<{width}}  {title}" for one, title in known.items()))
    return 0


@run_command(SYNTHESIZE)
def synthesize(found: Any, folder: Path) -> None:
    """Draw synthetic files from a model fitted to FILE, or as a synthesis.toml says.

    Writes synthetic_1, synthetic_2, ... in the format of FILE, with the key variables in its
    order, types and labels, and utility.json, synthesis.html and synthesis.toml into DIR, all
    readable by you alone. Ctrl-C stops at once and keeps the chains; --resume continues.
    """
    from unikat.report.text.numbers import columns
    from unikat.report.text.synthesis import share_rows, terminal_rows

    summary = found.summary
    said = summary.sentences
    lines = [""]
    for place in ("files", "fit", "method", "impossible", "rows_left_out", "left_out"):
        lines += wrap(said.get(place, ""), width=88)
    lines += ["", *columns(terminal_rows(summary)), ""]
    if summary.shares:
        lines += [*columns(share_rows(summary)), ""]
    lines += wrap(said["repeated"], width=88)
    for warning in summary.warnings:
        lines += wrap(f"Note: {warning}", width=88)
    lines += [f"Page: {folder / SYNTHESIZE.report}", ""]
    say("\n".join(lines))


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
@click.option(
    "--language",
    default="",
    metavar="CODE",
    help="en, es, fr or de.  [default: that of the run]",
)
@click.option("--word", is_flag=True, help="Also committee.docx, of a protection or a check.")
def report(folder: Path, language: str, word: bool) -> int:
    """Render the page of the run in FOLDER again, whatever made it.

    The files of an assessment are checked first: if one was changed since it was written, nothing
    is rendered.
    """
    from unikat.jobs.outcome import write_page

    say(str(write_page(folder, language, word=word)))
    return 0


@click.command()
@click.argument("results", metavar="DIR|TABLE.parquet", type=click.Path(path_type=Path))
@click.option(
    "--beside",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="The file that was assessed: its columns come first, and its labels stay.",
)
@click.option("--out", metavar="FILE2", type=click.Path(path_type=Path), required=True)
@click.option("--overwrite", is_flag=True, help="Replace FILE2.")
@click.option("--quiet", is_flag=True, help="Print errors alone.")
def export(results: Path, beside: Path | None, out: Path, overwrite: bool, quiet: bool) -> int:
    """Write a table of results for Stata (.dta), SPSS (.sav) or any program (.csv).

    Of the assessment in DIR these are the records, one row for each record of the file.
    """
    from unikat.jobs.export import export as write

    n_rows = write(results, out, beside=beside, overwrite=overwrite)
    if not quiet:
        say(f"{n_rows:,} rows: {out}")
    return 0


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
    from unikat.spec.addresses import is_address
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


@click.command()
@click.argument("folder", metavar="[FOLDER]", type=click.Path(path_type=Path), default=Path())
@click.option(
    "--port",
    type=click.IntRange(0, 65535),
    default=0,
    metavar="P",
    help="Port.  [default: a free one]",
)
@click.option("--no-browser", is_flag=True, help="Print the address and do not open a browser.")
@click.option(
    "--read-only",
    is_flag=True,
    help="Show the finished runs of FOLDER, as to a committee; take nothing in and write nothing.",
)
@click.option(
    "--language",
    default="",
    metavar="CODE",
    help="Language of the pages and of the reports of new runs: en, es, fr or de.  "
    "[default: the last one that was chosen in FOLDER, else that of the browser]",
)
def web(folder: Path, port: int, no_browser: bool, read_only: bool, language: str) -> int:
    """Open the workbench: choose a file of FOLDER in the browser, mark the keys, read the report.

    Only this machine can reach it, and only the browser that opens the address first. Files are
    read where they lie and never copied. The last line printed is the address; Ctrl-C ends the
    workbench, and runs that go on then keep what is done.
    """
    try:
        from unikat.web.server import serve
    except ModuleNotFoundError as error:
        missing = str(error.name).partition(".")[0]
        if missing not in ("starlette", "uvicorn", "python_multipart", "anyio"):
            raise
        from unikat.errors import SpecError

        raise SpecError(
            f"The workbench needs {missing}, which is not installed. Install it with  "
            "pip install 'unikat[web]',  or assess a file without it:  unikat assess FILE --keys …"
        ) from None

    serve(
        folder,
        port=port,
        browser=not no_browser,
        read_only=read_only,
        language=language,
        tell=say,
    )
    return 0
