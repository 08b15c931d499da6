"""Hostile checkpoints, their checksums right: one message, and nothing allocated or run."""

from __future__ import annotations

import io
import json
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.checkpoint_files import joined, sealed
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import OutputError
from unikat.inference import checkpoint as checkpoints
from unikat.inference.backends import Workers
from unikat.inference.chains import sample
from unikat.inference.checkpoint import Checkpoint, load, save
from unikat.inference.identity import run_identity
from unikat.inference.plan import Plan, StopRule
from unikat.inference.segments import Job
from unikat.models.catalogue import MODELS
from unikat.risk.measures import RiskMeasures
from unikat.zeros import Zeros
from unikat.zeros.conflicts import apply_zeros

RUN = {"table": "abc"}
MODEL_NAMES = (
    "hdp", "gom", "latent-class", "mixed-effects", "dirichlet-multinomial", "superpopulation-1",
)  # fmt: skip


def table(zeros: bool = False) -> CellTable:
    rng = np.random.default_rng(1)
    keys = [Key.of_size(name, size) for name, size in (("A", 6), ("B", 3), ("C", 4))]
    codes = np.stack([rng.integers(0, key.n_levels, 60) for key in keys], axis=1)
    codes[::9, 2] = -1
    made = CellTable.from_codes(codes, keys, population_size=900)
    return apply_zeros(made, Zeros.of(["A == 5 and B == 2"], keys), "drop").table if zeros else made


def draw(model: Any, what: CellTable, place: Checkpoint, n_sweeps: int) -> Any:
    return sample(
        model,
        what,
        RiskMeasures.of(what),
        seed=1,
        plan=Plan(n_chains=2, thin=1, stop=StopRule(max_sweeps=n_sweeps)),
        workers=Workers(n_workers=1, n_threads=1),
        checkpoint=place,
    )


@pytest.mark.parametrize("zeros", [False, True])
@pytest.mark.parametrize("name", MODEL_NAMES)
def test_states_of_another_shape_or_range_are_refused(
    name: str, zeros: bool, tmp_path: Path
) -> None:
    model, what = MODELS[name](), table(zeros)
    draw(model, what, Checkpoint(folder=tmp_path), 8)
    path = tmp_path / checkpoints.FILE_NAME
    observer = RiskMeasures.of(what)
    run = run_identity(Job(model=model, data=None, observer=observer), what, 1, 2, 1)
    content = load(path, run)
    assert content is not None
    state = content["states"][1]
    for field in state._fields:
        for spoil in SPOILS:
            value = np.asarray(getattr(state, field))
            other = spoil(value)
            # Counts are no indices.
            counts = field == "impossible" and spoil is _indices_beyond
            if other is None or counts or np.array_equal(other, value):
                continue
            states = [content["states"][0], state._replace(**{field: other})]
            save(path, run, {**content, "states": states})
            with pytest.raises(OutputError, match=r"cannot be understood.*--resume"):
                draw(model, what, Checkpoint(folder=tmp_path, resume=True), 12)
    # What was written is gone on with, to the same numbers.
    save(path, run, content)
    resumed = draw(model, what, Checkpoint(folder=tmp_path, resume=True), 12)
    whole = draw(model, what, Checkpoint(folder=tmp_path / "whole"), 12)
    np.testing.assert_array_equal(resumed.scalars["tau1"], whole.scalars["tau1"])


def _indices_beyond(value: Any) -> Any:
    return np.full_like(value, 30_000) if value.dtype.kind == "i" and value.size else None


def _not_numbers(value: Any) -> Any:
    return np.full_like(value, np.nan) if value.dtype.kind == "f" and value.size else None


SPOILS: tuple[Callable[[Any], Any], ...] = (
    _indices_beyond,
    _not_numbers,
    lambda value: value.astype(np.complex128).real.astype(np.float16),
    lambda value: value[None],
    lambda value: np.concatenate((value, value)) if value.ndim else None,
)


