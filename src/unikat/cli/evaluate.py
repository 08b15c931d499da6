"""`unikat evaluate POPULATION` and `unikat evaluate evaluation.toml`."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from unikat.cli._options import (
    KEYS,
    READING,
    READING_PLACES,
    SAMPLING_PLACES,
    ZEROS,
    Command,
    add_options,
    given,
    meant,
    put,
    put_zeros,
    stem,
    whole_number,
)
from unikat.cli._output import evaluated, show_evaluation
from unikat.cli._progress import watching

# Where each option goes in the specification.
_PLACES = {
    **READING_PLACES,
    **SAMPLING_PLACES,
    "rhat": ("sampling", "rhat"),
    "ess": ("sampling", "ess"),
    "n": ("n",),
    "repeats": ("repeats",),
    "models": ("models",),
    "design": ("design",),
    "strata": ("strata",),
    "allocation": ("allocation",),
    "power": ("power",),
    "size": ("size",),
    "level": ("level",),
}


def _options(command: Command) -> Command:
    """Add the options that go into the specification; without a value, it decides."""
    add = (
        KEYS,
        click.option("--n", metavar="N,N,...", help="Sizes of the samples, in units or as shares "
                     "of the population, with commas between sizes, not in them: 1000,5%."),
        click.option("--repeats", metavar="N", help="Samples of each size.  [default: 20]"),
        click.option("--models", metavar="A,B,...", help="Models, with options after colons: "
                     "hdp,gom:components=30,'loglinear:terms=A + B:C'.  [default: hdp]"),
        click.option("--design", metavar="HOW", help="simple (without replacement), bernoulli, "
                     "stratified, or pps (with probabilities in proportion to a size).  "
                     "[default: simple]"),
        click.option("--strata", metavar="COLUMN", help="Column of the strata."),
        click.option("--allocation", metavar="HOW", help="How strata share a sample: proportional, "
                     "equal, or power (of their sizes).  [default: proportional]"),
        click.option("--power", metavar="Q", help="Power of the strata's sizes, from 0 to 1, for "
                     "--allocation power.  [default: 0.5]"),
        click.option("--size", metavar="COLUMN", help="Column of the units' sizes, for --design "
                     "pps."),
        *READING,
        *ZEROS,
        click.option("--chains", metavar="N", help="Chains of each fit.  [default: 4]"),
        click.option("--seed", metavar="N", help="Seed of the samples and fits.  [default: 1]"),
        click.option("--max-sweeps", metavar="N", help="Stop a fit after so many sweeps."),
        click.option("--max-seconds", metavar="S", help="Stop a fit after so many seconds; the "
                     "numbers then depend on the machine."),
        click.option("--rhat", metavar="R", help="A fit goes on until R-hat is at most this...  "
                     "[default: 1.01]"),
        click.option("--ess", metavar="N", help="...and effective sample sizes are at least "
                     "this.  [default: 400]"),
        click.option("--level", metavar="P", help="Probability of the intervals.  [default: 0.95]"),
        click.option("--workers", metavar="N", help="Fits at a time.  [default: one per core]"),
    )  # fmt: skip
    return add_options(command, add)


@click.command()
@click.argument("source", metavar="POPULATION|evaluation.toml", type=click.Path(path_type=Path))
@_options
@click.option("--out", metavar="DIR", type=click.Path(path_type=Path),
              help="Folder of the results.  [default: POPULATION-evaluation]")  # fmt: skip
@click.option("--resume", is_flag=True,
              help="Go on with the study in DIR; models, sizes, repeats may be added.")  # fmt: skip
@click.option("--overwrite", is_flag=True, help="Replace the study in DIR.")
@click.option("--allow-unconverged", is_flag=True, help="Exit code 0 also if not all converged.")
@click.option("--json", "as_json", is_flag=True, help="Print summary.json instead of a table.")
@click.option("--quiet", is_flag=True, help="Print errors alone.")
def evaluate(source: Path, **options: Any) -> int:
    """Try models on samples from a file whose rows are taken as the whole population.

    Draws samples again and again, fits every model to each, and compares with the truth, which
    the file tells. Writes evaluation.parquet, summary.json, evaluation.html and evaluation.toml
    into DIR, all readable by you alone. Ctrl-C stops at once and keeps the fits that are done;
    --resume goes on.
    """
    from unikat.report.evaluation import run

    spec = _spec(source, options)
    out: Path | None = options["out"]
    folder = Path(f"{stem(spec.data.path, source, 'study')}-evaluation") if out is None else out
    with watching(quiet=options["quiet"]) as watcher:
        summary = run(
            spec,
            folder,
            resume=options["resume"],
            overwrite=options["overwrite"],
            progress=None if watcher is None else watcher.progress,
            stage=None if watcher is None else watcher.stage,
        )
    if not options["quiet"] or options["as_json"]:
        show_evaluation(summary, folder, as_json=options["as_json"])
    return evaluated(summary, folder, allow_unconverged=options["allow_unconverged"])


def _spec(source: Path, options: Mapping[str, Any]) -> Any:
    from unikat._toml import read_toml
    from unikat.report.evaluation_spec import EvaluationSpec

    from_file = source.suffix.lower() == ".toml"
    values: dict[str, Any] = read_toml(source) if from_file else {"data": {"path": str(source)}}
    for name, value in given(options, _PLACES).items():
        put(values, _PLACES[name], _meant(name, value), source)
    put_zeros(values, options, source)
    return EvaluationSpec.parse(
        values,
        where=str(source) if from_file else "The command line",
        folder=source.resolve().parent if from_file else None,
    )


def _meant(name: str, value: Any) -> Any:
    if name == "repeats":
        return whole_number("--repeats", str(value).strip())
    return meant(name, value)
