"""Read the files of an attack, all with the options of the original."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from unikat.data.grouping import numbered_households
from unikat.errors import DataError
from unikat.inference.progress import SILENT, Watcher
from unikat.jobs.inputs import UNKNOWN, open_data
from unikat.report.facts.attack import FileFacts
from unikat.report.folders.synthesis import fit_beside
from unikat.spec.attack import AttackSpec
from unikat.spec.tables import FileSpec
from unikat.synthesis.attacks.control import Opened
from unikat.synthesis.attacks.files import Named


def file_facts(file: Opened) -> FileFacts:
    """What a page says of a file."""
    return FileFacts(
        name=file.named.name, n_records=file.named.table.n_records, fit=fit_beside(file.path)
    )


def synthetic_files(
    spec: AttackSpec, keys: Sequence[str], frames: Sequence[Any]
) -> Iterator[Opened]:
    """Read the synthetic files; a folder of synthetic_1, synthetic_2, ... is these files."""
    left = iter(frames)
    for number, file in enumerate(spec.synthetic, start=1):
        if file.path is None:
            what = "The synthetic frame" if len(frames) == 1 else f"Synthetic frame {number}"
            yield opened(spec, file, keys, next(left, None), what)
            continue
        paths = [file.path]
        if file.path.is_dir() and (several := _numbered(file.path)):
            paths = several
        for path in paths:
            yield opened(spec, file.model_copy(update={"path": path}), keys)


def _numbered(folder: Path) -> list[Path]:
    """Files synthetic_1, synthetic_2, ... of a folder, in order."""
    found = {
        int(match[1]): path
        for path in folder.iterdir()
        if (match := re.fullmatch(r"synthetic_([0-9]+)\..+", path.name))
    }
    return [found[number] for number in sorted(found)]


def opened(
    spec: AttackSpec,
    file: FileSpec,
    keys: Sequence[str],
    frame: Any = None,
    what: str = "The original",
    watcher: Watcher = SILENT,
) -> Opened:
    """Read a file with the options of the original, a missing value as a level of its own."""
    if file.path is None and frame is None:
        raise DataError(
            f"{what} has no file, as in a run of a data frame. Write its path into the "
            "specification, or pass the file or frame itself with the options."
        )
    own = {name: getattr(file, name) for name in FileSpec.model_fields}
    for name in ("delimiter", "encoding", "decimal"):
        # Text files are alike unless something else is said.
        own[name] = own[name] or getattr(spec.data, name)
    data = spec.data.model_copy(update={**own, "missing": "level"})
    constant = file is not spec.data
    others = file is spec.control or file is spec.population
    drawn = file is spec.data or (spec.of_households and not others)
    design = replace(UNKNOWN, household=spec.household) if drawn else UNKNOWN
    # What codes mean is the same in all files: none of those declared missing is a level.
    microdata = open_data(
        data, keys, design, frame, watcher=watcher, constant_keys=constant, answers={}
    )
    name = what if file.path is None else file.path.name
    of_record = None
    # Other files need not tell who lives together; if they do, households are attacked too.
    tells = drawn or {*spec.household} <= {*microdata.source.columns}
    if spec.household and tells and file is not spec.population:
        of_record = numbered_households(microdata, spec.household, spec.data.missing_values)
    return Opened(Named(name, microdata.tabulate(), of_record), microdata, file.path)
