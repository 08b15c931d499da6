"""`unikat demo`."""

from __future__ import annotations

from pathlib import Path

import click

from unikat.cli._output import UNCONVERGED, ending, say, show, undecided


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
    from unikat.jobs.demo import compare, run_demo
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
    say(compare(result, truth))
    return ending(result, out, remedy="start again with --overwrite")
