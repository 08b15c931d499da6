"""Attack synthetic files: from options to an answer, and to the folder of an attack."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, ClassVar, Unpack

import pyarrow as pa

from unikat.data.frames import FrameKind
from unikat.errors import DataError
from unikat.inference.processes import available_cores
from unikat.inference.progress import Watcher
from unikat.jobs.inputs import UNKNOWN, open_data
from unikat.jobs.job import Kind, Outcome, in_folder, start
from unikat.report.facts.attack import SCHEMA, AttackSummary, FileFacts
from unikat.report.folders import attack as pages
from unikat.report.pages.attack import render
from unikat.report.text.attack import explained, terminal_lines
from unikat.spec.attack import AttackOptions, AttackSpec
from unikat.spec.from_options import Inputs, documented
from unikat.spec.provenance import Provenance
from unikat.spec.tables import FileSpec
from unikat.synthesis.attacks import run as attacks
from unikat.synthesis.attacks.files import Named, aligned

ATTACK = Kind(
    noun="attack",
    spec=AttackSpec,
    options=AttackOptions,
    results=pages.FILES,
    work=(),
    extends=False,
)


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Attacks(Outcome):
    """What an intruder learns from synthetic files; from :func:`unikat.attack`.

    `table` has one row per attack.
    """

    summary: AttackSummary
    spec: AttackSpec
    kind: ClassVar[Kind] = ATTACK

    def to_html(self) -> str:
        """Return the page, a complete HTML document that needs no network."""
        return render(self.summary)

    def _table(self) -> pa.Table:
        return pages.table(self.summary)

    def _write(self, folder: Path) -> None:
        pages.write(self.summary, folder, self.spec)

    def __repr__(self) -> str:
        return "\n".join(terminal_lines(self.summary))

    def _repr_html_(self) -> str:
        html: str = self.table._repr_html_()
        return html


@documented(AttackSpec, AttackOptions)
def attack(
    data: Any,
    *,
    out: str | os.PathLike[str] | None = None,
    overwrite: bool = False,
    progress: bool | None = None,
    **options: Unpack[AttackOptions],
) -> Attacks:
    """Attack synthetic files as an intruder would, and compare with what he has without them.

    Parameters
    ----------
    data
        The original, from which the synthetic files were made: a file or frame as for
        :func:`unikat.assess`; or the path of an ``attack.toml``.

    Returns
    -------
    Attacks
        Success of each attack, of its baseline, and the excess, with intervals.

    Raises
    ------
    SpecError, DataError
        If an option or the files are wrong. Nothing was written.
    OutputError
        If `out` holds an attack and `overwrite` is not set, or it cannot be written.

    Examples
    --------
    >>> import pandas as pd, unikat
    >>> original = pd.DataFrame({"SEX": [1, 2, 2, 1], "AGE": [30, 41, 52, 30]})
    >>> found = unikat.attack(original, synthetic=original, keys="SEX,AGE")
    >>> found.table["rate"].tolist()[0]
    0.5
    """
    return start(ATTACK, run, data, options, out, False, overwrite, progress)


@in_folder(ATTACK)
def run(
    spec: AttackSpec,
    inputs: Inputs,
    folder: Path | None,
    *,
    resume: bool,
    overwrite: bool,
    watcher: Watcher,
) -> Attacks:
    """Attack the synthetic files of a specification (see :func:`in_folder`)."""
    started = datetime.now(UTC)
    watcher.stage("Reading")
    names = [one.partition(":")[0].strip() for one in spec.keys]
    further = [one for one in spec.targets if one.partition(":")[0].strip() not in names]
    used = [*spec.keys, *further]
    original = _opened(spec, spec.data, used, inputs.data)
    synthetic = list(_synthetic(spec, used, inputs.synthetic))
    others = [
        None if one is None else _opened(spec, one, used, frame, what)
        for one, frame, what in (
            (spec.control, inputs.control, "the control file"),
            (spec.population, inputs.population, "the population"),
        )
    ]
    files = aligned(original, synthetic, *others, n_keys=len(names))
    wanted = [one.partition(":")[0].strip() for one in spec.targets] or names
    link = [name for name in names if name in (spec.link or names[: (len(names) + 1) // 2])]
    parts = (
        [names.index(name) for name in link],
        [place for place, name in enumerate(names) if name not in link],
    )
    found = attacks.attack(
        files,
        [files.names.index(name) for name in wanted],
        parts,
        n_attacks=spec.attacks,
        seed=spec.sampling.seed,
        level=spec.level,
        n_threads=spec.sampling.threads or available_cores(),
        stage=watcher.stage,
    )
    control = others[0]
    summary = explained(
        AttackSummary(
            schema=SCHEMA,
            original=_facts(original),
            synthetic=tuple(map(_facts, synthetic)),
            control=None if control is None else _facts(control),
            keys=tuple(names),
            targets=tuple(wanted),
            link=(tuple(link), tuple(name for name in names if name not in link)),
            n_attacked=min(spec.attacks, original.table.n_records),
            seed=spec.sampling.seed,
            level=spec.level,
            attacks=found,
            sentences={},
            provenance=Provenance.now(
                seed=spec.sampling.seed,
                data_fingerprint=original.table.fingerprint,
                started=started,
            ),
        )
    )
    if folder is not None:
        watcher.stage("Writing")
        pages.write(summary, folder, spec)
    return Attacks(summary=summary, spec=spec, folder=folder, _frames=FrameKind.of(inputs.data))


def _facts(file: Named) -> FileFacts:
    return FileFacts(name=file.name, n_records=file.table.n_records)


def _synthetic(spec: AttackSpec, keys: Sequence[str], frames: Sequence[Any]) -> Iterator[Named]:
    """Read the synthetic files; a folder of synthetic_1, synthetic_2, ... is these files."""
    left = iter(frames)
    for number, file in enumerate(spec.synthetic, start=1):
        if file.path is None:
            what = "The synthetic frame" if len(frames) == 1 else f"Synthetic frame {number}"
            yield _opened(spec, file, keys, next(left, None), what)
            continue
        paths = [file.path]
        if file.path.is_dir() and (several := _numbered(file.path)):
            paths = several
        for path in paths:
            yield _opened(spec, file.model_copy(update={"path": path}), keys)


def _numbered(folder: Path) -> list[Path]:
    """Files synthetic_1, synthetic_2, ... of a folder, in order."""
    found = {
        int(match[1]): path
        for path in folder.iterdir()
        if (match := re.fullmatch(r"synthetic_([0-9]+)\..+", path.name))
    }
    return [found[number] for number in sorted(found)]


def _opened(
    spec: AttackSpec,
    file: FileSpec,
    keys: Sequence[str],
    frame: Any = None,
    what: str = "The original",
) -> Named:
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
    microdata = open_data(data, keys, UNKNOWN, frame, constant_keys=constant)
    name = what if file.path is None else file.path.name
    return Named(name, microdata.tabulate())
