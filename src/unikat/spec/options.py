"""The options of the commands: each defined once, for the command line and for Python alike.

Every option is a field of a `TypedDict`. Its annotation says what Python accepts; its `Option` says
how the command line shows it and where it goes in the specification, which has its default.

Nothing is imported here that takes time, so that `unikat --help` answers at once.
"""

from __future__ import annotations

import os
import typing
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, TypedDict

if TYPE_CHECKING:
    from pydantic import BaseModel

File: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Option:
    """How one option is shown, and where it goes."""

    metavar: str
    help: str
    place: str = ""
    """Where its value goes in the specification, as `table.name`; empty: under its own name."""
    default: str = ""
    """What happens without it, where the specification has no single value to show."""

    def path(self, name: str) -> tuple[str, ...]:
        """Where the value of the option of this name goes in the specification."""
        return tuple((self.place or name).split("."))


class KeyOptions(TypedDict, total=False):
    """Which variables an intruder may know."""

    keys: Annotated[
        str | Sequence[str],
        Option(
            "A,B,C",
            "Key variables, those an intruder may know. Numbers can be grouped: "
            "'AGE:width(5)', 'INCOME:quantile(10)', 'X:cut(0,10)'.",
            default="required",
        ),
    ]


class PopulationOptions(TypedDict, total=False):
    """The population."""

    population_size: Annotated[
        int | str,
        Option(
            "N",
            "Units in the population from which the sample was drawn. Can be left out where "
            "weights, strata or margins tell it.",
        ),
    ]


class ModelOptions(TypedDict, total=False):
    """The model, and its options that have a name of their own."""

    model: Annotated[
        Any,
        Option(
            "MODEL",
            "Statistical model, with its options after colons: gom:components=30. auto selects "
            "among several, and its interval covers the model's own error.",
            default="auto",
        ),
    ]
    terms: Annotated[
        str,
        Option(
            "TEXT",
            "Terms of a log-linear model: independence, two-way, three-way, select, or terms such "
            "as 'A + B:C'.",
            "model.terms",
        ),
    ]
    random: Annotated[
        str, Option("KIND", "Random effects of mixed-effects: none, normal or dp.", "model.random")
    ]
    mean: Annotated[
        str, Option("KIND", "Mean of the random effects: zero or unknown.", "model.mean")
    ]
    fixed: Annotated[
        str, Option("KIND", "Fixed effects: none, independence or two-way.", "model.fixed")
    ]
    empirical: Annotated[
        bool,
        Option("", "Fixed effects at their maximum likelihood estimate.", "model.empirical"),
    ]
    set: Annotated[
        Mapping[str, Any] | Sequence[str],
        Option("NAME=VALUE", "Any other option of the model; in Python a mapping.", "model"),
    ]


class ReadingOptions(TypedDict, total=False):
    """How the file is read."""

    missing: Annotated[
        Literal["integrate", "level", "wildcard"],
        Option(
            "HOW",
            "Missing keys: integrate over them, take missing as a level, or as a wildcard.",
            "data.missing",
        ),
    ]
    missing_values: Annotated[
        str | Sequence[str | int | float] | Mapping[str, Any],
        Option("A,B", "Codes that mean missing.", "data.missing_values", default="none"),
    ]
    codebook: Annotated[
        File | Mapping[str, Any],
        Option("FILE", "Levels, labels and missing codes.", "data.codebook"),
    ]
    format: Annotated[str, Option("NAME", "File format, if its name does not say.", "data.format")]
    encoding: Annotated[
        str, Option("NAME", "Character encoding.", "data.encoding", default="utf-8")
    ]
    delimiter: Annotated[
        str, Option("C", "Character between columns; tab for a tab.", "data.delimiter")
    ]
    decimal: Annotated[
        Literal[".", ","],
        Option(
            "C",
            "Character before the decimals of numbers in a text file, a point or a comma.",
            "data.decimal",
            default="as the file has it",
        ),
    ]
    sheet: Annotated[str, Option("NAME", "Sheet of a workbook (.xlsx, .ods).", "data.sheet")]
    table: Annotated[
        str,
        Option(
            "NAME",
            "Table of a database (.sqlite, .duckdb), or data frame of an .RData file.",
            "data.table",
        ),
    ]
    memory_limit: Annotated[
        str,
        Option(
            "SIZE",
            "Memory for reading and counting the records; beyond it the disk is used.",
            "data.memory_limit",
            default="1GB",
        ),
    ]


