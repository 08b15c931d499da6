"""What the commands that make a run share: where the results go, and what is printed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from unikat.cli._options import DATA, Once, given, stem
from unikat.cli._output import DONE, say
from unikat.spec.kinds import Kind


def run_command(
    kind: Kind, *, resume: str | None = None, dry_run: bool = False
) -> Callable[[Callable[..., int]], Once]:
    """Make a function the command of a kind of run, with the options of its specification.

    Parameters
    ----------
    kind
        The kind.
    resume
        What the help says is continued; None: nothing can be.
    dry_run
        Whether the run can be told before it is made.
    """
    place = f"Folder of the results.  [default: name of {kind.source} with -{kind.ending}]"
    told = "Read and count, print what would run, its time, memory and files, and write nothing."
    source = click.argument("source", metavar=f"{kind.source}|{kind.spec}", type=DATA)
    final = (
        click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help=place),
        *([] if resume is None else [click.option("--resume", is_flag=True, help=resume)]),
        *([click.option("--dry-run", is_flag=True, help=told)] if dry_run else []),
        click.option("--overwrite", is_flag=True, help=f"Replace the {kind.noun} in DIR."),
        click.option(
            "--allow-unconverged", is_flag=True, help="Exit code 0 also if not converged."
        ),
        click.option(
            "--json", "as_json", is_flag=True, help=f"Print {kind.numbers} instead of a table."
        ),
        click.option("--quiet", is_flag=True, help="Print errors alone."),
    )

    def decorate(function: Callable[..., int]) -> Once:
        for option in reversed(final):
            function = option(function)
        return click.command(cls=Once, asks=kind.asks)(source(function))

    return decorate


def perform(kind: Kind, source: str | Path, values: dict[str, Any], run: Any = None) -> Any:
    """Make the run that a command line asks for: return its answer and its folder.

    There is no answer (None) if Ctrl-C came before there was one. `run` is made in place of the run
    of the kind.
    """
    from importlib import import_module

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
        return None, folder
    return found, folder


def foresee(kind: Kind, source: str | Path, values: dict[str, Any], foreseen: Any) -> int:
    """Print what a run would do (`--dry-run`)."""
    from dataclasses import asdict

    from unikat.files.json import json_text
    from unikat.report.text.dry_run import lines

    found, _ = perform(kind, source, values, foreseen)
    if values["as_json"]:
        say(json_text(asdict(found)).rstrip())
    elif not values["quiet"]:
        say("\n".join(["", *lines(found), ""]))
    return DONE


def print_numbers(kind: Kind, folder: Path) -> None:
    """Print the file with every number of a run (`--json`)."""
    say((folder / kind.numbers).read_text(encoding="utf-8").rstrip())
