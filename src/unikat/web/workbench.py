"""What all pages of one workbench share: its folder, its runs, and what its forms hold."""

from __future__ import annotations

import contextlib
import secrets
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, cast

from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from unikat.errors import UnikatError
from unikat.report.text.language import current
from unikat.report.text.words import say
from unikat.spec.models import SIMPLEST
from unikat.web.archive import Archive
from unikat.web.candidates import Candidates
from unikat.web.draft_files import SECRETS, ChosenLanguage, DraftFiles
from unikat.web.drafts import PAGES, Draft
from unikat.web.explorers import Explorers
from unikat.web.folder import Folder, NotInFolderError
from unikat.web.foreseer import Foreseer
from unikat.web.pages.template import Pages
from unikat.web.runs import Run, Runs
from unikat.web.sources import NotConnectedError, RunSource, Sources, stamp

if TYPE_CHECKING:
    from unikat.data import CellTable
    from unikat.data.grouping import HouseholdSample
    from unikat.data.held import Held
    from unikat.data.profile import Profile
    from unikat.jobs.column_preview import ColumnsSeen
    from unikat.jobs.dry_run import DryRun
    from unikat.jobs.files import RunRows
    from unikat.jobs.levels import EditedKey
    from unikat.spec.assessment import AssessmentSpec
    from unikat.spec.base import Spec
    from unikat.spec.kinds import Kind
    from unikat.spec.protection import ProtectionSpec

MOST_PROFILES, MOST_COLUMNS, MOST_CODED, MOST_TABLES = 16, 24, 64, 2
"""Profiles of files, columns of theirs, keys that are coded, and tables that are kept."""
MOST_VALUES, MOST_BYTES = 5_000_000, 100_000_000
"""Values and bytes of a file that is held in memory whole once a column of it is needed."""
T = TypeVar("T")
MOST_UNDONE = 50
"""Changes of a file's forms that can be taken back."""
TOWN = "simulated-town/town-sample.csv"
"""File of the guided first run."""
GUIDED = ("file", "keys", "columns", "run", "runs")
"""Pages that say what to do with it."""


