"""The functions of Python that make a run: their options, signature and documentation."""

from __future__ import annotations

import inspect
import textwrap
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from unikat.data.frames import with_column
from unikat.errors import SpecError
from unikat.jobs.outcome import Outcome
from unikat.jobs.progress import watching
from unikat.spec.from_options import specify
from unikat.spec.kinds import Kind
from unikat.spec.option import Defined, options_of
from unikat.spec.paths import is_path

Answer = TypeVar("Answer")
_WIDTH = 96
"""Of a line of the documentation."""


class _Shared(NamedTuple):
    """A parameter that every run has."""

    accepted: str
    default: Any
    help: str


_SHARED = {
    "out": _Shared(
        "str | os.PathLike[str] | None",
        None,
        "Folder for the results; while the run lasts also for what `resume` goes on with. None: "
        "nothing is written; see `save` of the answer.",
    ),
    "resume": _Shared(
        "bool",
        False,
        "Continue the unfinished run in `out`. Models can be added; to an evaluation also sizes "
        "and repeats.",
    ),
    "overwrite": _Shared(
        "bool", False, "Replace the run in `out`, once the new results are complete."
    ),
    "progress": _Shared(
        "bool | None", None, "Show the progress. None: in notebooks and on terminals only."
    ),
}


def run_from_python(
    kind: Kind, run: Callable[..., Answer], given: Sequence[Any], options: Mapping[str, Any]
) -> Answer:
    """Run what Python asks for: the data, options by place and by name, progress where it shows.

    Raises
    ------
    TypeError
        As of any function, if an argument is missing or given twice.
    SpecError
        If an option is unknown; the message says what is written in its place.
    """
    defined = options_of(kind.specification)
    data, options = _arguments(kind, defined, given, options)
    own = {name: options.get(name, shared.default) for name, shared in _SHARED.items()}
    asked = {name: value for name, value in options.items() if name not in _SHARED}
    for name, value in tuple(asked.items()):
        if isinstance(value, Outcome):
            asked[name], further = value.handed(data, asked)
            asked = {**further, **asked}
    for one in defined:
        if one.option.values and _are_values(asked.get(one.name)):
            data, asked[one.name] = _with_values(kind, data, one.name, asked[one.name])
    spec, inputs = specify(kind.specification, data, asked, also=tuple(_SHARED))
    folder = None if own["out"] is None else Path(own["out"]).expanduser()
    with watching(own["progress"]) as watcher:
        return run(
            spec,
            inputs,
            folder,
            resume=own["resume"],
            overwrite=own["overwrite"],
            watcher=watcher,
        )


def by_place(defined: Sequence[Defined]) -> list[Defined]:
    """Return the options that Python takes after the data without their names, in this order."""
    return sorted((one for one in defined if one.option.order), key=lambda one: one.option.order)


def _arguments(
    kind: Kind, defined: Sequence[Defined], given: Sequence[Any], options: Mapping[str, Any]
) -> tuple[Any, dict[str, Any]]:
    """Tell the data and the options by name."""
    names = ["data", *(one.name for one in by_place(defined))]
    if len(given) > len(names):
        known = [one.name for one in defined]
        example = "population_size=..." if "population_size" in known else "seed=1"
        raise TypeError(
            f"{kind.name}() takes {' and '.join(names)} without their names, in this order; give "
            f"all others by name, such as {example}."
        )
    placed = dict(zip(names, given, strict=False))
    if twice := [name for name in placed if name in options]:
        raise TypeError(f"{kind.name}() got several values of {twice[0]!r}.")
    named = {**placed, **options}
    if "data" not in named:
        raise TypeError(f"{kind.name}() needs data: a frame, or the path of a file.")
    return named.pop("data"), named


def _are_values(value: Any) -> bool:
    return value is not None and not isinstance(value, (str, int, float))


def _with_values(kind: Kind, data: Any, name: str, values: Any) -> tuple[Any, str]:
    """Add values that were handed over, such as weights, as a column; return its name too."""
    if kind.records:
        raise SpecError(
            f"{name} must be the name of a column here, since the records are given back with "
            f"all their columns. Add the values as a column, such as frame['{name}'] = values, "
            f"and name it: {name}='{name}'."
        )
    if is_path(data):
        raise SpecError(
            f"{name} of a file must be the name of one of its columns; values can be given beside "
            "a frame alone."
        )
    return with_column(data, name, values)


class _Type(str):
    """A type as it is shown: without the quotes of a text."""

    def __repr__(self) -> str:
        return str(self)


def documented(kind: Kind) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Give a function the signature and the documentation of the options that it passes on."""

    def decorate(function: Callable[..., Answer]) -> Callable[..., Answer]:
        signature = inspect.signature(function)
        defined = options_of(kind.specification)
        placed = [one.name for one in by_place(defined)]
        of_place, of_name = inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY
        own = [p for p in signature.parameters.values() if p.kind is of_place]
        of_options = {
            one.name: inspect.Parameter(
                one.name,
                of_place if one.name in placed else of_name,
                default=one.default,
                annotation=_Type(one.accepted_or_none),
            )
            for one in defined
        }
        shared = [
            inspect.Parameter(name, of_name, default=one.default, annotation=_Type(one.accepted))
            for name, one in _SHARED.items()
        ]
        first = [of_options.pop(name) for name in placed]
        complete = signature.replace(parameters=[*own, *first, *of_options.values(), *shared])
        function.__signature__ = complete  # type: ignore[attr-defined]  # of any callable
        # Beside those of the function, before what it returns.
        options = "\n".join(_explained(defined, placed))
        before, head, after = inspect.cleandoc(function.__doc__ or "").partition("\nReturns\n")
        function.__doc__ = f"{before}{options}\n{head}{after}"
        return function

    return decorate


def _explained(defined: Sequence[Defined], placed: Sequence[str]) -> Iterator[str]:
    """Explain the options, under their subjects: those that most runs need before all others."""
    first = [one for one in defined if one.option.first or one.name in placed]
    first.sort(key=lambda one: (one.name not in placed, one.option.order))
    rest = [one for one in defined if one not in first]
    subjects = list(dict.fromkeys(one.subject for one in rest))
    rest.sort(key=lambda one: subjects.index(one.subject))
    for one in first:
        yield from _entry(one.name, _meaning(one))
    for name, shared in _SHARED.items():
        yield from _entry(name, shared.help)
    for one in rest:
        yield from _entry(one.name, f"[{one.subject}] {_meaning(one)}")


def _meaning(one: Defined) -> str:
    default = "" if one.shown_default == "none" else f" Default: {one.shown_default}."
    return one.option.help + default


def _entry(name: str, text: str) -> list[str]:
    indent = "    "
    return [name, *textwrap.wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=indent)]
