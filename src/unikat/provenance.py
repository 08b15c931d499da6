"""What a run was asked to do and what did it: `assessment.toml` and the record of versions."""

from __future__ import annotations

import os
import platform
import re
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time
from fractions import Fraction
from importlib import metadata
from math import isfinite
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
)

from unikat.errors import SpecError, all_problems

_Code = str | int | float


def _of_percent(value: object) -> object:
    """Read `20%` as 0.2, exactly as if that had been written."""
    text = re.fullmatch(r"\s*([0-9]+(\.[0-9]+)?)\s*%\s*", value) if isinstance(value, str) else None
    return float(Fraction(text[1]) / 100) if text else value


Share = Annotated[float, BeforeValidator(_of_percent)]
"""A share of a whole; a text may give it in percent."""


class _Table(BaseModel):
    """A table of the specification: names that are not known are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class DataSpec(_Table):
    """The `[data]` table: which file, and how to read it."""

    path: Path | None = None
    """The file; relative paths count from where the specification lies."""
    format: str | None = None
    """File format; None lets the file's name decide."""
    delimiter: str | None = None
    """Character between the columns of a text file."""
    encoding: str | None = None
    """Character encoding of a text file."""
    codebook: Path | None = None
    """File that declares levels and labels."""
    missing: Literal["integrate", "level", "wildcard"] = "integrate"
    """What a missing key is: unknown, a level of its own, or a match to every level."""
    missing_values: tuple[_Code, ...] | dict[str, _Code | tuple[_Code, ...]] = ()
    """Values that mean missing, besides the format's own: for all keys, or by key."""


class ModelSpec(BaseModel):
    """The `[model]` table: the model's name, and its options under their own names."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = "hdp"

    @property
    def options(self) -> dict[str, Any]:
        """The options given, by name; the model checks them."""
        return dict(self.model_extra or {})

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a model as the command line names it: `gom` or `gom:components=30:base=uniform`.

        Raises
        ------
        SpecError
            If a part after the name is not NAME=VALUE.

        Examples
        --------
        >>> ModelSpec.of("gom:components=30").options
        {'components': 30}
        """
        name, *settings = (part.strip() for part in text.split(":"))
        options: dict[str, Any] = {}
        for setting in settings:
            option, equals, value = setting.partition("=")
            if not equals or not option.strip() or option.strip() == "name":
                raise SpecError(
                    f"{setting!r} in the model {text!r} is not NAME=VALUE; write a model with its "
                    "options as name:option=value:option=value."
                )
            options[option.strip()] = toml_value(value.strip())
        return cls(name=name, **options)

    @property
    def label(self) -> str:
        """The model as `of` reads it.

        Examples
        --------
        >>> ModelSpec.of("hdp:split_merge=false").label
        'hdp:split_merge=false'
        """
        settings = [
            # As TOML writes it, so that it is read back as what it was.
            f"{name}={str(value).lower() if isinstance(value, bool) else value}"
            for name, value in self.options.items()
        ]
        return ":".join([self.name, *settings])


class SamplingSpec(_Table):
    """The `[sampling]` table: chains, seed, and when to stop."""

    chains: int = Field(default=4, ge=1, le=1024)
    seed: int = Field(default=1, ge=0, lt=2**63)
    thin: int | None = Field(default=None, ge=1)
    """Sweeps per kept draw; None lets the sampler balance the two."""
    max_sweeps: int | None = Field(default=None, ge=1)
    """Largest number of sweeps of a chain."""
    max_seconds: float | None = Field(default=None, gt=0)
    """Longest time; a run that stops by time is not reproducible to the last sweep."""
    rhat: float = Field(default=1.01, gt=1)
    """Sampling goes on until R-hat of τ1 and τ2 is at most this..."""
    ess: float = Field(default=400, gt=0)
    """...and bulk and tail effective sample sizes are at least this."""
    workers: int | None = Field(default=None, ge=1)
    """Processes; has no influence on the numbers."""
    threads: int | None = Field(default=None, ge=1)
    """Threads per process; has no influence on the numbers."""


