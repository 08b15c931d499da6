"""What an assessment is asked to do: `assessment.toml`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from unikat.spec.base import Spec
from unikat.spec.households import HouseholdsSpec, RelativesSpec
from unikat.spec.limits import Limit
from unikat.spec.model import Model, ModelSpec
from unikat.spec.models import HOUSEHOLDS
from unikat.spec.option import Option
from unikat.spec.tables import (
    ClassicsSpec,
    DesignSpec,
    Margins,
    RegistrySpec,
    ReportSpec,
    SamplingSpec,
)
from unikat.spec.values import Keys, PopulationSize


class AssessmentSpec(Spec):
    """Everything an assessment is asked to do, as `assessment.toml` holds it.

    Examples
    --------
    >>> spec = AssessmentSpec.parse({"keys": ["AGE", "SEX"], "population_size": 1000})
    >>> spec.keys, spec.sampling.chains
    (('AGE', 'SEX'), 4)
    """

    command: ClassVar[str] = "assess assessment.toml"
    format_version: Literal["unikat.assessment/1"] = Field(
        default="unikat.assessment/1", alias="schema"
    )
    keys: Keys = ()
    population_size: PopulationSize = None
    design: DesignSpec = DesignSpec()
    households: HouseholdsSpec | None = None
    """What a household is, for the model of that name; None if the risk is one of persons."""
    relatives: RelativesSpec | None = None
    """What is known of a person's relatives; None if nothing is."""
    classics: Annotated[
        ClassicsSpec | None,
        Option(
            "",
            "Also k-anonymity, individual risk, SUDA2 and estimates of population uniques.",
            read=lambda value, asked: (asked.before or {}) if value else None,
            form="run",
        ),
    ] = None
    registry: Annotated[
        RegistrySpec | None,
        Option(
            "FILE",
            "Registered units that share the keys: how many of them are unique in the population, "
            "estimated from the survey. In Python also a frame.",
            accepts="Any",
            form="keys",
        ),
    ] = None
    margins: Margins = ()
    model: Model = ModelSpec()
    sampling: SamplingSpec = SamplingSpec()
    report: ReportSpec = ReportSpec()

    @model_validator(mode="after")
    def _of_relatives(self) -> Self:
        if self.relatives is None:
            return self
        if not self.relatives.keys:
            raise ValueError("roles are declared, but no key of a relative; add --relatives")
        if not self.design.household:
            raise ValueError(
                "keys of relatives need to know who lives together; name the column that tells "
                "households apart: --household COLUMN"
            )
        return self

    @model_validator(mode="after")
    def _of_households(self) -> Self:
        if self.model.name != HOUSEHOLDS:
            limit = None if self.report.threshold is None else Limit.of(self.report.threshold)
            if limit is not None and limit.of_households:
                raise ValueError(
                    f"{limit.measure} is of households, and the model is {self.model.name}; add "
                    f"--model {HOUSEHOLDS}, or write {limit.plain}"
                )
            if self.households is not None:
                raise ValueError(
                    "households are described, but the model is "
                    f"{self.model.name}; add --model {HOUSEHOLDS}, or leave --household-keys, "
                    "--head, --population-households and --household-file out"
                )
            return self
        if not self.design.household:
            raise ValueError(
                f"the model {HOUSEHOLDS} needs to know which persons live together; name the "
                "column that tells households apart: --household COLUMN"
            )
        refused = {
            "--classics": self.classics is not None,
            "--registry": self.registry is not None,
            "--relatives": self.relatives is not None,
            "--by": bool(self.report.by),
            "--margins": bool(self.margins),
            "--missing wildcard": self.data.missing == "wildcard",
        }
        for option, given in refused.items():
            if given:
                raise ValueError(
                    f"{option} is about persons, and the model {HOUSEHOLDS} about households; "
                    "leave it out"
                )
        return self
