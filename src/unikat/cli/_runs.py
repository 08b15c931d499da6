"""What the commands that make a run share: where the results go, and what is printed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from unikat.cli._options import given, options, stem
from unikat.cli._output import DONE, say

Command = TypeVar("Command", bound=Callable[..., Any])


def run_options(
    kind: Any,
    specification: str,
    *,
    folder: str,
    resume: str | None,
    replace: str,
    summary: str,
    dry_run: bool = False,
    left_out: Sequence[str] = (),
) -> Callable[[Command], Command]:
    """Give a command the options of a kind of run.

    Parameters
    ----------
    kind
        The `TypedDict` that defines what is asked of the run.
    specification
        Full name of the specification's class, which has the defaults.
    folder, resume, replace, summary
        Words of the help: the default folder; what is continued (None: nothing can be), and
        replaced; the file of numbers.
    dry_run
        Whether the run can be told before it is made.
    left_out
        Options that are arguments of the command.
    """
    place = f"Folder of the results.  [default: {folder}]"
    continued = [] if resume is None else [click.option("--resume", is_flag=True, help=resume)]
    told = "Read and count, print what would run, its time, memory and files, and write nothing."
    foreseen = [click.option("--dry-run", is_flag=True, help=told)] if dry_run else []
    final = (
        click.option("--out", metavar="DIR", type=click.Path(path_type=Path), help=place),
        *continued,
        *foreseen,
        click.option("--overwrite", is_flag=True, help=f"Replace the {replace} in DIR."),
        click.option(
            "--allow-unconverged", is_flag=True, help="Exit code 0 also if not converged."
        ),
        click.option(
            "--json", "as_json", is_flag=True, help=f"Print {summary} instead of a table."
        ),
        click.option("--quiet", is_flag=True, help="Print errors alone."),
    )

    def decorate(command: Command) -> Command:
        for option in reversed(final):
            command = option(command)
        return options(kind, specification, left_out)(command)

    return decorate


def perform(
    kind: Any,
    run: Callable[..., Any],
    source: str | Path,
    values: dict[str, Any],
    name: tuple[str, str],
) -> tuple[Any, Path]:
    """Make the run that a command line asks for: return its answer and its folder.

    There is no answer (None) if Ctrl-C came before there was one.
    `name` is the beginning of the folder's name where the data have no file, and its end.
    """
    from unikat.jobs.job import Unfinished
    from unikat.jobs.progress import watching
    from unikat.spec.from_options import specify

    spec, inputs = specify(kind.spec, kind.options, source, given(kind.options, values), shell=True)
    folder = values["out"] or Path(f"{stem(spec.data.path, source, name[0])}-{name[1]}")
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


def foresee(
    kind: Any,
    foreseen: Callable[..., Any],
    source: str | Path,
    values: dict[str, Any],
    name: tuple[str, str],
) -> int:
    """Print what a run would do (`--dry-run`); parameters as of `perform`."""
    from dataclasses import asdict

    from unikat.files.json import json_text
    from unikat.report.text.dry_run import lines

    found, _ = perform(kind, foreseen, source, values, name)
    if values["as_json"]:
        say(json_text(asdict(found)).rstrip())
    elif not values["quiet"]:
        say("\n".join(["", *lines(found), ""]))
    return DONE
