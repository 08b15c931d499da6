"""From the options of a call, or of a command line, to a specification."""

from __future__ import annotations

import inspect
import os
import re
import typing
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, is_dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from unikat.errors import SpecError, option, shown, suggest
from unikat.files.toml import read_toml, toml_value
from unikat.spec.addresses import is_address
from unikat.spec.base import Spec
from unikat.spec.option import Defined, default_of, options_of
from unikat.spec.paths import with_paths
from unikat.spec.protection import read_scenarios, recodings_of
from unikat.spec.splitting import split_keys
from unikat.spec.stratum_sizes import read_stratum_sizes
from unikat.spec.tables import ModelSpec, ZerosSpec
from unikat.spec.trust import Trust

S = TypeVar("S", bound=Spec)
Call = TypeVar("Call", bound=Callable[..., Any])


class Inputs(NamedTuple):
    """Data that were handed over as values, which a specification cannot name."""

    data: Any = None
    """A frame; None where the specification names a file."""
    registry: Any = None
    margins: tuple[Any, ...] = ()
    """Frames of known counts, in the order of the margins that name no file."""
    synthetic: tuple[Any, ...] = ()
    """Synthetic frames, in the order of the entries that name no file."""
    control: Any = None
    population: Any = None
    protected: Any = None


_TABLES = ("registry", "control", "population", "protected")
"""Options that name a file with a table of its own, or hand over a frame."""
_LISTS = ("margins", "synthetic")
"""Options that name several files, or hand over frames."""


def specify(
    specification: type[S],
    options_kind: Any,
    data: Any,
    options: Mapping[str, Any],
    *,
    shell: bool = False,
    caller: str = "",
    inside: Path | None = None,
) -> tuple[S, Inputs]:
    """Make a specification from data and options.

    Parameters
    ----------
    specification
        Its class.
    options_kind
        The `TypedDict` that defines the options.
    data
        A path to a file of data or, if it ends in ``.toml``, to a specification, over which the
        options go; or a frame.
    options
        Values by name; None is as good as not given.
    shell
        The options come from a command line, and messages name them so.
    caller
        What messages call that from which the options come, if it is neither call nor command line.
    inside
        The folder of the workbench: paths of a specification may lie in it, and nothing allows
        others. None: its own folder, and the option `trust_spec` allows others.

    Raises
    ------
    SpecError
        If an option is unknown or has a wrong value, or the specification says what only options
        may; the message lists all of them.
    """
    known = {defined.name: defined for defined in options_of(options_kind)}
    for name in options:
        if name not in known:
            raise SpecError(f"There is no option {name!r}.{suggest(name, list(known))}")
    # In the order of the definition, whatever that of the call.
    given = {name: options[name] for name in known if options.get(name) is not None}
    values, source, frame = _start(data)
    trust = Trust(
        given=tuple(".".join(known[name].option.path(name)) for name in given),
        inside=inside,
        allowed=bool(given.pop("trust_spec", False)) and inside is None,
    )
    frames: dict[str, Any] = {}
    for name in _TABLES:
        if name in given and not _is_path(given[name]):
            # `path` stays empty: the frame goes beside the specification.
            values[name] = {}
            frames[name] = given.pop(name)
    for name in _LISTS:
        if name in given:
            values[name], frames[name] = _several(name, given.pop(name))
    if isinstance(values.get("model"), (str,)):
        values["model"] = ModelSpec.of(values["model"]).model_dump()
    spoken = {}
    for name, value in given.items():
        path = known[name].option.path(name)
        spoken[".".join(path)] = f"--{name.replace('_', '-')}" if shell else name
        where = str(source or "The data")
        _place(values, known[name], value, given, where=where, trust=trust)
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
    if not _is_path(data):
        return {}, None, data
    if is_address(data):
        return {"data": {"database": data}}, None, None
    path = Path(data).expanduser()
    if path.suffix.lower() == ".toml":
        return read_toml(path), path, None
    return {"data": {"path": str(path)}}, None, None


def _is_path(value: Any) -> bool:
    return isinstance(value, (str, os.PathLike))


def _several(name: str, value: Any) -> tuple[list[dict[str, str]], tuple[Any, ...]]:
    """Return the entries of an option that names files, and the frames of those without a path."""
    if isinstance(value, str):
        # A file whose name has a comma is that file.
        several: list[Any] = [value] if Path(value).expanduser().exists() else split_keys(value)
    else:
        several = list(value) if isinstance(value, (list, tuple)) else [value]
    if not several:
        raise SpecError(f"{option(name)} names no file; name one, or leave the option out.")
    entries = [
        {"path": str(Path(one).expanduser().absolute())} if _is_path(one) else {} for one in several
    ]
    return entries, tuple(one for one in several if not _is_path(one))


