"""The folder of a run: one run at a time, and nothing of others is replaced or deleted."""

from __future__ import annotations

import contextlib
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from unikat.cli.main import main
from unikat.errors import OutputError, SpecError
from unikat.files.folder import MARK, claimed, locked, locked_file, owned
from unikat.files.writing import all_or_nothing, replace_file, write_text
from unikat.inference.checkpoint import FILE_NAME
from unikat.spec.assessment import AssessmentSpec
from unikat.studies.store import FitStore, StudyStore

posix = pytest.mark.skipif(os.name != "posix", reason="links are those of POSIX")


def run(spec: AssessmentSpec | None, folder: Path, text: str = "done") -> str:
    """Write a file, as the runs do."""
    inputs = [] if spec is None else spec.input_files()
    with owned(folder, ("result.txt", "table.parquet", "store"), inputs):
        (folder / "store").mkdir(exist_ok=True)
        with all_or_nothing(folder, ("result.txt",), "result.txt") as scratch:
            write_text(scratch / "result.txt", text)
    return text


def fail(spec: AssessmentSpec | None, folder: Path) -> None:
    """End before anything is written."""
    with owned(folder, ("result.txt",)):
        raise ValueError


def spec(path: Path, **tables: Any) -> AssessmentSpec:
    return AssessmentSpec.parse({"data": {"path": str(path)}, **tables})


def test_a_run_marks_its_folder(tmp_path: Path) -> None:
    out = tmp_path / "a" / "out"
    assert run(None, out) == "done"
    assert claimed(out) == {"result.txt", "table.parquet", "store"}
    if os.name == "posix":
        assert (out / MARK).stat().st_mode & 0o777 == 0o600
        assert [path.stat().st_mode & 0o777 for path in (out, out.parent)] == [0o700, 0o755]
    assert run(None, out, text="again") == "again"
    assert {path.name for path in out.iterdir()} == {MARK, "result.txt", "store"}


