"""The options of `unikat synthesize`; see :mod:`unikat.spec.options`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, TypedDict

from unikat.spec.data_options import (
    DesignOptions,
    GroupingOptions,
    KeyOptions,
    ReadingOptions,
    ZerosOptions,
)
from unikat.spec.option import Option
from unikat.spec.options import LevelOptions, SamplingOptions


class _ModelOptions(TypedDict, total=False):
    model: Annotated[
        Any,
        Option(
            "MODEL",
            "hdp, latent-class or gom, with options after colons: gom:components=30; or "
            "households, for whole households.",
            default="hdp",
        ),
    ]
    set: Annotated[
        Mapping[str, Any] | Sequence[str],
        Option("NAME=VALUE", "Any other option of the model; in Python a mapping.", "model"),
    ]


class _DrawingOptions(TypedDict, total=False):
    datasets: Annotated[int | str, Option("N", "Synthetic files, at least 2.")]
    replace: Annotated[
        str | Sequence[str],
        Option(
            "A,B",
            "Keys whose values alone are drawn, given all others of the record or household.",
            default="all keys",
        ),
    ]
    method: Annotated[
        Literal["truncated", "untruncated", "reject", "flat"],
        Option(
            "HOW",
            "How households are drawn: truncated obeys the rules in fit and drawing. Comparators: "
            "untruncated ignores them; reject ignores them in the fit; flat draws persons by "
            "latent classes and ignores households.",
        ),
    ]
    share: Annotated[
        str | Sequence[str],
        Option(
            "TEXT",
            "Probabilities within households to compare, with semicolons between: 'share(all same "
            "RACE | size = 3); share(spouse present)'.",
            "shares",
            default="none",
        ),
    ]


class SynthesizeOptions(
    KeyOptions,
    _DrawingOptions,
    _ModelOptions,
    ReadingOptions,
    DesignOptions,
    GroupingOptions,
    ZerosOptions,
    SamplingOptions,
    LevelOptions,
    total=False,
):
    """Options of `unikat synthesize` and `unikat.synthesize`."""