def _place(
    values: dict[str, Any],
    defined: Defined,
    value: Any,
    given: Mapping[str, Any],
    *,
    where: str,
    trust: Trust,
) -> None:
    """Put the value of one option into the values of the specification."""
    name, path = defined.name, defined.option.path(defined.name)
    match name:
        case "model":
            model = _model(value)
            if values.get("model", {}).get("name", model["name"]) != model["name"]:
                # The options of another model are none of this one.
                values["model"] = {}
            for part, setting in model.items():
                _put(values, ("model", part), setting, where)
        case "models":
            several = value if isinstance(value, Sequence) else [value]
            _put(
                values,
                path,
                value
                if isinstance(value, str)
                else [
                    one if isinstance(one, str) else ModelSpec(**_model(one)).label
                    for one in several
                ],
                where,
            )
        case "set":
            for part, setting in _settings(value).items():
                _put(values, ("model", part), setting, where)
        case "zeros":
            values["zeros"] = _zeros(value, given.get("zeros_conflict"), trust)
        case "zeros_conflict":
            allowed = typing.get_args(defined.kind)
            if value not in allowed:
                raise SpecError(
                    f"{option(name)} is {shown(value)}; it must be one of {', '.join(allowed)}."
                )
            if "zeros" not in values and "zeros" not in given:
                raise SpecError(
                    f"{option('zeros_conflict')} says what to do with records that break a rule, "
                    f"but there are no rules; name them with {option('zeros', 'zeros.toml')}."
                )
            if "zeros" not in given:
                _put(values, path, value, where)
        case "missing_values":
            _put(values, path, missing_codes(value, _columns(values, given)), where)
        case "classics":
            if value:
                values.setdefault("classics", {})
            else:
                values.pop("classics", None)
        case _:
            _put(values, path, _meant(name, value), where)


def _meant(name: str, value: Any) -> Any:
    """Value of an option as the specification has it."""
    if name == "delimiter":
        return {"tab": "\t", "\\t": "\t"}.get(value, value)
    if name == "stratum_sizes":
        if _is_path(value):
            return read_stratum_sizes(Path(value))
        return {str(stratum): size for stratum, size in _plain(value).items()}
    if name in ("codebook", "household_file", "risk", *_TABLES) and _is_path(value):
        return str(Path(value).expanduser().absolute())
    if name == "scenarios":
        return read_scenarios(Path(value).expanduser()) if _is_path(value) else _plain(value)
    if name == "recodings":
        try:
            return with_paths(
                recodings_of(value), lambda path: path.expanduser().absolute(), texts=True
            )
        except ValueError:
            # The specification says what is wrong.
            return value
    if name == "path" and isinstance(value, Mapping) and "option" not in value and len(value) == 1:
        ((varied, values),) = value.items()
        return {"option": varied, "values": _plain(values)}
    return (
        _plain(value)
        if name
        in (
            "keys",
            "n",
            "codebook",
            "path",
            "sensitive",
            "by",
            "household",
            "household_keys",
            "head_keys",
            "relatives",
            "roles",
            "targets",
            "link",
        )
        else value
    )


_OF_KEY = re.compile(r"\s*(?P<key>[^;]*?[^;\s])\s*:\s+(?P<codes>[^;]+)")
_NONE = "none"
_RULE = re.compile(r"(?P<name>.+):\s*\w+\s*\([^()]*\)\s*", re.DOTALL)


def missing_codes(value: Any, columns: Sequence[str] = ()) -> Any:
    """Read missing codes: `-1,99` of all keys, `AGE: 999; SEX: 9` by key, or both: `-1; AGE: 999`.

    `AGE: none` is an empty list: no code of AGE means missing, whatever the file says.

    Parameters
    ----------
    value
        A text, or what Python accepts.
    columns
        Which the codes of all keys are for, where some have codes of their own.

    Examples
    --------
    >>> missing_codes("-1,99")
    ['-1', '99']
    >>> missing_codes("-1; AGE: 999,998", ["AGE", "SEX"])
    {'AGE': ['-1', '999', '998'], 'SEX': ['-1']}
    >>> missing_codes("OCCUPATION: none")
    {'OCCUPATION': []}
    """
    if not isinstance(value, str):
        value = _plain(value)
        return value if isinstance(value, (dict, list)) else [value]
    shared, by_key = split_codes(value)
    if not by_key:
        return _codes(value)
    common = [code for code in _codes(shared) if code]
    names = dict.fromkeys([*(columns if common else ()), *by_key])
    return {
        name: [] if by_key.get(name) == _NONE else [*common, *_codes(by_key.get(name, ""))]
        for name in names
    }


