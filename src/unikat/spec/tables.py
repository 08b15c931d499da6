"""The tables of a specification, as TOML files hold them: data, design, sampling, report."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, Self

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from unikat.errors import SpecError, check_column_name, has_surrogates, shown
from unikat.language.keys import split_keys
from unikat.spec.addresses import checked_address, database_name
from unikat.spec.level_kinds import Dates, LevelGroups, LevelKinds
from unikat.spec.limits import Limit
from unikat.spec.missing import Code, read_missing_values
from unikat.spec.models import either, models_with
from unikat.spec.option import Asked, Option, plain
from unikat.spec.paths import OfUser, is_path
from unikat.spec.small_files import read_stratum_sizes
from unikat.spec.terms import Terms
from unikat.spec.values import Language, Level, Names, Table, Whole


class FileSpec(Table):
    """A file of records, and how it is read."""

    path: Path | None = None
    """The file; relative paths count from where the specification lies."""
    format: Annotated[
        str | None, Option("NAME", "File format, if its name does not say.", form="file")
    ] = None
    delimiter: Annotated[
        str | None,
        BeforeValidator(lambda value: "\t" if value in ("tab", "\\t") else value),
        Option("C", "Character between columns; tab for a tab.", accepts="str | None", form="file"),
    ] = None
    encoding: Annotated[str | None, Option("NAME", "Character encoding.", "utf-8", form="file")] = (
        None
    )
    decimal: Annotated[
        Literal[".", ","] | None,
        Option(
            "C",
            "Character before the decimals of numbers in a text file, a point or a comma.",
            "as the file has it",
            form="file",
        ),
    ] = None
    """What stands before the decimals in texts; None finds it out where it is unambiguous."""
    sheet: Annotated[
        str | None, Option("NAME", "Sheet of a workbook (.xlsx, .ods).", form="file")
    ] = None
    table: Annotated[
        str | None,
        Option(
            "NAME",
            "Table of a database (PostgreSQL, .sqlite, .duckdb), or data frame of an .RData file.",
            form="file",
        ),
    ] = None
    query: Annotated[
        str | None,
        OfUser,
        Option(
            "SQL",
            "Query of a database (PostgreSQL, .sqlite, .duckdb) in place of a table.",
            form="file",
        ),
    ] = None


def _safe_address(address: str | None) -> str | None:
    try:
        return None if address is None else checked_address(address)
    except SpecError as error:
        raise ValueError(str(error).rstrip(".")) from None


class DataSpec(FileSpec):
    """The `[data]` table: which file or database, and how to read it."""

    database: Annotated[str | None, AfterValidator(_safe_address), OfUser] = None
    """Address of a database on a server, without a password; in place of a path."""
    memory_limit: Annotated[
        str | None,
        Option(
            "SIZE",
            "Memory for reading and counting the records; beyond it the disk is used.",
            "1GB",
        ),
    ] = None
    codebook: Annotated[
        Path | dict[str, Any] | None,
        Option(
            "FILE",
            "Levels, labels and missing codes.",
            accepts="str | PathLike[str] | Mapping[str, Any] | None",
            form="keys",
        ),
    ] = None
    missing: Annotated[
        Literal["integrate", "level", "wildcard"],
        Option(
            "HOW",
            "Missing keys: integrate over them, take missing as a level, or as a wildcard.",
            form="keys",
        ),
    ] = "integrate"
    missing_values: Annotated[
        tuple[Code, ...] | dict[str, Code | tuple[Code, ...]],
        Option(
            "A,B",
            "Codes that mean missing: of all keys, or by key, as in 'AGE: -1,999; SEX: 9'.",
            first=True,
            accepts="str | Sequence[str | int | float] | Mapping[str, Any]",
            read=read_missing_values,
            form="keys",
        ),
    ] = ()
    """Values that mean missing, besides the format's own."""
    levels: LevelKinds = Field(default={})
    groups: LevelGroups = Field(default={})
    dates: Dates = Field(default={})

    @property
    def name(self) -> str | None:
        """What reports call the data: the name of the file or table; None of a frame."""
        if self.path is not None:
            return self.path.name
        if self.database is None:
            return None
        return f"{self.table or 'a query'} in {database_name(self.database)}"

    def of_columns(self, columns: Collection[str]) -> Self:
        """Keep the missing codes, kinds of levels, groups and forms of dates of these columns."""
        codes = self.missing_values
        if isinstance(codes, dict):
            codes = {name: one for name, one in codes.items() if name in columns}
        levels = {name: kind for name, kind in self.levels.items() if name in columns}
        groups = {name: one for name, one in self.groups.items() if name in columns}
        dates = {name: form for name, form in self.dates.items() if name in columns}
        new = {"missing_values": codes, "levels": levels, "groups": groups, "dates": dates}
        return self.model_copy(update=new)

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


