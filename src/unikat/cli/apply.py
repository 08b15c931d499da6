"""The command `apply`: a plan for another file."""

from __future__ import annotations

from pathlib import Path
from textwrap import wrap
from typing import Any

import click

from unikat.cli._options import DATA, Once, given
from unikat.cli._output import judged, say
from unikat.spec.addresses import is_address


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