class DesignOptions(TypedDict, total=False):
    """How the sample was drawn."""

    weights: Annotated[
        str,
        Option(
            "COLUMN",
            "Weights: the units of the population that each record stands for. They sum to the "
            "population size.",
            "design.weights",
        ),
    ]
    inclusion: Annotated[
        str,
        Option("COLUMN", "Inclusion probabilities, instead of weights.", "design.inclusion"),
    ]
    strata: Annotated[
        str,
        Option("COLUMN", "Strata, within which units had equal chances.", "design.strata"),
    ]
    stratum_sizes: Annotated[
        File | Mapping[str, int],
        Option(
            "FILE",
            "Units of the population in each stratum: a text file with a stratum and its size on "
            "each line, below a header. Without it the sums of the weights.",
            "design.stratum_sizes",
        ),
    ]
    relative_weights: Annotated[
        bool,
        Option(
            "",
            "Weights are known up to a factor: scale them to the population size.",
            "design.relative_weights",
        ),
    ]
    household: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Columns that together identify the household, if whole households were sampled and "
            "not single persons. With --classics also the household risk.",
            "design.household",
            default="none",
        ),
    ]


class RelativeOptions(TypedDict, total=False):
    """What is known of a person's relatives."""

    relatives: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Keys of relatives in the household that an intruder may know too, such as "
            "head.AGE,spouse.AGE (with --household and --roles).",
            "relatives.keys",
            default="none",
        ),
    ]
    roles: Annotated[
        str | Mapping[str, str],
        Option(
            "ROLES",
            "Who is which relative: 'head: REL == 1; spouse: REL == 2'.",
            "relatives.roles",
            default="none",
        ),
    ]


class HouseholdOptions(TypedDict, total=False):
    """What a household is, for the model `households`."""

    household_keys: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Keys that all members of a household share (with --model households).",
            "households.keys",
            default="none",
        ),
    ]
    population_households: Annotated[
        int | str,
        Option(
            "N",
            "Households in the population. Can be left out where weights tell it.",
            "households.population",
        ),
    ]
    head: Annotated[
        str, Option("RULE", "A rule that is true of the head alone: 'REL == 1'.", "households.head")
    ]
    head_keys: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Keys of which the head's value is taken as the household's.",
            "households.head_keys",
            default="none",
        ),
    ]
    household_file: Annotated[
        File,
        Option(
            "FILE",
            "File with a row for each household, which has the keys of --household-keys.",
            "households.path",
        ),
    ]
    scattered: Annotated[
        bool, Option("", "Members of a household are not neighbours.", "households.scattered")
    ]


class MarginOptions(TypedDict, total=False):
    """Known counts of the population."""

    margins: Annotated[
        Any,
        Option(
            "FILE,FILE",
            "Exact counts of the population over some of the keys, such as a census table by age "
            "and sex: a column for each of these keys, and one of counts. Several files are "
            "several margins. In Python also frames.",
            default="none",
        ),
    ]


class RuleOptions(TypedDict, total=False):
    """Rules of what is impossible."""

    zeros: Annotated[
        File | Sequence[str] | Mapping[str, Any],
        Option(
            "FILE",
            "Structural zeros (impossible combinations): a file of rules (.toml) or a table of "
            "conditions; in Python also a list of rules.",
        ),
    ]