def test_nothing_is_left_where_nothing_is_kept(tmp_path: Path) -> None:
    with pytest.raises(ValueError):  # noqa: PT011  # it is the one above
        fail(None, tmp_path / "a" / "out")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "notes.txt").write_text("mine")
    with pytest.raises(ValueError):  # noqa: PT011
        fail(None, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("name", ["result.txt", "store"])
def test_what_others_wrote_is_not_replaced(tmp_path: Path, name: str) -> None:
    if name == "store":
        (tmp_path / name).mkdir()
    (tmp_path / name / "notes.txt" if name == "store" else tmp_path / name).write_text("mine")
    with pytest.raises(OutputError, match=f"holds {name}, which unikat did not write"):
        run(None, tmp_path)
    with (
        pytest.raises(OutputError, match=f"holds {name}"),
        all_or_nothing(tmp_path, (name,), name) as scratch,
    ):
        write_text(scratch / name, "ours")
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_second_run_is_refused(tmp_path: Path) -> None:
    with locked(tmp_path):
        with locked(tmp_path):
            assert run(None, tmp_path) == "done", "within one thread"
        said: list[str] = []

        def other() -> None:
            try:
                run(None, tmp_path, text="other")
            except OutputError as error:
                said.append(str(error))

        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert "Another run of unikat is writing into the folder" in said[0]
    assert (tmp_path / "result.txt").read_text() == "done"
    assert run(None, tmp_path, text="later") == "later"


def test_a_file_is_written_by_one_run_at_a_time(tmp_path: Path) -> None:
    with (
        locked_file(tmp_path / "rows.csv"),
        pytest.raises(OutputError, match="Another run of unikat is writing"),
        locked_file(tmp_path / "rows.csv"),
    ):
        pass
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_left_goes(tmp_path: Path) -> None:
    run(None, tmp_path)
    left = [".unikat-writing-abc_1234", "store/.unikat-writing-abcdefgh"]
    stays = [".unikat-writing-notes.txt", "store/.unikat-writing-abcdefgh.bak"]
    for name in (*left[1:], *stays):
        (tmp_path / name).write_text("half")
    (tmp_path / left[0]).mkdir()
    (tmp_path / left[0] / "result.txt").write_text("half")
    with locked(tmp_path):
        pass
    assert [name for name in (*left, *stays) if (tmp_path / name).exists()] == stays


SCRATCH_NAME = ".unikat-writing-abcdefgh"


def plant(folder: Path, outside: Path, way: str) -> Path:
    """Make a folder of results lead to a file outside of it; return the file."""
    outside.mkdir()
    victim = outside / ("result.txt" if way == "linked scratch" else SCRATCH_NAME)
    victim.write_text("mine")
    scratch = folder / SCRATCH_NAME
    if way == "linked scratch":
        scratch.symlink_to(outside)
        line = "result.txt"
    elif way == "linked store":
        (folder / "linked").symlink_to(outside)
        line = "linked"
    elif way == "linked subfolder":
        (folder / "deep").mkdir()
        (folder / "deep" / "linked").symlink_to(outside)
        line = "deep"
    elif way == "linked file":
        scratch.mkdir()
        (scratch / "linked").symlink_to(victim)
        line = "linked"
    else:
        scratch.mkdir()
        store = way.endswith("store")
        path = outside if store else victim
        line = str(path) if way.startswith("absolute") else f"../{outside.name}"
        line += "" if store or way.startswith("absolute") else f"/{victim.name}"
        # Seen from the scratch folder, and from the folder.
        line += f"\n../{line}" if line.startswith("..") else ""
    with (folder / MARK).open("a") as file:
        file.write(f"{line}\n")
    return victim


WAYS = [
    "absolute",
    "absolute store",
    "parent",
    "parent store",
    "linked scratch",
    "linked store",
    "linked subfolder",
    "linked file",
]


@pytest.mark.parametrize("way", WAYS)
def test_a_folder_of_others_has_nothing_outside_deleted(tmp_path: Path, way: str) -> None:
    folder = tmp_path / "foreign"
    run(None, folder)
    victim = plant(folder, tmp_path / "outside", way)
    with locked(folder):
        pass
    with contextlib.suppress(OutputError):
        run(None, folder)
    assert victim.read_text() == "mine"
    assert list(victim.parent.iterdir()) == [victim]


@pytest.mark.parametrize("way", WAYS)
def test_no_command_deletes_outside_of_a_folder_of_others(
    tmp_path: Path, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text("a,b\n" + "".join(f"{i % 5},{i % 3}\n" for i in range(40)))
    assess = ["assess", "d.csv", "--keys", "a,b", "--population-size", "400", "--quiet"]
    assess += ["--model", "loglinear", "--set", "terms=independence", "--out", "foreign"]
    assert main(assess) == 0
    victim = plant(Path("foreign"), Path("outside"), way)
    for command in (["report", "foreign"], [*assess, "--resume"], [*assess, "--overwrite"]):
        main(command)
        assert victim.read_text() == "mine"
    assert list(victim.parent.iterdir()) == [victim]


@posix
def test_fits_that_are_links_are_left_alone(tmp_path: Path) -> None:
    """What is deleted when a study begins anew lies in its own folder."""
    outside, fits = tmp_path / "outside", tmp_path / "fits"
    outside.mkdir()
    fits.mkdir()
    (outside / FILE_NAME).write_text("mine")
    (fits / "one").symlink_to(outside)
    FitStore(folder=fits, resume=False).clear()
    assert (outside / FILE_NAME).read_text() == "mine"


@posix
@pytest.mark.parametrize("deep", [(), ("n60",), ("n60", "finished.fit")])
def test_no_run_writes_through_a_link_below_its_folder(
    tmp_path: Path, deep: tuple[str, ...], monkeypatch: pytest.MonkeyPatch, capfd: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("d.csv").write_text("a,b\n" + "".join(f"{i % 5},{i % 3}\n" for i in range(40)))
    study = ["evaluate", "d.csv", "--keys", "a,b", "--n", "20", "--quiet", "--models", "loglinear"]
    study += ["--workers", "1", "--out", "out", "--repeats"]
    assert main([*study, "1"]) == 0
    outside, link = tmp_path / "outside", Path("out", "tasks", *deep)
    outside.mkdir()
    if deep:
        link.parent.mkdir(exist_ok=True)
    else:
        link.rename("moved")
    link.symlink_to(outside)
    before = Path("out", "evaluation.html").read_bytes()
    for more in (["2", "--resume"], ["2", "--overwrite"], ["2", "--resume", "--dry-run"]):
        assert main([*study, *more]) == 1
        told = capfd.readouterr().err
        assert str(link) in told
        assert "did not" in told
        assert told.count("\n") <= 2
    assert list(outside.iterdir()) == []
    assert Path("out", "evaluation.html").read_bytes() == before


@posix
def test_pipes_in_a_folder_of_others_are_refused(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    os.mkfifo(tmp_path / "store" / "pipe")
    with pytest.raises(OutputError, match=r"store/pipe is neither a file nor a folder"):
        run(None, tmp_path)


def test_a_mark_that_was_cut_off_names_what_it_names(tmp_path: Path) -> None:
    run(None, tmp_path)
    (tmp_path / MARK).write_text("# unikat\nresult.txt\nsto")
    (tmp_path / "store").rmdir()
    assert run(None, tmp_path) == "done"
    assert {"result.txt", "store", "table.parquet"} <= claimed(tmp_path)


def ways(path: Path, kind: str, out: Path) -> Path:
    """Another path to a file, under the name of an output."""
    way = out / "table.parquet"
    if kind == "symbolic link":
        way.symlink_to(path)
    elif kind == "hard link":
        os.link(path, way)
    else:
        path.rename(way)
    return way if kind == "same" else path


@posix
@pytest.mark.parametrize("kind", ["same", "symbolic link", "hard link"])
def test_an_input_is_never_written_over(tmp_path: Path, kind: str) -> None:
    out = tmp_path / "out"
    run(None, out)
    data = tmp_path / "data.parquet"
    data.write_bytes(b"records")
    read = ways(data, kind, out)
    for table in (
        {"data": {"path": str(read)}},
        {"data": {"path": "x", "codebook": str(read)}},
        {"registry": {"path": str(read)}},
        {"zeros": {"tables": [str(read)]}},
    ):
        with pytest.raises(OutputError, match=r"would write .*table\.parquet over it or into it"):
            run(AssessmentSpec.parse(table), out)
    assert read.read_bytes() == b"records"
    assert (out / "result.txt").read_text() == "done"


def test_results_do_not_become_part_of_the_data(tmp_path: Path) -> None:
    parts = tmp_path / "parts"
    parts.mkdir()
    (parts / "a.parquet").write_bytes(b"records")
    for out in (parts, parts / "deeper"):
        with pytest.raises(OutputError, match="would write"):
            run(spec(parts), out)
    with pytest.raises(OutputError, match="would write"):
        run(spec(parts / "*.parquet"), parts)
    assert run(spec(parts / "a.parquet"), parts) == "done"
    assert run(spec(parts / "b*.parquet"), parts) == "done"


@posix
def test_names_that_cannot_be_written_down_are_refused(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"no text in UTF-8: .*udcff"):
        run(spec(tmp_path / "\udcff.csv"), tmp_path / "out")
    with pytest.raises(SpecError, match="no text in UTF-8"):
        run(spec(tmp_path / "a\0b.csv"), tmp_path / "out")
    assert list(tmp_path.iterdir()) == []


def test_a_store_deletes_its_fits_alone(tmp_path: Path) -> None:
    store = StudyStore(tmp_path, {"seed": "1"})
    store.open(resume=False)
    tasks = tmp_path / "tasks"
    (tasks / "n10-r1-hdp-0123abcd").mkdir()
    replace_file(tasks / "n10-r1-hdp-0123abcd" / "finished.fit", b"{}")
    (tasks / "notes.txt").write_text("mine")
    store.open(resume=False)
    assert {path.name for path in tasks.iterdir()} == {"study.json", "notes.txt"}
    (tasks / "notes.txt").unlink()
    store.discard_if_empty()
    assert not tasks.exists()
