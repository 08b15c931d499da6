"""The options of `unikat verify` and `unikat.verify`; see :mod:`unikat.spec.options`."""

from __future__ import annotations

from typing import Annotated, Any, TypedDict

from unikat.spec.data_options import DesignOptions, KeyOptions, PopulationOptions, ReadingOptions
from unikat.spec.option import Option
from unikat.spec.options import ModelOptions, SamplingOptions


class _VerifiedOptions(TypedDict, total=False):
    protected: Annotated[
        Any,
        Option(
            "FILE",
            "The protected file. In Python also a frame.",
            "protected.path",
            default="required",
        ),
    ]
    id: Annotated[
        str,
        Option(
            "COLUMN",
            "Column by whose values records of the two files are matched.",
            default="by their order",
        ),
    ]
    target: Annotated[
        str,
        Option(
            "TEXT",
            "What the protected file has to reach, as for `unikat.protect`: 'tau1 <= 5'.",
            default="none",
        ),
    ]


class VerifyOptions(
    KeyOptions,
    PopulationOptions,
    _VerifiedOptions,
    ModelOptions,
    ReadingOptions,
    DesignOptions,
    SamplingOptions,
    total=False,
):
    """Options of `unikat.verify`, and of `unikat verify`."""

    level: Annotated[float | str, Option("P", "Probability of the intervals.", "report.level")]
