"""Finished fits, so that an interrupted comparison or evaluation is resumed, or extended."""

from __future__ import annotations

import contextlib
import hashlib
import os
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeVar, get_type_hints

import numpy as np
from pydantic import TypeAdapter

from unikat.errors import OutputError, why
from unikat.files.json import json_text, parse_json
from unikat.files.writing import replace_file
from unikat.inference import checkpoint as checkpoints
from unikat.inference.checkpoint import Checkpoint
from unikat.studies.scores import Fit, FitScore, RecordScores

RISK: Literal["risk"] = "risk"
HELD_OUT: Literal["held-out"] = "held-out"
RACE: Literal["race"] = "race"
FOLDER, STUDY, FINISHED = "tasks", "study.json", "finished.fit"

T = TypeVar("T")


class Kept(NamedTuple):
    """A file of a fit, as it is now."""

    path: Path
    number: int
    """Of the file system."""
    written: int
    """When, in nanoseconds."""


@dataclass(frozen=True, kw_only=True)
class FitStore:
    """A folder in which fits are kept: finished ones, and checkpoints of those that are not.

    Every fit has a folder of its own. A finished one is a file of the format of checkpoints.
    """

    folder: Path
    resume: bool = False
    """Take finished fits from there, and go on with unfinished ones."""

    def load(
        self, name: str, run: Mapping[str, str], read: Callable[[dict[str, Any]], T]
    ) -> T | None:
        """Return a finished fit, made by `read` of what was saved; None if there is none."""
        path = self.folder / name / FINISHED
        content = checkpoints.load(path, run) if self.resume else None
        try:
            return None if content is None else read(content)
        except (ValueError, TypeError, LookupError, AttributeError):
            raise checkpoints.not_understood(path) from None

    def save(self, name: str, run: Mapping[str, str], content: Mapping[str, Any]) -> None:
        """Keep a finished fit; see `checkpoint.save`."""
        checkpoints.save(self.folder / name / FINISHED, run, content)

    def checkpoint(self, name: str) -> Checkpoint:
        """Where the chains of a fit are kept."""
        return Checkpoint(folder=self.folder / name, resume=self.resume)

    def kept(self) -> set[Kept]:
        """Return all files that are kept there."""
        found = set()
        for folder, _, files in os.walk(self.folder):
            for name in {FINISHED, checkpoints.FILE_NAME}.intersection(files):
                path = Path(folder, name)
                state = path.lstat()
                found.add(Kept(path, state.st_ino, state.st_mtime_ns))
        return found

    def clear(self, some: Collection[Kept] | None = None) -> None:
        """Delete what is kept there, or some of it, and nothing else."""
        try:
            for one in self.kept() if some is None else some:
                one.path.unlink(missing_ok=True)
            for folder, _, _ in os.walk(self.folder, topdown=False):
                with contextlib.suppress(OSError):
                    Path(folder).rmdir()
        except OSError as error:
            raise OutputError(
                f"The fits in {self.folder} cannot be deleted: {error.strerror or error}."
            ) from error


class StudyStore:
    """Keeps fits in a folder of their own; all of them belong to one study.

    Parameters
    ----------
    folder
        Folder of the study.
    identity
        Everything on which a fit depends, besides model, size and repetition, by name: models,
        sizes and repetitions can be added to a study, all else makes another study.
    """

    def __init__(self, folder: Path, identity: Mapping[str, str]) -> None:
        self._folder = folder / FOLDER
        self._fits = FitStore(folder=self._folder, resume=True)
        self._identity = dict(identity)

    def open(self, *, resume: bool) -> None:
        """Make the folder, or check that what it holds is of this study."""
        study = self._folder / STUDY
        if resume and study.exists():
            self._check(study)
            return
        try:
            self._delete()
            self._folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise OutputError(f"Cannot write to {self._folder}: {why(error)}.") from None
        replace_file(study, json_text(self._identity).encode())

    def discard_if_empty(self) -> None:
        """Remove the folder if no fit was kept."""
        if not any(path.name != STUDY for path in self._folder.glob("*")):
            with contextlib.suppress(OSError, OutputError):
                self._delete()

    def _delete(self) -> None:
        """Delete the fits and what says of which study they are, and nothing else."""
        (self._folder / STUDY).unlink(missing_ok=True)
        self._fits.clear()

    def load(self, fit: Fit) -> FitScore | None:
        """Return a fit that was finished before; a file that cannot be read is fitted again."""
        with contextlib.suppress(OutputError):
            return self._fits.load(*self._address(fit), _score)
        return None

    def save(self, score: FitScore) -> None:
        """Keep a fit; one that failed is not kept, so that it is tried again."""
        if score.error is None:
            fit = Fit(model=score.model, n=score.n, repeat=score.repeat)
            self._fits.save(*self._address(fit), asdict(score))

    def _address(self, fit: Fit) -> tuple[str, dict[str, str]]:
        """Name of a fit, and what identifies it."""
        words = re.sub(r"[^A-Za-z0-9]+", "-", fit.model)[:40].strip("-")
        mark = hashlib.sha256(fit.model.encode()).hexdigest()[:8]
        run = {name: str(value) for name, value in asdict(fit).items()}
        return f"n{fit.n}-r{fit.repeat}-{words}-{mark}", {**self._identity, **run}

    def _check(self, study: Path) -> None:
        try:
            kept = parse_json(study.read_bytes())
            different = [name for name, value in self._identity.items() if kept.get(name) != value]
        except (OSError, ValueError, AttributeError):
            raise OutputError(
                f"{study} cannot be read, so it is not known what study its fits are of; start "
                "again with --overwrite."
            ) from None
        if different:
            which = ", ".join(_SAID.get(name, name) for name in different)
            raise OutputError(
                f"The fits in {study.parent} are of another study; these differ: {which}. Resume "
                "with the options of that study (models, sizes and repeats may be added), start "
                "again with --overwrite, or choose another --out."
            )


_SAID = {"data, keys or strata": "data, keys, strata, sizes or impossible combinations"}
"""What messages call a part of a study, where its name in the file says too little."""


def _score(values: dict[str, Any]) -> FitScore:
    """Make a fit of what a file holds; it may hold anything."""
    kinds, records = get_type_hints(FitScore), values.pop("records")
    if records is not None:
        empty = asdict(RecordScores.none())
        records = RecordScores(
            **{k: np.asarray(records[k], v.dtype).reshape(v.shape) for k, v in empty.items()}
        )
    score = FitScore(
        **{name: TypeAdapter(kinds[name]).validate_python(value) for name, value in values.items()},
        records=records,
    )
    if score.error is not None:
        raise ValueError("a fit that failed is not kept")
    return score
