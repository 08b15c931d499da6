"""What `synthesis.toml` holds: everything a synthesis is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar, Literal, Self

from pydantic import BeforeValidator, Field, model_validator

from unikat.errors import suggest
from unikat.language.keys import split_keys
from unikat.spec.base import Spec
from unikat.spec.households import NO_HOUSEHOLD, HouseholdsSpec
from unikat.spec.model import ModelSpec, Named, read_model
from unikat.spec.models import EXAMPLE, HOUSEHOLDS, USUAL, either, models_with
from unikat.spec.option import Option
from unikat.spec.tables import DesignSpec, PageSpec, SamplingSpec
from unikat.spec.values import Keys, Names, Whole

Method = Literal["truncated", "untruncated", "reject", "flat"]
MODELS = models_with(draws_records=True)
"""Models of persons from which records can be drawn."""


def _formulas(value: object) -> object:
    if isinstance(value, str):
        return split_keys(value, ";")
    return value


class SynthesisSampling(SamplingSpec):
    """The `[sampling]` table; the draws serve to make a few files, and no interval."""

    chains: Annotated[int, Option("N", "Chains of each fit.", form="run", label="Chains")] = Field(
        default=5, ge=1, le=1024
    )
    """As many as data sets, so that each has a chain of its own."""
    ess: Annotated[
        float,
        Option("N", "A fit continues until effective sample sizes are at least this.", rare=True),
    ] = Field(default=100, gt=0, le=1_000_000_000)


class SynthesisDesign(DesignSpec):
    """The `[design]` table; other models than that of households draw persons one by one."""

    household: Annotated[
        Names,
        Option(
            "A,B",
            f"Columns that together identify the household: whole households are drawn, by --model "
            f"{HOUSEHOLDS}.",
            first=True,
            form="keys",
        ),
    ] = ()


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
    without: ClassVar[tuple[str, ...]] = ("households.path", "households.population")
    keys: Keys = ()
    datasets: Annotated[
        Whole,
        Option("N", "Synthetic files.", first=True, form="run", label="Files to make"),
    ] = Field(default=5, ge=1, le=1000)
    replace: Annotated[
        Names,
        Option(
            "A,B",
            "Keys whose values alone are drawn, given all others of the record or household.",
            "all keys",
            form="run",
            label="Keys to replace",
        ),
    ] = ()
    method: Annotated[
        Method,
        Option(
            "HOW",
            "How households are drawn: truncated obeys the rules in fit and drawing. Comparators: "
            "untruncated ignores them; reject ignores them in the fit; flat draws persons by "
            "latent classes and ignores households.",
            form="run",
            label="How households are drawn",
        ),
    ] = "truncated"
    shares: Annotated[
        Names,
        BeforeValidator(_formulas),
        Option(
            "TEXT",
            "Probabilities within households to compare, with semicolons between: 'share(all same "
            "RACE | size = 3); share(spouse present)'.",
            name="share",
            form="run",
            label="Probabilities within households",
        ),
    ] = ()
    design: SynthesisDesign = SynthesisDesign()
    households: HouseholdsSpec | None = None
    model: Annotated[
        Named,
        Option(
            "MODEL",
            f"{either(MODELS)}, with options after colons: {EXAMPLE}; or {HOUSEHOLDS}, for whole "
            "households.",
            USUAL,
            first=True,
            accepts="Any",
            read=read_model,
            form="run",
            label="Model",
        ),
    ] = ModelSpec(name=USUAL)
    sampling: SynthesisSampling = SynthesisSampling()
    report: PageSpec = PageSpec()

    @model_validator(mode="before")
    @classmethod
    def _meant(cls, values: object) -> object:
        # Only one model draws households, so who names them need not name it.
        if isinstance(values, Mapping) and values.get("model") is None:
            design = values.get("design")
            if isinstance(design, Mapping) and design.get("household"):
                return {**values, "model": {"name": HOUSEHOLDS}}
        return values

    @model_validator(mode="after")
    def _of_households(self) -> Self:
        if self.model.name == HOUSEHOLDS:
            if not self.design.household:
                raise ValueError(NO_HOUSEHOLD)
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
            known = (*MODELS, HOUSEHOLDS)
            hint = suggest(self.model.name, known).lstrip().replace("Did", "did")
            raise ValueError(
                f"records cannot be drawn from the model {self.model.name}; take one of "
                f"{', '.join(known)}" + (f" ({hint})" if hint else "")
            )
        for option, given in (
            ("--household", bool(self.design.household)),
            (
                "--household-keys, --head or other values of households",
                self.households is not None,
            ),
            (f"--method {self.method}", self.method != "truncated"),
            ("--share", bool(self.shares)),
        ):
            if given:
                remedy = (
                    f"write --model {HOUSEHOLDS} in its place"
                    if self.design.household
                    else "name the column that tells households apart, --household COLUMN"
                )
                raise ValueError(
                    f"{option} is about households, and the model is {self.model.name}; {remedy}, "
                    "or leave it out"
                )
        return self
