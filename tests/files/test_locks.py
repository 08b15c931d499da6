"""Locks: one holder at a time, between processes and within one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from unikat.files import locks
from unikat.files.locks import acquire, release

ROOT = Path(__file__).parents[2]
HOLD = """
import sys, time
from pathlib import Path
from unikat.files.locks import acquire
print(acquire(Path(sys.argv[1])) is not None, flush=True)
time.sleep(60)
"""


def test_a_file_is_locked_once(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    held = acquire(path)
    assert held is not None
    assert acquire(path) is None
    release(held)
    again = acquire(path)
    assert again is not None
    release(again, path)
    assert not path.exists()
    if os.name == "posix":
        open_files = os.listdir("/dev/fd")
        held = acquire(path)
        assert held is not None
        assert acquire(path) is None
        release(held)
        assert os.listdir("/dev/fd") == open_files


def test_who_looks_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert not locks.held(path)
    assert not path.exists()
    holder = acquire(path)
    assert holder is not None
    assert locks.held(path)
    release(holder)
    assert not locks.held(path)


def test_who_looks_does_not_keep_others_from_a_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "lock"
    path.touch()
    looking = os.open(path, os.O_RDONLY)
    assert locks._lock(looking, shared=True)
    # An instant later nobody looks any more.
    monkeypatch.setattr(locks.time, "sleep", lambda _: os.close(looking))
    holder = acquire(path)
    assert holder is not None
    release(holder)


def test_a_link_is_not_followed(tmp_path: Path) -> None:
    if os.name != "posix":
        pytest.skip("links are those of POSIX")
    (tmp_path / "lock").symlink_to(tmp_path / "other")
    with pytest.raises(OSError, match=r"lock"):
        acquire(tmp_path / "lock")
    assert not (tmp_path / "other").exists()


@pytest.mark.skipif(os.name != "posix", reason="SIGKILL is POSIX")
def test_the_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    process = subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src")},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    assert acquire(path) is None
    process.send_signal(signal.SIGKILL)
    process.communicate()
    held = acquire(path)
    assert held is not None
    release(held)
