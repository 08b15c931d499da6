"""Flags of the command line, made from the fields of specifications."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unikat.errors import SpecError, synonym
from unikat.spec.addresses import is_address
from unikat.spec.kinds import specification_of

if TYPE_CHECKING:
    from unikat.spec.option import Defined

_ALL = "unikat.help"
"""Under which a context knows that all options are asked for."""
_SHORT = 21
"""So many options are explained in any case."""


class Single(click.Command):
    """A command that refuses options given twice, of which click takes the last in silence.

    The same value twice is what was meant.
    """

    once: tuple[str, ...] | None = None
    """Names of these options; None: all."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what was given."""
        _, _, order = self.make_parser(ctx).parse_args(args=list(args))
        for parameter, times in Counter(order).items():
            if times > 1 and (self.once is None or parameter.name in self.once):
                spelled = (*parameter.opts, *parameter.secondary_opts)
                if len(_values_of(args, spelled, flag=getattr(parameter, "is_flag", False))) == 1:
                    continue
                names = "/".join(spelled)
                raise click.UsageError(f"{names} is given {times} times; give it once.", ctx)
        return super().parse_args(ctx, args)


def _values_of(args: Sequence[str], names: Sequence[str], *, flag: bool) -> set[str]:
    """Values of an option on a command line; of a flag its spellings."""
    found = set()
    for place, word in enumerate(args):
        name, equals, value = word.partition("=")
        if name in names:
            found.add(name if flag else value if equals else "".join(args[place + 1 : place + 2]))
    return found


class Once(Single):
    """A command whose help has the most used options first, and others where they are asked for."""

    once = ("keys", "target", "threshold")
    """Of which the first would go unasked, and unnoticed, if they were given twice."""

    def __init__(
        self,
        *args: Any,
        asks: str,
        only: Callable[[Defined], bool] = lambda _: True,
        **kwargs: Any,
    ) -> None:
        """Make the command.

        Parameters
        ----------
        args, kwargs
            As for any command; arguments and options that no field defines.
        asks
            Name of the class of the specification, with its module in `unikat.spec`. It is imported
            when the command is parsed or explained: until then `unikat --help` answers at once.
        only
            Which of its options the command has.
        """
        super().__init__(*args, **kwargs)
        self._asks, self._only = asks, only
        self.defined: tuple[str, ...] = ()
        """Names of the options that fields define, once they are known."""

    def get_params(self, ctx: click.Context) -> list[click.Parameter]:
        """List arguments and options."""
        if not self.defined:
            from unikat.spec.option import options_of

            known = [one for one in options_of(specification_of(self._asks)) if self._only(one)]
            self.defined = tuple(one.name for one in known)
            made = [_Argument(one) if one.option.positional else _Flag(one) for one in known]
            arguments = [one for one in self.params if isinstance(one, click.Argument)]
            others = [one for one in self.params if one not in arguments]
            self.params = [*arguments, *made, *others]
        return super().get_params(ctx)

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
        further = [one for one in known if isinstance(one, _Flag) and not one.first]
        if ctx.meta.get(_ALL) or len(known) <= _SHORT:
            super().format_options(ctx, formatter)
            return
        records = [one.get_help_record(ctx) for one in known if one not in further]
        with formatter.section("Options"):
            formatter.write_dl([record for record in records if record is not None])
        subjects: dict[str, list[str]] = {}
        for one in further:
            subjects.setdefault(one.subject, []).append(one.opts[0])
        with formatter.section(f"Further options ({ctx.command_path} --help all)"):
            width = max(map(len, subjects)) + 2
            room = formatter.width - formatter.current_indent - width
            for title, names in subjects.items():
                # A flag stays whole, so that it can be copied.
                lines = textwrap.wrap(", ".join(names), room, break_on_hyphens=False)
                for lead, line in zip_longest([title], lines, fillvalue=""):
                    formatter.write(f"{'':{formatter.current_indent}}{lead:<{width}}{line}\n")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse what was given."""
        try:
            return super().parse_args(ctx, args)
        except click.NoSuchOption as error:
            raise self._not_known(error, ctx) from None
        except click.BadOptionUsage as error:
            for one in self.get_params(ctx):
                if isinstance(one, _Flag) and error.option_name in one.opts and one.metavar:
                    raise click.UsageError(
                        f"{error.option_name} needs a value, {error.option_name} {one.metavar}. "
                        f"{one.help}",
                        ctx,
                    ) from None
            raise

    def _not_known(self, error: click.NoSuchOption, ctx: click.Context) -> Exception:
        """Name what is written in place of an option that went, or what other programs call so."""
        from unikat.spec.option import moved

        if instead := moved(error.option_name, specification_of(self._asks)):
            return SpecError(instead)
        spelled = [name for one in self.get_params(ctx) for name in one.opts]
        if (ours := synonym(error.option_name, spelled)) is None:
            return error
        return click.UsageError(
            f"No such option {error.option_name!r}. Did you mean {ours!r}?", ctx
        )


class _Flag(click.Option):
    """An option that a field of a specification defines, with the default of the field."""

    def __init__(self, defined: Defined) -> None:
        super().__init__(
            [defined.flag, defined.name],
            help=defined.option.help,
            metavar=defined.option.metavar or None,
            is_flag=defined.is_flag,
            multiple=defined.name == "set",
            default=None,
        )
        self._defined = defined
        self.subject = defined.subject

    @property
    def first(self) -> bool:
        """Whether `--help` explains it."""
        return self._defined.option.first

    def get_help_record(self, ctx: click.Context) -> tuple[str, str] | None:
        """Name and help, with the default."""
        record = super().get_help_record(ctx)
        shown = self._defined.shown_default.strip("'")
        if record is None or self._defined.is_flag or shown == "none":
            return record
        return record[0], f"{record[1]}  [default: {shown}]"


class _Data(click.ParamType):  # type: ignore[type-arg]  # no generic in click 8.1
    """A path, or the address of a database, whose slashes a path would join."""

    name = "file"

    def convert(self, value: Any, param: Any, ctx: Any) -> str | Path:
        """Tell them apart."""
        return value if isinstance(value, Path) or is_address(value) else Path(value)


DATA = _Data()
"""What a command reads."""


class _Argument(click.Argument):
    """An option that the command line takes as an argument, a file or an address."""

    def __init__(self, defined: Defined) -> None:
        super().__init__([defined.name], metavar=f"[{defined.flag}]", type=DATA, required=False)


def given(values: Mapping[str, Any]) -> dict[str, Any]:
    """Options of the specification that were given on the command line."""
    command = click.get_current_context().command
    names = command.defined if isinstance(command, Once) else ()
    return {name: values[name] for name in names if values[name] not in (None, ())}


def stem(path: Path | None, source: str | Path) -> str:
    """Beginning of a file's name, from which the name of a folder of results is made."""
    if is_address(source):
        return "data"
    name = Path(source).name if path is None else path.name
    return name.split(".")[0].strip("*") or "data"