class Kept:
    """The last of what takes long to find, each by what it was found from."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._found: dict[object, Any] = {}
        self._lock = threading.Lock()

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._found.clear()

    def get(self, asked: object, find: Callable[[], T]) -> T:
        """Return what was found before, or find it; one at a time, since each takes all cores."""
        return self.get_all([asked], lambda _: [find()])[0]

    def get_all(
        self, asked: Sequence[object], find: Callable[[Sequence[int]], Sequence[T]]
    ) -> list[T]:
        """Return several; those that were not found before are found together, by their places."""
        with self._lock:
            fresh = [place for place, one in enumerate(asked) if one not in self._found]
            new = dict(zip(fresh, find(fresh), strict=True)) if fresh else {}
            found: list[T] = []
            for place, one in enumerate(asked):
                found.append(new[place] if place in new else self._found.pop(one))
                # The last that was asked for stands last.
                self._found[one] = found[-1]
            # What is asked for at once is kept together, however much it is.
            while len(self._found) > max(self._most, len(asked)):
                del self._found[next(iter(self._found))]
            return found


@dataclass(frozen=True, kw_only=True)
class Nav:
    """Where a page stands, for the head of all pages."""

    here: str
    """The step that is current: `file`, `keys`, `columns`, `run` or `runs`."""
    path: str = ""
    """The file that the steps are about; empty if none was chosen."""

    @property
    def guide(self) -> str:
        """What to do next in the guided first run; empty for other files."""
        if self.path != TOWN or self.here not in GUIDED:
            return ""
        return say(f"web.guide.{self.here}", model=SIMPLEST)


@dataclass(frozen=True, kw_only=True)
class Tab:
    """A form in a tab of the browser."""

    id: str
    since: str
    """The tab that had written the form last when this one was opened."""


@dataclass(frozen=True, kw_only=True)
class Workbench:
    """One workbench."""

    folder: Folder
    runs: Runs
    archive: Archive
    candidates: Candidates
    pages: Pages
    explorers: Explorers
    sources: Sources
    """What may be read."""
    foreseer: Foreseer
    read_only: bool
    """Whether finished runs are shown, and nothing is taken in."""
    states: DraftFiles
    """What is kept of drafts on disk."""
    spoken: ChosenLanguage
    _past: dict[str, deque[Draft]] = field(default_factory=dict)
    """What forms held before, by file."""
    _writers: dict[tuple[str, str], str] = field(default_factory=dict)
    """The tab that wrote last, by file and form."""
    _drafts: dict[str, Draft] = field(default_factory=dict)
    _profiles: Kept = field(default_factory=lambda: Kept(MOST_PROFILES))
    _columns: Kept = field(default_factory=lambda: Kept(MOST_COLUMNS))
    _coded: Kept = field(default_factory=lambda: Kept(MOST_CODED))
    _tables: Kept = field(default_factory=lambda: Kept(MOST_TABLES))
    _whole: Kept = field(default_factory=lambda: Kept(1))
    """The last file of which all columns were asked for."""
    _edited: Kept = field(default_factory=lambda: Kept(MOST_TABLES))
    _seen: Kept = field(default_factory=lambda: Kept(MOST_COLUMNS))
    _expected: Kept = field(default_factory=lambda: Kept(MOST_PROFILES))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @classmethod
    def of(
        cls, folder: Folder, base: str, *, read_only: bool = False, language: str = ""
    ) -> Workbench:
        """Open the workbench of a folder, whose addresses begin with `base`."""
        runs = Runs(folder)
        return cls(
            folder=folder,
            runs=runs,
            archive=Archive(folder, runs),
            candidates=Candidates(folder),
            states=DraftFiles(folder),
            spoken=ChosenLanguage(None if read_only else folder, language),
            pages=Pages(base, read_only=read_only),
            read_only=read_only,
            explorers=Explorers(inside=folder.root),
            sources=Sources(folder=folder),
            foreseer=Foreseer(),
        )

    def draft(self, path: str) -> Draft:
        """Return what was said about a file so far.

        Raises
        ------
        NotInFolderError
            If there is no such file.
        """
        if not path:
            raise NotInFolderError("No file of data is chosen; choose one first.")
        self.sources.find(path)
        with self._lock:
            if path not in self._drafts:
                self._drafts[path] = self.states.read(path) or Draft(path=path)
            self._take_over(path)
            return self._drafts[path]

    def source(self, draft: Draft) -> Path | str:
        """Return where the data of a draft lie; errors of `Sources.find`."""
        return self.sources.find(draft.path, draft.values.get("query", ""))

    def open_database(self, address: str) -> None:
        """Connect to a database on a server, and forget what was read; errors of `connect`."""
        self.sources.connect(address)
        for kept in filter(lambda one: isinstance(one, Kept), vars(self).values()):
            kept.clear()

    def open_run(self, source: RunSource) -> None:
        """Confirm the database and the query of a run; errors of `open_database`."""
        if source.address:
            self.open_database(source.address)
        self.sources.confirm(source)

    def run_source(self, id: str) -> RunSource:
        """Return of what data a run was, as its specification says."""
        return RunSource.of(*self.runs.asked(id))

    def connected(self, id: str) -> RunSource:
        """Return the data of a run, which may be read again.

        Raises
        ------
        NotConnectedError
            If they are of a database or a query that nobody has confirmed.
        """
        found = self.run_source(id)
        if not self.sources.takes(found):
            raise NotConnectedError(id)
        return found

    def nav(self, id: str) -> Nav:
        """Return where the pages of a run stand: beside its data, if these can be opened."""
        source = self.run_source(id)
        return Nav(here="runs", path=source.path if self.sources.takes(source) else "")

    def _take_over(self, path: str) -> None:
        """Go on from what another workbench of the folder has written, as from another tab."""
        ours, changed = self._drafts.get(path), self.states.changed(path)
        if ours is None or not changed or (found := self.states.read(path)) is None:
            return
        secret = {name: text for name, text in ours.values.items() if name in SECRETS}
        found = replace(found, values={**found.values, **secret})
        if found.said != ours.said:
            self._past.setdefault(path, deque(maxlen=MOST_UNDONE)).append(ours)
            self._drafts[path] = found
            self._tell_tabs(path)

    def keep(self, draft: Draft) -> None:
        """Keep what a form holds, on disk too."""
        with self._lock:
            before = self._drafts.get(draft.path)
            if before is None or before.said != draft.said:
                draft = replace(draft, unsaved=self.states.write(draft))
                past = self._past.setdefault(draft.path, deque(maxlen=MOST_UNDONE))
                past.append(before or Draft(path=draft.path))
            self._drafts[draft.path] = draft

    def undone(self, path: str) -> bool:
        """Take the last change of a file's forms back; whether there was one."""
        with self._lock:
            past = self._past.get(path)
            if not past:
                return False
            draft = past.pop()
            self._drafts[path] = replace(draft, unsaved=self.states.write(draft))
        self._tell_tabs(path)
        return True

    def restore(self, draft: Draft) -> None:
        """Put a state in the place of what the forms of a file hold."""
        self.keep(draft)
        self._tell_tabs(draft.path)

    def _tell_tabs(self, path: str) -> None:
        """Let forms that are open say that they are behind before they replace anything."""
        self._writers.update({(path, form): "states" for form in PAGES})

    def n_undone(self, path: str) -> int:
        """Return how many changes can be taken back."""
        return len(self._past.get(path, ()))

    def shown(self, id: str) -> Run:
        """Return a run that a page may show: to who only reads, those that are finished and listed.

        Raises
        ------
        NotInFolderError
            If there is none.
        """
        run = self.runs.get(id)
        hidden = not run.decidable or not self.folder.lists(self.folder.resolve(id))
        if self.read_only and hidden:
            raise NotInFolderError("There is no finished run of this name.")
        return run

    def opened(self, path: str, form: str) -> Tab:
        """Return what a form of a file holds that tells its tab from others."""
        with self._lock:
            since = self._writers.get((path, form), "")
        return Tab(id=secrets.token_urlsafe(6), since=since)

    def keep_of_tab(self, draft: Draft, form: str, fields: Mapping[str, str]) -> bool:
        """Keep what a tab holds, unless another one has changed the form since it was opened.

        Parameters
        ----------
        draft
            What is to be kept.
        form
            The page of the form.
        fields
            Of the form: `tab` and `since` as `opened` made them, and `mine`, if the other tab is
            to give way. Without them it is kept.

        Returns
        -------
        bool
            Whether it was kept, or is the same.
        """
        place, tab = (draft.path, form), fields.get("tab", "")
        with self._lock:
            self._take_over(draft.path)
            writer = self._writers.get(place, "")
            before = self._drafts.get(draft.path)
            same = before is not None and before.said == draft.said
            free = writer in ("", tab, fields.get("since", ""))
            if not (free or same or not tab or fields.get("mine")):
                return False
            if not same or fields.get("mine"):
                self._writers[place] = tab
        self.keep(draft)
        return True

    def profile(self, draft: Draft) -> Profile:
        """Return what the columns of a file are like; looked at again if the file has changed.

        Raises
        ------
        UnikatError
            If the file cannot be read as its draft says.
        """
        from unikat.data.profile import profile

        file = self.source(draft)
        return self._profiles.get(
            (stamp(file), *draft.reading.items()), lambda: profile(file, **draft.reading)
        )

    def tables_in(self, draft: Draft) -> tuple[str, tuple[str, ...]]:
        """Return what a file holds several of, `sheet` or `table`, and their names."""
        from unikat.data.profile import tables_in

        file = self.sources.find(draft.path)
        how = [one for one in draft.reading.items() if one[0] not in ("sheet", "table", "query")]
        return self._profiles.get(
            ("tables", stamp(file), *how), lambda: tables_in(file, **dict(how))
        )

    def columns(self, draft: Draft, names: Sequence[str]) -> Held:
        """Return columns of a file, held in memory; of a small file all are read with the first.

        Raises
        ------
        UnikatError
            If the file cannot be read as its draft says, or has no such column.
        """
        from unikat.data.held import Held, hold, hold_table

        file = self.source(draft)
        place = (stamp(file), *draft.reading.items())

        def find(fresh: Sequence[int]) -> list[Held]:
            wanted = [names[i] for i in fresh]
            if isinstance(file, str):
                # Its rows have no order: columns agree where they are read together.
                seen = self.profile(draft)
                whole = self._whole.get(place, lambda: hold_table(file, seen, **draft.reading))
                return [whole.part(name) for name in wanted]
            with contextlib.suppress(UnikatError):
                # To read a text is to read all its columns.
                seen = self.profile(draft)
                every = [one.name for one in seen.columns]
                n_values = seen.n_records * len(every)
                small = file.is_file() and file.stat().st_size <= MOST_BYTES
                if small and n_values <= MOST_VALUES and {*wanted} <= {*every}:
                    whole = self._whole.get(place, lambda: hold(file, every, **draft.reading))
                    return [whole.part(name) for name in wanted]
            held = hold(file, wanted, **draft.reading)
            return [held.part(name) for name in wanted]

        return Held.joined(self._columns.get_all([(*place, name) for name in names], find))

    def foreseen(self, kind: Kind, spec: Spec) -> Sequence[str]:
        """Try a few sweeps, and say in lines what a run would do; one at a time.

        Raises
        ------
        UnikatError
            As the run, before its first fit.
        """
        from unikat.report.text.dry_run import lines

        asked = ("foreseen", *_asked_of(kind, spec))
        return self._seen.get(asked, lambda: lines(_foresee(kind, spec)))

    def expected_time(self, draft: Draft, spec: Spec) -> Sequence[str]:
        """Say in words how long the run of a draft would take, from counted work: no sweep is made.

        Parameters
        ----------
        draft, spec
            Of the form, and what it specifies.

        Returns
        -------
        sequence of str
            Nothing if the file is too large to be read without being asked.

        Raises
        ------
        UnikatError
            As the run, before its first fit.
        """
        seen = self.profile(draft)
        if seen.n_records * len(seen.columns) > MOST_VALUES:
            return ()

        kind, language = draft.kind, current()
        asked = (language, *_asked_of(kind, spec))
        return self._expected.get(asked, lambda: self.foreseer.expected_time(kind, spec, language))

    def key_table(self, draft: Draft, spec: AssessmentSpec) -> CellTable:
        """Return the table of the keys of a draft; each is read and coded once, when it is ticked.

        Parameters
        ----------
        draft, spec
            Of the form, and what it specifies of the data and the keys.

        Raises
        ------
        UnikatError
            If the file cannot be read as asked.
        """
        from unikat.jobs.form_preview import coded_key, key_table

        stamps, names = tuple(map(stamp, spec.input_files())), draft.keys
        keys = dict(zip(spec.keys, names, strict=True))
        alone = [(key, spec.data.of_columns([name])) for key, name in keys.items()]

        def code(fresh: Sequence[int]) -> list[CellTable]:
            found = []
            for first in range(0, len(fresh), MOST_COLUMNS):
                places = fresh[first : first + MOST_COLUMNS]
                held = self.columns(draft, [names[i] for i in places])
                found += [coded_key(alone[i][1], alone[i][0], names[i], held) for i in places]
            return found

        def find() -> CellTable:
            # Codes that are named of other keys alone are none of this one.
            plain = [
                data if data.missing_values else data.model_copy(update={"missing_values": ()})
                for _, data in alone
            ]
            asked = [
                (*stamps, key, data.model_dump_json())
                for key, data in zip(spec.keys, plain, strict=True)
            ]
            tables = self._coded.get_all(asked, code)
            return key_table(spec.data, keys, tables, lambda: self.columns(draft, names))

        return self._tables.get((*stamps, spec.keys, spec.data.model_dump_json()), find)

    def table(self, draft: Draft, spec: AssessmentSpec) -> CellTable:
        """Return the table of the keys, if a run would take them.

        Raises
        ------
        UnikatError
            If the file cannot be read as asked, or a run would refuse a key.
        """
        from unikat.jobs.zeros import read_keys

        if len(spec.keys) > 1:
            table = self.key_table(draft, spec)
            if min(table.n_levels) > 1:
                return table
        return read_keys(spec)

    def households(self, spec: AssessmentSpec) -> HouseholdSample:
        """Return the households of a file, read again if it has changed; its rules do not matter.

        Raises
        ------
        UnikatError
            If the file cannot be read as asked.
        """
        from unikat.jobs.zeros import read_grouped

        plain = spec.model_copy(update={"zeros": None})
        asked = ("households", *map(stamp, spec.input_files()), plain.model_dump_json())
        return self._seen.get(asked, lambda: read_grouped(plain))

    def edited_key(self, draft: Draft, spec: AssessmentSpec, name: str) -> EditedKey:
        """Return a key of a draft whose levels are merged by hand; parameters as of `key_table`.

        Raises
        ------
        UnikatError
            If the file cannot be read as asked.
        """
        from unikat.jobs.levels import EditedKey

        asked = (*map(stamp, spec.input_files()), spec.data.model_dump_json(), spec.keys, name)
        # A key can be looked at before others are ticked.
        find = self.key_table if len(spec.keys) == 1 else self.table
        return self._edited.get(asked, lambda: EditedKey(table=find(draft, spec), name=name))

    def columns_seen(self, draft: Draft, spec: ProtectionSpec) -> ColumnsSeen:
        """Return the roles of all columns of a file, and what methods do to its numbers.

        Raises
        ------
        UnikatError
            If the file cannot be read as asked, or roles or methods cannot be used.
        """
        from unikat.data.held import hold
        from unikat.jobs.column_preview import columns_seen

        file = self.source(draft)
        names = [one.name for one in self.profile(draft).columns]
        place = (stamp(file), *draft.reading.items())
        return self._seen.get(
            (*place, *map(stamp, spec.input_files()), spec.model_dump_json()),
            lambda: columns_seen(
                spec, self._whole.get(place, lambda: hold(file, names, **draft.reading))
            ),
        )

    def run_rows(self, folder: Path) -> RunRows:
        """Return the rows of the file of a finished run, held in memory.

        Raises
        ------
        UnikatError
            If its file cannot be read, or has changed; or as of `connected`.
        """
        from unikat.jobs.files import run_rows
        from unikat.report.folders.outputs import RESULT

        source = self.connected(self.folder.relative(folder))
        file = source.address or self.folder.resolve(source.path)
        return self._columns.get(
            (stamp(file), stamp(folder / RESULT)),
            lambda: run_rows(folder, self.sources.trust(source)),
        )

    def page(self, name: str, context: Any, status: int = 200) -> Response:
        """Answer with a page."""
        return HTMLResponse(self.pages.fill(name, context), status_code=status)

    def see(self, path: str, /, **query: str) -> Response:
        """Answer with the address of another page."""
        return RedirectResponse(self.pages.at(path, **query), status_code=303)


def _asked_of(kind: Kind, spec: Spec) -> tuple[object, ...]:
    return current(), kind.name, *map(stamp, spec.input_files()), spec.model_dump_json()


def _foresee(kind: Kind, spec: Spec) -> DryRun:
    from unikat.jobs import dry_run
    from unikat.spec.from_options import Inputs

    told: DryRun = getattr(dry_run, f"of_{kind.noun}")(spec, Inputs(), None)
    return told


def workbench_of(request: Request) -> Workbench:
    """Return the workbench that a request is for."""
    return cast(Workbench, request.app.state.workbench)


def is_part(request: Request) -> bool:
    """Whether a script of ours asks for a part of a page."""
    return request.headers.get("hx-request") == "true"


def texts(form: FormData) -> dict[str, str]:
    """Return the fields of a form that hold text; of several of one name the last."""
    return {name: value for name, value in form.items() if isinstance(value, str)}


STATUS: dict[str, int] = {"NotInFolderError": 404, "OutputError": 409}


def status_of(error: UnikatError) -> int:
    """Return the status of an answer that tells an error."""
    return STATUS.get(type(error).__name__, 422)
