"""What `synthesis.toml` holds: everything a synthesis is asked to do."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, field_validator, model_validator

from unikat.spec.assessment import HOUSEHOLDS
from unikat.spec.base import Spec
from unikat.spec.households import HouseholdsSpec
from unikat.spec.tables import DesignSpec, ModelSpec, Names, SamplingSpec, Share, Whole

Method = Literal["truncated", "untruncated", "reject", "flat"]
MODELS = ("latent-class", "hdp", "gom")
"""Models of persons from which records can be drawn."""


def _formulas(value: object) -> object:
    if isinstance(value, str):
        return [part.strip() for part in value.split(";") if part.strip()]
    return value


class SynthesisSampling(SamplingSpec):
    """The `[sampling]` table; the draws serve to make a few files, and no interval."""

    chains: int = Field(default=5, ge=1, le=1024)
    """As many as data sets, so that each has a chain of its own."""
    ess: float = Field(default=100, gt=0, le=1_000_000_000)


class SynthesisSpec(Spec):
    """Everything a synthesis is asked to do, as `synthesis.toml` holds it.

    Examples
    --------
    >>> spec = SynthesisSpec.parse({"keys": "AGE,SEX,REGION", "replace": "AGE"})
    >>> spec.datasets, spec.replace
    (5, ('AGE',))
    """

    command: ClassVar[str] = "synthesize synthesis.toml"
    format_version: Literal["unikat.synthesis-spec/1"] = Field(
        default="unikat.synthesis-spec/1", alias="schema"
    )
    keys: Names = ()
    """Names of the variables that the synthetic files have."""
    datasets: Whole = Field(default=5, ge=2, le=1000)
    """Synthetic files; one alone has no variance between them."""
    replace: Names = ()
    """Keys whose values alone are drawn; empty: all are."""
    method: Method = "truncated"
    """How households are drawn; the other three are comparators."""
    shares: Annotated[Names, BeforeValidator(_formulas)] = ()
    """Probabilities within households: `share(all same RACE | size = 3)`."""
    design: DesignSpec = DesignSpec()
    households: HouseholdsSpec | None = None
    model: ModelSpec = ModelSpec(name="hdp")
    sampling: SynthesisSampling = SynthesisSampling()
    level: Share = Field(default=0.95, gt=0, lt=1)
    """Probability of the intervals."""

    @model_validator(mode="after")
    def _of_households(self) -> Self:
        if self.model.name == HOUSEHOLDS:
            if not self.design.household:
                raise ValueError(
                    f"the model {HOUSEHOLDS} needs to know which persons live together; name the "
                    "column that tells households apart: --household COLUMN"
                )
            if self.data.missing == "wildcard":
                raise ValueError(
                    "--missing wildcard is about the risk of records; take integrate or level"
                )
            if self.households is not None and self.households.path is not None:
                raise ValueError(
                    "keys of households can be written only where they are columns of the data; "
                    "join the two files first"
                )
            return self
        if self.model.name not in MODELS:
            raise ValueError(
                f"records cannot be drawn from the model {self.model.name}; take one of "
                f"{', '.join((*MODELS, HOUSEHOLDS))}"
            )
        for option, given in (
            ("--household", bool(self.design.household)),
            ("--household-keys, --head, --head-keys or --scattered", self.households is not None),
            (f"--method {self.method}", self.method != "truncated"),
            ("--share", bool(self.shares)),
        ):
            if given:
                raise ValueError(
                    f"{option} is about households, and the model is {self.model.name}; add "
                    f"--model {HOUSEHOLDS}, or leave it out"
                )
        return self

    @field_validator("model", mode="before")
    @classmethod
    def _named(cls, model: object) -> object:
        return ModelSpec.of(model) if isinstance(model, str) else model
