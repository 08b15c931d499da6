"""`unikat assess FILE` and `unikat assess assessment.toml`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from unikat.cli._options import given, options, stem
from unikat.cli._output import UNCONVERGED, ending, say, show, undecided
from unikat.spec.options import AssessOptions


@click.command()
@click.argument("source", metavar="FILE|assessment.toml", type=click.Path(path_type=Path))
@options(AssessOptions, "unikat.spec.assessment.AssessmentSpec")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path),
              help="Folder of the results.  [default: name of FILE with -unikat]")  # fmt: skip
@click.option("--resume", is_flag=True, help="Continue the run in DIR that was not finished.")
@click.option("--overwrite", is_flag=True, help="Replace the run in DIR.")
@click.option("--allow-unconverged", is_flag=True, help="Exit code 0 also if not converged.")
@click.option("--json", "as_json", is_flag=True, help="Print result.json instead of a table.")
@click.option("--quiet", is_flag=True, help="Print errors alone.")
def assess(source: Path, **values: Any) -> int:
    """Assess FILE, or what an assessment.toml says; options on the command line go first.

    Writes result.json, records.parquet, draws.nc, report.html and assessment.toml into DIR, all
    readable by you alone. Ctrl-C stops at once and keeps what is done; --resume continues. The
    model auto takes longer than others: it first fits several and selects one. Its preliminary
    answer is shown, and written to result.json, as soon as it is there.
    """
    from unikat.files.json import json_text
    from unikat.jobs.assess import Unfinished, run
    from unikat.jobs.progress import watching
    from unikat.spec.assessment import AssessmentSpec
    from unikat.spec.from_options import specify

    spec, inputs = specify(
        AssessmentSpec, AssessOptions, source, given(AssessOptions, values), shell=True
    )
    out: Path | None = values["out"]
    folder = Path(f"{stem(spec.data.path, source, 'assessment')}-unikat") if out is None else out
    try:
        with watching(not values["quiet"]) as watcher:
            found = run(
                spec,
                inputs,
                folder,
                resume=values["resume"],
                overwrite=values["overwrite"],
                watcher=watcher,
            )
    except Unfinished:
        undecided(folder)
        return UNCONVERGED
    if values["as_json"]:
        say(json_text(asdict(found.result)).rstrip())
    elif not values["quiet"]:
        show(found.result, folder)
    return ending(found.result, folder, allow_unconverged=values["allow_unconverged"])
