"""Fixed runs whose every number is known: a change that is meant to move no draw moves none.

`python tests/digests.py` writes the numbers again, after a change that is meant to move some; the
changelog then says which, under "Changes in results".
"""

from __future__ import annotations

import hashlib
import json
import platform
import random
import sys
import tempfile
from pathlib import Path
from typing import Any

import h5py
import numba
import numpy as np
import pyarrow.parquet as pq
import scipy
from numpy.typing import NDArray

from inference.checkpoint_files import parts

REFERENCE = Path(__file__).parent / "reference" / "values" / "digests.json"

KEYS = ["--keys", "age,sex,area,job"]
SMALL = [*KEYS, "--population-size", "2000", "--seed", "5", "--workers", "1", "--chains", "2"]
SHORT = ["--max-sweeps", "40", "--allow-unconverged", "--quiet"]
FEW = ["--keys", "age:width(6),sex,area", *SMALL[2:]]
STUDY = [*KEYS, "--n", "80", "--repeats", "1", "--seed", "3", "--workers", "1", "--chains", "2"]

MODELS = (
    "hdp",
    "hdp:alpha=per-record",
    "gom:components=6",
    "latent-class",
    "latent-class:split_merge=false",
    "loglinear:terms=two-way",
    "loglinear:terms=select",
    "loglinear:terms=independence:interval=bootstrap",
    "skinner-holmes",
    "elamir-skinner",
    "mixed-effects",
    "mixed-effects:random=dp:fixed=independence",
    "individual-risk",
    "dirichlet-multinomial",
    "superpopulation-1",
    "superpopulation-2",
)
"""Name and options of each model, as `--model` takes them."""

ZEROS = "rules = ['age <= 4 and job == \"a\"']\n"


