"""What a run was asked to do and what did it: `assessment.toml` and the record of versions."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from fractions import Fraction
from importlib import metadata
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)

from unikat._toml import read_toml, toml_literal, toml_value, write_toml
from unikat.errors import SpecError, all_problems, shown

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


class NamedRule(_Table):
    """A rule with a name, under which messages and reports speak of it."""

    rule: str
    name: str | None = None


class ZerosSpec(_Table):
    """The `[zeros]` table: which combinations are impossible, and what is done with records of one.

    Examples
    --------
    >>> ZerosSpec(rules=("AGE < 14 and MARST == 'married'",)).on_conflict
    'stop'
    """

    rules: tuple[NamedRule, ...] = ()
    """Each a text, or a table of `rule` and `name`."""
    tables: tuple[Path, ...] = ()
    """Files of conditions: a column per key, an empty field standing for any level."""
    on_conflict: Literal["stop", "drop", "missing"] = "stop"
    """What is done with records that break a rule: nothing goes on, they are left out, or the keys
    of the rules they break are set missing."""
    _source: str | None = PrivateAttr(default=None)

    @field_validator("rules", mode="before")
    @classmethod
    def _texts(cls, rules: object) -> object:
        if not isinstance(rules, (list, tuple)):
            return rules
        for number, rule in enumerate(rules, start=1):
            known = isinstance(rule, (str, NamedRule))
            table = isinstance(rule, Mapping) and "rule" in rule and set(rule) <= {"rule", "name"}
            if not known and not table:
                raise ValueError(
                    f"entry {number} is neither a text such as 'AGE < 14 and EDUC >= 11' nor a "
                    "table { rule = '...', name = '...' }"
                )
            if table:
                _check_texts(rule, number)
        return [{"rule": rule} if isinstance(rule, str) else rule for rule in rules]

    @model_validator(mode="after")
    def _some(self) -> Self:
        if not self.rules and not self.tables:
            raise ValueError(
                "there are no rules; list them as rules = ['AGE < 14 and EDUC >= 11'], or name "
                "files of conditions as tables = ['conditions.csv']"
            )
        return self

    @property
    def source(self) -> str | None:
        """The file in which the rules stand, for messages."""
        return self._source

    @classmethod
    def read(cls, path: str | os.PathLike[str], on_conflict: str | None = None) -> Self:
        """Read the file that --zeros names: a TOML file of rules, or a table of conditions.

        Parameters
        ----------
        path
            The file; paths in it count from its folder.
        on_conflict
            Goes before what the file says.

        Raises
        ------
        SpecError
            If it cannot be read, or holds anything unknown or wrong.
        """
        path = Path(path)
        from_toml = path.suffix.lower() == ".toml"
        values: dict[str, Any] = read_toml(path) if from_toml else {"tables": [path.resolve()]}
        if from_toml and isinstance(values.get("zeros"), dict):
            raise SpecError(
                f"{path} has a table [zeros], as an assessment.toml has. The file that --zeros "
                "names has rules, tables and on_conflict at its top: take the line [zeros] out, or "
                "name the file itself instead of the data."
            )
        if on_conflict is not None:
            values["on_conflict"] = on_conflict
        try:
            found = cls.model_validate(values)
        except ValidationError as error:
            problems = error.errors(include_url=False)
            raise SpecError(all_problems(problems, str(path), cls)) from None
        return found.located(path.resolve().parent, str(path) if from_toml else None)

    def located(self, folder: Path, source: str | None) -> Self:
        """Return the same with absolute paths, relative ones counting from a folder.

        Parameters
        ----------
        folder
            The folder.
        source
            The file in which the rules stand, unless that is known already.
        """
        tables = tuple(Path(os.path.abspath(folder / table)) for table in self.tables)
        located = self.model_copy(update={"tables": tables})
        located._source = self._source or source
        return located


def _check_texts(rule: Mapping[str, object], number: int) -> None:
    """Refuse a table of a rule whose rule or name is no text."""
    remedies = {
        "rule": "it must be a text such as 'AGE < 14 and EDUC >= 11'",
        "name": "it must be a text, in quotes, or be left out",
    }
    for part, remedy in remedies.items():
        value = rule.get(part)
        left_out = part == "name" and value is None
        if not left_out and not isinstance(value, str):
            raise ValueError(f"entry {number}: its {part} is {shown(value)}; {remedy}")


class ModelSpec(BaseModel):
    """The `[model]` table: the model's name, and its options under their own names."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = "auto"

    @property
    def options(self) -> dict[str, Any]:
        """The options given, by name; the model checks them."""
        return dict(self.model_extra or {})

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a model as the command line names it: `gom` or `gom:components=30:base=uniform`.

        A part without an equals sign belongs to the value before it.

        Raises
        ------
        SpecError
            If the first part after the name is not NAME=VALUE.

        Examples
        --------
        >>> ModelSpec.of("gom:components=30").options
        {'components': 30}
        >>> ModelSpec.of("loglinear:terms=A + B:C:interval=bootstrap").options
        {'terms': 'A + B:C', 'interval': 'bootstrap'}
        """
        name, *parts = (part.strip() for part in text.split(":"))
        settings: list[str] = []
        for part in parts:
            if "=" in part or not settings:
                settings.append(part)
            else:
                settings[-1] += f":{part}"
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
        settings = [f"{name}={_as_written(value)}" for name, value in self.options.items()]
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
    zeros: ZerosSpec | None = None
    """Impossible combinations; None if every combination is possible."""

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
        source = None if folder is None else where
        zeros = None if spec.zeros is None else spec.zeros.located(base, source)
        data = spec.data.model_copy(update=paths)
        return spec.model_copy(update={"data": data, "zeros": zeros})

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
        if self.zeros is not None:
            values["zeros"]["rules"] = [
                rule["rule"] if len(rule) == 1 else rule for rule in values["zeros"]["rules"]
            ]
            values["zeros"]["tables"] = [_relative(path, folder) for path in self.zeros.tables]
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
    """SHA-256 of keys, patterns, counts, population size and possible cells
    (`CellTable.fingerprint`)."""

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


def _as_written(value: Any) -> str:
    """Write an option so that it is read back as what it was."""
    if isinstance(value, bool):
        return str(value).lower()
    # A text that looks like a number or a truth value stands in quotes.
    plain = not isinstance(value, str) or toml_value(value) == value
    return str(value) if plain else toml_literal(value)


def _relative(path: Path, folder: Path) -> str:
    folder = Path(os.path.abspath(folder))
    try:
        shared = Path(os.path.commonpath([path, folder]))
    except ValueError:
        return str(path)
    return str(path) if shared == Path(shared.anchor) else os.path.relpath(path, folder)
