"""The tables of a specification, as TOML files hold them: data, design, zeros, model, sampling."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)

from unikat.errors import (
    SpecError,
    all_problems,
    brief,
    check_column_name,
    has_surrogates,
    may_be_address,
    shown,
)
from unikat.files.toml import read_toml, toml_literal, toml_value
from unikat.spec.addresses import checked_address, database_name
from unikat.spec.limits import Limit
from unikat.spec.paths import OfUser, located_path, with_paths
from unikat.spec.splitting import split_keys
from unikat.spec.trust import FOREIGN, Trust

Code = str | int | float


def _of_percent(value: object) -> object:
    """Read `20%` as 0.2, exactly as if that had been written."""
    text = re.fullmatch(r"\s*([0-9]+(\.[0-9]+)?)\s*%\s*", value) if isinstance(value, str) else None
    return float(Fraction(text[1]) / 100) if text else value


Share = Annotated[float, BeforeValidator(_of_percent)]
"""A share of a whole; a text may give it in percent."""


def whole_number(value: object) -> object:
    """Read a number as people write large ones: 1000000, 1,000,000, 1_000_000 or 1e6.

    Raises
    ------
    ValueError
        If a text is no such number.

    Examples
    --------
    >>> whole_number("36,970"), whole_number("1e6")
    (36970, 1000000)
    """
    if not isinstance(value, str):
        return value
    text = value.strip()
    if len(text) <= _MOST_DIGITS:
        if re.fullmatch(r"-?[0-9]+|[0-9]{1,3}(,[0-9]{3})+|[0-9]{1,3}(_[0-9]{3})+", text):
            return int(text.replace(",", "").replace("_", ""))
        if re.fullmatch(r"[0-9]+(\.[0-9]+)?[eE]\+?[0-9]{1,2}", text):
            number = Decimal(text)
            if number == int(number):
                return int(number)
    raise ValueError(
        f"{shown(value)} is not a whole number. Commas or underscores may only separate thousands, "
        "and a point stands only before an exponent: write 1000000, 1,000,000, 1_000_000 or 1e6"
    )


_MOST_DIGITS = 40
Whole = Annotated[int, BeforeValidator(whole_number)]
"""A whole number; a text may write it as people write large ones."""


def _listed(names: object) -> object:
    return split_keys(names) if isinstance(names, str) else names


Names = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""A list of names; one text may hold them, with commas between."""


class Table(BaseModel):
    """A table of the specification: names that are not known are refused."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)


class FileSpec(Table):
    """A file of records, and how it is read."""

    path: Path | None = None
    """The file; relative paths count from where the specification lies."""
    format: str | None = None
    """File format; None lets the file's name decide."""
    delimiter: str | None = None
    """Character between the columns of a text file."""
    encoding: str | None = None
    """Character encoding of a text file."""
    decimal: Literal[".", ","] | None = None
    """What stands before the decimals in texts; None finds it out where it is unambiguous."""
    sheet: str | None = None
    """Sheet of a workbook."""
    table: str | None = None
    """Table of a database, or data frame of a file of R."""
    query: Annotated[str | None, OfUser] = None
    """Query of a database, in place of a table."""


def _safe_address(address: str | None) -> str | None:
    try:
        return None if address is None else checked_address(address)
    except SpecError as error:
        raise ValueError(str(error).rstrip(".")) from None


class DataSpec(FileSpec):
    """The `[data]` table: which file or database, and how to read it."""

    database: Annotated[str | None, AfterValidator(_safe_address), OfUser] = None
    """Address of a database on a server, without a password; in place of a path."""
    memory_limit: str | None = None
    """Memory for reading and tabulating, such as 4GB."""
    codebook: Path | dict[str, Any] | None = None
    """File that declares levels and labels, or its content."""
    missing: Literal["integrate", "level", "wildcard"] = "integrate"
    """What a missing key is: unknown, a level of its own, or a match to every level."""
    missing_values: tuple[Code, ...] | dict[str, Code | tuple[Code, ...]] = ()
    """Values that mean missing, besides the format's own: for all keys, or by key."""

    @property
    def name(self) -> str | None:
        """What reports call the data: the name of the file or table; None of a frame."""
        if self.path is not None:
            return self.path.name
        if self.database is None:
            return None
        return f"{self.table or 'a query'} in {database_name(self.database)}"

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        if self.path is not None and self.database is not None:
            raise ValueError("both path and database are given; leave one of them out")
        return self

    @field_validator("missing_values")
    @classmethod
    def _are_texts(cls, codes: Any) -> Any:
        groups = codes.values() if isinstance(codes, dict) else [codes]
        for group in groups:
            for code in group if isinstance(group, tuple) else [group]:
                if isinstance(code, str) and has_surrogates(code):
                    raise ValueError("a missing value holds a character that is not UTF-8")
        return codes


