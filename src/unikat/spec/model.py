"""The `[model]` table: a model by its name, with the options that are its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, is_dataclass
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict

from unikat.errors import SpecError, brief, may_be_address
from unikat.files.toml import toml_literal, toml_value
from unikat.language.keys import entry_of
from unikat.spec.models import AUTO, CATALOGUE, EXAMPLE, USUAL
from unikat.spec.option import Asked, Option


class ModelSpec(BaseModel):
    """The `[model]` table: the model's name, and its options under their own names."""

    model_config = ConfigDict(extra="allow", frozen=True)

    name: str = AUTO

    @property
    def options(self) -> dict[str, Any]:
        """The options given, by name; the model checks them."""
        return dict(self.model_extra or {})

    @property
    def tells_what_is_left(self) -> bool:
        """Whether the model is calibrated on records with a low risk, which suppression leaves."""
        return self.name == AUTO

    @classmethod
    def of(cls, text: str) -> Self:
        """Read a model as the command line names it: `gom` or `gom:components=30:base=uniform`.

        A part without an equals sign belongs to the value before it.

        Examples
        --------
        >>> ModelSpec.of("gom:components=30").options
        {'components': 30}
        >>> ModelSpec.of("loglinear:terms=A + B:C:interval=bootstrap").options
        {'terms': 'A + B:C', 'interval': 'bootstrap'}
        """
        name, *parts = (part.strip() for part in text.split(":"))
        settings: list[str] = []
        for part in parts:
            if "=" in part or not settings:
                settings.append(part)
            else:
                settings[-1] += f":{part}"
        options: dict[str, Any] = {}
        for setting in settings:
            option, value = entry_of(setting, "=")
            if not option or option == "name":
                part = "A part" if may_be_address(text) else repr(brief(setting))
                raise SpecError(
                    f"{part} in the model {brief(text)!r} is not NAME=VALUE; write a "
                    "model with its options as name:option=value:option=value."
                )
            options[option] = toml_value(value)
        return cls(name=name, **options)

    @property
    def label(self) -> str:
        """The model as `of` reads it.

        Examples
        --------
        >>> ModelSpec.of("hdp:split_merge=false").label
        'hdp:split_merge=false'
        """
        settings = [f"{name}={_as_written(value)}" for name, value in self.options.items()]
        return ":".join([self.name, *settings])


def _as_written(value: Any) -> str:
    """Write an option so that it is read back as what it was."""
    if isinstance(value, bool):
        return str(value).lower()
    # A text that looks like a number or a truth value stands in quotes.
    plain = not isinstance(value, str) or toml_value(value) == value
    return str(value) if plain else toml_literal(value)


def _table_of_model(value: Any) -> dict[str, Any]:
    """Return name and options of a model, given as text, as a model or as a table."""
    if isinstance(value, str):
        return ModelSpec.of(value).model_dump()
    if is_dataclass(value) and not isinstance(value, type) and hasattr(value, "name"):
        default = asdict(type(value)())
        changed = {
            part: list(setting) if isinstance(setting, tuple) else setting
            for part, setting in asdict(value).items()
            if setting != default[part]
        }
        return {"name": value.name, **changed}
    if isinstance(value, Mapping):
        return dict(value)
    raise SpecError(
        f"model is neither a name such as {USUAL!r} or {EXAMPLE!r}, nor a model such as "
        f"unikat.{CATALOGUE[USUAL].class_name}(), but a {type(value).__name__}. Several models "
        "go to unikat.compare(..., models=[...]); auto selects one."
    )


def read_model(value: Any, asked: Asked) -> dict[str, Any]:
    """Put a model over that of the file; the options of another model are none of this one."""
    found = _table_of_model(value)
    before = {} if asked.before is None else _table_of_model(asked.before)
    same = before.get("name", found["name"]) == found["name"]
    return (before if same else {}) | found


def read_models(value: Any, asked: Asked) -> Any:
    """Write several models as texts; one text may hold them all."""
    if isinstance(value, str):
        return value
    several = value if isinstance(value, Sequence) else [value]
    return [
        one if isinstance(one, str) else ModelSpec(**_table_of_model(one)).label for one in several
    ]


Named = Annotated[
    ModelSpec, BeforeValidator(lambda one: ModelSpec.of(one) if isinstance(one, str) else one)
]
"""A model; a text names it as `ModelSpec.of` reads it."""
Model = Annotated[
    Named,
    Option(
        "MODEL",
        f"Statistical model, with its options after colons: {EXAMPLE}. {AUTO} selects one of "
        "several; its interval covers the model error.",
        AUTO,
        first=True,
        accepts="Any",
        read=read_model,
        form="run",
    ),
]
