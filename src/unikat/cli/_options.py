"""Options that several commands have, and how their texts are read."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, TypeVar

import click

from unikat.errors import SpecError

Command = TypeVar("Command", bound=Callable[..., Any])

READING_PLACES = {
    "keys": ("keys",),
    "missing": ("data", "missing"),
    "missing_values": ("data", "missing_values"),
    "codebook": ("data", "codebook"),
    "format": ("data", "format"),
    "encoding": ("data", "encoding"),
    "delimiter": ("data", "delimiter"),
}
SAMPLING_PLACES = {
    "chains": ("sampling", "chains"),
    "seed": ("sampling", "seed"),
    "max_sweeps": ("sampling", "max_sweeps"),
    "max_seconds": ("sampling", "max_seconds"),
    "workers": ("sampling", "workers"),
}
"""Where options go in a specification."""

KEYS = click.option(
    "--keys", metavar="A,B,C", help="Key variables, those an intruder may know; "
    "numbers can be grouped: AGE:width(5), INCOME:quantile(10), X:cut(0,10).",
)  # fmt: skip
READING = (
    click.option("--missing", metavar="HOW", help="Missing keys: integrate over them, take "
                 "missing as a level, or as a wildcard.  [default: integrate]"),
    click.option("--missing-values", metavar="A,B", help="Codes that mean missing."),
    click.option("--codebook", metavar="FILE", help="Levels, labels and missing codes."),
    click.option("--format", metavar="NAME", help="File format, if its name does not say."),
    click.option("--encoding", metavar="NAME", help="Character encoding.  [default: utf-8]"),
    click.option("--delimiter", metavar="C", help="Character between columns; tab for a tab."),
)  # fmt: skip
DESIGN_PLACES = {
    name: ("design", name)
    for name in ("weights", "inclusion", "strata", "stratum_sizes", "relative_weights")
}
DESIGN = (
    click.option("--weights", metavar="COLUMN", help="Weights: the units of the population that "
                 "each record stands for. They sum to the population size."),
    click.option("--inclusion", metavar="COLUMN", help="Inclusion probabilities, instead of "
                 "weights."),
    click.option("--strata", metavar="COLUMN", help="Strata, within which units had equal chances "
                 "to be drawn."),
    click.option("--stratum-sizes", metavar="FILE", help="Units of the population in each "
                 "stratum: a text file with a stratum and its size on each line, below a header. "
                 "Without it the sums of the weights."),
    click.option("--relative-weights", is_flag=True, default=None, help="Weights are known up to a "
                 "factor: scale them to the population size."),
)  # fmt: skip
ZEROS = (
    click.option("--zeros", metavar="FILE", type=click.Path(path_type=Path),
                 help="Impossible combinations: rules (.toml), or a table of conditions."),
    click.option("--zeros-conflict", metavar="HOW", type=click.Choice(["stop", "drop", "missing"]),
                 help="Records that break a rule: stop; drop them; or set the keys of the rule "
                 "missing in them.  [default: stop]"),
)  # fmt: skip


def add_options(command: Command, options: tuple[Callable[[Command], Command], ...]) -> Command:
    """Add options to a command, in this order."""
    for option in reversed(options):
        command = option(command)
    return command


def given(options: Mapping[str, Any], places: Mapping[str, tuple[str, ...]]) -> dict[str, Any]:
    """Options that were given and go into the specification."""
    return {name: options[name] for name in places if options[name] is not None}


def meant(name: str, value: Any) -> Any:
    """Value of an option as the specification has it."""
    if name == "missing_values":
        return [code.strip() for code in str(value).split(",")]
    if name == "delimiter":
        return {"tab": "\t", "\\t": "\t"}.get(value, value)
    if name in ("codebook", "registry"):
        return str(Path(value).absolute())
    if name == "stratum_sizes":
        from unikat.specification import read_stratum_sizes

        return read_stratum_sizes(Path(value))
    if name in ("population_size", "max_sweeps"):
        return whole_number(f"--{name.replace('_', '-')}", str(value).strip())
    return value


def put_zeros(values: dict[str, Any], options: Mapping[str, Any], source: Path) -> None:
    """Put what --zeros and --zeros-conflict say into the values of a specification."""
    file, on_conflict = options["zeros"], options["zeros_conflict"]
    if file is not None:
        from unikat.specification import ZerosSpec

        values["zeros"] = ZerosSpec.read(file, on_conflict)
    elif on_conflict is not None:
        if "zeros" not in values:
            raise SpecError(
                "--zeros-conflict says what to do with records that break a rule, but there are no "
                "rules; name them with --zeros FILE."
            )
        put(values, ("zeros", "on_conflict"), on_conflict, source)


def whole_number(option: str, text: str) -> int:
    """Read a number as people write large ones: 1000000, 1,000,000, 1_000_000 or 1e6."""
    if re.fullmatch(r"-?[0-9]+|[0-9]{1,3}(,[0-9]{3})+|[0-9]{1,3}(_[0-9]{3})+", text):
        return int(text.replace(",", "").replace("_", ""))
    if re.fullmatch(r"[0-9]+(\.[0-9]+)?[eE]\+?[0-9]{1,2}", text):
        number = Decimal(text)
        if number == int(number):
            return int(number)
    raise SpecError(
        f"{option} {text!r} is not a whole number. Commas or underscores may only separate "
        "thousands, and a point stands only before an exponent: write 1000000, 1,000,000, "
        "1_000_000 or 1e6."
    )


def put(values: dict[str, Any], place: tuple[str, ...], value: Any, source: Path) -> None:
    """Put a value into nested tables."""
    for part in place[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise SpecError(f"{source} is not valid: {part} must be a table.")
    values[place[-1]] = value


def stem(path: Path | None, source: Path, fallback: str) -> str:
    """Beginning of a file's name, from which the name of a folder of results is made."""
    name = source.name if path is None else path.name
    return name.split(".")[0].strip("*") or fallback