class DesignSpec(Table):
    """The `[design]` table: how the sample was drawn. Names are those of columns of the file.

    Examples
    --------
    >>> DesignSpec(strata="REGION", stratum_sizes={"north": 4000}).stratum_sizes
    {'north': 4000}
    """

    weights: str | None = None
    """Column of weights: the units of the population that each record stands for."""
    inclusion: str | None = None
    """Column of inclusion probabilities, instead of weights."""
    strata: str | None = None
    """Column of strata."""
    stratum_sizes: dict[str, int] | None = None
    """Units of the population by stratum; without them the sums of the weights."""
    relative_weights: bool = False
    """Weights are known up to a factor."""
    household: Names = ()
    """Columns that together identify the household: the sample consists of whole households."""

    @field_validator("household", mode="before")
    @classmethod
    def _some_household(cls, value: object) -> object:
        # An empty text is a variable of a script that was not set; an empty list is the default.
        if isinstance(value, str) and not split_keys(value):
            raise ValueError("no column is named; name the household's column, or leave it out")
        return value

    @field_validator("household")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        if len(set(names)) < len(names):
            raise ValueError("a column is named more than once; name each once")
        return names

    @field_validator("weights", "inclusion", "strata", mode="before")
    @classmethod
    def _named(cls, value: object, info: ValidationInfo) -> object:
        # A number of a file is no column that somebody has at hand.
        if not isinstance(value, (int, float)):
            check_column_name(str(info.field_name), value)
        return value


class ClassicsSpec(Table):
    """The `[classics]` table: the classic measures that are shown beside the model's."""

    sensitive: Names = ()
    """Columns of sensitive variables, for l-diversity and t-closeness."""
    missing_match: float = Field(default=1.0, ge=0, le=1)
    """Weight of a record that matches another only because a key is missing; 0 if it does not."""
    recursion: float = Field(default=2.0, gt=0, le=1_000_000)
    """The constant c of recursive (c, l)-diversity."""
    largest: int | None = Field(default=None, ge=1, le=1_000)
    """Most keys of a minimal sample unique that SUDA2 looks for; None: as many as can be done."""
    dis_fraction: float = Field(default=0.01, gt=0, lt=1)
    """Share of the population in the sample that DIS assumes, as in its original publication."""

    @model_validator(mode="before")
    @classmethod
    def _moved(cls, values: object) -> object:
        if isinstance(values, Mapping) and "household" in values:
            raise ValueError("household has moved; write it under [design]")
        return values


class RegistrySpec(FileSpec):
    """The `[registry]` table: a file of registered units that shares the keys; by path or frame."""


class MarginSpec(FileSpec):
    """An entry of `[[margins]]`: a file of known counts over some of the keys; by path or frame."""


def _several_files(value: object) -> object:
    if isinstance(value, str):
        value = split_keys(value)
    listed = value if isinstance(value, (list, tuple)) else [value]
    return [{"path": one} if isinstance(one, str) else one for one in listed]


Margins = Annotated[tuple[MarginSpec, ...], BeforeValidator(_several_files)]
"""Files of known counts; one text may name several, with commas between."""
SeveralFiles = Annotated[tuple[FileSpec, ...], BeforeValidator(_several_files)]
"""Files of records, named likewise."""


class NamedRule(Table):
    """A rule with a name, under which messages and reports speak of it."""

    rule: str
    name: str | None = None


