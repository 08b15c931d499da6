"""Fields of forms, made of the options of a kind of run: an option that is added has its field."""

from __future__ import annotations

import functools
import re
import typing
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from unikat.report.text.language import LANGUAGES, current
from unikat.report.text.words import say
from unikat.spec.kinds import Kind
from unikat.spec.models import HOUSEHOLDS, models_with
from unikat.spec.option import Defined
from unikat.web.drafts import fields_on
from unikat.web.folder import Folder
from unikat.web.runs import Run

BY_HAND: Mapping[str, Sequence[str]] = {
    "assess": ("model", "threshold", "by", "classics", "sensitive", "show_small_cells"),
    "compare": ("models", "path", "held_out"),
    "evaluate": ("n", "repeats", "models", "design", "allocation", "power", "size", "levels"),
    "protect": (
        "target", "suppress", "scenarios", "model", "swap", "swap_match", "perturbation_seed",
        "tables",
    ),
}  # fmt: skip
"""Options whose fields a template places, with words of its own."""
COMMON = ("sampling", "report")
"""Tables of a specification whose options are for statisticians."""
_IN_PYTHON = re.compile(r"\s*In Python also [^.]*\.")
GENERATORS = ("synthesize", "attack")
"""Kinds of runs whose model has to draw records."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """A field of a form."""

    name: str
    label: str
    help: str
    kind: Literal["text", "tick", "choice", "several"]
    choices: Sequence[tuple[str, str]] = ()
    """Values and words; of `several` those that can be ticked."""
    placeholder: str = ""
    """What happens without it."""
    first: bool = False
    """Whether the page shows it at once."""


def models_of(kind: Kind) -> Sequence[str]:
    """Return the names of the models that a run of a kind takes."""
    if kind.name in GENERATORS:
        return [*models_with(draws_records=True), HOUSEHOLDS]
    return models_with()


@dataclass(frozen=True, kw_only=True)
class Offered:
    """What fields can name."""

    folder: Folder
    columns: Sequence[str]
    """Of the file."""
    runs: Sequence[Run]
    values: Mapping[str, str]
    """What the fields hold, which is offered too."""


def fields_of(kind: Kind, offered: Offered) -> tuple[list[Field], list[Field]]:
    """Make the fields of a kind of run that no template places.

    Parameters
    ----------
    kind
        Of the run.
    offered
        What fields can name.

    Returns
    -------
    own, common
        Fields of what this kind does, and of how all kinds fit and report.
    """
    own: list[Field] = []
    common: list[Field] = []
    for one in listed(kind):
        field = _field(one, kind, offered)
        (common if one.place[0] in COMMON else own).append(field)
    return own, common


@functools.cache
def listed(kind: Kind) -> tuple[Defined, ...]:
    """Return the options of a kind that the page of the run lists by itself."""
    placed = {"set", *BY_HAND.get(kind.name, ())}
    return tuple(one for name, one in fields_on("run", kind).items() if name not in placed)


def asks_for_column(kind: Kind) -> bool:
    """Whether a field of a kind names a column."""
    return any(one.option.metavar == "COLUMN" for one in listed(kind))


def asks_for_run(kind: Kind) -> bool:
    """Whether a field of a kind names another run, or files of one."""
    return any(one.option.run for one in listed(kind))


def several(kind: Kind) -> Iterator[str]:
    """Yield the options of a kind of which several values are ticked, each in a field of its own.

    Such a field is called `option:value`.
    """
    yield from (one.name for one in listed(kind) if one.is_files)


def _field(one: Defined, kind: Kind, offered: Offered) -> Field:
    words = one.option.label or one.name.replace("_", " ").capitalize()
    default = "" if one.shown_default == "none" else one.shown_default
    required = default.startswith("required")
    made: dict[str, Any] = {
        "name": one.name,
        "label": words,
        "help": _IN_PYTHON.sub("", one.option.help),
        "first": kind.name not in BY_HAND and (one.option.first or required),
    }
    if one.is_flag:
        return Field(kind="tick", **made)
    if one.is_files:
        choices = _places(one, offered)
        known = {place for place, _ in choices}
        ticked = offered.values.get(one.name, "").splitlines()
        choices += [(place, place) for place in ticked if place not in known]
        return Field(kind="several", choices=choices, **made)
    choices = _choices(one, kind, offered)
    if choices:
        nothing = say("web.result.choose_one") if required else default or say("web.keys.none")
        if one.name == "model" and kind.name == "synthesize" and offered.values.get("household"):
            # It draws whole households where nothing else is said.
            nothing = HOUSEHOLDS
        if one.name == "language":
            # Reports are in the language of the pages where nothing else is said.
            nothing, choices = current(), [(text, text) for text in LANGUAGES]
        return Field(kind="choice", choices=[("", nothing), *choices], **made)
    return Field(kind="text", placeholder=default, **made)


def _choices(one: Defined, kind: Kind, offered: Offered) -> list[tuple[str, str]]:
    """Return what a field can be; nothing if it takes any text."""
    if one.is_file:
        return _places(one, offered)
    if one.option.metavar == "COLUMN":
        return [(name, name) for name in offered.columns]
    if one.name == "model":
        return [(name, name) for name in models_of(kind)]
    default = one.default
    return [(text, text) for text in _literals(one) if text != default]


def _places(one: Defined, offered: Offered) -> list[tuple[str, str]]:
    """Return the files and folders that a field can name."""
    found = []
    if of_run := one.option.run:
        done = [run for run in offered.runs if run.kind.name == of_run and run.answer is not None]
        for run in (run for run in done if run.id):
            if one.option.metavar == "FILE":
                made = run.kind.records_in(offered.folder.resolve(run.id))
                found += [(path, path) for path in (f"{run.id}/{name}" for name in made)]
            else:
                found.append((run.id, f"{run.id} ({say(f'web.kinds.{run.kind.name}')})"))
    if one.option.metavar != "DIR":
        found += [(path, path) for path in offered.folder.files(one.option.endings)]
    return found


def _literals(one: Defined) -> Iterator[str]:
    annotation = None if one.field is None else one.field.annotation
    for part in (annotation, *typing.get_args(annotation)):
        if typing.get_origin(part) is Literal:
            yield from map(str, typing.get_args(part))
