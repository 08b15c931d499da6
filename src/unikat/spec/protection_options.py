"""The options of `unikat protect`; see :mod:`unikat.spec.options`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, TypedDict

from unikat.spec.data_options import (
    DesignOptions,
    KeyOptions,
    MarginOptions,
    PopulationOptions,
    ReadingOptions,
    ZerosOptions,
)
from unikat.spec.option import File, Option
from unikat.spec.options import ModelOptions, SamplingOptions


class _TargetOptions(TypedDict, total=False):
    target: Annotated[
        str,
        Option(
            "TEXT",
            "What the protected file has to reach: 'tau1 <= 5' or 'tau2 <= 20' (upper end of the "
            "interval), 'tau1_estimate <= 5' (posterior mean), 'r1 <= 0.2' (largest of a record), "
            "'records(r1 > 0.2) <= 10', 'k >= 3' (k-anonymity in the file) or 'population_k >= 5'. "
            "Exit code 3 if it is not met, or not known.",
            default="required, unless --scenarios, --recode, --pram or --swap is given",
        ),
    ]
    scenarios: Annotated[
        File | Sequence[Mapping[str, Any]],
        Option(
            "FILE",
            "Several intruders, the targets of all of whom have to be reached: a TOML file with "
            "[[scenario]] tables of name, keys, target and in_sample. In Python also a list of "
            "mappings.",
            "scenario",
            default="one intruder, who knows all keys",
        ),
    ]
    keep: Annotated[
        str | Sequence[str], Option("A,B", "Keys that stay as they are.", default="none")
    ]
    weights_of_keys: Annotated[
        str | Mapping[str, float],
        Option(
            "A=2,B=0.5",
            "How much the information of each key counts.",
            default="1 for each key",
        ),
    ]
    recodings: Annotated[
        str | Mapping[str, Sequence[Any]],
        Option(
            "TEXT",
            "Recodings of some keys to choose from: 'age: width(5), width(10); region: left out'. "
            "'age: file(age.csv)' takes them from a hierarchy: a level and ever coarser groups in "
            "each row. In Python a mapping of keys to lists, in which a mapping of levels to "
            "groups is a recoding, too.",
            default="made by the program",
        ),
    ]
    recode: Annotated[
        str | Mapping[str, Any],
        Option(
            "TEXT",
            "Do this recoding instead of searching one: 'age: width(10); region: left out'. Keys "
            "that are not named stay as they are. With --target the report says whether it is "
            "reached. In Python a mapping of keys to recodings.",
            default="searched, if there is a target",
        ),
    ]

    tables: Annotated[
        str | Sequence[Sequence[str]],
        Option(
            "TEXT",
            "Tables of your own, by columns: 'age,sex; region,income'. The report says how far "
            "each of them moves.",
            default="those of every two keys",
        ),
    ]


class _SuppressOptions(TypedDict, total=False):
    suppress: Annotated[
        str,
        Option(
            "TEXT",
            "Then set the fewest values missing so that every record reaches 'r1 <= 0.2', or "
            "'k >= 3'. Weights of keys are the costs of their values.",
            default="nothing is suppressed",
        ),
    ]


class _PerturbOptions(TypedDict, total=False):
    pram: Annotated[
        str | Mapping[str, Any],
        Option(
            "TEXT",
            "After recoding replace some values by random ones: 'region: 0.8; education: "
            "matrix.csv'. A number is the probability of keeping a value, and the expected shares "
            "of the levels stay. A file has levels in the first row and column. In Python a "
            "mapping of keys to numbers, nested mappings or pandas frames.",
            default="no value is replaced",
        ),
    ]
    swap: Annotated[
        str | Sequence[str],
        Option(
            "TEXT",
            "After recoding let records at risk exchange these keys with records that are like "
            "them: 'region', 'region, district', or 'region: r1 > 0.2' for those above a risk "
            "only. With --household whole households exchange them.",
            default="nothing is swapped",
        ),
    ]
    perturbation_seed: Annotated[
        int | str,
        Option(
            "N",
            "Seed of --pram and --swap. Keep it to yourself: who knows it can undo them.",
            default="drawn, and written to protect.toml",
        ),
    ]
    swap_match: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Keys in which records that swap agree.",
            default="all keys that are not swapped",
        ),
    ]


class ProtectOptions(
    KeyOptions,
    PopulationOptions,
    _TargetOptions,
    _PerturbOptions,
    _SuppressOptions,
    ModelOptions,
    ReadingOptions,
    DesignOptions,
    MarginOptions,
    ZerosOptions,
    SamplingOptions,
    total=False,
):
    """Options of `unikat protect` and `unikat.protect`."""

    level: Annotated[float | str, Option("P", "Probability of the intervals.", "report.level")]
