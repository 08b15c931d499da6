"""The options of `unikat attack`; see :mod:`unikat.spec.options`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypedDict

from unikat.spec.data_options import (
    GroupingOptions,
    KeyOptions,
    PopulationOptions,
    ReadingOptions,
    RuleOptions,
)
from unikat.spec.option import File, Option
from unikat.spec.options import LevelOptions, SamplingOptions


class _AttackedOptions(TypedDict, total=False):
    synthetic: Annotated[
        Any,
        Option(
            "DIR|FILE,FILE",
            "Synthetic files, of any generator, or the folder of unikat synthesize. In Python "
            "also frames.",
            default="required",
        ),
    ]
    control: Annotated[
        Any,
        Option(
            "FILE",
            "Records of the same population that the generator never saw. What an intruder learns "
            "of them is the baseline. In Python also a frame.",
            "control.path",
        ),
    ]
    targets: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Variables that an intruder wants to learn from the keys.",
            default="each key from the other keys",
        ),
    ]
    link: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Keys of one of two sources that an intruder wants to link; the other keys are those "
            "of the other source.",
            default="the first half of the keys",
        ),
    ]
    attacks: Annotated[
        int | str,
        Option("N", "Records that are attacked one by one, where that takes a search."),
    ]
    model: Annotated[
        Any,
        Option(
            "MODEL",
            "Mixture model of the generator, with its options (latent-class, or households for "
            "whole households): also an intruder who knows it, and all records but one. And the "
            "model by which τ1 is estimated with --population-size.",
            default="no such intruder; latent-class for τ1",
        ),
    ]
    household: Annotated[
        str | Sequence[str],
        Option(
            "COLUMN",
            "Columns that together identify the household: intervals then take its persons "
            "together. With --model households the synthetic files have them too.",
            default="none",
        ),
    ]
    population: Annotated[
        Any,
        Option(
            "FILE",
            "The whole population, where it is known: which claims about synthetic uniques are "
            "true. In Python also a frame.",
            "population.path",
        ),
    ]
    risk: Annotated[
        File,
        Option(
            "DIR",
            "Folder of an assessment of the original: its record risks say how many claims about "
            "synthetic uniques are true.",
            "risk.path",
        ),
    ]


class AttackOptions(
    KeyOptions,
    _AttackedOptions,
    GroupingOptions,
    PopulationOptions,
    ReadingOptions,
    RuleOptions,
    SamplingOptions,
    LevelOptions,
    total=False,
):
    """Options of `unikat attack` and `unikat.attack`."""
