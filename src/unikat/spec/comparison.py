"""What `comparison.toml` holds: everything a comparison is asked to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from unikat.errors import SpecError
from unikat.files.toml import toml_value
from unikat.language.keys import entry_of, split_keys
from unikat.spec.base import Spec
from unikat.spec.households import HouseholdsSpec, name_households, units_are_households
from unikat.spec.model import read_models
from unikat.spec.models import PATH_EXAMPLES
from unikat.spec.option import Option
from unikat.spec.tables import DesignSpec, Margins, PageSpec, SamplingSpec
from unikat.spec.values import Keys, Names, PopulationSize, Share


class PathSpec(BaseModel):
    """The `[path]` table: one option of a model and the values it takes."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    option: str
    values: tuple[int | float, ...]

    @field_validator("values")
    @classmethod
    def _several(cls, values: tuple[int | float, ...]) -> tuple[int | float, ...]:
        if len(set(values)) < 2:
            raise ValueError("a path needs two or more different numbers")
        if len(set(values)) < len(values):
            raise ValueError("a path has each number once")
        return tuple(sorted(values))

    @classmethod
    def of(cls, text: str) -> dict[str, Any]:
        """Read a path as the command line names it: `components=2,5,10`.

        Examples
        --------
        >>> PathSpec.of("components=2,5")
        {'option': 'components', 'values': [2, 5]}
        """
        option, listed = entry_of(text, "=")
        values = [toml_value(part) for part in split_keys(listed)]
        numbers = all(isinstance(v, (int, float)) and not isinstance(v, bool) for v in values)
        if not option or not values or not numbers:
            raise SpecError(
                f"The path {text!r} is not OPTION=NUMBER,NUMBER,...; write it as components=2,5,10."
            )
        return {"option": option, "values": values}


class ComparisonSpec(Spec):
    """Everything a comparison is asked to do.

    Examples
    --------
    >>> spec = ComparisonSpec.parse({"keys": "AGE,SEX", "models": "hdp,hdp:alpha=per-record"})
    >>> spec.models
    ('hdp', 'hdp:alpha=per-record')
    """

    command: ClassVar[str] = "compare comparison.toml"
    format_version: Literal["unikat.comparison-spec/1"] = Field(
        default="unikat.comparison-spec/1", alias="schema"
    )
    keys: Keys = ()
    population_size: PopulationSize = None
    design: DesignSpec = DesignSpec()
    households: HouseholdsSpec | None = None
    """What a household is, for models of households; None if the units are persons."""
    margins: Margins = ()
    models: Annotated[
        Names,
        Option(
            "A,B,C",
            f"Models with their options: {PATH_EXAMPLES}.",
            "required",
            first=True,
            accepts="str | Sequence[Any]",
            read=read_models,
            form="run",
        ),
    ] = ()
    held_out: Annotated[
        Share,
        Option(
            "SHARE",
            "Share of the records to leave out and predict, as 0.2 or 20%; 0 for none.",
            form="run",
        ),
    ] = Field(default=0.2, ge=0, lt=1)
    path: Annotated[
        PathSpec | None,
        Option(
            "OPTION=1,2,3",
            "Fit each model that has this option with each of these values, to see from which "
            "value on τ1 is stable.",
            accepts="str | Mapping[str, Any] | None",
            form="run",
        ),
    ] = None
    sampling: SamplingSpec = SamplingSpec()
    """For every fit; `max_seconds` is the time of one fit."""
    report: PageSpec = PageSpec()
    limits: dict[str, dict[Literal["risk", "held-out"], int]] = Field(default_factory=dict)
    """Sweeps after which a fit ended by the clock, by model: it ends there when repeated."""

    @field_validator("path", mode="before")
    @classmethod
    def _written(cls, path: object) -> object:
        if isinstance(path, Mapping) and "option" not in path and len(path) == 1:
            ((varied, values),) = path.items()
            return {"option": varied, "values": values}
        return PathSpec.of(path) if isinstance(path, str) else path

    @model_validator(mode="after")
    def _units(self) -> Self:
        units_are_households(
            self.models,
            self.design.household,
            self.households,
            {"--missing wildcard": self.data.missing == "wildcard"},
        )
        return self

    @property
    def of_households(self) -> bool:
        """Whether the units are households."""
        return name_households(self.models)

    @model_validator(mode="after")
    def _limits_are_positive(self) -> Self:
        if any(n < 1 for limits in self.limits.values() for n in limits.values()):
            raise ValueError("limits are numbers of sweeps, at least 1")
        return self
