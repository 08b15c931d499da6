"""The first hour: from a file to a specification, by proposals that a person accepts or changes."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from unikat.data.binning import parse_keys
from unikat.data.first_look import MOST_KEYS, FirstLook
from unikat.errors import SpecError
from unikat.files.folder import keep_inputs
from unikat.files.toml import write_toml
from unikat.files.writing import replace_file
from unikat.inference.progress import Watcher
from unikat.jobs.households import read_households
from unikat.jobs.inputs import UNKNOWN, design_of, open_data, read_table
from unikat.jobs.zeros import find_suggestions, write_suggestions
from unikat.language.keys import column_of, quoted, split_keys
from unikat.report.text.numbers import counted
from unikat.report.text.sentences import understood, understood_households
from unikat.spec.assessment import AssessmentSpec
from unikat.spec.from_options import specify
from unikat.spec.kinds import ASSESS, SYNTHESIZE, Kind

SUGGESTED = "zeros.toml"
"""File of the rules that are suggested."""
MOST_RULES = 20
"""Rules that are suggested."""


@dataclass(frozen=True, kw_only=True)
class Started:
    """A specification that was written, and what was found when the file was read by it."""

    path: Path
    read: str
    """What was read: records, households, keys."""
    command: str
    """What runs it."""
    n_suggested: int
    """Rules that were suggested."""


def proposal(look: FirstLook, name: str, said: Mapping[str, Any], kind: Kind) -> str:
    """Propose the value of an option, as the command line takes it; empty: none.

    Parameters
    ----------
    look
        What the file tells.
    name
        Of the option.
    said
        Options that were answered before: codes for missing, household, weights.
    kind
        Of the run, an assessment or a synthesis.
    """
    household = split_keys(said.get("household") or "")
    if name == "missing_values":
        return "; ".join(
            f"{quoted(column)}: {','.join(codes)}" for column, codes in look.missing.items()
        )
    if name == "household":
        return ",".join(map(quoted, look.households))
    if name == "head":
        found = look.head(household) if household else None
        return found.rule if found else ""
    if name == "weights":
        weights = look.weights
        # A household that is drawn as a whole has one weight.
        apart = kind is SYNTHESIZE and household and weights not in look.shared(household)
        return "" if weights is None or apart else weights
    without = [*household, *filter(None, [look.weights, said.get("weights"), said.get("strata")])]
    keys = look.keys(without, household, drawn=kind is SYNTHESIZE)[:MOST_KEYS]
    head = said.get("head")
    if head and (role := look.head(household)) and role.column not in keys:
        keys = (*keys[: MOST_KEYS - 1], role.column)
    # Numbers are drawn within a group, and written as numbers again.
    grouped = kind is SYNTHESIZE
    return ",".join(
        f"{quoted(key)}:width(5)" if grouped and look.is_long_number(key) else quoted(key)
        for key in keys
    )


def check_answer(look: FirstLook, name: str, text: str, kind: Kind) -> None:
    """Refuse an answer that a run would refuse; arguments as of `proposal`, and the answer."""
    if name in ("household", "weights"):
        for column in split_keys(text):
            look.check_column(column_of(column))
    elif name == "keys":
        parse_keys(text, look.columns, source=look.name)
    elif name != "head":
        said = specify(kind.specification, Path(look.name), {name: text}, shell=True)[0]
        if isinstance(codes := said.data.missing_values, Mapping):
            for column in codes:
                look.check_column(column)


def refuse_taken(path: Path, overwrite: bool) -> None:
    """Refuse to replace a file that is there (SpecError)."""
    if path.exists() and not overwrite:
        raise SpecError(f"{path} is there already; add --overwrite, or name another with --out.")


def start(
    source: str | Path,
    said: Mapping[str, Any],
    look: FirstLook,
    kind: Kind,
    path: Path,
    *,
    suggest: bool,
    overwrite: bool,
    watcher: Watcher,
) -> Started:
    """Read a file as it was described, and write the specification that describes it so.

    Parameters
    ----------
    source
        The file.
    said
        Options by name, as the command line takes them.
    look
        What the file tells.
    kind
        Of the run.
    path
        Of the specification.
    suggest
        Look for impossible combinations too, and write them as comments beside it.
    overwrite
        Replace what is there.
    watcher
        Told how far it is.
    """
    rules = path.with_name(SUGGESTED)
    written = [path, *([rules] if suggest else [])]
    keep_inputs(written, [Path(source)])
    for one in written:
        refuse_taken(one, overwrite)
    options = {name: value for name, value in said.items() if value not in (None, "", ())}
    household = split_keys(options.get("household", ""))
    homes = kind is SYNTHESIZE and bool(household)
    if homes:
        columns = [column_of(key) for key in split_keys(options["keys"])]
        shared = [name for name in look.shared(household) if name in columns]
        # At least one key is of the members.
        if shared and len(shared) < len(columns) and "household_keys" not in options:
            options["household_keys"] = ",".join(map(quoted, shared))
        if "head" in options and (head := look.head(household)) and head.n_without:
            options["set"] = [*options.get("set", ()), "households.drop_headless=true"]
    else:
        options.pop("head", None)
    if kind is SYNTHESIZE:
        options.pop("population_size", None)
    spec, inputs = specify(kind.specification, source, options, shell=True)
    read = _read(spec, inputs, kind, homes, watcher)
    n_rules = 0
    if suggest:
        watcher.stage("Looking for impossible combinations")
        about = ("keys", "missing_values")
        asked: dict[str, Any] = {name: options[name] for name in about if name in options}
        of_keys = specify(AssessmentSpec, source, asked, shell=True)[0]
        table, found = find_suggestions(of_keys, together=2, most=MOST_RULES)
        n_rules = len(found)
        if found:
            name = spec.data.name or "the data"
            write_suggestions(table, found, rules, data=name, overwrite=overwrite, together=2)
    trusted = "" if _inside(spec.input_files(), path) else " --trust-spec"
    command = f"unikat {kind.name} {shlex.quote(str(path))}{trusted}"
    said_first = [f"Written by unikat start. To run it: {command}", read]
    comment = "".join(f"# {line}\n" for line in said_first)
    replace_file(path, (comment + _toml(spec, path.resolve().parent)).encode())
    return Started(path=path, read=read, command=command, n_suggested=n_rules)


def _read(spec: Any, inputs: Any, kind: Kind, homes: bool, watcher: Watcher) -> str:
    """Read the file as the run will, so that what it refuses is refused now; say what was read."""
    if homes:
        microdata, sample = read_households(spec, inputs.data, watcher)
        found = replace(sample.table, population_size=None)
        return understood_households(found, microdata.n_records)
    if kind is ASSESS:
        return understood(read_table(spec, design_of(spec), inputs, watcher)[1])
    table = open_data(spec.data, spec.keys, UNKNOWN, inputs.data, watcher=watcher).tabulate()
    return f"{counted(table.n_records, 'record')}, {counted(table.n_keys, 'key')}"


def _toml(spec: Any, folder: Path) -> str:
    """What the user has said, without all that is as usual."""
    from unikat.spec.paths import relative_path, with_paths

    moved = with_paths(spec, lambda path: relative_path(path, folder))
    values = moved.model_dump(mode="json", by_alias=True, exclude_none=True, exclude_defaults=True)
    schema = type(spec).model_fields["format_version"].default
    return write_toml({"schema": schema, **values})


def _inside(files: Sequence[Path], path: Path) -> bool:
    """Whether files lie in the folder of the specification, which may name them then."""
    folder = path.resolve().parent
    return all(one.resolve().is_relative_to(folder) for one in files)
