"""The options that say what the data are: keys, population, how a file is read, design, rules."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from unikat.spec.option import File, Option


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


class MissingOptions(TypedDict, total=False):
    """What a missing key is."""

    missing: Annotated[
        Literal["integrate", "level", "wildcard"],
        Option(
            "HOW",
            "Missing keys: integrate over them, take missing as a level, or as a wildcard.",
            "data.missing",
        ),
    ]


class FileOptions(TypedDict, total=False):
    """How the file is read."""

    missing_values: Annotated[
        str | Sequence[str | int | float] | Mapping[str, Any],
        Option(
            "A,B",
            "Codes that mean missing: of all keys, or by key, as in 'AGE: -1,999; SEX: 9'.",
            "data.missing_values",
            default="none",
        ),
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
            "Table of a database (PostgreSQL, .sqlite, .duckdb), or data frame of an .RData file.",
            "data.table",
        ),
    ]
    query: Annotated[
        str,
        Option(
            "SQL",
            "Query of a database (PostgreSQL, .sqlite, .duckdb) in place of a table.",
            "data.query",
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
    trust_spec: Annotated[
        bool,
        Option(
            "",
            "Let a specification or file of rules name files outside of its folder, databases, "
            "queries and clusters. Only if you know who wrote it: otherwise they count only as "
            "options.",
        ),
    ]


class ReadingOptions(MissingOptions, FileOptions, total=False):
    """What is read of the file, and how."""


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


class GroupingOptions(TypedDict, total=False):
    """How persons form households."""

    household_keys: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Keys that all members of a household share (with --model households).",
            "households.keys",
            default="none",
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
    scattered: Annotated[
        bool, Option("", "Members of a household are not neighbours.", "households.scattered")
    ]


class HouseholdOptions(GroupingOptions, total=False):
    """What a household is, for the model `households`."""

    population_households: Annotated[
        int | str,
        Option(
            "N",
            "Households in the population. Can be left out where weights tell it.",
            "households.population",
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
