"""The cache of compiled kernels: private, optional, and never believed when it is damaged."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import numpy as np
import pytest

from unikat.kernels import jit
from unikat.kernels.jit import cache_folder, is_private

posix = pytest.mark.skipif(os.name != "posix", reason="modes and owners are those of POSIX")


@jit.device
def twice(x):
    return 2 * x


def total(values):
    result = 0
    for value in values:
        result += twice(value)
    return result


def run(folder: Path) -> tuple[float, float, int]:
    """Answer of a kernel that is not compiled yet, in two types, and how often it was cached."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(jit, "_CACHE_FOLDER", str(folder))
        compiled = jit.kernel(total)
    answers = compiled(np.arange(5)), compiled(np.arange(5.0))
    return *answers, sum(compiled.stats.cache_hits.values())


def kernels(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.kernel"))


def test_what_was_compiled_is_read(tmp_path: Path) -> None:
    assert run(tmp_path) == (20, 20.0, 0)
    assert len(kernels(tmp_path)) == 2
    assert run(tmp_path) == (20, 20.0, 2)
    assert kernels(tmp_path) == sorted(tmp_path.iterdir())


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[: len(content) // 2],
        lambda content: content[:40],
        lambda content: content[:-1] + bytes([content[-1] ^ 1]),
        lambda content: os.urandom(len(content)),
        lambda content: bytes(len(content)),
    ],
    ids=["empty", "half", "beginning", "one bit", "noise", "zeros"],
)
def test_damaged_files_are_compiled_anew(tmp_path: Path, damage) -> None:
    run(tmp_path)
    for path in kernels(tmp_path):
        path.write_bytes(damage(path.read_bytes()))
    assert run(tmp_path) == (20, 20.0, 0)
    assert run(tmp_path) == (20, 20.0, 2)


def test_a_file_of_another_signature_is_not_believed(tmp_path: Path) -> None:
    run(tmp_path)
    first, second = kernels(tmp_path)
    content = first.read_bytes()
    first.write_bytes(second.read_bytes())
    second.write_bytes(content)
    assert run(tmp_path) == (20, 20.0, 0)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /dev/full")
def test_a_full_disk_is_no_reason_to_fail(tmp_path: Path, monkeypatch) -> None:
    def full(**_):
        return os.open("/dev/full", os.O_WRONLY), str(tmp_path / "not there")

    monkeypatch.setattr("tempfile.mkstemp", full)
    assert run(tmp_path) == (20, 20.0, 0)
    assert kernels(tmp_path) == []


def test_no_folder_is_no_reason_to_fail(tmp_path: Path) -> None:
    assert run(tmp_path / "gone") == (20, 20.0, 0)
    assert not (tmp_path / "gone").exists()


@posix
def test_the_cache_is_for_its_owner_alone(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.setenv("UNIKAT_CACHE_DIR", str(tmp_path / "a" / "b"))
    folder = Path(cache_folder())
    assert folder.parent == tmp_path / "a" / "b"
    assert [path.stat().st_mode & 0o777 for path in (folder, folder.parent)] == [0o700] * 2


@posix
def test_only_a_private_folder_is_believed(tmp_path: Path) -> None:
    folder = tmp_path / "over" / "cache"
    folder.mkdir(parents=True, mode=0o700)
    assert is_private(str(folder))
    folder.chmod(0o755)
    assert not is_private(str(folder))
    folder.chmod(0o700)
    folder.parent.chmod(0o777)
    assert not is_private(str(folder)), "another could put a folder in its place"
    folder.parent.chmod(0o1777)
    assert is_private(str(folder)), "as /tmp, where only owners may rename"
    link = tmp_path / "link"
    link.symlink_to(folder)
    assert not is_private(str(link))


@posix
def test_the_folder_of_another_user_is_not_used(tmp_path: Path, monkeypatch) -> None:
    home = tmp_path / "home"
    for name in ("UNIKAT_CACHE_DIR", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    planted = tmp_path / f"unikat-{os.getuid()}"
    (planted / f"kernels-{jit.source_hash()}").mkdir(parents=True, mode=0o700)
    assert cache_folder() == str(planted / f"kernels-{jit.source_hash()}")
    real = os.stat

    def of_another(path, *rest, **options):
        found = real(path, *rest, **options)
        if Path(path).name.startswith("kernels-"):
            return os.stat_result((*found[:4], found.st_uid + 1, *found[5:]))
        return found

    monkeypatch.setattr("os.stat", of_another)
    assert cache_folder() == ""
    assert not home.exists(), "a home that does not exist is not made"