class ZerosSpec(Table):
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
    roles: dict[str, str] = Field(default_factory=dict)
    """What members of a household the rules may name: a condition on one person by role."""
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

    @field_validator("roles", mode="before")
    @classmethod
    def _conditions(cls, roles: object) -> object:
        for role, condition in roles.items() if isinstance(roles, Mapping) else ():
            if not isinstance(condition, str):
                raise ValueError(
                    f"the condition of {shown(role)} is {shown(condition)}; it must be a text such "
                    "as 'RELATE == \"spouse\"'"
                )
        return roles

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
    def read(
        cls,
        path: str | os.PathLike[str],
        on_conflict: str | None = None,
        trust: Trust = FOREIGN,
    ) -> Self:
        """Read the file that --zeros names: a TOML file of rules, or a table of conditions.

        Parameters
        ----------
        path
            The file; paths in it count from its folder.
        on_conflict
            Goes before what the file says.
        trust
            What counts of the file.

        Raises
        ------
        SpecError
            If it cannot be read, holds anything unknown or wrong, or names a table outside of its
            folder that the user has not allowed.
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
        folder = path.resolve().parent
        if from_toml:
            trust.check(found, str(path), folder)
            found.stands_in(str(path))
        located: Self = with_paths(found, lambda table: located_path(table, folder))
        return located

    def stands_in(self, source: str) -> None:
        """Say in which file the rules stand, unless that is known already."""
        self._source = self._source or source


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
                part = "A part" if may_be_address(text) else repr(brief(setting))
                raise SpecError(
                    f"{part} in the model {brief(text)!r} is not NAME=VALUE; write a "
                    "model with its options as name:option=value:option=value."
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


class SamplingSpec(Table):
    """The `[sampling]` table: chains, seed, and when to stop."""

    chains: int = Field(default=4, ge=1, le=1024)
    seed: int = Field(default=1, ge=0, lt=2**63)
    thin: int | None = Field(default=None, ge=1, le=500_000_000)
    """Sweeps per kept draw; None lets the sampler balance the two."""
    max_sweeps: Whole | None = Field(default=None, ge=2, le=1_000_000_000)
    """Largest number of sweeps of a chain; two draws are the fewest that make an interval."""
    max_seconds: float | None = Field(default=None, gt=0, le=31_622_400)
    """Longest time; a run that stops by time is not reproducible to the last sweep."""
    rhat: float = Field(default=1.01, gt=1, le=1_000_000)
    """Sampling goes on until R-hat of τ1 and τ2 is at most this..."""
    ess: float = Field(default=400, gt=0, le=1_000_000_000)
    """...and bulk and tail effective sample sizes are at least this."""
    workers: int | None = Field(default=None, ge=1, le=1024)
    """Processes; has no influence on the numbers."""
    threads: int | None = Field(default=None, ge=1, le=256)
    """Threads per process; has no influence on the numbers."""
    executor: Annotated[str, OfUser] = "processes"
    """What runs the chains, and the samples of an evaluation: `processes`, `dask`, `mpi`,
    `dask:ADDRESS` or `ray:ADDRESS`; has no influence on the numbers."""

    device: Literal["cpu", "cuda"] = "cpu"
    """What computes sweeps and cell probabilities of `latent-class`, `hdp` and `gom`; has no
    influence on the numbers but rounding."""

    @field_validator("executor")
    @classmethod
    def _known_executor(cls, name: str) -> str:
        if name == "ray":
            raise ValueError(
                "a Ray that is started for this machine alone can be reached from others, so none "
                "is started; take processes or dask, or ray:ADDRESS of a cluster that runs"
            )
        if not re.fullmatch(r"processes|mpi|dask(:\S+)?|ray:\S+", name):
            raise ValueError(
                f"{shown(name)} is not known; it must be processes, dask or mpi, or dask:ADDRESS "
                "or ray:ADDRESS of a cluster that runs"
            )
        return name


class ReportSpec(Table):
    """The `[report]` table: what the results show."""

    level: Share = Field(default=0.95, gt=0, lt=1)
    """Probability of the intervals."""
    show_small_cells: bool = False
    """Print the values of the records at greatest risk; by default only their row numbers."""
    threshold: str | None = None
    """Limit of the risk, as `tau1 <= 5`; the report says whether it is met."""
    by: Names = ()
    """Columns by whose values the report breaks the risk down, besides the keys."""
    keep_states: bool = False
    """Keep the last states of the chains, with which recodings can be looked at later."""

    @field_validator("threshold")
    @classmethod
    def _of_known_form(cls, text: str | None) -> str | None:
        return None if text is None else str(Limit.of_file(text))

    @field_validator("by")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(names))


def _as_written(value: Any) -> str:
    """Write an option so that it is read back as what it was."""
    if isinstance(value, bool):
        return str(value).lower()
    # A text that looks like a number or a truth value stands in quotes.
    plain = not isinstance(value, str) or toml_value(value) == value
    return str(value) if plain else toml_literal(value)
