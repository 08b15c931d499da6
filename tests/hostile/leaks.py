"""Planted values, and a search for them in every byte and every decoded value."""

from __future__ import annotations

import gzip
import html
import io
import json
import re
import tomllib
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np
import pandas as pd

PLANTED = {
    "level": "zqrarelevelzq",
    "label": "zqrarelabelzq",
    "number": 867530917,
    "text": "zqfreetextzq",
    "income": 917301733,
    "home": "zqhomezq",
}
"""A level and a label of one record of a key, a number that one record has in a key, and values of
columns that are no keys."""

_BINARY = [
    (kind, np.array([one], dtype).tobytes())
    for kind, one in PLANTED.items()
    if isinstance(one, int)
    for dtype in ("<i4", "<i8", "<f8", ">i4", ">f8")
]
"""The numbers as memory holds them."""


def planted(n: int = 240) -> pd.DataFrame:
    """People, one of whom has each of the planted values."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame(
        {
            "AGE": rng.integers(20, 50, n),
            "SEX": rng.integers(1, 3, n),
            "WORK": rng.choice(["office", "farm", "mine", "school"], n),
            "CODE": rng.choice([1, 2, 3, 4], n),
            "NOTE": rng.choice(["fine", "good"], n),
            "INCOME": rng.integers(100, 120, n),
            "HOME": [f"h{i // 3}" for i in range(n)],
            "W": rng.choice([10, 12], n),
        }
    )
    frame.loc[7, ["WORK", "NOTE"]] = [PLANTED["level"], PLANTED["text"]]
    frame.loc[7, ["CODE", "INCOME"]] = [PLANTED["number"], PLANTED["income"]]
    frame.loc[9, "WORK"] = "rare"
    frame.loc[6:8, "HOME"] = PLANTED["home"]
    return frame


def found_in(content: bytes, name: str) -> set[str]:
    """Return which planted values some content holds, however it is packed."""
    kinds = {kind for value in decoded(content, name) for kind in named(value)}
    return kinds | {kind for kind, written in _BINARY if written in content}


def named(value: str | float) -> Iterator[str]:
    for kind, one in PLANTED.items():
        if isinstance(value, str):
            # Digits of a longer number, such as a probability, are no value.
            if re.search(rf"(?<![\d.]){one}(?!\d)" if isinstance(one, int) else one, value):
                yield kind
        elif value == one:
            yield kind


def decoded(content: bytes, name: str) -> Iterator[str | float]:
    """Yield all texts and numbers of some content: of the bytes as they are, and unpacked."""
    for encoding in ("utf-8", "utf-16-le", "utf-16-be", "utf-32-le"):
        yield content.decode(encoding, "ignore")
    text = content.decode("utf-8", "ignore")
    yield html.unescape(text)
    yield unquote(text)
    for written in re.findall(rb"[A-Za-z0-9+/]{24,}={0,2}", content[:5_000_000]):
        yield from _base64(written)
    if content[:2] == b"\x1f\x8b":
        yield from decoded(gzip.decompress(content), name)
    at = content.find(b"PK\x03\x04")
    if at >= 0 and zipfile.is_zipfile(io.BytesIO(content)):
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            for part in archive.namelist():
                yield from decoded(archive.read(part), part)
    if content[:6] == b"\x93NUMPY":
        yield from _array(np.load(io.BytesIO(content), allow_pickle=False))
    if content[:4] == b"PAR1":
        import pyarrow.parquet as parquet

        table = parquet.read_table(io.BytesIO(content))
        yield str(table.schema)
        for column in table.columns:
            yield from _tree(column.unique().to_pylist())
    if content[:8] == b"\x89HDF\r\n\x1a\n":
        yield from _netcdf(content)
    for load in (json.loads, tomllib.loads):
        try:
            yield from _tree(load(text))
        except ValueError:
            continue


def _base64(written: bytes) -> Iterator[str]:
    import base64
    import binascii

    try:
        yield base64.b64decode(written, validate=True).decode("utf-8", "ignore")
    except binascii.Error:
        return


def _netcdf(content: bytes) -> Iterator[str | float]:
    import h5py

    found: list[Any] = []
    with h5py.File(io.BytesIO(content)) as file:
        found += [str(dict(file.attrs))]

        def visit(name: str, one: Any) -> None:
            found.append(f"{name} {dict(one.attrs)}")
            if isinstance(one, h5py.Dataset):
                found.append(np.asarray(one[()]))

        file.visititems(visit)
    for one in found:
        yield from [one] if isinstance(one, str) else _array(one)


def _array(values: Any) -> Iterator[str | float]:
    if values.dtype.kind in "OUS":
        yield " ".join(map(str, values.ravel().tolist()))
    elif values.dtype.kind in "iuf":
        yield from np.unique(values).tolist()
    yield values.tobytes().decode("utf-8", "ignore")


def _tree(value: Any) -> Iterator[str | float]:
    if isinstance(value, dict):
        for name, inside in value.items():
            yield str(name)
            yield from _tree(inside)
    elif isinstance(value, (list, tuple)):
        for inside in value:
            yield from _tree(inside)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value
    elif isinstance(value, bytes):
        yield value.decode("utf-8", "ignore")
    elif value is not None:
        yield str(value)


def search(folder: Path) -> dict[str, set[str]]:
    """Return which planted values are in the files of a folder and in their names, by path."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        kinds = set(named(name))
        if path.is_file() and not path.is_symlink():
            kinds |= found_in(path.read_bytes(), path.name)
        if kinds:
            found[name] = kinds
    return found
