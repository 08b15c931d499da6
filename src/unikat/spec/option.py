"""What an option is: how the command line shows it, and where its value goes in the specification.

Every option is a field of a `TypedDict`. Its annotation says what Python accepts; its `Option` says
how the command line shows it and where it goes in the specification, which has its default.

Nothing is imported here that takes time, so that `unikat --help` answers at once.
"""

from __future__ import annotations

import os
import typing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from pydantic import BaseModel

File: TypeAlias = str | os.PathLike[str]


@dataclass(frozen=True)
class Option:
    """How one option is shown, and where it goes."""

    metavar: str
    help: str
    place: str = ""
    """Where its value goes in the specification, as `table.name`; empty: under its own name."""
    default: str = ""
    """What happens without it, where the specification has no single value to show."""

    def path(self, name: str) -> tuple[str, ...]:
        """Where the value of the option of this name goes in the specification."""
        return tuple((self.place or name).split("."))


@dataclass(frozen=True)
class Defined:
    """An option with its name and the type that Python accepts."""

    name: str
    kind: Any
    option: Option

    @property
    def flag(self) -> bool:
        """Whether the command line gives it without a value."""
        return self.kind is bool


def options_of(kind: Any) -> list[Defined]:
    """List the options of a command, in the order of its help."""
    hints = typing.get_type_hints(kind, include_extras=True)
    found = []
    for name, hint in hints.items():
        accepted, option = typing.get_args(hint)[:2]
        found.append(Defined(name, accepted, option))
    return found


def default_of(defined: Defined, specification: type[BaseModel]) -> Any:
    """Return the value that the specification has without the option; None if it has none."""
    table: Any = specification
    for part in (path := defined.option.path(defined.name)):
        fields = getattr(table, "model_fields", {})
        if part not in fields:
            return None
        field = fields[part]
        if part != path[-1]:
            kinds = (field.annotation, *typing.get_args(field.annotation))
            table = next((kind for kind in kinds if hasattr(kind, "model_fields")), None)
    if field.is_required():
        return None
    value = field.get_default(call_default_factory=True)
    # A table of its own, such as that of the model, and an empty list are no values to show.
    return None if hasattr(type(value), "model_fields") or value == () else value
