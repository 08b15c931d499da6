"""What an assessment is asked to do: `assessment.toml`."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar, Literal

from pydantic import Field, field_validator

from unikat.spec.base import Spec
from unikat.spec.tables import (
    ClassicsSpec,
    DesignSpec,
    ModelSpec,
    Names,
    RegistrySpec,
    ReportSpec,
    SamplingSpec,
    Whole,
    located_path,
)


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
    population_size: Whole | None = None
    keys: Names = ()
    """Names of the key variables, each with its binning rule if any: `AGE:width(5)`."""
    design: DesignSpec = DesignSpec()
    classics: ClassicsSpec | None = None
    """The classic measures; None if they are not asked for."""
    registry: RegistrySpec | None = None
    """A file of registered units, whose risk is found by the sample; None if there is none."""
    model: ModelSpec = ModelSpec()
    """A table, or a text as `ModelSpec.of` reads it."""
    sampling: SamplingSpec = SamplingSpec()
    report: ReportSpec = ReportSpec()

    def input_files(self) -> list[Path]:
        """Files that the run reads."""
        registry = None if self.registry is None else self.registry.path
        return [*super().input_files(), *([] if registry is None else [registry])]

    def _located(self, base: Path) -> dict[str, object]:
        if self.registry is None or self.registry.path is None:
            return {}
        path = located_path(self.registry.path, base, "the registry")
        return {"registry": self.registry.model_copy(update={"path": path})}

    @field_validator("model", mode="before")
    @classmethod
    def _named(cls, model: object) -> object:
        return ModelSpec.of(model) if isinstance(model, str) else model