def _read_stratum_sizes(value: Any, _: Asked) -> Any:
    if is_path(value):
        return read_stratum_sizes(Path(value))
    return {str(stratum): size for stratum, size in plain(value).items()}


class DesignSpec(Table):
    """The `[design]` table: how the sample was drawn. Names are those of columns of the file.

    Examples
    --------
    >>> DesignSpec(strata="REGION", stratum_sizes={"north": 4000}).stratum_sizes
    {'north': 4000}
    """

    weights: Annotated[
        str | None,
        Option(
            "COLUMN",
            "Weights: the units that each record stands for, in sum the population size. In "
            "Python also values.",
            first=True,
            accepts="str | ArrayLike | None",
            values=True,
            form="keys",
        ),
    ] = None
    inclusion: Annotated[
        str | None,
        Option("COLUMN", "Inclusion probabilities, instead of weights.", rare=True, form="keys"),
    ] = None
    strata: Annotated[
        str | None,
        Option(
            "COLUMN",
            "Strata, within which units had equal chances. In Python also the values.",
            form="keys",
            accepts="str | ArrayLike | None",
            values=True,
        ),
    ] = None
    stratum_sizes: Annotated[
        dict[str, int] | None,
        Option(
            "FILE",
            "Units of the population in each stratum: a text file with a stratum and its size on "
            "each line, below a header. Without it the sums of the weights.",
            accepts="str | PathLike[str] | Mapping[str, int] | None",
            read=_read_stratum_sizes,
            form="keys",
        ),
    ] = None
    relative_weights: Annotated[
        bool,
        Option(
            "", "Weights are known up to a factor: scale them to the population size.", form="keys"
        ),
    ] = False
    household: Annotated[
        Names,
        Option(
            "A,B",
            "Columns that together identify the household, if whole households were sampled.",
            first=True,
            form="keys",
        ),
    ] = ()

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

    sensitive: Annotated[
        Names,
        Option(
            "A,B",
            "Sensitive variables, for l-diversity and t-closeness (with --classics).",
            form="run",
        ),
    ] = ()
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


class ReleaseSpec(FileSpec):
    """The `[release]` table: another release of the same persons; by path or frame."""

    keys: Annotated[
        Names,
        Option(
            "A,B",
            "Keys that the other release adds to those of FILE, as for --keys.",
            name="release_keys",
            form="keys",
        ),
    ] = ()
    shared: Annotated[
        Names,
        Option(
            "A,B",
            "Keys of FILE by which an intruder links the two releases.",
            "those that the other release has, too",
            form="keys",
        ),
    ] = ()
    id: Annotated[
        Names,
        Option(
            "A,B",
            "Columns of both releases that together say who is who, which the owner knows and no "
            "intruder. Without them both releases have the same persons.",
            name="release_id",
            form="keys",
        ),
    ] = ()

    @model_validator(mode="after")
    def _adds_keys(self) -> Self:
        if not self.keys:
            raise ValueError(
                "another release is named, but no key that it adds; name them with --release-keys"
            )
        return self


class MarginSpec(FileSpec):
    """An entry of `[[margins]]`: a file of known counts over some of the keys; by path or frame."""


def several_files(value: object) -> object:
    """Tables of one or several files: of paths, of paths in one text with commas, or of frames."""
    if isinstance(value, str):
        value = split_keys(value)
    listed = value if isinstance(value, (list, tuple)) else [value]
    return [{"path": one} if isinstance(one, str) else one for one in listed]


Margins = Annotated[
    tuple[MarginSpec, ...],
    BeforeValidator(several_files),
    Option(
        "FILE,FILE",
        "Exact counts of the population over some of the keys, such as a census table by age and "
        "sex: a column for each of these keys, and one of counts. Several files are several "
        "margins. In Python also frames.",
        accepts="Any",
        form="keys",
    ),
]
"""Files of known counts; one text may name several, with commas between."""
SeveralFiles = Annotated[tuple[FileSpec, ...], BeforeValidator(several_files)]
"""Files of records, named likewise."""