@pytest.mark.parametrize(
    "changes",
    [
        {"n_sweeps": "8"}, {"n_sweeps": 0}, {"n_sweeps": -8}, {"n_sweeps": 2**70},
        {"next_check": None}, {"seconds": float("nan")}, {"seconds": -1.0}, {"scalars": {}},
        {"scalars": []}, {"states": None}, {"states": []}, {"current": None}, {"current": [1, 2]},
        {"previous": {}}, {"another": 1},
    ],
)  # fmt: skip
def test_chains_that_no_run_writes_are_refused(changes: dict[str, Any], tmp_path: Path) -> None:
    model, what = MODELS["loglinear"](), table()
    draw(model, what, Checkpoint(folder=tmp_path), 8)
    path = tmp_path / checkpoints.FILE_NAME
    observer = RiskMeasures.of(what)
    run = run_identity(Job(model=model, data=None, observer=observer), what, 1, 2, 1)
    content = load(path, run)
    assert content is not None
    save(path, run, {**content, **changes})
    with pytest.raises(OutputError, match="cannot be understood"):
        draw(model, what, Checkpoint(folder=tmp_path, resume=True), 12)


def npy(text: str) -> bytes:
    """Beginning of an array that has this header."""
    line = text.encode() + b" " * (-(len(text) + 11) % 64) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(line).to_bytes(2, "little") + line


def saved(array: Any) -> bytes:
    out = io.BytesIO()
    np.save(out, array)
    return out.getvalue()


HEADER = json.dumps({"schema": 3, "run": RUN, "content": {"dict": {"x": {"array": None}}}}).encode()
BAD = {
    "no archive": sealed(b""),
    "an array alone": sealed(saved(np.arange(3.0))),
    "an archive that is cut": sealed(joined(HEADER, [saved(np.arange(3.0))])[40:-30]),
    "compressed": joined(HEADER, [saved(np.zeros(10**6))], zipfile.ZIP_DEFLATED),
    "no header": joined(b""),
    "deep": joined(b"[" * 100_000),
    "deep content": joined(HEADER.replace(b'{"array": null}', b'{"list":[' * 200_000)),
    "digits": joined(b"9" * 5000),
    "a list": joined(b"[1]"),
    "no run": joined(b'{"schema": 3}'),
    "no content": joined(HEADER.replace(b"content", b"contents")),
    "content is a number": joined(HEADER.replace(b'{"dict": {"x": {"array": null}}}', b"1")),
    "array is missing": joined(HEADER),
    "array is cut": joined(HEADER, [saved(np.arange(3.0))[:-1]]),
    "array is huge": joined(HEADER, [npy("{'descr': '<f8', 'fortran_order': False, "
                                         "'shape': (99999999999,), }") + bytes(64)]),
    "array is empty and huge": joined(HEADER, [npy("{'descr': '<f8', 'fortran_order': False, "
                                                   "'shape': (0, 10000000000000000), }")]),
    "array of objects": joined(HEADER, [npy("{'descr': '|O', 'fortran_order': False, "
                                            "'shape': (1,), }") + bytes(64)]),
    "array of nothing": joined(HEADER, [npy("{'descr': '|V0', 'fortran_order': False, "
                                            "'shape': (99999999999,), }")]),
    "array of texts": joined(HEADER, [npy("{'descr': '<U2', 'fortran_order': False, "
                                          "'shape': (1,), }") + bytes(8)]),
    "negative shape": joined(HEADER, [npy("{'descr': '<f8', 'fortran_order': False, "
                                          "'shape': (-1,), }")]),
    "header of an array cut": joined(HEADER, [npy("{'descr': '<f8', 'fortran_order': (")]),
    "another class": joined(HEADER.replace(b'{"array": null}',
                             b'{"named": ["os", "system"], "fields": {}}')),
    "no such module": joined(HEADER.replace(b'{"array": null}',
                              b'{"named": ["unikat.nothing", "X"], "fields": {}}')),
}  # fmt: skip


@pytest.mark.parametrize("name", BAD)
def test_a_hostile_file_is_refused_in_one_message(name: str, tmp_path: Path) -> None:
    path = tmp_path / checkpoints.FILE_NAME
    path.write_bytes(BAD[name])
    with pytest.raises(OutputError) as told:
        load(path, RUN)
    assert len(str(told.value)) < 500
    assert str(told.value).count("\n") == 0


def test_a_right_file_of_the_same_make_is_read(tmp_path: Path) -> None:
    path = tmp_path / checkpoints.FILE_NAME
    path.write_bytes(joined(HEADER, [saved(np.arange(3.0))]))
    content = load(path, RUN)
    assert content is not None
    np.testing.assert_array_equal(content["x"], np.arange(3.0))