class ZerosOptions(RuleOptions, total=False):
    """Impossible combinations, and records that have one."""

    zeros_conflict: Annotated[
        Literal["stop", "drop", "missing"],
        Option(
            "HOW",
            "Records that break a rule: stop; drop them; or set the keys of the rule missing in "
            "them.",
            "zeros.on_conflict",
            default="stop",
        ),
    ]


class ClassicsOptions(TypedDict, total=False):
    """The classic measures, and a registry."""

    classics: Annotated[
        bool,
        Option("", "Also k-anonymity, individual risk, SUDA2 and estimates of population uniques."),
    ]
    sensitive: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Sensitive variables, for l-diversity and t-closeness (with --classics).",
            "classics.sensitive",
            default="none",
        ),
    ]
    registry: Annotated[
        Any,
        Option(
            "FILE",
            "Registered units that share the keys: how many of them are unique in the population, "
            "estimated from the survey. In Python also a frame.",
            "registry.path",
        ),
    ]


class SamplingOptions(TypedDict, total=False):
    """Chains, seed, and when to stop."""

    chains: Annotated[int, Option("N", "Chains of each fit.", "sampling.chains")]
    seed: Annotated[int, Option("N", "The same seed gives the same numbers.", "sampling.seed")]
    thin: Annotated[
        int,
        Option("N", "Sweeps per kept draw.", "sampling.thin", default="chosen by the sampler"),
    ]
    rhat: Annotated[
        float, Option("R", "A fit continues until R-hat is at most this.", "sampling.rhat")
    ]
    ess: Annotated[
        float,
        Option(
            "N", "A fit continues until effective sample sizes are at least this.", "sampling.ess"
        ),
    ]
    max_sweeps: Annotated[
        int,
        Option(
            "N",
            "Stop a fit after so many sweeps of a chain.",
            "sampling.max_sweeps",
            default="200000",
        ),
    ]
    max_seconds: Annotated[
        float,
        Option(
            "S",
            "Stop a fit after so many seconds; with auto, the last one. Its numbers then depend on "
            "the machine.",
            "sampling.max_seconds",
        ),
    ]
    workers: Annotated[
        int,
        Option("N", "Processes.", "sampling.workers", default="one per chain or core"),
    ]
    threads: Annotated[
        int,
        Option("N", "Threads of each process.", "sampling.threads", default="cores per process"),
    ]


class LevelOptions(TypedDict, total=False):
    """Intervals."""

    level: Annotated[float | str, Option("P", "Probability of the intervals.")]


class AssessOptions(
    KeyOptions,
    PopulationOptions,
    ModelOptions,
    ReadingOptions,
    DesignOptions,
    RelativeOptions,
    HouseholdOptions,
    MarginOptions,
    ZerosOptions,
    ClassicsOptions,
    SamplingOptions,
    total=False,
):
    """Options of `unikat assess` and `unikat.assess`."""

    level: Annotated[float | str, Option("P", "Probability of the intervals.", "report.level")]
    show_small_cells: Annotated[
        bool,
        Option(
            "",
            "Print the values of the records at greatest risk in the report.",
            "report.show_small_cells",
        ),
    ]
    threshold: Annotated[
        str,
        Option(
            "TEXT",
            "Largest acceptable risk, as 'tau1 <= 5' or 'tau2 <= 10'. The report says whether it "
            "is met, by the interval.",
            "report.threshold",
        ),
    ]
    by: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Columns by which the report breaks the risk down, such as a region; the keys are "
            "always broken down.",
            "report.by",
            default="none",
        ),
    ]


class _ComparedOptions(TypedDict, total=False):
    models: Annotated[
        str | Sequence[Any],
        Option(
            "A,B,C",
            "Models with their options: hdp,hdp:alpha=per-record,'loglinear:terms=A + B:C'.",
            default="required",
        ),
    ]
    path: Annotated[
        str | Mapping[str, Any],
        Option(
            "OPTION=1,2,3",
            "Fit each model that has this option with each of these values, to see from which "
            "value on τ1 is stable.",
        ),
    ]
    held_out: Annotated[
        float | str,
        Option(
            "SHARE",
            "Share of the records to leave out and predict, as 0.2 or 20%; 0 for none.",
        ),
    ]