class SamplingSpec(Table):
    """The `[sampling]` table: chains, seed, and when to stop."""

    chains: Annotated[int, Option("N", "Chains of each fit.", form="run", label="Chains")] = Field(
        default=4, ge=1, le=1024
    )
    seed: Annotated[
        int,
        Option("N", "The same seed gives the same numbers.", first=True, form="run", label="Seed"),
    ] = Field(default=1, ge=0, lt=2**63)
    thin: Annotated[
        int | None, Option("N", "Sweeps per kept draw.", "chosen by the sampler", rare=True)
    ] = Field(default=None, ge=1, le=500_000_000)
    max_sweeps: Annotated[
        Whole | None,
        Option(
            "N",
            "Stop a fit after so many sweeps of a chain.",
            "200000",
            form="run",
            label="Most sweeps of a chain",
        ),
    ] = Field(default=None, ge=2, le=1_000_000_000)
    """Two draws are the fewest that make an interval."""
    max_seconds: Annotated[
        float | None,
        Option(
            "S",
            "Stop a fit after so many seconds; with auto, the last one. Its numbers then depend on "
            "the machine.",
            form="run",
            label="Most seconds of a fit",
        ),
    ] = Field(default=None, gt=0, le=31_622_400)
    rhat: Annotated[
        float, Option("R", "A fit continues until R-hat is at most this.", rare=True)
    ] = Field(default=1.01, gt=1, le=1_000_000)
    ess: Annotated[
        float,
        Option("N", "A fit continues until effective sample sizes are at least this.", rare=True),
    ] = Field(default=400, gt=0, le=1_000_000_000)
    """In bulk and tails, of τ1 and τ2."""
    workers: Annotated[
        int | None,
        Option("N", "Processes.", "one per chain or core", form="run", label="Processes"),
    ] = Field(default=None, ge=1, le=1024)
    """Has no influence on the numbers."""
    threads: Annotated[int | None, Option("N", "Threads of each process.", "cores per process")] = (
        Field(default=None, ge=1, le=256)
    )
    """Has no influence on the numbers."""
    executor: Annotated[
        str,
        OfUser,
        Option(
            "NAME",
            "What runs the chains, and the samples of evaluate: processes, dask or mpi; "
            "dask:ADDRESS or ray:ADDRESS is a cluster that runs already.",
        ),
    ] = "processes"
    """Has no influence on the numbers."""
    device: Annotated[
        Literal["cpu", "cuda"],
        Option(
            "NAME",
            f"What computes {either(models_with(on_gpu=True))}: cpu, or cuda for a GPU of NVIDIA. "
            "Other models take the CPU.",
        ),
    ] = "cpu"
    """Has no influence on the numbers but rounding."""

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


class PageSpec(Table):
    """The `[report]` table: how the results are shown."""

    level: Level = Field(default=0.95, gt=0, lt=1)
    language: Annotated[
        Language,
        Option(
            "CODE",
            "Language of the report, of the pages for a committee and of their sentences: en, es, "
            "fr or de.",
            "en",
            form="run",
            label="Language of the report",
        ),
    ] = "en"
    terms: Terms = None


class ReportSpec(PageSpec):
    """The `[report]` table of an assessment: what the results show besides."""

    show_small_cells: Annotated[
        bool,
        Option("", "Print the values of the records at greatest risk in the report.", form="run"),
    ] = False
    threshold: Annotated[
        str | None,
        Option(
            "TEXT",
            "Limit of the risk, as 'tau1 <= 5' or 'tau2 <= 10' (upper end of the interval), "
            "'tau1_estimate <= 5', 'r1 <= 0.2' or 'k >= 3'. The report says whether it is met; "
            "exit code 3 if it is not, or not known.",
            first=True,
            form="run",
        ),
    ] = None
    by: Annotated[
        Names,
        Option(
            "A,B",
            "Columns by which the report breaks the risk down, such as a region; the keys are "
            "always broken down.",
            form="run",
        ),
    ] = ()
    keep_states: Annotated[
        bool,
        Option(
            "",
            "Keep the last states of the chains beside the results, so that recodings can be "
            "looked at later without another fit. They are as confidential as the data.",
        ),
    ] = False

    @field_validator("threshold", mode="before")
    @classmethod
    def _written(cls, limit: Any) -> Any:
        # So that the message says how a limit is written.
        return str(limit) if isinstance(limit, (int, float)) else limit

    @field_validator("threshold")
    @classmethod
    def _of_known_form(cls, text: str | None) -> str | None:
        return None if text is None else str(Limit.of_file(text))

    @field_validator("by")
    @classmethod
    def _each_once(cls, names: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(dict.fromkeys(names))