def write_inputs(folder: Path) -> None:
    """Write a sample, one with missing keys, a registry, and rules, all made up."""
    draw = random.Random(20261122)

    def person() -> list[str]:
        age = draw.choice(range(24))
        job = "a" if age > 4 and draw.random() < 0.3 else draw.choice("bcdef"[: 2 + age // 6])
        return [str(age), draw.choice("mf"), str(int(6 * draw.random() ** 2)), job]

    def write(name: str, header: str, rows: list[list[str]]) -> None:
        text = "\n".join([header, *(",".join(row) for row in rows)])
        (folder / name).write_text(text + "\n", encoding="utf-8")

    people = [person() for _ in range(260)]
    write("people.csv", "age,sex,area,job", people)
    gaps = [[v if draw.random() > 0.06 else "" for v in row] for row in people]
    write("gaps.csv", "age,sex,area,job", gaps)
    stratum = [("north", 4) if int(row[2]) < 2 else ("south", 11) for row in people]
    drawn = [
        [*row, name, str(size), str(i // 3), draw.choice(["yes", "no"])]
        for i, (row, (name, size)) in enumerate(zip(people, stratum, strict=True))
    ]
    write("survey.csv", "age,sex,area,job,region,weight,home,ill", drawn)
    write("registry.csv", "age,sex,area,job", [person() for _ in range(400)])
    write("town.csv", "age,sex,area,job", people + [person() for _ in range(340)])
    (folder / "zeros.toml").write_text(ZEROS, encoding="utf-8")


def runs() -> dict[str, list[str]]:
    """Name the runs, with their command lines."""
    weighted = ["--keys", KEYS[1], *SMALL[4:], "--weights", "weight", "--strata", "region"]
    found = {
        f"model {name}": ["assess", "people.csv", *SMALL, *SHORT, "--model", name]
        for name in MODELS
    }
    found |= {
        f"missing {how}": ["assess", "gaps.csv", *SMALL, *SHORT, "--missing", how, "--model", name]
        for how, name in [("integrate", "hdp"), ("level", "hdp"), ("wildcard", "latent-class")]
    }
    found |= {
        f"zeros {name}": [
            "assess",
            "people.csv",
            *SMALL,
            *SHORT,
            "--zeros",
            "zeros.toml",
            "--model",
            name,
        ]
        for name in ("hdp", "latent-class", "loglinear", "mixed-effects")
    }
    found |= {
        f"design {name}": ["assess", "survey.csv", *weighted, *SHORT, "--model", name]
        for name in ("latent-class", "skinner-holmes", "superpopulation-2", "individual-risk")
    }
    beside = ["--classics", "--household", "home", "--sensitive", "ill"]
    found |= {
        "classics": ["assess", "survey.csv", *SMALL, *SHORT, *beside, "--model", "loglinear"],
        "registry": [
            "assess",
            "people.csv",
            *SMALL,
            *SHORT,
            "--registry",
            "registry.csv",
            "--model",
            "hdp",
        ],
        "auto": ["assess", "people.csv", *FEW, *SHORT],
        "compare": [
            "compare",
            "people.csv",
            *SMALL,
            *SHORT,
            "--models",
            "hdp,latent-class,loglinear",
        ],
        "compare with missing keys": [
            "compare",
            "gaps.csv",
            *SMALL,
            *SHORT,
            "--models",
            "hdp,latent-class",
        ],
        "evaluate": ["evaluate", "town.csv", *STUDY, *SHORT, "--models", "hdp,loglinear"],
        "evaluate a design": [
            "evaluate",
            "town.csv",
            *STUDY,
            *SHORT,
            "--models",
            "latent-class",
            "--design",
            "stratified",
            "--strata",
            "area",
        ],
    }
    return found


def run(arguments: list[str], folder: Path, out: str) -> dict[str, list[Any]]:
    """Run one command in a folder of inputs; the numbers of its results, by file and place."""
    from unikat.cli.main import main

    place = folder / out
    paths = [str(folder / a) if (folder / a).is_file() else a for a in arguments]
    code = main([*paths, "--out", str(place)])
    assert code == 0, f"{arguments} ended with {code}"
    return numbers(place)


def numbers(folder: Path) -> dict[str, list[Any]]:
    """Return by file and place: how many numbers, their digest, and two sums of them."""
    found: dict[str, list[Any]] = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".json" and path.name != "manifest.json":
            plain = _flat(json.loads(path.read_text(encoding="utf-8")))
            for key, values in plain.items():
                found[f"{name} {key}"] = _summed(np.array(values, float))
        elif path.match("tasks/*/*.fit"):
            for key, values in _flat(_fit(path)).items():
                found[f"{name} {key}"] = _summed(np.array(values, float))
        elif path.suffix == ".parquet":
            table = pq.read_table(path)
            for column in table.column_names:
                values = table[column].to_numpy()
                if values.dtype.kind in "fiub" and not _passing(column):
                    found[f"{name} {column}"] = _summed(values.astype(float))
        elif path.suffix == ".nc":
            with h5py.File(path) as file:
                file.visititems(lambda at, node, f=name: _visit(found, f, at, node))
    return found


def _fit(path: Path) -> Any:
    """Content of a finished fit, as JSON has it."""
    from unikat.inference.checkpoint import load

    run = json.loads(parts(path.read_bytes())[0])["run"]
    return json.loads(json.dumps(load(path, run), default=lambda array: array.tolist()))


def _visit(found: dict[str, list[Any]], file: str, at: str, node: Any) -> None:
    if isinstance(node, h5py.Dataset) and node.dtype.kind in "fiu" and not _passing(at):
        found[f"{file} {at}"] = _summed(np.asarray(node, float).ravel())


def _passing(name: str) -> bool:
    """Whether a number depends on the clock."""
    return any(word in name for word in ("second", "time", "duration", "memory"))


def _flat(value: Any, at: str = "") -> dict[str, list[float]]:
    """Numbers of a JSON value, by the names that lead to them; those of lists together."""
    found: dict[str, list[float]] = {}
    if _passing(at):
        return found
    if isinstance(value, dict):
        parts = [_flat(item, f"{at}.{name}" if at else name) for name, item in value.items()]
    elif isinstance(value, list):
        parts = [_flat(item, at) for item in value]
    elif isinstance(value, (bool, int, float)):
        return {at: [float(value)]}
    else:
        return found
    for part in parts:
        for name, values in part.items():
            found.setdefault(name, []).extend(values)
    return found


def _summed(values: NDArray[np.float64]) -> list[Any]:
    digest = hashlib.sha256(np.ascontiguousarray(values).tobytes()).hexdigest()[:12]
    known = np.where(np.isfinite(values), values, -1.0)
    weights = np.cos(np.arange(known.size))
    return [values.size, digest, float(f"{known.sum():.10g}"), float(f"{known @ weights:.10g}")]


def machine() -> str:
    """Return what the last bits of a number depend on: instructions, and what compiles to them."""
    from llvmlite import __version__ as llvmlite
    from llvmlite.binding import get_host_cpu_name
    from numpy._core._multiarray_umath import __cpu_features__ as features

    versions = [np.__version__, scipy.__version__, numba.__version__, llvmlite]
    parts = [platform.machine(), get_host_cpu_name(), *versions]
    parts += sorted(name for name, there in features.items() if there)
    return hashlib.sha256(" ".join(parts).encode()).hexdigest()[:12]


def main() -> None:
    """Write the numbers of all runs."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_inputs(folder)
        found = {}
        for i, (label, arguments) in enumerate(runs().items()):
            found[label] = run(arguments, folder, f"out{i}")
            print(label, len(found[label]), file=sys.stderr)
    place = Path(sys.argv[1]) if len(sys.argv) > 1 else REFERENCE
    lines = ",\n".join(
        f"{json.dumps(label)}: {{\n"
        + ",\n".join(f" {json.dumps(at)}: {json.dumps(value)}" for at, value in part.items())
        + "}"
        for label, part in found.items()
    )
    place.write_text(f'{{"machine": "{machine()}",\n{lines}}}\n', encoding="utf-8")


if __name__ == "__main__":
    main()
