"""What an option is: a field of a specification, and how it is asked for.

The field has the default, the bounds and the checks. Its `Option` says what the command line and
the documentation show. Flags, keywords of Python, forms and the reference are made by walking the
specification (:func:`options_of`), so that an option stands in one place.
"""

from __future__ import annotations

import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from unikat.spec.trust import Trust


class Asked(NamedTuple):
    """What is known where the value of an option is read."""

    values: dict[str, Any]
    """What the file of the specification says, and the options before this one."""
    before: Any
    """The value that goes; None if there is none."""
    given: Mapping[str, Any]
    """All options, by name."""
    trust: Trust


@dataclass(frozen=True)
class Option:
    """How a field of a specification is asked for, on the command line and in Python."""

    metavar: str
    """What stands for the value in help; empty for an option without one."""
    help: str
    default: str = ""
    """What happens without it, where the field has no single value to show."""
    name: str = ""
    """In Python; on the command line with dashes. Empty: that of the field."""
    first: bool = False
    """Whether `--help` explains it; it lists the others, which `--help all` explains."""
    form: str = ""
    """Page of the workbench that asks for it: `file`, `keys`, `columns`, `run`, or `key` for a
    field of each key; empty: none."""
    label: str = ""
    """Of its field, where the page lists its fields by itself."""
    endings: tuple[str, ...] = ()
    """Of the names of files that a form offers for it; none: files of data."""
    run: str = ""
    """Kind of the runs whose folders a form offers for it, or files of records: `synthesize`."""
    positional: bool = False
    """Whether the command line takes it as an argument, after the data."""
    order: int = 0
    """Among the arguments that Python takes after the data without their names; 0: none."""
    values: bool = False
    """Whether Python takes the values themselves in place of the name of their column."""
    rare: bool = False
    """Whether `set` alone reaches it, by its place: it has no flag and no keyword."""
    accepts: str = ""
    """What Python accepts, as an annotation; empty: told by the type of the field."""
    read: Callable[[Any, Asked], Any] | None = None
    """Makes of what was given what a TOML file would hold."""


@dataclass(frozen=True)
class Defined:
    """An option with its name, its place in the specification and its field."""

    name: str
    option: Option
    place: tuple[str, ...]
    """Of the value in the specification: `("sampling", "chains")`."""
    field: FieldInfo | None = None

    @property
    def is_flag(self) -> bool:
        """Whether the command line gives it without a value."""
        return not self.option.metavar

    @property
    def flag(self) -> str:
        """As the command line has it."""
        if self.option.rare:
            return f"--set {'.'.join(self.place)}"
        if self.option.positional:
            return self.name.upper()
        return f"--{self.name.replace('_', '-')}"

    @property
    def accepted_or_none(self) -> str:
        """What Python accepts, as an annotation that has the default too."""
        kind = self.accepted
        takes_none = kind == "Any" or kind.endswith("| None")
        return kind if takes_none or self.default is not None else f"{kind} | None"

    @property
    def subject(self) -> str:
        """Under which help lists it."""
        return SUBJECTS.get(self.place[0] if self.place else "", SUBJECTS[""])

    @property
    def is_file(self) -> bool:
        """Whether it names a file or a folder."""
        return self.option.metavar in ("FILE", "DIR", "PATH")

    @property
    def is_files(self) -> bool:
        """Whether it names several files, or folders of files."""
        return self.option.metavar in ("FILE,FILE", "DIR|FILE,FILE")

    @property
    def table(self) -> type[BaseModel] | None:
        """The table that is the value; None if it is no table."""
        return None if self.field is None else table_of(self.field)

    @property
    def default(self) -> Any:
        """The value that the specification has without the option; None if it has none."""
        if self.field is None:
            return False if self.is_flag else None
        if self.field.is_required():
            return None
        value = self.field.get_default(call_default_factory=True)
        if self.is_flag:
            return bool(value)
        # A table of its own, such as that of the model, and an empty list are no values to show.
        return None if isinstance(value, BaseModel) or value in ((), {}, "") else value

    @property
    def shown_default(self) -> str:
        """What happens without it, in words; `none` if nothing does."""
        default = self.default
        return self.option.default or ("none" if default is None else repr(default))

    @property
    def accepted(self) -> str:
        """What Python accepts, as an annotation."""
        if self.option.accepts or self.field is None:
            return self.option.accepts or "bool"
        return "bool" if self.is_flag else _accepted(self.field.annotation, self.field.metadata)


SUBJECTS = {
    "": "Results, others",
    "data": "Reading the file",
    "design": "Sample design",
    "model": "Model",
    "households": "Households, relatives",
    "relatives": "Households, relatives",
    "zeros": "Population",
    "classics": "Further measures",
    "registry": "Further measures",
    "release": "Further measures",
    "margins": "Population",
    "sampling": "Chains, computing",
    "report": "Results, others",
}
"""What help calls the tables of a specification, where it groups options."""