class ReportSpec(_Table):
    """The `[report]` table: what the results show."""

    level: Share = Field(default=0.95, gt=0, lt=1)
    """Probability of the intervals."""
    show_small_cells: bool = False
    """Print the values of the records at greatest risk; by default only their row numbers."""


class Spec(_Table):
    """Everything a command is asked to do; read from TOML and written as TOML."""

    command: ClassVar[str]
    """What repeats the run, in the folder that holds the file."""
    data: DataSpec = DataSpec()

    @classmethod
    def parse(
        cls,
        values: Mapping[str, Any],
        *,
        where: str = "The specification",
        folder: Path | None = None,
    ) -> Self:
        """Check nested values and make a specification of them.

        Parameters
        ----------
        values
            Tables and values as TOML has them.
        where
            What the error message calls them.
        folder
            Folder from which relative paths count; the working directory if None.

        Raises
        ------
        SpecError
            If anything is unknown or has a wrong value; the message lists all of it.
        """
        spec = cls._checked(values, where)
        base = Path.cwd() if folder is None else folder
        paths = {
            name: Path(os.path.abspath(base / path))
            for name in ("path", "codebook")
            if (path := getattr(spec.data, name)) is not None
        }
        return spec.model_copy(update={"data": spec.data.model_copy(update=paths)})

    @classmethod
    def _checked(cls, values: Mapping[str, Any], where: str) -> Self:
        try:
            return cls.model_validate(dict(values))
        except ValidationError as error:
            raise SpecError(all_problems(error.errors(include_url=False), where, cls)) from None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Self:
        """Read a TOML specification; relative paths in it count from its folder.

        Raises
        ------
        SpecError
            If the file cannot be read, is no TOML, or holds anything unknown or wrong.
        """
        values = read_toml(path)
        return cls.parse(values, where=str(path), folder=Path(path).resolve().parent)

    def to_toml(self, folder: Path, note: str = "") -> str:
        """Write as TOML.

        Parameters
        ----------
        folder
            Where it will lie: paths are relative to it unless they share nothing with it.
        note
            A line of comment.
        """
        values = self.model_dump(mode="json", by_alias=True, exclude_none=True)
        for name in ("path", "codebook"):
            if name in values["data"]:
                values["data"][name] = _relative(Path(values["data"][name]), folder)
        lines = [f"The run as run. To repeat it: unikat {self.command} --out NEW_FOLDER"]
        head = "".join(f"# {line}\n" for line in (*lines, note) if line)
        return head + write_toml(values)


class AssessmentSpec(Spec):
    """Everything an assessment is asked to do, as `assessment.toml` holds it.

    Examples
    --------
    >>> spec = AssessmentSpec.parse({"keys": ["AGE", "SEX"], "population_size": 1000})
    >>> spec.keys, spec.sampling.chains
    (('AGE', 'SEX'), 4)
    """

    command: ClassVar[str] = "assess assessment.toml"
    format_version: Literal["unikat.assessment/1"] = Field(
        default="unikat.assessment/1", alias="schema"
    )
    population_size: int | None = None
    keys: tuple[str, ...] = ()
    """Names of the key variables, each with its binning rule if any: `AGE:width(5)`."""
    model: ModelSpec = ModelSpec()
    """A table, or a text as `ModelSpec.of` reads it."""
    sampling: SamplingSpec = SamplingSpec()
    report: ReportSpec = ReportSpec()

    @field_validator("keys", mode="before")
    @classmethod
    def _listed(cls, keys: object) -> object:
        return split_keys(keys) if isinstance(keys, str) else keys

    @field_validator("model", mode="before")
    @classmethod
    def _named(cls, model: object) -> object:
        return ModelSpec.of(model) if isinstance(model, str) else model


