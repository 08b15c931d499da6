"""What the commands that make a run share: their options, where results go, and how a run ends."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

import click

from unikat.cli._options import DATA, Once, given, stem
from unikat.cli._output import DONE, UNCONVERGED, judged, say, tell
from unikat.spec.kinds import Kind


def run_command(
    kind: Kind, ended: Callable[..., int] | None = None
) -> Callable[[Callable[[Any, Path], None]], Once]:
    """Make a command of a kind of run, with the options of its specification.

    The function that is decorated prints the answer of a run and where it is; what it says of
    itself is the help of the command.

    Parameters
    ----------
    kind
        The kind.
    ended
        Given the answer, the folder and whether runs that have not converged are allowed, says how
        to continue and returns the exit code; None: :func:`ended` does.
    """
    place = f"Folder of the results.  [default: {kind.source}-{kind.ending}]"
    told = "Print what would run and its time; write nothing."
    more = "; models, and to an evaluation sizes and repeats, may be added" if kind.extends else ""
    continued = f"Continue the {kind.noun} in DIR that was not finished{more}."
    parts = (
        click.argument("source", metavar=f"{kind.source}|{kind.spec}", type=DATA),
        click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help=place),
        click.option("--resume", is_flag=True, help=continued),
        click.option("--dry-run", is_flag=True, help=told),
        click.option("--overwrite", is_flag=True, help=f"Replace the {kind.noun} in DIR."),
        click.option(
            "--allow-unconverged", is_flag=True, help="Exit code 0 also if not converged."
        ),
        click.option(
            "--json", "as_json", is_flag=True, help=f"Print {kind.numbers} instead of a table."
        ),
        click.option("--quiet", is_flag=True, help="Print errors alone."),
    )
    end = ended or _ended

    def decorate(show: Callable[[Any, Path], None]) -> Once:
        def command(source: str | Path, **values: Any) -> int:
            if values.get("dry_run"):
                return _print_dry_run(kind, source, values)
            from unikat.files.json import facts_text
            from unikat.report.text.language import speaking

            found, folder, report = _run(kind, source, values)
            if found is None:
                tell(
                    f"Interrupted. What was done is kept in {folder}; to continue, give the same "
                    "command with --resume."
                )
                return UNCONVERGED
            if values["as_json"]:
                say(facts_text(found.summary).rstrip())
            elif not values["quiet"]:
                with speaking(report.language, report.terms):
                    show(found, folder)
            return end(kind, found, folder, allow_unconverged=values["allow_unconverged"])

        made: Any = command
        for part in reversed(parts):
            made = part(made)
        return click.command(show.__name__, cls=Once, asks=kind.asks, help=show.__doc__)(made)

    return decorate


def _run(kind: Kind, source: str | Path, values: dict[str, Any], run: Any = None) -> Any:
    """Make the run that a command line asks for: return its answer, folder and language.

    There is no answer (None) if Ctrl-C came before there was one. `run` is made in place of the run
    of the kind.
    """
    from unikat.jobs.job import Unfinished
    from unikat.jobs.progress import watching
    from unikat.spec.from_options import specify

    run = run or import_module(f"unikat.jobs.{kind.name}").run
    spec, inputs = specify(kind.specification, source, given(values), shell=True)
    folder = values["out"] or Path(f"{stem(spec.data.path, source)}-{kind.ending}")
    try:
        with watching(not values["quiet"]) as watcher:
            found = run(
                spec,
                inputs,
                folder,
                resume=values.get("resume", False),
                overwrite=values["overwrite"],
                watcher=watcher,
            )
    except Unfinished:
        found = None
    asked: Any = spec
    return found, folder, asked.report


def _print_dry_run(kind: Kind, source: str | Path, values: dict[str, Any]) -> int:
    """Print what a run would do (`--dry-run`)."""
    from dataclasses import asdict

    from unikat.files.json import json_text
    from unikat.report.text.dry_run import lines
    from unikat.report.text.language import speaking

    foresee = getattr(import_module("unikat.jobs.dry_run"), f"of_{kind.noun}")
    found, _, report = _run(kind, source, values, foresee)
    if values["as_json"]:
        say(json_text(asdict(found)).rstrip())
    elif not values["quiet"]:
        with speaking(report.language, report.terms):
            say("\n".join(["", *lines(found), ""]))
    return DONE


def _ended(kind: Kind, found: Any, folder: Path, *, allow_unconverged: bool) -> int:
    """Say how to continue a run that has not converged, and return the exit code."""
    if not found.converged:
        tell(
            f"Not converged. The results in {folder} are marked so; to continue, give the same "
            "command with --resume and a higher limit."
        )
        if not allow_unconverged:
            return UNCONVERGED
    return judged(getattr(found, "verdict", None))
