"""Data frames in files of R, read with pyreadr in a process of its own (see `r_process`)."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

from unikat.data import r_process
from unikat.data.engine import memory_bytes, too_large
from unikat.data.names import choose_table
from unikat.data.sources import TableSource
from unikat.errors import DataError, SpecError, option
from unikat.files.scratch import scratch_folder
from unikat.interrupts import stopped_by

_REMEDY = "write the data frame again with saveRDS, or as CSV."


def open_r(path: Path, table: str | None, memory_limit: str) -> TableSource:
    """Open a data frame of an ``.rds`` or ``.RData`` file; factors keep the order of levels."""
    import pyarrow as pa

    if find_spec("pyreadr") is None:
        raise SpecError(
            f"{path.name} is a file of R, which needs the package pyreadr: install it with  "
            "pip install 'unikat[r]',  or write the data as CSV or Parquet."
        )
    with scratch_folder() as folder:
        names = _read(path, folder, memory_limit)
        chosen = choose_table(names, table, what="table", file=path.name)
        with pa.OSFile(str(folder / f"{names.index(chosen)}.arrow")) as file:
            return TableSource.of(path, pa.ipc.open_file(file).read_all(), "rds")


def _read(path: Path, folder: Path, memory_limit: str) -> list[str]:
    """Have the data frames written into a folder; return their names."""
    here = os.path.realpath(os.getcwd())
    # What this process can import, but for what lies beside the data.
    places = [place for place in sys.path if place and os.path.realpath(place) != here]
    most = int(memory_bytes(memory_limit))
    arguments = [str(path.absolute()), str(folder), str(most), json.dumps(places)]
    # Threads and pools that are not used would count as memory.
    settings = {
        "ARROW_DEFAULT_MEMORY_POOL": "system",
        "MALLOC_ARENA_MAX": "1",
        "OMP_NUM_THREADS": "1",
        "OPENBLAS_NUM_THREADS": "1",
    }
    process = subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", r_process.__file__, *arguments],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **settings},
    )
    with process, stopped_by(process.kill):
        said = process.communicate()[0]
    if process.returncode == 0:
        names: list[str] = json.loads(said.splitlines()[-1])
        return names
    if process.returncode == r_process.TOO_LARGE:
        why = "it is large once it is unpacked"
        raise too_large(
            path.name, memory_limit, why, "Leave out data frames and columns that are not needed"
        )
    if process.returncode == r_process.DAMAGED:
        raise DataError(
            f"{path.name} cannot be read as a file of R. It may be damaged, or hold something "
            f"else than data frames, such as lists; {_REMEDY}"
        )
    raise DataError(
        f"{path.name} cannot be read as a file of R: the process that read it ended. The file may "
        f"be damaged, hold lists within lists, or need more memory than the {memory_limit} "
        f"allowed; raise that with {option('memory_limit', '4GB')}, or {_REMEDY}"
    )
