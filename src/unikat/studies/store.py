"""Finished fits, so that an interrupted comparison or evaluation is resumed, or extended."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any, Literal, get_type_hints

import numpy as np
from pydantic import TypeAdapter

from unikat.errors import OutputError, why
from unikat.files.json import json_text, parse_json
from unikat.files.writing import replace_file
from unikat.inference.checkpoint import FILE_NAME as CHECKPOINT
from unikat.inference.identity import digest
from unikat.models.base import AnyModel
from unikat.studies.scores import Fit, FitScore, RecordScores

FOLDER, STUDY = "tasks", "study.json"
_SCHEMA = "unikat.fit/1"
_FIT = re.compile(r"n[0-9]+-r[0-9]+-[A-Za-z0-9-]*-[0-9a-f]{8}\.json")
"""Names that `StudyStore` gives."""
_SUMMARIES = ("tau1", "tau2", "tau1_expected", "tau2_expected")


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
        self._identity = dict(identity)
        self._digest = hashlib.sha256(json.dumps(self._identity).encode()).hexdigest()[:16]

    def open(self, *, resume: bool) -> None:
        """Make the folder, or check that what it holds is of this study.

        Raises
        ------
        OutputError
            If the fits are of another study, or the folder cannot be made.
        """
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
            with contextlib.suppress(OSError):
                self._delete()

    def _delete(self) -> None:
        """Delete the fits and what says of which study they are, and nothing else."""
        for path in self._folder.glob("*"):
            if path.name == STUDY or _FIT.fullmatch(path.name):
                path.unlink()
        with contextlib.suppress(OSError):
            self._folder.rmdir()

    def load(self, fit: Fit) -> FitScore | None:
        """Return a fit that was finished before; a file that cannot be read is fitted anew."""
        try:
            content = parse_json(self._path(fit).read_bytes())
            if content["schema"] != _SCHEMA or content["study"] != self._digest:
                return None
            score = _score(content["fit"])
        except (OSError, ValueError, KeyError, TypeError, AttributeError):
            return None
        same = Fit(model=score.model, n=score.n, repeat=score.repeat) == fit
        return score if same and score.error is None else None

    def save(self, score: FitScore) -> None:
        """Keep a fit; one that failed is not kept, so that it is tried again.

        Raises
        ------
        OutputError
            If it cannot be written.
        """
        if score.error is not None:
            return
        fit = Fit(model=score.model, n=score.n, repeat=score.repeat)
        content = {"schema": _SCHEMA, "study": self._digest, "fit": _plain(score)}
        replace_file(self._path(fit), json_text(content).encode())

    def _path(self, fit: Fit) -> Path:
        words = re.sub(r"[^A-Za-z0-9]+", "-", fit.model)[:40].strip("-")
        mark = hashlib.sha256(fit.model.encode()).hexdigest()[:8]
        return self._folder / f"n{fit.n}-r{fit.repeat}-{words}-{mark}.json"

    def _check(self, study: Path) -> None:
        try:
            kept = parse_json(study.read_bytes())
            different = [name for name, value in self._identity.items() if kept.get(name) != value]
        except (OSError, ValueError, AttributeError):
            raise OutputError(
                f"{study} cannot be read, so it is not known what study its fits are of; start "
                "anew with --overwrite."
            ) from None
        if different:
            which = ", ".join(_SAID.get(name, name) for name in different)
            raise OutputError(
                f"The fits in {study.parent} are of another study; these differ: {which}. Resume "
                "with the options of that study (models, sizes and repeats may be added), start "
                "anew with --overwrite, or choose another --out."
            )


_SAID = {"data, keys or strata": "data, keys, strata, sizes or impossible combinations"}
"""What messages call a part of a study, where its name in the file says too little."""


def _plain(score: FitScore) -> dict[str, Any]:
    values = {f.name: getattr(score, f.name) for f in fields(score)}
    for name in _SUMMARIES:
        values[name] = None if values[name] is None else asdict(values[name])
    if score.records is not None:
        values["records"] = {
            f.name: getattr(score.records, f.name).tolist() for f in fields(score.records)
        }
    return values


def _score(values: dict[str, Any]) -> FitScore:
    kinds = get_type_hints(FitScore)
    for name in values.keys() - {"records"}:
        values[name] = TypeAdapter(kinds[name]).validate_python(values[name])
    records = values["records"]
    if records is not None:
        empty = RecordScores.none()
        arrays = {
            f.name: np.asarray(records[f.name], getattr(empty, f.name).dtype) for f in fields(empty)
        }
        if any(array.shape != getattr(empty, name).shape for name, array in arrays.items()):
            raise ValueError("the arrays have another shape")
        values["records"] = RecordScores(**arrays)
    return FitScore(**values)


RISK: Literal["risk"] = "risk"
HELD_OUT: Literal["held-out"] = "held-out"
FINISHED = "finished.fit"


@dataclass(frozen=True, kw_only=True)
class FitStore:
    """A folder in which fits are kept: finished ones, and checkpoints of those that are not."""

    folder: Path
    resume: bool = False
    """Take finished fits from there, and go on with unfinished ones."""

    def place(self, model: AnyModel, kind: str) -> Path:
        """Folder of one fit."""
        return self.folder / f"{model.name}-{digest(model)}-{kind}"

    def clear(self) -> None:
        """Delete what is kept there, and nothing else.

        Raises
        ------
        OutputError
            If something cannot be deleted.
        """
        try:
            fits = [fit for kind in (RISK, HELD_OUT) for fit in self.folder.glob(f"*-{kind}")]
            for fit in fits:
                for name in (FINISHED, CHECKPOINT):
                    (fit / name).unlink(missing_ok=True)
                with contextlib.suppress(OSError):
                    fit.rmdir()
            with contextlib.suppress(OSError):
                self.folder.rmdir()
        except OSError as error:
            raise OutputError(
                f"The fits in {self.folder} cannot be deleted: {error.strerror or error}."
            ) from error