DOOR = {
    "set": (
        ("model",),
        Option(
            "NAME=VALUE",
            "Any other option of the model, components=30, or value of the specification by its "
            "table, sampling.rhat=1.05; in Python a mapping.",
            accepts="Mapping[str, Any] | Sequence[str] | None",
            form="run",
        ),
    ),
    "trust_spec": (
        ("data",),
        Option(
            "",
            "Let a specification or file of rules name files outside of its folder, databases, "
            "queries and clusters. Only if you know who wrote it: otherwise they count only as "
            "options.",
        ),
    ),
}
"""Options that are no field, with the table among whose options help lists them: they reach every
field, or say what counts."""


_MOVED = {
    **dict.fromkeys(("random", "mean", "fixed", "empirical"), "--set {0}=VALUE"),
    "apply": "unikat apply plan.toml FILE --out FILE2",
    "verify": "unikat verify ORIGINAL PROTECTED",
}
"""What is written in place of options that were taken away; rare ones tell it by themselves."""


def moved(name: str, specification: type[BaseModel]) -> str:
    """Say what is written in place of an option that is none any more; empty if it never was."""
    name = name.strip("-").replace("-", "_")
    rare = (".".join(one.place) for one in rare_options_of(specification) if one.name == name)
    place = next(rare, None)
    text = f"--set {place}=VALUE" if place else _MOVED.get(name, "").format(name)
    if text.startswith("--set"):
        text += f" (in Python: set={{'{place or name}': VALUE}})"
    return f"--{name.replace('_', '-')} is no option any more; write {text}." if text else ""


def options_of(specification: type[BaseModel]) -> list[Defined]:
    """List the options of a specification: those that most runs need, its own, those of its tables.

    What several tables have, such as the format of a file, is asked for in the first of them; `set`
    reaches the others.

    Raises
    ------
    TypeError
        If two options of a specification that are not the same have the same name.
    """
    without: tuple[str, ...] = getattr(specification, "without", ())
    door = [Defined(name, one, at) for name, (at, one) in DOOR.items() if name not in without]
    walked = (one for one in _walk(specification, (), without) if not one.option.rare)
    ordered = sorted(walked, key=lambda one: (not one.option.first, len(one.place) > 1))
    found: dict[str, Defined] = {}
    for one in (*ordered, *door):
        if found.setdefault(one.name, one).option is not one.option:
            raise TypeError(f"{specification.__name__} has two options {one.name!r}; rename one")
    return list(found.values())


def field_at(specification: type[BaseModel], place: tuple[str, ...]) -> FieldInfo | None:
    """Return the field of a place, `("sampling", "chains")`; None if a specification has none."""
    first, *rest = place
    fields = specification.model_fields
    field = next((one for name, one in fields.items() if first in (name, one.alias)), None)
    if field is None or not rest:
        return field
    table = table_of(field)
    return None if table is None else field_at(table, tuple(rest))


def rare_options_of(specification: type[BaseModel]) -> list[Defined]:
    """List what `set` alone reaches, as `set={"sampling.thin": 5}`."""
    without: tuple[str, ...] = getattr(specification, "without", ())
    return [one for one in _walk(specification, (), without) if one.option.rare]


def table_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the class of the table that a field holds; None if it holds none."""
    kinds = (field.annotation, *typing.get_args(field.annotation))
    return next(
        (one for one in kinds if isinstance(one, type) and issubclass(one, BaseModel)), None
    )


def _walk(
    table: type[BaseModel], place: tuple[str, ...], without: tuple[str, ...]
) -> Iterator[Defined]:
    for name, field in table.model_fields.items():
        at = (*place, field.alias or name)
        if ".".join(at) in without:
            continue
        option = next((mark for mark in field.metadata if isinstance(mark, Option)), None)
        if option is not None:
            yield Defined(option.name or name, option, at, field)
        if typing.get_origin(field.annotation) is not tuple and (inner := table_of(field)):
            yield from _walk(inner, at, without)


def _accepted(annotation: Any, marks: list[Any]) -> str:
    """Write what Python accepts for a field: also what a text may say, if a text is read."""
    arguments = typing.get_args(annotation)
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        return _accepted(arguments[0], list(arguments[1:]))
    if origin is typing.Literal:
        return f"Literal[{', '.join(map(repr, arguments))}]"
    if type(None) in arguments:
        (inner,) = (one for one in arguments if one is not type(None))
        return f"{_accepted(inner, marks)} | None"
    if origin is tuple:
        return "str | Sequence[str]"
    text = "str | " if any(type(mark).__name__ == "BeforeValidator" for mark in marks) else ""
    return f"{text}{annotation.__name__}"


def plain(value: Any) -> Any:
    """Return NumPy and pandas values as Python's own; a pandas frame stays."""
    if isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if hasattr(value, "to_dict"):
        # A series with an index. A frame is a matrix, of which the field knows the direction.
        return value if hasattr(value, "columns") else value.to_dict()
    return value.tolist() if hasattr(value, "tolist") else value