class CompareOptions(
    KeyOptions,
    PopulationOptions,
    _ComparedOptions,
    ReadingOptions,
    DesignOptions,
    MarginOptions,
    ZerosOptions,
    SamplingOptions,
    LevelOptions,
    total=False,
):
    """Options of `unikat compare` and `unikat.compare`."""


class _StudyOptions(TypedDict, total=False):
    n: Annotated[
        int | str | Sequence[int | str],
        Option(
            "N,N,...",
            "Sizes of the samples, in units or as shares of the population, with commas between "
            "sizes, not in them: 1000,5%.",
            default="required",
        ),
    ]
    repeats: Annotated[int | str, Option("N", "Samples of each size.")]
    models: Annotated[
        str | Sequence[Any],
        Option(
            "A,B,...",
            "Models, with options after colons: hdp,gom:components=30,'loglinear:terms=A + B:C'.",
            default="hdp",
        ),
    ]
    design: Annotated[
        Literal["simple", "bernoulli", "stratified", "pps", "households"],
        Option(
            "HOW",
            "simple (without replacement), bernoulli, stratified, pps (with probabilities in "
            "proportion to a size), or households (whole households).",
        ),
    ]
    strata: Annotated[str, Option("COLUMN", "Column of the strata.")]
    allocation: Annotated[
        Literal["proportional", "equal", "power"],
        Option("HOW", "How strata share a sample: proportional, equal, or power (of their sizes)."),
    ]
    power: Annotated[
        float,
        Option(
            "Q",
            "Power of the strata's sizes, from 0 to 1, for --allocation power.",
            default="0.5",
        ),
    ]
    size: Annotated[str, Option("COLUMN", "Column of the units' sizes, for --design pps.")]
    household: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Columns that together identify the household, for --design households.",
            default="none",
        ),
    ]
    levels: Annotated[
        Literal["population", "sample"],
        Option(
            "WHOSE",
            "Levels of the keys that models know: all of the population, as from a codebook, or "
            "those of the sample.",
        ),
    ]


class EvaluateOptions(
    KeyOptions,
    _StudyOptions,
    ReadingOptions,
    ZerosOptions,
    SamplingOptions,
    LevelOptions,
    total=False,
):
    """Options of `unikat evaluate` and `unikat.evaluate`."""


class ZerosCommandOptions(KeyOptions, RuleOptions, ReadingOptions, total=False):
    """Options of `unikat zeros`."""


@dataclass(frozen=True)
class Defined:
    """An option with its name and the type that Python accepts."""

    name: str
    kind: Any
    option: Option

    @property
    def flag(self) -> bool:
        """Whether the command line gives it without a value."""
        return self.kind is bool


def options_of(kind: Any) -> list[Defined]:
    """List the options of a command, in the order of its help."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = []
    for name, hint in hints.items():
        accepted, option = typing.get_args(hint)[:2]
        found.append(Defined(name, accepted, option))
    return found


def default_of(defined: Defined, specification: type[BaseModel]) -> Any:
    """Return the value that the specification has without the option; None if it has none."""
    table: Any = specification
    for part in (path := defined.option.path(defined.name)):
        fields = getattr(table, "model_fields", {})
        if part not in fields:
            return None
        field = fields[part]
        if part != path[-1]:
            kinds = (field.annotation, *typing.get_args(field.annotation))
            table = next((kind for kind in kinds if hasattr(kind, "model_fields")), None)
    value = field.get_default(call_default_factory=True)
    # A table of its own, such as that of the model, and an empty list are no values to show.
    return None if hasattr(type(value), "model_fields") or value == () else value