@dataclass(frozen=True, kw_only=True)
class Provenance:
    """What ran: versions, kind of machine, when, and on which data."""

    unikat: str
    python: str
    numpy: str
    numba: str
    platform: str
    started: str
    """Time at which the run began, ISO 8601 in UTC."""
    seed: int
    data_fingerprint: str
    """SHA-256 of keys, patterns, counts and population size (`CellTable.fingerprint`)."""

    @classmethod
    def now(cls, *, seed: int, data_fingerprint: str, started: datetime | None = None) -> Self:
        """Record this machine and the moment; `started` defaults to now."""
        moment = datetime.now(UTC) if started is None else started
        return cls(
            unikat=package_version(),
            python=platform.python_version(),
            numpy=metadata.version("numpy"),
            numba=metadata.version("numba"),
            platform=f"{sys.platform}-{platform.machine()}",
            started=moment.astimezone(UTC).isoformat(timespec="seconds"),
            seed=seed,
            data_fingerprint=data_fingerprint,
        )


def package_version() -> str:
    """Return the version of this package."""
    import unikat

    return str(unikat.__version__)


def split_keys(text: str) -> list[str]:
    """Split `A,B:cut(0,10),C` at the commas that are not between parentheses.

    Examples
    --------
    >>> split_keys("A, B:cut(0,10),C")
    ['A', 'B:cut(0,10)', 'C']
    """
    parts, depth = [""], 0
    for character in text:
        depth += (character == "(") - (character == ")")
        if character == "," and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def read_toml(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read a TOML file.

    Raises
    ------
    SpecError
        If it cannot be read or is not TOML.
    """
    try:
        with open(path, "rb") as file:
            return tomllib.load(file)
    except OSError as error:
        raise SpecError(f"Cannot read {os.fspath(path)}: {error.strerror or error}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        # The position is named by the parser; the line itself is not repeated.
        raise SpecError(f"{os.fspath(path)} is not a TOML file: {error}.") from None


def toml_value(text: str) -> Any:
    """Read one value as TOML would, or else take it as a string.

    Examples
    --------
    >>> toml_value("0.5"), toml_value("true"), toml_value("shared")
    (0.5, True, 'shared')
    """
    if "\n" in text:
        return text
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def write_toml(values: Mapping[str, Any]) -> str:
    """Write nested tables, lists and scalars as TOML; `tomllib` reads back the same values.

    Parameters
    ----------
    values
        Strings, booleans, numbers, dates, lists and mappings with text keys. None is not TOML.

    Raises
    ------
    SpecError
        If a value has no form in TOML.
    """
    return "".join(_lines(values, ()))


def _lines(values: Mapping[str, Any], path: tuple[str, ...]) -> list[str]:
    plain = {name: value for name, value in values.items() if not isinstance(value, Mapping)}
    lines = [f"{_name(name)} = {_value(value)}\n" for name, value in plain.items()]
    if path and (plain or not values):
        lines.insert(0, f"\n[{'.'.join(map(_name, path))}]\n")
    for name, value in values.items():
        if isinstance(value, Mapping):
            lines += _lines(value, (*path, name))
    return lines


def _name(name: str) -> str:
    bare = name and all(c.isascii() and (c.isalnum() or c in "-_") for c in name)
    return name if bare else _text(name)


_ESCAPES = {
    "\\": "\\\\",
    '"': '\\"',
    "\b": "\\b",
    "\t": "\\t",
    "\n": "\\n",
    "\f": "\\f",
    "\r": "\\r",
}


def _text(value: str) -> str:
    if any(0xD800 <= ord(c) <= 0xDFFF for c in value):
        raise SpecError("A text with a lone surrogate cannot be written as TOML; rename it.")
    out = [
        _ESCAPES.get(c) or (f"\\u{ord(c):04x}" if ord(c) < 32 or ord(c) == 127 else c)
        for c in value
    ]
    return '"' + "".join(out) + '"'


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return repr(value) if isfinite(value) else str(value)
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, (datetime, date, time)):
        return value.isoformat()
    if isinstance(value, Mapping):
        pairs = ", ".join(f"{_name(name)} = {_value(item)}" for name, item in value.items())
        return f"{{ {pairs} }}" if pairs else "{}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(map(_value, value)) + "]"
    raise SpecError(f"A value of type {type(value).__name__} cannot be written as TOML.")


def _relative(path: Path, folder: Path) -> str:
    folder = Path(os.path.abspath(folder))
    try:
        shared = Path(os.path.commonpath([path, folder]))
    except ValueError:
        return str(path)
    return str(path) if shared == Path(shared.anchor) else os.path.relpath(path, folder)
