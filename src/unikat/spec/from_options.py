"""From the options of a call, or of a command line, to a specification."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel

from unikat.errors import SpecError, brief, option, suggest, unknown_option
from unikat.files.toml import read_toml, toml_value
from unikat.language.keys import entry_of, split_keys
from unikat.spec.addresses import is_address
from unikat.spec.base import Spec
from unikat.spec.model import ModelSpec
from unikat.spec.option import Asked, Defined, field_at, moved, options_of, plain, table_of
from unikat.spec.paths import given_path, is_path
from unikat.spec.tables import FileSpec
from unikat.spec.trust import FOREIGN, Trust

S = TypeVar("S", bound=Spec)


class Inputs(NamedTuple):
    """Data that were handed over as values, which a specification cannot name."""

    data: Any = None
    """A frame; None where the specification names a file."""
    registry: Any = None
    release: Any = None
    margins: tuple[Any, ...] = ()
    """Frames of known counts, in the order of the margins that name no file."""
    synthetic: tuple[Any, ...] = ()
    """Synthetic frames, in the order of the entries that name no file."""
    control: Any = None
    population: Any = None
    external: Any = None
    protected: Any = None


def specify(
    specification: type[S],
    data: Any,
    options: Mapping[str, Any],
    *,
    shell: bool = False,
    caller: str = "",
    trust: Trust = FOREIGN,
    also: Sequence[str] = (),
) -> tuple[S, Inputs]:
    """Make a specification from data and options.

    Parameters
    ----------
    specification
        Its class, whose fields define the options.
    data
        A path to a file of data or, if it ends in ``.toml``, to a specification, over which the
        options go; or a frame.
    options
        Values by name; None is as good as not given.
    shell
        The options come from a command line, and messages name them so.
    caller
        What messages call that from which the options come, if it is neither call nor command line.
    trust
        What counts of a specification in a file besides the options. Where it names the folder of
        the workbench, the option `trust_spec` allows nothing.
    also
        What the caller takes besides, which a message may name.

    Raises
    ------
    SpecError
        If an option is unknown or has a wrong value, or the specification says what only options
        may; the message lists all of them.
    """
    known = {defined.name: defined for defined in options_of(specification)}
    for name in options:
        if name not in known:
            raise SpecError(moved(name, specification) or unknown_option(name, [*known, *also]))
    # In the order of the definition, whatever that of the call.
    given = {name: options[name] for name in known if options.get(name) is not None}
    allowed = bool(given.pop("trust_spec", False)) and trust.inside is None
    settings = _settings(given.pop("set", {}))
    placed = [(known[name], _given_place(known[name]), value) for name, value in given.items()]
    for name, setting in settings.items():
        place = _place_of(name, specification)
        at = replace(known["set"], place=place, field=field_at(specification, place))
        placed.append((known["set"], place, _coerced(at, setting)))
    trust = trust._replace(given=tuple(".".join(place) for _, place, _ in placed), allowed=allowed)
    values, source, frame = _start(data)
    if isinstance(values.get("model"), str):
        values["model"] = ModelSpec.of(values["model"]).model_dump()
    frames: dict[str, Any] = {}
    spoken = {}
    for defined, place, value in placed:
        name = defined.flag if shell else defined.name
        spoken[".".join(place)] = f"{name} {'.'.join(place)}" if defined.name == "set" else name
        where = str(source or "The data")
        read = defined.option.read
        if read is not None:
            asked = Asked(values, _found(values, place), given, trust)
            _put(values, place, read(value, asked), where)
        elif defined.table is None or not issubclass(defined.table, FileSpec):
            _put(values, place, _coerced(defined, value), where)
        elif _names_several(defined):
            values[place[0]], frames[defined.name] = _several(defined.name, value)
        elif is_path(value):
            _put(values, place, given_path(value), where)
        else:
            # `path` stays empty: the frame goes beside the specification.
            values[place[0]], frames[defined.name] = {}, value
    where = str(source) if source else caller or ("The command line" if shell else "The call")
    spec = specification.parse(
        values,
        where=where,
        folder=source.resolve().parent if source else None,
        spoken=spoken,
        trust=trust,
    )
    return spec, Inputs(data=frame, **frames)


def _start(data: Any) -> tuple[dict[str, Any], Path | None, Any]:
    """Return the values to start from, the specification's file if there is one, and a frame."""
    if not is_path(data):
        return {}, None, data
    if is_address(data):
        return {"data": {"database": data}}, None, None
    path = Path(data).expanduser()
    if path.suffix.lower() == ".toml":
        return read_toml(path), path, None
    return {"data": {"path": str(path)}}, None, None


def _names_several(defined: Defined) -> bool:
    return defined.field is not None and get_origin(defined.field.annotation) is tuple


def _given_place(defined: Defined) -> tuple[str, ...]:
    """Place of what an option gives: of the table of a file it is the path alone."""
    table = defined.table
    if table is None or not issubclass(table, FileSpec) or _names_several(defined):
        return defined.place
    return (*defined.place, "path")


def _several(name: str, value: Any) -> tuple[list[dict[str, str]], tuple[Any, ...]]:
    """Return the entries of an option that names files, and the frames of those without a path."""
    if isinstance(value, str):
        # A file whose name has a comma is that file.
        several: list[Any] = [value] if Path(value).expanduser().exists() else split_keys(value)
    else:
        several = list(value) if isinstance(value, (list, tuple)) else [value]
    if not several:
        raise SpecError(f"{option(name)} names no file; name one, or leave the option out.")
    entries = [{"path": given_path(one)} if is_path(one) else {} for one in several]
    return entries, tuple(one for one in several if not is_path(one))


def _coerced(defined: Defined, value: Any) -> Any:
    """Value of an option as the specification has it."""
    kind = None if defined.field is None else defined.field.annotation
    kinds = (kind, *get_args(kind))
    if Path in kinds and is_path(value):
        return given_path(value)
    # What should be a text is told by what it is.
    return value if str in kinds else plain(value)


def _settings(value: Any) -> dict[str, Any]:
    """Return what `set` says, given as a mapping or as texts NAME=VALUE."""
    if isinstance(value, Mapping):
        return {str(name): plain(setting) for name, setting in value.items()}
    found = {}
    for setting in [value] if isinstance(value, str) else value:
        name, text = entry_of(str(setting), "=")
        if not name:
            raise SpecError(f"--set {setting!r} is not NAME=VALUE, such as alpha_shape=2.")
        found[name] = toml_value(text)
    return found


def _place_of(name: str, specification: type[Spec]) -> tuple[str, ...]:
    """Place of what `set` names: a value by its table, one that has no table, or of the model."""
    fields = specification.model_fields
    table, *rest = name.split(".")
    if rest and table not in fields:
        tables = [one for one, field in fields.items() if table_of(field) is not None]
        raise SpecError(
            f"{brief(name)!r} of {option('set')} names no table of the specification."
            f"{suggest(table, tables)} Its tables are {', '.join(tables)}."
        )
    if rest:
        return (table, *rest)
    if "model" in fields and name not in fields:
        return ("model", name)
    return (name,)


def _found(values: Mapping[str, Any], place: tuple[str, ...]) -> Any:
    found: Any = values
    for part in place:
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _put(values: dict[str, Any], place: tuple[str, ...], value: Any, where: str) -> None:
    """Put a value into nested tables."""
    table: Any = values
    for part in place[:-1]:
        table = table.setdefault(part, {})
        if isinstance(table, BaseModel):
            # It was read from a file, with this option.
            return
        if not isinstance(table, dict):
            raise SpecError(f"{where} is not valid: {part} must be a table.")
    table[place[-1]] = value
