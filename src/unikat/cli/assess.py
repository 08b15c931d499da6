"""`unikat assess FILE` and `unikat assess assessment.toml`."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from unikat.cli._output import UNCONVERGED, ending, say, show, undecided
from unikat.cli._runs import perform, run_options
from unikat.spec.options import AssessOptions


@click.command()
@click.argument("source", metavar="FILE|assessment.toml", type=click.Path(path_type=Path))
@run_options(
    AssessOptions,
    "unikat.spec.assessment.AssessmentSpec",
    folder="name of FILE with -unikat",
    resume="Continue the run in DIR that was not finished.",
    replace="run",
    summary="result.json",
)
def assess(source: Path, **values: Any) -> int:
    """Assess FILE, or what an assessment.toml says; options on the command line go first.

    Writes result.json, records.parquet, draws.nc, report.html and assessment.toml into DIR, all
    readable by you alone. Ctrl-C stops at once and keeps what is done; --resume continues. The
    model auto takes longer than others: it first fits several and selects one. Its preliminary
    answer is shown, and written to result.json, as soon as it is there.
    """
    from unikat.files.json import json_text
    from unikat.jobs.assess import ASSESSMENT, run

    found, folder = perform(ASSESSMENT, run, source, values, ("assessment", "unikat"))
    if found is None:
        undecided(folder)
        return UNCONVERGED
    if values["as_json"]:
        say(json_text(asdict(found.result)).rstrip())
    elif not values["quiet"]:
        show(found.result, folder)
    return ending(found.result, folder, allow_unconverged=values["allow_unconverged"])
