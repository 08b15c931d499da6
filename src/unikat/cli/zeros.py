"""`unikat zeros check`, `unikat zeros disjoint` and `unikat zeros suggest`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unikat.cli._options import DATA, Once, given
from unikat.cli._output import DONE, FAILED, say
from unikat.errors import SpecError

if TYPE_CHECKING:
    from unikat.spec.option import Defined

_SPEC = "assessment.AssessmentSpec"


def _about_rules(one: Defined) -> bool:
    """Whether an option of an assessment says what rules are held against."""
    return one.name in ("keys", "zeros", "set") or one.place[0] == "data"


def _about_households(one: Defined) -> bool:
    """Whether it says that, or which persons form a household."""
    grouped = one.place[0] == "households" and one.name != "population_households"
    return _about_rules(one) or grouped or one.name == "household"


@click.group()
def zeros() -> None:
    """Impossible combinations: hold rules against a file, list them, or look for some.

    A rule says what cannot be: AGE < 14 and MARST == "married". Rules stand in a file,
    zeros.toml, as rules = ['...', '...'], or in a table with a column per key where a blank
    stands for any level.
    """


@zeros.command(cls=Once, asks=_SPEC, only=_about_households)
@click.argument("source", metavar="FILE|FILE.toml", type=DATA)
@click.option(
    "--rows",
    metavar="FILE.csv",
    type=click.Path(path_type=Path),
    help="Write the number of every row that breaks a rule.",
)
@click.option("--overwrite", is_flag=True, help="Replace FILE.csv.")
@click.option("--quiet", is_flag=True, help="Print errors alone.")
def check(source: str | Path, rows: Path | None, **values: Any) -> int:
    """Tell how many rows of FILE break which rule.

    With --household the rules are about whole households, such as count(REL == 1) != 1;
    households are described as in unikat assess --model households, or in synthesis.toml. The
    exit code is 0 if no row or household breaks a rule, else 1. No value of a record is shown.
    """
    from unikat.jobs.zeros import check as run
    from unikat.jobs.zeros import check_file, check_lines, write_rows

    spec = _spec(source, values)
    if rows is not None:
        check_file(rows, overwrite=values["overwrite"], inputs=_inputs(source, spec, values))
    with _watching(values) as watcher:
        watcher.stage("Reading")
        checked = run(spec, watcher=watcher)
    if rows is not None:
        write_rows(checked, rows, overwrite=values["overwrite"])
    if not values["quiet"]:
        say("\n".join(check_lines(checked)))
    return FAILED if checked.n_broken else DONE


@zeros.command(cls=Once, asks=_SPEC, only=_about_rules)
@click.argument("source", metavar="FILE|assessment.toml", type=DATA)
@click.option(
    "--out",
    metavar="FILE",
    required=True,
    type=click.Path(path_type=Path),
    help="Table to write, .csv or .parquet.",
)
@click.option("--overwrite", is_flag=True, help="Replace the table.")
@click.option("--quiet", is_flag=True, help="Print errors alone.")
def disjoint(source: str | Path, out: Path, **values: Any) -> int:
    """Write the rules as a table of combinations that do not overlap.

    A column per key of FILE holds the label of a level; a blank stands for any. The form is that
    of other programs, and --zeros reads it back.
    """
    from unikat.jobs.zeros import check_file, write_disjoint
    from unikat.report.text.numbers import counted

    spec = _spec(source, values)
    check_file(out, overwrite=values["overwrite"], inputs=_inputs(source, spec, values))
    with _watching(values) as watcher:
        watcher.stage("Reading")
        n = write_disjoint(spec, out, overwrite=values["overwrite"])
    if not values["quiet"]:
        say(f"{counted(n, 'combination')} that do{'es' if n == 1 else ''} not overlap: {out}")
    return DONE


@zeros.command(cls=Once, asks=_SPEC, only=_about_rules)
@click.argument("source", metavar="FILE|assessment.toml", type=DATA)
@click.option(
    "--together",
    metavar="2|3",
    default="3",
    show_default=True,
    help="How many keys are looked at together, at most.",
)
@click.option("--most", metavar="N", default="100", show_default=True, help="Most suggestions.")
@click.option(
    "--out",
    metavar="FILE.toml",
    type=click.Path(path_type=Path),
    help="Write them as a file of rules for you to accept or strike.",
)
@click.option("--active", is_flag=True, help="Write rules that hold; without it they are comments.")
@click.option("--overwrite", is_flag=True, help="Replace FILE.toml.")
@click.option("--quiet", is_flag=True, help="Print errors alone.")
def suggest(source: str | Path, out: Path | None, together: str, most: str, **values: Any) -> int:
    """Look for combinations that no record of FILE has although many are expected.

    They may be impossible, rare, or left out when the sample was drawn: you judge. Those that
    follow from the rules of --zeros are not suggested again.
    """
    from unikat.jobs.zeros import (
        check_rules_file,
        find_suggestions,
        suggestion_lines,
        write_suggestions,
    )

    at_most = _number("--together", together)
    if at_most not in (2, 3):
        raise SpecError(f"--together {together} must be 2 or 3: keys that are looked at together.")
    n_most = _number("--most", most)
    if n_most < 1:
        raise SpecError(f"--most {most} must be at least 1, such as 100.")
    spec = _spec(source, values)
    if out is not None:
        inputs = _inputs(source, spec, values)
        check_rules_file(out, overwrite=values["overwrite"], inputs=inputs)
    with _watching(values) as watcher:
        watcher.stage("Looking")
        table, found = find_suggestions(spec, together=at_most, most=n_most)
    if out is not None:
        write_suggestions(
            table,
            found,
            out,
            data=spec.data.name or "the data",
            active=values["active"],
            overwrite=values["overwrite"],
            together=at_most,
        )
    if not values["quiet"]:
        say("\n".join(suggestion_lines(table, found, together=at_most, most=n_most)))
    return DONE


def _inputs(source: str | Path, spec: Any, values: dict[str, Any]) -> list[Path]:
    """Files that are read, none of which may be written."""
    return [Path(source), *map(Path, filter(None, [values["zeros"]])), *spec.input_files()]


def _watching(values: dict[str, Any]) -> Any:
    from unikat.jobs.progress import watching

    return watching(not values["quiet"])


def _number(option: str, text: str) -> int:
    from unikat.spec.values import whole_number

    try:
        return int(str(whole_number(text)))
    except ValueError as error:
        raise SpecError(f"{option}: {error}.") from None


def _spec(source: str | Path, values: dict[str, Any]) -> Any:
    from unikat.files.toml import read_toml
    from unikat.jobs.zeros import as_rules_spec
    from unikat.spec.assessment import AssessmentSpec
    from unikat.spec.from_options import specify
    from unikat.spec.kinds import SYNTHESIZE
    from unikat.spec.models import HOUSEHOLDS
    from unikat.spec.synthesis import SynthesisSpec

    found = given(values)
    schema = read_toml(source).get("schema") if str(source).endswith(".toml") else None
    if str(schema).partition("/")[0] == SYNTHESIZE.schema:
        return as_rules_spec(specify(SynthesisSpec, source, found, shell=True)[0])
    if "household" in found:
        found["model"] = HOUSEHOLDS
    return specify(AssessmentSpec, source, found, shell=True)[0]
