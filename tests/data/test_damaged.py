"""Damaged files end in a message: not in rows that are not there, and not with the process."""

from __future__ import annotations

import gzip
import random
import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.feather as feather
import pytest

from unikat.data import Design, read
from unikat.errors import DataError, SpecError

DESIGN = Design(population_size=10**6)
READ_ALL = """
import sys
from unikat.data import Design, read
from unikat.errors import UnikatError

for path in sys.argv[1:]:
    try:
        read(path, "A,B,C", Design(population_size=10**6), missing="level").tabulate()
        print("read", flush=True)
    except UnikatError as error:
        print("refused", len(str(error)) < 1000, flush=True)
"""


def mutate(content: bytes, rng: random.Random) -> bytes:
    """Change a few bytes, or a length, or cut the file."""
    mutant = bytearray(content)
    for _ in range(rng.choice([1, 1, 2, 4, 8])):
        place = rng.randrange(len(mutant))
        kind = rng.randrange(4)
        if kind == 0:
            mutant[place] ^= 1 << rng.randrange(8)
        elif kind == 1:
            mutant[place] = rng.choice([0, 127, 128, 255])
        elif kind == 2:
            mutant[place : place + 8] = rng.randbytes(8)
        else:
            mutant[place : place + 4] = b"\xff\xff\xff\x7f"
    return bytes(mutant[: rng.randrange(1, len(mutant))] if rng.random() < 0.05 else mutant)


@pytest.mark.parametrize("compression", ["uncompressed", "lz4"])
def test_damaged_arrow_files(tmp_path: Path, compression: str) -> None:
    """A process that reads what Arrow does not check ends with a violation of memory."""
    table = pa.table(
        {
            "A": ["x", "yy", None, "zzz"] * 50,
            "B": [1, 2, 3, None] * 50,
            "C": pa.array(["lo", "hi", "lo", None] * 50).dictionary_encode(),
        }
    )
    whole = tmp_path / "x.arrow"
    feather.write_feather(table, whole, compression=compression, chunksize=60)
    rng = random.Random(4)
    paths = []
    for number in range(150):
        path = tmp_path / f"{number}.arrow"
        path.write_bytes(mutate(whole.read_bytes(), rng))
        paths.append(str(path))
    done = subprocess.run(
        [sys.executable, "-c", READ_ALL, *paths], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr[-500:]
    answers = done.stdout.splitlines()
    assert len(answers) == len(paths)
    assert set(answers) == {"read", "refused True"}


def test_damaged_gzip(tmp_path: Path) -> None:
    """Every kind of damage, behind the part of the file that is looked at first."""
    rng = random.Random(1)
    rows = "".join(f"{rng.randrange(90)},{rng.randrange(10**6)}\n" for _ in range(40_000))
    path = tmp_path / "x.csv.gz"
    for encoding in ("utf-8", "utf-16"):
        packed = gzip.compress(f"A,B\n{rows}".encode(encoding))
        middle = len(packed) // 2
        flipped = bytearray(packed)
        flipped[middle] ^= 1
        zeroed = packed[:middle] + bytes(16) + packed[middle + 16 :]
        for damaged in (bytes(flipped), zeroed, packed[:-5], packed[:middle], packed + b"more"):
            path.write_bytes(damaged)
            with pytest.raises(DataError, match="not a complete gzip file"):
                read(path, "A,B:quantile(5)", DESIGN, encoding=encoding)
        path.write_bytes(packed)
        assert read(path, "A,B:quantile(5)", DESIGN, encoding=encoding).n_records == 40_000


def test_packed_files_that_are_no_text(tmp_path: Path) -> None:
    path = tmp_path / "x.parquet.gz"
    path.write_bytes(gzip.compress(b"PAR1"))
    with pytest.raises(DataError, match="only text files may be; unpack it"):
        read(path, "A,B", DESIGN)


def test_numbers_of_thousands_of_digits(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    long = "9" * 5000
    path.write_text("A,B\n" + f"1,{long}\n2,7\n1,8\n" * 3)
    microdata = read(path, "A,B", DESIGN)
    assert microdata.keys[1].levels == ("7", "8", long)
    assert microdata.codes("B")[1] == ["7", "8", long]
    with pytest.raises(DataError, match="are not finite numbers"):
        read(path, "A,B:width(5)", DESIGN)
    with pytest.raises(DataError, match="are infinite"):
        microdata.numbers("B")
    huge = 10**5000
    for options in ({"missing_values": [huge]}, {"codebook": {"A": {"missing": [huge]}}}):
        frame = pa.table({"A": [1, 2] * 3, "B": ["1", "2", "2"] * 2})
        with pytest.raises(SpecError, match=r"digits|too large"):
            read(frame, "A,B", DESIGN, **options)  # type: ignore[arg-type]
