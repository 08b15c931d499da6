"""The functions of Python that make a run: their options, signature and documentation."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from unikat.jobs.progress import watching
from unikat.spec.from_options import specify
from unikat.spec.kinds import Kind
from unikat.spec.option import options_of

Answer = TypeVar("Answer")


class _Shared(NamedTuple):
    """A parameter that every run has."""

    accepted: str
    default: Any
    help: str


_SHARED = {
    "out": _Shared(
        "str | os.PathLike[str] | None",
        None,
        "Folder for the results; while the run lasts also for what `resume` goes on with. None:\n"
        "    nothing is written; see `save` of the answer.",
    ),
    "resume": _Shared(
        "bool",
        False,
        "Continue the unfinished run in `out`. Models can be added; to an evaluation also sizes\n"
        "    and repeats.",
    ),
    "overwrite": _Shared(
        "bool", False, "Replace the run in `out`, once the new results are complete."
    ),
    "progress": _Shared(
        "bool | None", None, "Show the progress. None: in notebooks and on terminals only."
    ),
}


def run_from_python(
    kind: Kind, run: Callable[..., Answer], data: Any, options: Mapping[str, Any]
) -> Answer:
    """Run what Python asks for: options as keywords, progress where it can be shown."""
    own = {name: options.get(name, shared.default) for name, shared in _SHARED.items()}
    asked = {name: value for name, value in options.items() if name not in _SHARED}
    spec, inputs = specify(kind.specification, data, asked)
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


def documented(kind: Kind) -> Callable[[Callable[..., Answer]], Callable[..., Answer]]:
    """Give a function the signature and the documentation of the options that it passes on."""

    def decorate(function: Callable[..., Answer]) -> Callable[..., Answer]:
        signature = inspect.signature(function)
        defined = options_of(kind.specification)
        own = [p for p in signature.parameters.values() if p.kind is not p.VAR_KEYWORD]
        named = [(name, one.default, one.accepted) for name, one in _SHARED.items()]
        named += [(one.name, one.default, one.accepted) for one in defined]
        keywords = [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=value, annotation=kind)
            for name, value, kind in named
        ]
        complete = signature.replace(parameters=[*own, *keywords])
        function.__signature__ = complete  # type: ignore[attr-defined]  # of any callable
        lines = [f"{name}\n    {one.help}" for name, one in _SHARED.items()]
        lines += [
            f"{one.name}\n    {one.option.help} Default: {one.shown_default}." for one in defined
        ]
        # Beside those of the function, before what it returns.
        options = "\n".join(lines)
        before, head, after = inspect.cleandoc(function.__doc__ or "").partition("\nReturns\n")
        function.__doc__ = f"{before}{options}\n{head}{after}"
        return function

    return decorate
