"""Codebooks: declared levels, labels and missing codes of variables."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from unikat.data.keys import Key
from unikat.data.names import is_name
from unikat.data.numbers import number_meant
from unikat.errors import DataError, SpecError, brief, has_surrogates, listed, option, suggest
from unikat.files.json import parse_json
from unikat.files.toml import file_bytes, parse_toml, why_not_read
from unikat.spec.level_kinds import checked_kind
from unikat.spec.paths import hierarchy_file

_FIELDS = ("levels", "labels", "missing", "ordered", "kind")
_MOST_LABELLED = 40
"""With more levels than this, labels of some alone, as of the oldest ages, are usual."""
_LARGEST = 2**63
"""Whole numbers of files are smaller."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """What a codebook says of one variable; `labels` is keyed by the level as text."""

    levels: tuple[object, ...] | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    missing: tuple[object, ...] = ()
    ordered: bool | None = None
    """Whether the levels have an order; None leaves it to the source."""
    kind: str = ""
    """Kind of the levels, as `--levels` takes it but for files; empty: found from the file."""


def load_codebook(source: str | PathLike[str] | Mapping[str, Any] | None) -> dict[str, Entry]:
    """Read a codebook.

    Two shapes are understood, and may be mixed. The full one declares which levels there are, in
    what order, what they are called and which codes mean "missing"; every part may be left out::

        {"SEX": {"levels": [1, 2], "labels": ["male", "female"], "missing": [9]},
         "MAR": {"labels": {"1": "married", "2": "widowed"}},
         "HEALTH": {"levels": ["bad", "fair", "good"], "ordered": true},
         "JOB": {"kind": "isco08"}}

    The simple one gives labels only and declares no levels::

        {"SEX": {"1": "male", "2": "female"}, "AGE": "age in years"}

    Text instead of a table is a description and is passed over, as are names that begin with
    ``_``, and ``_`` and ``description`` within a variable. The same in TOML::

        [SEX]
        levels = [1, 2]
        labels = ["male", "female"]
        missing = [9]

    Parameters
    ----------
    source
        Path of a ``.json`` or ``.toml`` file, the same as a dictionary, or None.

    Returns
    -------
    dict
        An `Entry` per variable of which something is said.

    Raises
    ------
    DataError
        If the file is not there or is not JSON or TOML.
    SpecError
        If a part does not have its shape; a level is listed twice, or is also a missing code.
    """
    tree, name = _tree(source)
    return {
        variable: _entry(f"{name}, {brief(variable)!r}", said)
        for variable, said in tree.items()
        if isinstance(said, Mapping) and not variable.startswith("_")
    }


def _tree(source: str | PathLike[str] | Mapping[str, Any] | None) -> tuple[Mapping[str, Any], str]:
    """Read a codebook as it stands; and what messages call it."""
    if source is None:
        return {}, ""
    if isinstance(source, Mapping):
        tree, name = source, "The codebook"
    else:
        tree, name = _load(Path(source)), f"The codebook {brief(Path(source).name)}"
    if not isinstance(tree, Mapping) or not all(isinstance(variable, str) for variable in tree):
        raise SpecError(f"{name} must be a table of variables, such as {{'SEX': {{...}}}}.")
    return tree, name


@dataclass(frozen=True, kw_only=True)
class Changed:
    """What a column of a written file has, of which a codebook says otherwise."""

    levels: tuple[object, ...]
    """Values that a record has and that do not mean missing, in their order."""
    labels: Mapping[Any, str]
    """Of these."""


def changed_codebook(
    source: str | PathLike[str] | Mapping[str, Any] | None,
    labels: Mapping[str, Mapping[str, str]],
    changed: Mapping[str, Changed],
    left_out: Sequence[str],
) -> dict[str, Any]:
    """Make the codebook of a changed file.

    Parameters
    ----------
    source
        The codebook of the file as it was, as `load_codebook` takes it.
    labels
        Of variables that the codebook may not know.
    changed
        What became of the variables that were changed.
    left_out
        Variables that are no more there.

    Examples
    --------
    >>> new = Changed(levels=(1, 13), labels={1: "none", 13: "Sikh, Jewish"})
    >>> before = {"REL": {"1": "none", "3": "Sikh", "4": "Jewish"}, "AGE": "in years"}
    >>> changed_codebook(before, {}, {"REL": new}, ["AGE"])
    {'REL': {'1': 'none', '13': 'Sikh, Jewish'}}
    """
    tree = dict(_tree(source)[0])
    entries = load_codebook(source)
    for name, said in labels.items():
        if name not in entries:
            tree[name] = {"labels": dict(said)}
    for name, new in changed.items():
        if not isinstance(tree.get(name), Mapping):
            continue
        missing = {str(code) for code in entries[name].missing} if name in entries else set()
        of_missing = {
            code: label
            for code, label in (entries[name].labels if name in entries else {}).items()
            if code in missing
        }
        said = of_missing | {str(code): label for code, label in new.labels.items()}
        entry = dict(tree[name])
        if any(part in entry for part in _FIELDS):
            entry["labels"] = said
            if "levels" in entry:
                entry["levels"] = list(new.levels)
            tree[name] = {part: value for part, value in entry.items() if value != {}}
        else:
            kept = {part: entry[part] for part in ("_", "description") if part in entry}
            tree[name] = kept | said
    return {name: said for name, said in tree.items() if name not in left_out}


def codebook_warnings(
    entries: Mapping[str, Entry], columns: Sequence[str], keys: Sequence[Key], name: str
) -> tuple[str, ...]:
    """Warn of variables that a file does not have, and of keys some of whose levels have no label.

    Levels that only records tell are counted, not named.

    Examples
    --------
    >>> entries = load_codebook({"SXE": {"1": "male"}, "MAR": {"1": "married"}})
    >>> mar = Key(name="MAR", levels=(1, 2, 3), labels=("married", "2", "3"))
    >>> for warning in codebook_warnings(entries, ["SEX", "MAR"], [mar], "people.csv"):
    ...     print(warning)
    The codebook describes variables that people.csv does not have: SXE. Did you mean 'SEX'? ...
    The codebook has a label for 1 of the 3 levels of MAR; 2 have none. Add the others to its ...
    """
    said = []
    known = {*columns}
    if unknown := [variable for variable in entries if variable not in known]:
        near = suggest(unknown[0], [column for column in columns if is_name(column)])
        said.append(
            f"The codebook describes variables that {name} does not have: {listed(unknown)}.{near} "
            "What it says of them has no effect; check their names."
        )
    for key in keys:
        labels = {} if key.name not in entries else entries[key.name].labels
        levels = [str(level) for level in key.levels if level is not None]
        without = sum(level not in labels for level in levels)
        is_coded = key.binning is None and not key.by_hand
        if labels and without and is_coded and len(levels) <= _MOST_LABELLED:
            said.append(
                f"The codebook has a label for {len(levels) - without} of the {len(levels)} levels "
                f"of {brief(key.name)}; {without} {'has' if without == 1 else 'have'} none. Add "
                "the others to its labels, or check that its codes are those of the file."
            )
    return tuple(said)


def _load(path: Path) -> Any:
    name = f"The codebook {brief(path.name)}"
    try:
        content = file_bytes(path)
    except (OSError, ValueError) as error:
        why = why_not_read(error)
        raise DataError(
            f"The codebook {brief(str(path))} cannot be opened ({why}); check its path."
        ) from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise DataError(f"{name} is not UTF-8 text; save it as UTF-8.") from None
    is_toml = path.suffix.lower() == ".toml"
    try:
        return parse_toml(text) if is_toml else parse_json(text)
    except ValueError as error:
        wrong = "is not valid TOML" if is_toml else "cannot be read"
        raise DataError(f"{name} {wrong}: {error}.") from None


def _entry(where: str, said: Mapping[str, Any]) -> Entry:
    said = {part: value for part, value in said.items() if part not in ("_", "description")}
    if not any(part in said for part in _FIELDS):
        return Entry(labels=_labels(where, said, None))
    strange = next((str(part) for part in said if part not in _FIELDS), None)
    if strange is not None:
        raise SpecError(
            f"{where}: {brief(strange)!r} is not known beside {', '.join(_FIELDS)}."
            + suggest(strange, _FIELDS)
        )
    ordered = said.get("ordered")
    if not isinstance(ordered, bool | None):
        raise SpecError(f"{where}: ordered must be true or false.")
    kind = _kind(where, said["kind"]) if "kind" in said else ""
    levels = _values(where, "levels", said["levels"]) if "levels" in said else None
    missing = _values(where, "missing", said.get("missing", ()))
    if levels is not None:
        texts = [str(level) for level in levels]
        if len(set(texts)) != len(texts):
            raise SpecError(f"{where}: a level is listed more than once; list each once.")
        if set(texts) & {str(code) for code in missing}:
            raise SpecError(
                f"{where}: a code stands both in levels and in missing; leave it in one of them."
            )
    labels = _labels(where, said.get("labels"), levels)
    return Entry(levels=levels, labels=labels, missing=missing, ordered=ordered, kind=kind)


def _kind(where: str, said: object) -> str:
    try:
        kind = checked_kind(said)
    except ValueError as error:
        raise SpecError(f"{where}: {error}.") from None
    if hierarchy_file(kind) is not None:
        raise SpecError(
            f"{where}: a codebook names no file of levels; name it with "
            f"{option('levels', 'KEY: file(tree.csv)')}."
        )
    return kind


def _values(where: str, part: str, value: object) -> tuple[object, ...]:
    if isinstance(value, str) or not isinstance(value, Sequence):
        raise SpecError(f"{where}: {part} must be a list, such as [1, 2, 9].")
    if not all(isinstance(item, (str, int, float)) for item in value):
        raise SpecError(f"{where}: {part} must hold numbers, strings or true/false only.")
    for item in value:
        _check_value(where, part, item)
    return tuple(value)


def _check_value(where: str, part: str, item: object) -> None:
    """Refuse what no column holds and no result can be written with."""
    if isinstance(item, str) and has_surrogates(item):
        raise SpecError(
            f"{where}: a text in {part} is no Unicode text (it has half of a character, a lone "
            "surrogate); write it again."
        )
    if isinstance(item, (Mapping, list, tuple)):
        raise SpecError(
            f"{where}: {part} must hold a text for each level, no list and no table. If it is no "
            "variable, let its name begin with _."
        )
    too_long = isinstance(item, int) and number_meant(item) is None
    if too_long or (
        part != "missing" and isinstance(item, (int, float)) and not abs(item) < _LARGEST
    ):
        raise SpecError(f"{where}: {part} holds a number that is not finite or too large.")


def _labels(where: str, said: object, levels: tuple[object, ...] | None) -> dict[str, str]:
    if said is None:
        return {}
    if isinstance(said, Mapping):
        for text in (*said.keys(), *said.values()):
            _check_value(where, "labels", text)
        return {str(level): str(label) for level, label in said.items()}
    if isinstance(said, str) or not isinstance(said, Sequence):
        raise SpecError(f"{where}: labels must be a table from level to label, or a list.")
    if levels is None or len(said) != len(levels):
        raise SpecError(
            f"{where}: labels given as a list go with levels, one label per level; there are "
            f"{len(said)} labels and {0 if levels is None else len(levels)} levels."
        )
    for label in said:
        _check_value(where, "labels", label)
    return {str(level): str(label) for level, label in zip(levels, said, strict=True)}


def clipped(text: str, most: int) -> str:
    """Cut a text to a number of bytes, between characters."""
    return text.encode()[:most].decode(errors="ignore")
