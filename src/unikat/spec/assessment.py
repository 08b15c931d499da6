"""What an assessment is asked to do: `assessment.toml`."""

from __future__ import annotations

from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from unikat.spec.base import Spec
from unikat.spec.households import HouseholdsSpec, RelativesSpec, units_are_households
from unikat.spec.key_errors import KeyErrors
from unikat.spec.limits import Limit
from unikat.spec.model import Model, ModelSpec
from unikat.spec.models import HOUSEHOLDS, either, models_with
from unikat.spec.option import Option
from unikat.spec.tables import (
    ClassicsSpec,
    DesignSpec,
    Margins,
    RegistrySpec,
    ReleaseSpec,
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
    release: Annotated[
        ReleaseSpec | None,
        Option(
            "FILE",
            "Another release of the same persons: the risk of who has both, and links them by the "
            "keys that they share. In Python also a frame.",
            accepts="Any",
            form="keys",
        ),
    ] = None
    margins: Margins = ()
    key_errors: KeyErrors = Field(default={})
    """Errors of the keys of an intruder who links; empty if nothing is asked of them."""
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
    def _of_a_release(self) -> Self:
        if self.release is None:
            return self
        for name, given in (
            ("--registry", self.registry is not None),
            ("--relatives", self.relatives is not None),
            ("--zeros", self.zeros is not None),
            (f"--missing {self.data.missing}", self.data.missing != "integrate"),
            ("--keep-states", self.report.keep_states),
        ):
            if given:
                raise ValueError(
                    f"{name} is about one file, and --release names another one; leave one of "
                    "them out"
                )
        return self

    @model_validator(mode="after")
    def _of_households(self) -> Self:
        about_persons = {
            "--classics": self.classics is not None,
            "--registry": self.registry is not None,
            "--key-errors": bool(self.key_errors),
            "--release": self.release is not None,
            "--relatives": self.relatives is not None,
            "--by": bool(self.report.by),
            "--missing wildcard": self.data.missing == "wildcard",
        }
        if units_are_households(
            [self.model.name], self.design.household, self.households, about_persons
        ):
            return self
        limit = None if self.report.threshold is None else Limit.of(self.report.threshold)
        if limit is not None and limit.of_households:
            raise ValueError(
                f"{limit.measure} is of households, and the model is {self.model.name}; add "
                f"--model {HOUSEHOLDS}, or write {limit.plain}"
            )
        return self

    @property
    def of_households(self) -> bool:
        """Whether the units are households."""
        return self.model.name == HOUSEHOLDS


def check_of_persons(spec: AssessmentSpec) -> None:
    """Refuse what the risk of recoded keys is not known with (ValueError)."""
    if spec.model.name == HOUSEHOLDS:
        raise ValueError(
            f"records are persons here, and the model {HOUSEHOLDS} takes households; take "
            f"{either(models_with(knows_groups=True))}, with --household for samples of whole "
            "households"
        )
    for option, given in (
        ("--relatives", spec.relatives is not None),
        ("--registry", spec.registry is not None),
        ("--classics", spec.classics is not None),
    ):
        if given:
            raise ValueError(f"{option} cannot be combined with protect; leave it out")
