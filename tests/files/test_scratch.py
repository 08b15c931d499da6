"""Temporary folders: where TMPDIR says, private, and gone with their process, however it ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from unikat.errors import OutputError
from unikat.files.scratch import LOCK, Scratch, scratch_folder, sweep

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from unikat.files.scratch import Scratch
scratch = Scratch()
(scratch.path / "keys.parquet").write_bytes(b"a record")
print(scratch.path, flush=True)
time.sleep(60)
"""


@pytest.fixture
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("TMPDIR", raising=False)
    return tmp_path


def holder(root: Path) -> tuple[subprocess.Popen[str], Path]:
    """Start a process that keeps a temporary folder."""
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD],
        env={**os.environ, "TMPDIR": str(root), "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, Path(process.stdout.readline().strip())


def test_a_folder_is_private_and_goes(root: Path) -> None:
    with scratch_folder() as folder:
        assert folder.parent == root
        (folder / "sub").mkdir()
        (folder / "sub" / "keys.parquet").write_bytes(b"a record")
        if os.name == "posix":
            assert folder.stat().st_mode & 0o777 == 0o700
            assert (folder / LOCK).stat().st_mode & 0o777 == 0o600
    assert list(root.iterdir()) == []


def test_closing_twice_is_nothing(root: Path) -> None:
    scratch = Scratch()
    scratch.close()
    scratch.close()
    assert list(root.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_what_a_killed_process_left_goes_at_the_next_start(root: Path) -> None:
    process, folder = holder(root)
    sweep(root)
    assert (folder / "keys.parquet").exists(), "its process is alive"
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert (folder / "keys.parquet").exists()
    with scratch_folder():
        assert not folder.exists()
    assert list(root.iterdir()) == []


def test_what_others_made_stays(root: Path) -> None:
    (root / "unikat-abcdefgh").mkdir()
    (root / "unikat-abcdefgh" / "notes.txt").write_text("mine")
    (root / "unikat-results").mkdir()
    (root / "unikat-aaaaaaaa").mkdir()
    hour_ago = time.time() - 3600
    for folder in root.iterdir():
        os.utime(folder, (hour_ago, hour_ago))
    sweep(root)
    assert sorted(path.name for path in root.iterdir()) == ["unikat-abcdefgh", "unikat-results"]


@pytest.mark.skipif(os.name != "posix", reason="links and owners are those of POSIX")
def test_links_are_not_followed(root: Path) -> None:
    other = root / "other"
    other.mkdir()
    (other / LOCK).touch()
    (root / "unikat-abcdefgh").symlink_to(other)
    sweep(root)
    assert (other / LOCK).exists()


def test_a_tmpdir_that_is_not_there_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path / "gone"))
    with pytest.raises(OutputError, match=r"TMPDIR is .*gone.* no such folder"):
        Scratch()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(os.name != "posix", reason="a fork is POSIX")
def test_a_forked_process_leaves_it_alone(root: Path) -> None:
    program = f"""
import os, tempfile
tempfile.tempdir = {str(root)!r}
from unikat.files.scratch import Scratch, close_all
scratch = Scratch()
child = os.fork()
if not child:
    close_all()
    os._exit(0)
os.waitpid(child, 0)
print(scratch.path.exists())
scratch.close()
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
    )
    assert (done.stdout, done.stderr) == ("True\n", "")
    assert list(root.iterdir()) == []
