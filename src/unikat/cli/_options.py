"""Flags of the command line, made from the one definition of the options."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from unikat.spec.addresses import is_address
from unikat.spec.option import Defined, default_of, options_of

_ALL = "unikat.help"
"""Under which a context knows that all options are asked for."""

Command = TypeVar("Command", bound=Callable[..., Any])


_ONCE = ("keys", "target", "threshold")
"""Options of which the first would go unasked, and unnoticed, if they were given twice."""


_FIRST = {
    "keys",
    "population_size",
    "model",
    "weights",
    "household",
    "missing_values",
    "threshold",
    "target",
    "recode",
    "suppress",
    "pram",
    "swap",
    "id",
    "synthetic",
    "control",
    "models",
    "n",
    "design",
    "datasets",
    "attacks",
    "rules",
    "seed",
    "unseen",
    "out",
    "resume",
    "dry_run",
    "overwrite",
    "quiet",
}
"""Options that `--help` explains; it lists the others, which `--help all` explains."""
_SHORT = 21
"""So many options are explained in any case."""
_TITLES = {
    "": "Results, others",
    "data": "Reading the file",
    "design": "Sample design",
    "model": "Model",
    "households": "Households, relatives",
    "relatives": "Households, relatives",
    "zeros": "Population",
    "classics": "Further measures",
    "registry": "Further measures",
    "margins": "Population",
    "sampling": "Chains, computing",
    "report": "Results, others",
}
"""What the tables of a specification are called in the list of further options."""


class Once(click.Command):
    """A command whose help has the most used options first, and others where they are asked for.

    It refuses some options given twice, of which click takes the last in silence.
    """

    def get_help_option(self, ctx: click.Context) -> click.Option:
        """Make the option, of which `all` is the only value."""

        def show(ctx: click.Context, _: click.Parameter, value: str | None) -> None:
            if value is not None and not ctx.resilient_parsing:
                ctx.meta[_ALL] = value == "all"
                click.echo(ctx.get_help(), color=ctx.color)
                ctx.exit()

        return click.Option(
            self.get_help_option_names(ctx),
            metavar="[all]",
            is_flag=False,
            flag_value="short",
            expose_value=False,
            is_eager=True,
            callback=show,
            help="Show this message, or all options, and exit.",
        )

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Explain the options that most runs need, and list the others by subject."""
        known = [one for one in self.get_params(ctx) if isinstance(one, click.Option)]
        further = [one for one in known[:-1] if one.name not in _FIRST]
        if ctx.meta.get(_ALL) or len(known) <= _SHORT:
            super().format_options(ctx, formatter)
            return
        records = [one.get_help_record(ctx) for one in known if one not in further]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])
        subjects: dict[str, list[str]] = {}
        for one in further:
            table = one.table if isinstance(one, _Flag) else ""
            subjects.setdefault(_TITLES[table], []).append(one.opts[0])
        with formatter.section(f"Further options ({ctx.command_path} --help all)"):
            formatter.write_dl([(title, ", ".join(names)) for title, names in subjects.items()])

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
        path = defined.option.path(defined.name)
        self.table = path[0] if path[0] in _TITLES else ""

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


def stem(path: Path | None, source: str | Path) -> str:
    """Beginning of a file's name, from which the name of a folder of results is made."""
    if is_address(source):
        return "data"
    name = Path(source).name if path is None else path.name
    return name.split(".")[0].strip("*") or "data"
