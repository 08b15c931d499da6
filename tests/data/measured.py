"""The memory that reading a file takes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

MEASURE = """
import sys
import python_calamine, pyarrow, duckdb
from unikat.data import Design, read
from unikat.errors import UnikatError
def peak():
    # ru_maxrss may be that of the process that started this one.
    with open("/proc/self/status") as status:
        return next(1024 * int(line.split()[1]) for line in status if line.startswith("VmHWM"))
before = peak()
try:
    read(sys.argv[1], "SEX,AGE", Design(population_size=10**8), memory_limit=sys.argv[2])
except UnikatError as error:
    print(error)
print(peak() - before)
"""


def needed(path: Path, limit: str) -> tuple[str, int]:
    """Read a file in a process of its own; return what it says and the memory that it took."""
    command = [sys.executable, "-c", MEASURE, str(path), limit]
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    message, _, size = said.strip().rpartition("\n")
    return message, int(size)
