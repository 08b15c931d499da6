"""Hostile surroundings: each ends in results, or in one message and nothing half-written."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from .campaign import COMMAND, ROOT

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="mounts, limits and /proc"),
    pytest.mark.slow,
]

KEYS = ["--keys", "AGE,SEX,JOB"]
SETTINGS = ["--population-size", "5000", "--model", "hdp", "--max-sweeps", "40"]
SETTINGS += ["--allow-unconverged"]
ASSESS = ["assess", "people.csv", *KEYS, *SETTINGS]
WRITTEN = {
    "result.json",
    "records.parquet",
    "records-at-risk.csv",
    "draws.nc",
    "assessment.toml",
    "report.html",
    "manifest.json",
}
SECRET = "Rumpelstiltskin"


@pytest.fixture
def here(tmp_path: Path) -> Path:
    """Return a folder with a file of records and an empty folder for temporary files."""
    rows = [f"{i % 11},{i % 2},{i * i % 7}" for i in range(120)]
    (tmp_path / "people.csv").write_text("AGE,SEX,JOB\n" + "\n".join(rows) + f"\n3,1,{SECRET}\n")
    (tmp_path / "tmp").mkdir()
    return tmp_path


def run(
    here: Path, arguments: list[str], *, wrap: str = 'exec "$@"', **environment: str | None
) -> subprocess.CompletedProcess[str]:
    """Run the program in a shell that changes its surroundings."""
    # Compiled once for all.
    cache = os.environ.get("UNIKAT_CACHE_DIR", str(Path.home() / ".cache" / "unikat"))
    values = {**os.environ, "UNIKAT_CACHE_DIR": cache}
    values |= {"PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(here / "tmp")}
    for name, value in environment.items():
        values.pop(name, None)
        if value is not None:
            values[name] = value
    return subprocess.run(
        ["sh", "-c", wrap, "sh", *COMMAND, *arguments],
        cwd=here,
        env=values,
        capture_output=True,
        encoding="utf-8",
        errors="replace",
        timeout=120,
    )


def clean(here: Path, done: subprocess.CompletedProcess[str], *, code: int) -> str:
    """Check what holds of every end of a run, and return what it said."""
    said = done.stderr
    assert done.returncode == code, said
    assert "Traceback" not in said
    assert "defect" not in said
    assert "Warning" not in said
    assert SECRET not in said + done.stdout
    assert len(said) < 1000
    assert list((here / "tmp").iterdir()) == []
    return said


@contextmanager
def disk(place: Path, size: str) -> Iterator[Path]:
    """Mount a small disk; skip where that is not allowed."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", str(place)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("this machine does not allow mounting")
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


SURROUNDINGS: dict[str, tuple[str, dict[str, str | None]]] = {
    "no home": ('exec "$@"', {"HOME": None}),
    "a home that is not there": ('exec "$@"', {"HOME": "/not/there"}),
    "few open files": ('ulimit -n 48; exec "$@"', {}),
    "the C locale": ('exec "$@"', {"LC_ALL": "C"}),
    "closed input and output": ('exec "$@" <&- >&- --quiet', {}),
    "an open umask": ('umask 0; exec "$@"', {}),
}


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_these_are_no_reason_to_fail(here: Path, name: str) -> None:
    wrap, environment = SURROUNDINGS[name]
    done = run(here, [*ASSESS, "--out", "out"], wrap=wrap, **environment)
    clean(here, done, code=0)
    assert json.loads((here / "out" / "result.json").read_text())["sample"]["n_records"] == 121
    assert (here / "out").stat().st_mode & 0o777 == 0o700
    for path in (here / "out").rglob("*"):
        assert path.stat().st_mode & 0o777 == (0o700 if path.is_dir() else 0o600), path


def test_a_name_with_accents_is_read_in_the_c_locale(here: Path) -> None:
    (here / "people.csv").rename(here / "données.csv")
    done = run(here, ["assess", "données.csv", *ASSESS[2:], "--out", "out"], LC_ALL="C")
    clean(here, done, code=0)


def test_workers_start_where_the_path_of_temporary_files_is_long(here: Path) -> None:
    """A socket's path has at most 107 bytes; clusters give every job a long TMPDIR."""
    long = here / ("job-" + "0" * 90)
    long.mkdir()
    study = ["--n", "60", "--repeats", "2", "--models", "hdp", "--max-sweeps", "20"]
    done = run(
        here,
        ["evaluate", "people.csv", *KEYS, *study, "--workers", "2", "--out", "out"],
        TMPDIR=str(long),
    )
    assert done.returncode in {0, 2}, done.stderr
    assert (here / "out" / "evaluation.html").is_file()
    assert list(long.iterdir()) == []


def few_files_and_workers(here: Path) -> subprocess.CompletedProcess[str]:
    study = ["--n", "60", "--repeats", "2", "--models", "hdp", "--max-sweeps", "20"]
    arguments = ["evaluate", "people.csv", *KEYS, *study, "--workers", "2", "--out", "out"]
    return run(here, arguments, wrap='ulimit -n 18; exec "$@"')


