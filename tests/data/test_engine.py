"""DuckDB sessions: in a notebook, and with names that DuckDB takes for patterns."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from unikat.data import Design, read

NOTEBOOK = """
import sys, types

# What DuckDB looks at: a kernel of Jupyter in which the package of the bars is not installed.
ipython = types.ModuleType("IPython")
ipython.get_ipython = lambda: types.SimpleNamespace(config={"IPKernelApp": {}})
ipython.version_info = (9, 0, 0)
sys.modules["IPython"], sys.modules["ipywidgets"] = ipython, None

import duckdb

try:
    duckdb.connect().execute("SET enable_progress_bar = false")
except duckdb.Error as error:
    assert "ipywidgets" in str(error), error
else:
    raise SystemExit("DuckDB does not take this for a notebook without ipywidgets")

from unikat.data import Design, read

microdata = read(sys.argv[1], "A,B", Design(population_size=100))
print(microdata.tabulate().n_records)
"""


def test_notebook_without_widgets(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    path.write_text("A,B\n1,2\n2,1\n1,1\n")
    done = subprocess.run(
        [sys.executable, "-c", NOTEBOOK, str(path)], capture_output=True, text=True, check=False
    )
    assert (done.stdout, done.stderr) == ("3\n", "")


def test_names_that_look_like_patterns(tmp_path: Path) -> None:
    """A file of that name goes first, even where the pattern fits another one."""
    design = Design(population_size=100)
    for folder in (tmp_path, tmp_path / "x[ab]", tmp_path / "xa"):
        folder.mkdir(exist_ok=True)
    for name, other in (("a[1]", "a1"), ("b?", "bb"), ("c*", "cc"), ("x[ab]/d", "xa/d")):
        for number, stem in enumerate((name, other)):
            rows = {"A": [number, 5] * 3, "B": [1, 2, 2] * 2}
            pq.write_table(pa.table(rows), tmp_path / f"{stem}.parquet")
            (tmp_path / f"{stem}.csv").write_text(f"A,B\n{number},1\n5,2\n")
        parquet = read(tmp_path / f"{name}.parquet", "A,B", design)
        assert parquet.keys[0].levels == (0, 5)
        assert parquet.tabulate().n_records == 6
        text = read(tmp_path / f"{name}.csv", "A,B", design)
        assert text.keys[0].levels == ("0", "5")
        assert text.to_frame()["A"].to_pylist() == ["0", "5"]
    assert read(tmp_path / "a[0-9].parquet", "A,B", design).keys[0].levels == (1, 5)
