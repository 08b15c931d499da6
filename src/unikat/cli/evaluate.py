"""`unikat evaluate POPULATION` and `unikat evaluate evaluation.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unikat.cli._options import given, options, stem
from unikat.cli._output import evaluated, show_evaluation
from unikat.spec.options import EvaluateOptions


@click.command()
@click.argument("source", metavar="POPULATION|evaluation.toml", type=click.Path(path_type=Path))
@options(EvaluateOptions, "unikat.spec.evaluation.EvaluationSpec")
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path),
              help="Folder of the results.  [default: POPULATION-evaluation]")  # fmt: skip
@click.option("--resume", is_flag=True,
              help="Continue the study in DIR; models, sizes, repeats may be added.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace the study in DIR.")
@click.option("--allow-unconverged", is_flag=True, help="Exit code 0 also if not all converged.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of a table.")
@click.option("--quiet", is_flag=True, help="Print errors alone.")
def evaluate(source: Path, **values: Any) -> int:
    """Try models on samples from a file whose rows are taken as the whole population.

    Draws samples again and again, fits every model to each, and compares with the true values,
    which the file holds. Writes evaluation.parquet, summary.json, evaluation.html and
    evaluation.toml into DIR, all readable by you alone. Ctrl-C stops at once and keeps the fits
    that are done; --resume continues.
    """
    from unikat.jobs.evaluate import run
    from unikat.jobs.progress import watching
    from unikat.spec.evaluation import EvaluationSpec
    from unikat.spec.from_options import specify

    spec, inputs = specify(
        EvaluationSpec, EvaluateOptions, source, given(EvaluateOptions, values), shell=True
    )
    out: Path | None = values["out"]
    folder = Path(f"{stem(spec.data.path, source, 'study')}-evaluation") if out is None else out
    with watching(not values["quiet"]) as watcher:
        found = run(
            spec,
            inputs,
            folder,
            resume=values["resume"],
            overwrite=values["overwrite"],
            watcher=watcher,
        )
    if not values["quiet"] or values["as_json"]:
        show_evaluation(found.summary, folder, as_json=values["as_json"])
    return evaluated(found.summary, folder, allow_unconverged=values["allow_unconverged"])
