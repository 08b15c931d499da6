"""Flags of the command line, made from the one definition of the options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from unikat.spec.addresses import is_address
from unikat.spec.option import Defined, default_of, options_of

Command = TypeVar("Command", bound=Callable[..., Any])


_ONCE = ("keys", "target", "threshold")
"""Options of which the first would go unasked, and unnoticed, if they were given twice."""


class Once(click.Command):
    """A command that refuses such an option given twice: click takes the last in silence."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what was given."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(order).items():
            if times > 1 and parameter.name in _ONCE:
                raise click.UsageError(
                    f"{parameter.opts[0]} is given {times} times; give it once.", ctx
                )
        return super().parse_args(ctx, args)


class _Flag(click.Option):
    """An option whose help shows the default of the specification.

    The specification is imported when the help is shown, and not before: `unikat --help` and
    a mistyped command answer at once.
    """

    def __init__(self, *args: Any, defined: Defined, specification: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._defined, self._specification = defined, specification

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Name and help, with the default."""
        record = super().get_help_record(ctx)
        if record is None or self._defined.flag:
            return record
        shown = self._defined.option.default or default_of(self._defined, self._load())
        if shown is None or shown == "none":
            return record
        return record[0], f"{record[1]}  [default: {shown}]"

    def _load(self) -> Any:
        from importlib import import_module

        module, _, name = self._specification.rpartition(".")
        return getattr(import_module(module), name)


class _Data(click.ParamType):  # type: ignore[type-arg]  # no generic in click 8.1
    """A path, or the address of a database, whose slashes a path would join."""

    name = "file"

    def convert(self, value: Any, param: Any, ctx: Any) -> str | Path:
        """Tell them apart."""
        return value if isinstance(value, Path) or is_address(value) else Path(value)


DATA = _Data()
"""What a command reads."""


def options(
    kind: Any, specification: str, left_out: Sequence[str] = ()
) -> Callable[[Command], Command]:
    """Give a command the options of a `TypedDict`; a specification, named in full, has defaults.

    Those of `left_out` are its arguments.
    """

    def decorate(command: Command) -> Command:
        for defined in reversed(options_of(kind)):
            if defined.name in left_out:
                continue
            command = click.option(
                f"--{defined.name.replace('_', '-')}",
                defined.name,
                cls=_Flag,
                defined=defined,
                specification=specification,
                help=defined.option.help,
                metavar=defined.option.metavar or None,
                is_flag=defined.flag,
                multiple=defined.name == "set",
                default=None,
            )(command)
        return command

    return decorate


def given(kind: Any, values: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the definition that were given on the command line."""
    names = [defined.name for defined in options_of(kind)]
    return {name: values[name] for name in names if values[name] not in (None, ())}


def stem(path: Path | None, source: str | Path, fallback: str) -> str:
    """Beginning of a file's name, from which the name of a folder of results is made."""
    if is_address(source):
        return fallback
    name = Path(source).name if path is None else path.name
    return name.split(".")[0].strip("*") or fallback
