"""The checkpoint file: what it holds, and what it refuses."""

from __future__ import annotations

import errno
import math
import os
import stat
from typing import NamedTuple

import numpy as np
import pytest

from inference.checkpoint_files import forge
from inference.toy_chain import ToyInner, ToyState
from unikat.errors import OutputError
from unikat.inference.checkpoint import FILE_NAME, Checkpoint, load, save

RUN = {"model": "toy", "seed": "1"}


class Odd(NamedTuple):
    empty: np.ndarray
    scalar: np.generic
    nothing: None


CONTENT = {
    "state": [
        ToyState(np.arange(6.0).reshape(2, 3).T, ToyInner(np.float32(0.1), "ü"), 2**70),
        ToyState(np.array(5, np.int16), ToyInner(np.array([], bool), ""), -1),
    ],
    "odd": Odd(np.empty((0, 4), ">i4"), np.int64(-(2**63)), None),
    "pair": (0.1 + 0.2, True),
    "numbers": {"nan": math.nan, "inf": -math.inf, "tiny": 5e-324},
}


def write(folder):
    path = folder / FILE_NAME
    save(path, RUN, CONTENT)
    return path


def test_everything_comes_back_as_it_was(tmp_path):
    back = load(write(tmp_path), RUN)
    assert repr(back) == repr(CONTENT)
    first = back["state"][0]
    assert isinstance(first, ToyState)
    assert isinstance(first.inner.value, np.float32)
    assert isinstance(first.sweeps, int)
    assert back["odd"].empty.dtype == np.dtype(">i4")
    assert back["odd"].empty.shape == (0, 4)
    assert first.x.flags.writeable
    assert first.x.tobytes() == CONTENT["state"][0].x.tobytes()


def test_no_file_is_no_checkpoint(tmp_path):
    assert load(tmp_path / FILE_NAME, RUN) is None


def test_only_the_owner_may_read_it(tmp_path):
    path = write(tmp_path / "new" / "folder")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_no_bit_may_change(tmp_path):
    path = write(tmp_path)
    whole = path.read_bytes()
    for position in range(0, len(whole), 37):
        path.write_bytes(whole[:position] + bytes([whole[position] ^ 1]) + whole[position + 1 :])
        with pytest.raises(OutputError, match="delete it or run without --resume"):
            load(path, RUN)
    for length in [0, 3, 8, 20, 40, 50, 200, len(whole) - 1]:
        path.write_bytes(whole[:length])
        with pytest.raises(OutputError, match=r"cut off|beginning is lost"):
            load(path, RUN)


def test_another_run_is_named(tmp_path):
    path = write(tmp_path)
    with pytest.raises(OutputError, match=r"another run \(seed: 1 there, 2 here\)"):
        load(path, RUN | {"seed": "2"})
    with pytest.raises(OutputError, match=r"thin: none there, 5 here"):
        load(path, RUN | {"thin": "5"})


@pytest.mark.parametrize(
    "named",
    [
        ["os", "system"],
        ["builtins", "tuple"],
        ["subprocess", "Popen"],
        ["no_such_module", "Class"],
        ["unikat.no_such_module", "Class"],
        ["inference.toy_chain", "Toy"],
        ["inference.toy_chain", "ToyInner"],
        ["inference.toy_chain", "ToyInner._make"],
    ],
)
def test_a_file_cannot_choose_what_is_built(tmp_path, named):
    path = write(tmp_path)
    forge(path, lambda header: header["content"]["dict"]["odd"].update(named=named))
    with pytest.raises(OutputError, match="cannot be understood"):
        load(path, RUN)


def test_modules_are_not_imported_for_a_file(tmp_path, monkeypatch):
    folder = tmp_path / "modules"
    folder.mkdir()
    (folder / "evil_module.py").write_text("raise SystemExit('imported')")
    monkeypatch.syspath_prepend(folder)
    path = write(tmp_path)
    forge(
        path,
        lambda header: header["content"]["dict"]["odd"].update(named=["evil_module", "Class"]),
    )
    with pytest.raises(OutputError, match="cannot be understood"):
        load(path, RUN)


def test_pickled_arrays_are_refused(tmp_path):
    with pytest.raises(ValueError, match="Object arrays"):
        save(tmp_path / FILE_NAME, RUN, {"x": np.array([{}], object)})
    assert list(tmp_path.iterdir()) == []


def test_a_later_format_is_named(tmp_path):
    path = write(tmp_path)
    forge(path, lambda header: header.update(schema=4))
    with pytest.raises(OutputError, match="has format 4; this version of unikat reads format 3"):
        load(path, RUN)


def test_the_first_format_is_named(tmp_path):
    path = write(tmp_path)
    path.write_bytes(b"UNIKATC\n" + path.read_bytes()[8:])
    with pytest.raises(OutputError, match=r"has format 1; .* reads format 3\. Resume with the ver"):
        load(path, RUN)


def test_numpy_reads_the_archive(tmp_path):
    path = write(tmp_path)
    with path.open("rb") as file:
        file.seek(40)
        with np.load(file, allow_pickle=False) as archive:
            np.testing.assert_array_equal(archive["arr_1"], CONTENT["state"][0].x)


def test_a_header_without_content(tmp_path):
    path = write(tmp_path)
    forge(path, lambda header: header.clear())
    with pytest.raises(OutputError, match="cannot be understood"):
        load(path, RUN)


def test_full_disk_leaves_the_old_one_whole(tmp_path, monkeypatch):
    path = write(tmp_path)

    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("unikat.inference.checkpoint.os.fsync", full)
    with pytest.raises(OutputError, match=r"disk is full.*still whole"):
        save(path, RUN, {})
    monkeypatch.undo()
    assert [file.name for file in tmp_path.iterdir()] == [FILE_NAME]
    assert repr(load(path, RUN)) == repr(CONTENT)


def test_an_interrupted_writing_leaves_nothing(tmp_path, monkeypatch):
    path = write(tmp_path)

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr("unikat.inference.checkpoint.os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        save(path, RUN, {})
    assert [file.name for file in tmp_path.iterdir()] == [FILE_NAME]


def test_a_folder_that_is_a_file(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        save(tmp_path / "file" / FILE_NAME, RUN, {})
    with pytest.raises(OutputError, match="cannot be read"):
        load(tmp_path / "file" / FILE_NAME, RUN)


@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root reads anything")
def test_a_file_that_cannot_be_read(tmp_path):
    path = write(tmp_path)
    path.chmod(0)
    with pytest.raises(OutputError, match="cannot be read"):
        load(path, RUN)


def test_removing(tmp_path):
    place = Checkpoint(folder=tmp_path)
    write(tmp_path)
    place.remove()
    place.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_cannot_be_held(tmp_path):
    with pytest.raises(TypeError, match="cannot hold a set"):
        save(tmp_path / FILE_NAME, RUN, {"x": {1}})


@pytest.mark.skipif(os.name != "posix", reason="modes of folders are POSIX")
def test_folders_that_are_made_are_for_their_owner_alone(tmp_path):
    before = os.umask(0o022)
    try:
        save(tmp_path / "fits" / "one" / FILE_NAME, RUN, CONTENT)
    finally:
        os.umask(before)
    for folder in (tmp_path / "fits", tmp_path / "fits" / "one"):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