def temporary_folder_gone(here: Path) -> subprocess.CompletedProcess[str]:
    return run(here, [*ASSESS, "--out", "out"], TMPDIR=str(here / "gone"))


def name_not_utf8(here: Path) -> subprocess.CompletedProcess[str]:
    strange = os.fsdecode(b"people-\xff.csv")
    (here / "people.csv").rename(here / strange)
    return run(here, ["assess", strange, *ASSESS[2:], "--out", "out"])


def folder_of_system(here: Path) -> subprocess.CompletedProcess[str]:
    return run(here, [*ASSESS, "--out", "/proc/unikat"])


def results_foreign(here: Path) -> subprocess.CompletedProcess[str]:
    (here / "mine").mkdir()
    (here / "mine" / "result.json").write_text("mine")
    return run(here, [*ASSESS, "--out", "mine", "--overwrite"])


def tasks_foreign(here: Path) -> subprocess.CompletedProcess[str]:
    (here / "mine" / "tasks").mkdir(parents=True)
    (here / "mine" / "tasks" / "notes.txt").write_text("mine")
    study = ["--n", "60", "--repeats", "1", "--models", "hdp"]
    return run(here, ["evaluate", "people.csv", *KEYS, *study, "--out", "mine", "--resume"])


@pytest.mark.parametrize(
    ("surroundings", "words"),
    [
        (few_files_and_workers, "Too many open files"),
        (temporary_folder_gone, "no such folder for temporary files"),
        (name_not_utf8, "UTF-8"),
        (folder_of_system, "Cannot write to the folder /proc/unikat"),
        (results_foreign, "holds result.json, which unikat did not write"),
        (tasks_foreign, "holds tasks, which unikat did not write"),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_these_end_in_one_message(
    here: Path, surroundings: Callable[[Path], subprocess.CompletedProcess[str]], words: str
) -> None:
    said = clean(here, surroundings(here), code=1)
    assert words in said
    assert said.count("\n") <= 2
    assert not (here / "out").exists()
    mine = [path for path in (here / "mine").rglob("*") if path.is_file()]
    assert [path.read_text() for path in mine] == ["mine"] * len(mine)


def test_a_full_disk_for_temporary_files_is_named(here: Path) -> None:
    with disk(here / "small", "4k"):
        (here / "small" / "rest").write_bytes(bytes(4096))
        done = run(here, [*ASSESS, "--out", "out"], TMPDIR=str(here / "small"))
        said = clean(here, done, code=1)
        assert "temporary" in said
        assert not (here / "out").exists()
        assert [path.name for path in (here / "small").iterdir()] == ["rest"]


def test_old_results_stay_on_a_full_disk(here: Path) -> None:
    with disk(here / "small", "8m") as small:
        out = small / "out"
        clean(here, run(here, [*ASSESS, "--out", str(out)]), code=0)
        before = {name: (out / name).read_bytes() for name in WRITTEN}
        (small / "rest").write_bytes(bytes(os.statvfs(small).f_bavail * 4096 - 8192))
        said = clean(here, run(here, [*ASSESS, "--out", str(out), "--overwrite"]), code=1)
        assert "the disk is full" in said
        assert {name: (out / name).read_bytes() for name in WRITTEN} == before
        assert {path.name for path in out.iterdir()} == {*WRITTEN, ".unikat", "fits"}


def test_two_runs_into_one_folder(here: Path) -> None:
    (here / "spec.toml").write_text(
        'population_size = 5000\nkeys = ["AGE", "SEX", "JOB"]\nmodel = "hdp"\n'
        '[data]\npath = "people.csv"\n'
        "[sampling]\nworkers = 1\nrhat = 1.0000001\ness = 1e9\nmax_sweeps = 100000000\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "TMPDIR": str(here / "tmp")}
    first = subprocess.Popen(
        [*COMMAND, "assess", "spec.toml", "--out", "out", "--quiet"],
        cwd=here,
        env=environment,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        end = time.monotonic() + 60
        while (
            not (here / "out" / "fits" / "model" / "sampling.checkpoint").exists()
            and time.monotonic() < end
        ):
            time.sleep(0.05)
        assert list((here / "tmp").rglob("*.parquet")) == [], "copies of keys go after tabulation"
        for way in ("--resume", "--overwrite"):
            second = run(here, ["assess", "spec.toml", "--out", "out", way])
            assert second.returncode == 1
            assert "Another run of unikat is writing into the folder out" in second.stderr
        report = run(here, ["report", "out"])
        assert report.returncode == 1
        first.send_signal(signal.SIGTERM)
        _, told = first.communicate(timeout=60)
    finally:
        first.kill()
        first.wait()
    assert first.returncode == 143
    assert "--resume" in told
    assert list((here / "tmp").iterdir()) == []
    assert json.loads((here / "out" / "result.json").read_text())["stop_reason"] == "interrupted"
    assert (here / "out" / "fits" / "model" / "sampling.checkpoint").exists()