def split_codes(text: str) -> tuple[str, dict[str, str]]:
    """Split a text of missing codes: those of all keys, and those by key.

    Examples
    --------
    >>> split_codes("-1; AGE: 999,998")
    ('-1', {'AGE': '999,998'})
    """
    parts = [(part, _OF_KEY.fullmatch(part)) for part in text.split(";")]
    shared = ";".join(part for part, found in parts if found is None)
    return shared.strip(), {
        found["key"]: found["codes"].strip() for _, found in parts if found is not None
    }


def _codes(text: str) -> list[str]:
    return [code.strip() for code in text.split(",")] if text else []


def _columns(values: Mapping[str, Any], given: Mapping[str, Any]) -> list[str]:
    """Columns of the keys and the household, which missing codes are for."""
    listed: list[Any] = []
    design = values.get("design")
    # The design of an evaluation is a name.
    design = design if isinstance(design, Mapping) else {}
    for name, before in (("keys", values), ("household", design)):
        said = given.get(name, before.get(name, ()))
        listed += split_keys(said) if isinstance(said, str) else _plain(said)
    # A plan has a table for each key.
    listed = [one["key"] if isinstance(one, Mapping) else one for one in listed]
    return [text if (found := _RULE.fullmatch(text)) is None else found["name"] for text in listed]


def _plain(value: Any) -> Any:
    """Return NumPy and pandas values as Python's own."""
    if isinstance(value, Mapping):
        return {name: _plain(item) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    for convert in ("to_dict", "tolist"):
        # A series with an index, an array, a NumPy number.
        if hasattr(value, convert):
            return getattr(value, convert)()
    return value


def _model(value: Any) -> dict[str, Any]:
    """Name and options of a model, given as text, as a model or as a table."""
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
        "model is neither a name such as 'hdp' or 'gom:components=30', nor a model such as "
        f"unikat.HDP(), but a {type(value).__name__}."
    )


def _settings(value: Any) -> dict[str, Any]:
    """Options of the model, given as a mapping or as texts NAME=VALUE."""
    if isinstance(value, Mapping):
        return dict(_plain(value))
    found = {}
    for setting in [value] if isinstance(value, str) else value:
        name, equals, text = str(setting).partition("=")
        if not equals or not name.strip():
            raise SpecError(f"--set {setting!r} is not NAME=VALUE, such as alpha_shape=2.")
        found[name.strip()] = toml_value(text.strip())
    return found


def _zeros(value: Any, on_conflict: str | None, trust: Trust) -> Any:
    """Rules, given as a file, as a list of rules, or as a table."""
    if _is_path(value):
        # The user gave the file, and not what stands in it.
        return ZerosSpec.read(value, on_conflict, trust._replace(given=()))
    table = dict(value) if isinstance(value, Mapping) else {"rules": list(value)}
    return table if on_conflict is None else table | {"on_conflict": on_conflict}


def _put(values: dict[str, Any], place: tuple[str, ...], value: Any, where: str) -> None:
    """Put a value into nested tables."""
    for part in place[:-1]:
        values = values.setdefault(part, {})
        if not isinstance(values, dict):
            raise SpecError(f"{where} is not valid: {part} must be a table.")
    values[place[-1]] = value


_SHARED = (
    "out",
    "    Folder for the results; while the run lasts also for what `resume` goes on with. None:",
    "    nothing is written; see `save` of the answer.",
    "resume",
    "    Continue the unfinished run in `out`. Models can be added; to an evaluation also sizes",
    "    and repeats.",
    "overwrite",
    "    Replace the run in `out`, once the new results are complete.",
    "progress",
    "    Show the progress. None: in notebooks and on terminals only.",
)
"""What the documentation says of the parameters that every run has."""


def documented(specification: type[Spec], options_kind: Any) -> Callable[[Call], Call]:
    """Give a function the signature and the documentation of the options that it passes on."""

    def decorate(function: Call) -> Call:
        signature = inspect.signature(function)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        listed, lines = [], []
        for defined in options_of(options_kind):
            default = default_of(defined, specification)
            listed.append(
                inspect.Parameter(defined.name, inspect.Parameter.KEYWORD_ONLY, default=default)
            )
            shown = defined.option.default or ("none" if default is None else repr(default))
            lines += [defined.name, f"    {defined.option.help} Default: {shown}."]
        shown_signature = signature.replace(parameters=[*own, *listed])
        function.__signature__ = shown_signature  # type: ignore[attr-defined]  # of any callable
        # Beside those of the function, before what it returns.
        options = "\n".join([*_SHARED, *lines])
        before, head, after = inspect.cleandoc(function.__doc__ or "").partition("\nReturns\n")
        function.__doc__ = f"{before}{options}\n{head}{after}"
        return function

    return decorate
