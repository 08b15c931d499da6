"""`unikat start`: six questions from a file to a specification and the command that runs it."""

from __future__ import annotations

import shlex
from pathlib import Path
from textwrap import wrap
from typing import TYPE_CHECKING, Any

import click

from unikat.cli._options import DATA, Once, given
from unikat.cli._output import DONE, say, tell
from unikat.cli._policy import asked
from unikat.errors import DataError, SpecError
from unikat.spec.kinds import ASSESS, SYNTHESIZE

if TYPE_CHECKING:
    from unikat.data.first_look import FirstLook
    from unikat.spec.option import Defined

NOTHING = "-"
"""The answer that says that there is none."""
_SAID = (
    "keys", "population_size", "missing_values", "weights", "strata", "household", "household_keys",
    "head", "zeros",
)  # fmt: skip
_KINDS = {"risk": ASSESS, "synthetic": SYNTHESIZE}
_READING = ("format", "delimiter", "encoding", "sheet", "table")


def _about_start(one: Defined) -> bool:
    """Whether an option of an assessment is one that the questions are about."""
    return one.name in _SAID or (one.place[0] == "data" and one.name != "memory_limit")


@click.command(cls=Once, asks="assessment.AssessmentSpec", only=_about_start)
@click.argument("source", metavar="FILE", type=DATA)
@click.option(
    "--for",
    "purpose",
    type=click.Choice(list(_KINDS)),
    default="risk",
    show_default=True,
    help="What FILE is described for: its risk (unikat assess), or synthetic files (unikat "
    "synthesize).",
)
@click.option("--yes", is_flag=True, help="Ask nothing: take what is proposed.")
@click.option(
    "--out",
    metavar="FILE.toml",
    type=click.Path(path_type=Path),
    help="The specification to write.  [default: assessment.toml or synthesis.toml]",
)
@click.option("--overwrite", is_flag=True, help="Replace what is there.")
def start(source: str | Path, purpose: str, **values: Any) -> int:
    """Describe FILE in six questions, and write the specification of a run.

    Each question proposes an answer that was found in FILE: press Enter to take it, or write
    another; a - alone means none. An option that is given is not asked for. At the end FILE is
    read as described, and the command to run is printed.
    """
    from unikat.data.first_look import look
    from unikat.jobs.progress import watching
    from unikat.jobs.start import SUGGESTED, refuse_taken
    from unikat.jobs.start import start as write
    from unikat.report.text.numbers import counted, verb

    said = given(values)
    kind = _KINDS[purpose]
    path = values["out"] or Path(kind.spec)
    rules = path.with_name(SUGGESTED)
    refuse_taken(path, values["overwrite"])
    found = look(source, **{name: said[name] for name in _READING if name in said})
    ask = not values["yes"]
    number = 0
    for name in _QUESTIONS:
        if name not in said and _is_asked(name, said, kind is SYNTHESIZE):
            number += 1
            said[name] = _answer(name, said, found, kind, number if ask else None)
    suggest = "zeros" not in said
    if suggest and rules.exists() and not values["overwrite"]:
        tell(
            f"   {rules} is there already, so no impossible combinations are looked for. To use "
            f"its rules add --zeros {rules}; to replace it, --overwrite."
        )
        suggest = False
    if suggest and ask:
        text = f"{number + 1}. Look for impossible combinations, such as a married child"
        suggest = bool(asked({"text": text, "type": bool, "default": True}))
    try:
        with watching(True) as watcher:
            done = write(
                source,
                {name: "" if value == NOTHING else value for name, value in said.items()},
                found,
                kind,
                path,
                suggest=suggest,
                overwrite=values["overwrite"],
                watcher=watcher,
            )
    except (DataError, SpecError):
        if ask:
            tell("Nothing is written. The same answers as options, to correct them:")
            tell(f"    {_as_options(source, purpose, values, said)}")
        raise
    lines = ["", *wrap(done.read, width=88), f"Written: {done.path}"]
    if done.n_suggested:
        lines += wrap(
            f"{counted(done.n_suggested, 'combination')} {verb(done.n_suggested, 'do')} not occur "
            f"although expected: {rules}. Take the # off what is impossible, and add --zeros "
            f"{rules} to the command.",
            width=88,
        )
    elif suggest:
        lines += wrap(
            f"No impossible combinations were found, so there is no {SUGGESTED}. Rules that you "
            "know can be given in a file, with --zeros.",
            width=88,
        )
    say("\n".join([*lines, "", "Now run:", "", f"    {done.command}", ""]))
    return DONE


def _is_asked(name: str, said: dict[str, Any], synthetic: bool) -> bool:
    if name == "head":
        return synthetic and said.get("household") not in (None, NOTHING, "")
    if name == "population_size":
        return not synthetic and said.get("weights") in (None, NOTHING, "")
    return True


def _answer(
    name: str, said: dict[str, Any], found: FirstLook, kind: Any, number: int | None
) -> str:
    from unikat.jobs.start import check_answer, proposal

    so_far = {key: value for key, value in said.items() if value != NOTHING}
    default = "" if name == "population_size" else proposal(found, name, so_far, kind)
    if name == "missing_values":
        for (column, code), by in found.not_asked.items():
            tell(
                f"   {column}: {code} is taken as a value, not as missing: nearly all of a group "
                f"that {by} tells have it, so they were not asked."
            )
        for column, code in found.below_zero:
            tell(f"   {column}: {code} is taken as a value: all who have it are as those with 0.")
    if number is None:
        if name == "population_size":
            raise SpecError(_NO_SIZE)
        if default:
            tell(f"{_TITLES[name]}: {default}")
        return default
    if name == "keys" and found.identifiers:
        names = ", ".join(one.name for one in found.identifiers)
        tell(f"   Not proposed, since they name persons: {names}")
    question: dict[str, Any] = {"text": f"{number}. {_QUESTIONS[name]}"}
    if name == "population_size":
        # Who presses Enter learns what is missing.
        question |= {"default": NOTHING, "show_default": False}
    else:
        question["default"] = default or NOTHING

    def checked(text: str) -> str:
        """Take an answer that a run will take; of any other say why, and ask again."""
        text = text.strip()
        try:
            if text != NOTHING:
                check_answer(found, name, text, kind)
            elif name == "population_size":
                raise SpecError(_NO_SIZE)
        except (DataError, SpecError) as error:
            raise click.UsageError(str(error)) from None
        return text

    return str(asked(question | {"value_proc": checked}))


def _as_options(
    source: str | Path, purpose: str, values: dict[str, Any], said: dict[str, Any]
) -> str:
    """The command that gives the answers as options."""
    words = ["unikat", "start", str(source), "--for", purpose]
    for name, value in {**said, "out": values["out"]}.items():
        if value is not None and value not in ("", ()):
            words += [f"--{name.replace('_', '-')}", str(value)]
    return shlex.join([*words, *(["--overwrite"] if values["overwrite"] else [])])


_NO_SIZE = (
    "Nothing in FILE tells how many units the population has. Give it: --population-size N, or the "
    "column that tells it: --weights COLUMN."
)


_TITLES = {
    "missing_values": "Codes that mean missing",
    "household": "Household",
    "head": "Head of the household",
    "weights": "Weights",
    "keys": "Keys",
}
_QUESTIONS = {
    "missing_values": "Codes that mean missing, by column",
    "household": "Column that tells households apart, if whole households were sampled",
    "head": "A rule that is true of the head of the household alone",
    "weights": "Column of the weights: units of the population for each record",
    "population_size": "Units in the population, for example from the census",
    "keys": "Columns that an intruder may know of a person",
}
