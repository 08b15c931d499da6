"""`unikat evaluate POPULATION` and `unikat evaluate evaluation.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unikat.cli._output import evaluated, show_evaluation
from unikat.cli._runs import perform, run_options
from unikat.spec.options import EvaluateOptions


@click.command()
@click.argument("source", metavar="POPULATION|evaluation.toml", type=click.Path(path_type=Path))
@run_options(
    EvaluateOptions,
    "unikat.spec.evaluation.EvaluationSpec",
    folder="POPULATION-evaluation",
    resume="Continue the study in DIR; models, sizes, repeats may be added.",
    replace="study",
    summary="summary.json",
)
def evaluate(source: Path, **values: Any) -> int:
    """Try models on samples from a file whose rows are taken as the whole population.

    Draws samples again and again, fits every model to each, and compares with the true values,
    which the file holds. Writes evaluation.parquet, summary.json, evaluation.html and
    evaluation.toml into DIR, all readable by you alone. Ctrl-C stops at once and keeps the fits
    that are done; --resume continues.
    """
    from unikat.jobs.evaluate import EVALUATION, run

    found, folder = perform(EVALUATION, run, source, values, ("study", "evaluation"))
    if not values["quiet"] or values["as_json"]:
        show_evaluation(found.summary, folder, as_json=values["as_json"])
    return evaluated(found.summary, folder, allow_unconverged=values["allow_unconverged"])
