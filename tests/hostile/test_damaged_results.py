"""Results whose manifest is right and whose content is not: one message, nothing written."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import h5py
import numpy as np
import pytest

from report.estimates import estimate, provenance, spec, write
from unikat.errors import OutputError, SpecError, UnikatError
from unikat.jobs.outcome import write_page

DEEP = "[" * 100_000


@pytest.fixture
def out(tmp_path: Path) -> Path:
    write(estimate(), tmp_path / "out", spec(), provenance())
    return tmp_path / "out"


def sealed(path: Path) -> None:
    """Let the manifest say that a file is what was written."""
    manifest = path.parent / "manifest.json"
    content = json.loads(manifest.read_text())
    content["sha256"][path.name] = hashlib.sha256(path.read_bytes()).hexdigest()
    manifest.write_text(json.dumps(content))


def refused(out: Path, kind: type[UnikatError] = OutputError) -> None:
    before = {path.name: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(kind) as told:
        write_page(out)
    assert len(str(told.value)) < 600
    assert {path.name: path.read_bytes() for path in out.iterdir()} == before


@pytest.mark.parametrize("name", ["manifest.json", "result.json"])
@pytest.mark.parametrize(
    "text",
    [DEEP, "9" * 5000, '{"a": NaN}', "", "null", "[]", '"x"', "\ud800", '{"schema": ' + DEEP],
)
def test_no_json_is_too_deep_or_too_long(name: str, text: str, out: Path) -> None:
    (out / name).write_bytes(text.encode("utf-8", "surrogatepass"))
    if name != "manifest.json":
        sealed(out / name)
    refused(out)


@pytest.mark.parametrize(
    "changes",
    [
        {"tau1": None}, {"tau1": {}}, {"tau1": "x"}, {"sentences": {}}, {"keys": [1]},
        {"keys": {}}, {"sample": []}, {"schema": "9" * 5000}, {"schema": [1]}, {"warnings": 3},
        {"provenance": None}, {"seed": "x"}, {"records": {}},
    ],
)  # fmt: skip
def test_a_result_of_wrong_types_or_parts_is_refused(changes: dict[str, Any], out: Path) -> None:
    path = out / "result.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    sealed(path)
    refused(out)


def test_a_specification_of_wrong_values_is_refused(out: Path) -> None:
    path = out / "assessment.toml"
    for text in ("a = " + DEEP, "population_size = " + "9" * 5000, "keys = 3", "\x00"):
        path.write_text(text)
        sealed(path)
        refused(out, SpecError)


def _huge(group: Any, name: str) -> None:
    group.create_dataset(name, (10**7, 10**7), "f8", chunks=(1, 1000))


def _external(group: Any, name: str) -> None:
    group.create_dataset(name, (4, 8), "f8", external=[("/etc/passwd", 0, 256)])


def _virtual(group: Any, name: str) -> None:
    layout = h5py.VirtualLayout((4, 8), "f8")
    layout[:] = h5py.VirtualSource("elsewhere.nc", "x", shape=(4, 8))
    group.create_virtual_dataset(name, layout)


SPOILS = {
    "huge": _huge,
    "external": _external,
    "virtual": _virtual,
    "a link to another file": lambda group, name: group.__setitem__(
        name, h5py.ExternalLink("/etc/passwd", "/")
    ),
    "a soft link": lambda group, name: group.__setitem__(name, h5py.SoftLink("/posterior/tau2")),
    "text": lambda group, name: group.__setitem__(name, "text"),
    "texts": lambda group, name: group.__setitem__(name, [[b"1", b"2"]] * 4),
    "a number": lambda group, name: group.__setitem__(name, 1.0),
    "a row": lambda group, name: group.__setitem__(name, [1.0, 2.0]),
    "nothing": lambda group, name: group.__setitem__(name, np.empty((4, 0))),
    "not a number": lambda group, name: group.__setitem__(name, np.full((4, 8), np.nan)),
    "a group": lambda group, name: group.create_group(name),
}


@pytest.mark.parametrize("spoil", SPOILS)
def test_hostile_draws_are_refused_before_they_are_read(spoil: str, out: Path) -> None:
    path = out / "draws.nc"
    with h5py.File(path, "a") as file:
        for group in ("posterior", "warmup_posterior"):
            if group in file:
                del file[group]["tau1"]
                SPOILS[spoil](file[group], "tau1")
    sealed(path)
    refused(out)


def test_truncated_draws_are_refused(out: Path) -> None:
    path = out / "draws.nc"
    whole = path.read_bytes()
    for size in (0, 7, 100, len(whole) // 2, len(whole) - 100):
        path.write_bytes(whole[:size])
        sealed(path)
        refused(out)
