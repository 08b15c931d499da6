"""The answer of a run: what every kind of it tells, shows and writes, and how it is read again."""

from __future__ import annotations

import contextlib
import functools
import os
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path
from typing import Any, ClassVar, Self

import pyarrow as pa

from unikat.data.frames import FILE, FrameKind
from unikat.errors import Leading, OutputError, SpecError, option
from unikat.files.folder import claimed
from unikat.files.json import parse_json
from unikat.files.writing import replace_file, write_text
from unikat.report.folders.committee import word_document
from unikat.report.folders.folder import read_run, replace_page, write_run
from unikat.report.pages.cards import card
from unikat.report.pages.committee import render as render_committee
from unikat.report.pages.plots import Figures
from unikat.report.text.language import speaking
from unikat.report.text.summary import explained
from unikat.spec.kinds import ASSESS, COMMITTEE, KINDS, WORD, Kind, kind_in


@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Outcome(Leading, ABC):
    """The answer of a run, whether it was just made or read from its folder."""

    summary: Any
    """Every number of the page, as the file of the numbers holds them. Called, `summary()`, it
    gives the main ones as a pandas frame."""
    spec: Any
    """What was asked, completed with what was left to be decided."""
    folder: Path | None = None
    """Where the results lie; None if they were not written."""
    _frames: FrameKind = FILE

    kind: ClassVar[Kind]

    @classmethod
    def loaded(cls, folder: Path, trust_spec: bool) -> Self:
        """Read the answer of a complete run from its folder; see :func:`load`."""
        summary, spec = read_run(cls.kind, folder)
        return cls(summary=summary, spec=spec, folder=folder.resolve())

    def handed(self, data: Any, asked: Mapping[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return what an option gets to which the answer is given, and options that go with it.

        Parameters
        ----------
        data
            What the other run is about.
        asked
            Its options.

        Raises
        ------
        SpecError
            If nothing is made of such an answer.
        """
        raise SpecError(
            f"An option was given {_with_article(self.kind)}; only the answer of unikat.synthesize "
            "can be given to a run, as in unikat.attack(original, synthesis). Give a file or frame."
        )

    @property
    def converged(self) -> bool:
        """Whether all fits converged."""
        return bool(self.summary.converged)

    def to_frame(self) -> Any:
        """Return the rows of the answer as a frame.

        Records of an assessment with their risk, models of a comparison, fits of an evaluation,
        attacks, keys of a verification, limits of a check; of a protection the protected records,
        and of a synthesis all synthetic records, with the number of their file in `dataset`.
        """
        return self._as_frame()

    @abstractmethod
    def _as_frame(self) -> Any: ...

    def _repr_html_(self) -> str:
        """Show the answer in a notebook."""
        with speaking(self.spec.report.language, self.spec.report.terms):
            return card(self._said_first(), self._shown())

    def _shown(self) -> list[list[Any]]:
        """Return the table that a notebook shows, its titles first."""
        rows = self.summary.overview()
        return [list(rows[0]), *(list(row.values()) for row in rows)] if rows else []

    def _said_first(self) -> list[str]:
        """Return the sentences that a notebook shows."""
        said = self.summary.sentences
        return [said[place] for place in ("verdict", "answer") if place in said]

    def save(self, folder: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write all files of the run into a folder.

        Parameters
        ----------
        folder
            Where to write; made if it does not exist. All files are readable by you alone.
        overwrite
            Replace the results of another run that are there.

        Returns
        -------
        Path
            The folder.

        Raises
        ------
        OutputError
            If the folder holds another run and `overwrite` is not set, or it cannot be written to;
            what was there is then still there.
        """
        folder = Path(folder).expanduser()
        if self.folder is not None and self.folder.resolve() == folder.resolve():
            return folder
        check_folder(self.kind, folder, overwrite=overwrite)
        self.write(folder)
        return folder

    @property
    def plot(self) -> Any:
        """Figures of the page, by name; printed, it lists them."""
        return Figures(self._said("", self._page).drawings)

    def to_html(self, language: str = "") -> str:
        """Return the page, a complete HTML document that needs no network.

        Parameters
        ----------
        language
            Code of its language, `en`, `es`, `fr` or `de`; empty: that of the run.

        Raises
        ------
        SpecError
            If there are no words in the language.
        """
        return str(self._said(language, self._page))

    @abstractmethod
    def _page(self, summary: Any) -> str:
        """Render the page."""

    def write(self, folder: Path) -> None:
        """Write the files of the run into a folder that is its own.

        Raises
        ------
        OutputError
            If anything cannot be written; what was in the folder is then still there.
        """
        page, others = self.to_html(), self._others(folder)
        write_run(
            self.kind, self.summary, page, self.spec, folder, note=self._note(), others=others
        )

    def _others(self, folder: Path) -> Mapping[str, Callable[[Path], None]]:
        """Return what writes the files besides numbers, page and specification, by name."""
        return {}

    def committee(self, language: str = "") -> str:
        """Return two pages for a committee that decides on a release, as HTML; see `to_html`.

        Raises
        ------
        SpecError
            If there are no words in the language, or the run is none of protection or check.
        """
        if not self.kind.decides:
            other = _with_article(self.kind)
            raise SpecError(f"Pages for a committee are of protection or check, not of {other}.")
        return str(self._said(language, render_committee))

    def write_word(self, path: str | os.PathLike[str], language: str = "") -> None:
        """Write the same as a document of Word, without its pictures.

        Raises
        ------
        SpecError
            As of `committee`, or if python-docx is not installed.
        OutputError
            If it cannot be written.
        """
        self.committee(language)
        replace_file(Path(path).expanduser(), self._said(language, word_document))

    def _said(self, language: str, make: Callable[[Any], Any]) -> Any:
        own = self.spec.report.language
        with speaking(language or own, self.spec.report.terms):
            return make(self.summary if language in ("", own) else explained(self.summary))

    def _for_committee(self) -> dict[str, Callable[[Path], None]]:
        """Return what writes the pages for a committee, by name."""
        return {COMMITTEE: functools.partial(write_text, text=self.committee())}

    def _note(self) -> str:
        """Return a comment of the specification."""
        same = "Fits had a time limit, so a repetition does not give exactly the same results."
        return "" if self.spec.sampling.max_seconds is None else same


class Tabled(Outcome):
    """An answer whose results are a table."""

    @cached_property
    def table(self) -> Any:
        """The table of the results, a frame of the kind of the data; a pandas frame for files."""
        return self._frames.frame(self._table(), same_rows=False)

    @abstractmethod
    def _table(self) -> pa.Table: ...

    def _as_frame(self) -> Any:
        return self.table


def refuse_other_kind(kind: Kind, folder: Path) -> None:
    """Refuse a folder of a run of another kind, whose page or fits would be lost (OutputError)."""
    ours = claimed(folder)
    if kind.spec in ours:
        return
    for other in KINDS.values():
        if other.spec in ours and any((folder / name).exists() for name in other.names):
            raise OutputError(
                f"The folder {folder} holds {_with_article(other)}. A run of another kind needs a "
                f"folder of its own: name it with {option('out')}. Nothing was written."
            )


def _with_article(kind: Kind) -> str:
    return f"{'an' if kind.noun[0] in 'aeiou' else 'a'} {kind.noun}"


def check_folder(
    kind: Kind, folder: Path, *, resume: bool = False, overwrite: bool = False
) -> None:
    """Refuse a folder that holds another run of the same kind, before any work is done."""
    replace, continue_ = option("overwrite", True), option("resume", True)
    if resume and overwrite:
        raise SpecError(f"{continue_} and {replace} exclude each other; give one of them.")
    if folder.exists() and not folder.is_dir():
        raise OutputError(f"{folder} is a file, not a folder; name another with {option('out')}.")
    found = [name for name in kind.files if (folder / name).exists()]
    unfinished = any((folder / name).exists() for name in kind.work)
    if resume and found and not unfinished:
        gone = f"its fits (the folder {kind.work[0]}) are gone, so it cannot be resumed"
        why = f"The {kind.noun} in {folder} is finished: there is nothing to resume"
        if kind.extends:
            why = f"Of the {kind.noun} in {folder} {gone}"
        elif _unconverged(kind, folder):
            why = f"The {kind.noun} in {folder} has not converged, but {gone}"
        raise OutputError(f"{why}. Repeat it with {replace}.")
    if resume or overwrite or not (found or unfinished):
        return
    complete = found and (kind.extends or not unfinished)
    what = (
        f"{_with_article(kind)} ({', '.join(found)})" if complete else f"an unfinished {kind.noun}"
    )
    remedy = (
        f"Replace it with {replace}"
        if complete and not kind.extends
        else f"Continue it with {continue_}, or replace it with {replace}"
    )
    raise OutputError(
        f"The folder {folder} already holds {what}. {remedy}, or name another with "
        f"{option('out')}. Nothing was written."
    )


def _unconverged(kind: Kind, folder: Path) -> bool:
    """Whether the results in a folder say that they have not converged."""
    with contextlib.suppress(OSError, ValueError):
        said = parse_json((folder / kind.numbers).read_bytes(), constants=True)
        return isinstance(said, dict) and said.get("converged") is False
    return False


def load(folder: str | os.PathLike[str], *, trust_spec: bool = False) -> Any:
    """Read a run from its folder.

    Parameters
    ----------
    folder
        The folder that `out` or `save` named.
    trust_spec
        Whether `what_if` of an assessment may read the file or database that the specification in
        the folder names, also outside of the folder. Only if you know who wrote it.

    Returns
    -------
    Assessment, Comparison, Evaluation, Protection, Synthesis, Attacks or Verification
        What the run gave; whichever lies there.

    Raises
    ------
    OutputError
        If there is no complete run, it is of another version, or a file of an assessment was
        changed since it was written.

    Examples
    --------
    >>> import unikat
    >>> unikat.load("no such folder")
    Traceback (most recent call last):
    unikat.errors.OutputError: no such folder is not a folder; name the folder of a run (its --out).
    """
    folder = Path(folder).expanduser()
    kind = kind_in(folder) or ASSESS
    module = vars(import_module(f"unikat.jobs.{kind.name}"))
    answer: Any = next(one for one in module.values() if getattr(one, "kind", None) is kind)
    return answer.loaded(folder, trust_spec)


def write_page(folder: Path, language: str = "", *, word: bool = False) -> Path:
    """Render the pages of a run again, in place of the old ones; return where the report is.

    With `word` also the document for a committee.

    Raises
    ------
    SpecError
        If there are no words in the language.
    OutputError
        As of `load`, or if it cannot be written; the old page is then still there.
    """
    found, folder = load(folder), folder.expanduser()
    if found.kind.decides:
        replace_page(folder, found.kind, lambda: found.committee(language), COMMITTEE)
    if word:
        found.write_word(folder / WORD, language)
    return replace_page(folder, found.kind, lambda: found.to_html(language))
