"""The workbench, as a browser would feel it: seconds to the first page, to a large file, to a part.

    python benchmarks/web.py --only pages

Starts `unikat web` in a folder of its own with a file of 1,000,000 rows and 20 columns, and asks it
over HTTP; nothing is cached in the asking program. Times are of this machine and of what else runs
on it.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
from common import machine, print_table
from what_if import levels, what_if

UNIKAT = "import sys; from unikat.cli.main import main; sys.exit(main())"
N_RECORDS = 1_000_000
ROUNDS = 30
"""Times that each page is asked for while a run goes on."""


@contextmanager
def workbench(folder: Path) -> Iterator[tuple[httpx.Client, float]]:
    """Start a workbench; yield what asks it, and the seconds until its first page was there."""
    began = time.perf_counter()
    process = subprocess.Popen(
        [sys.executable, "-c", UNIKAT, "web", str(folder), "--no-browser"],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    try:
        process.stdout.readline()
        address = process.stdout.readline().strip()
        base, _, token = address.partition("/?")
        with httpx.Client(base_url=base, follow_redirects=True, timeout=300) as client:
            assert "<h1>" in client.get(f"/?{token}").text
            first = time.perf_counter() - began
            client.headers["Origin"] = base[: base.index("/", len("http://"))]
            yield client, first
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    finally:
        process.kill()


def seconds(ask: Callable[..., httpx.Response], path: str, **given: object) -> float:
    """Seconds of one answer, which must be a page."""
    began = time.perf_counter()
    answer = ask(path, **given)
    took = time.perf_counter() - began
    assert answer.status_code == 200, answer.text[:300]
    return took


def write_files(folder: Path) -> None:
    """Write a large file, and a run whose file of records is as long."""
    import numpy as np
    import pandas as pd
    import pyarrow as pa
    import pyarrow.parquet as pq

    import unikat

    rng = np.random.default_rng(1)
    columns = {
        "age": rng.integers(0, 100, N_RECORDS),
        "income": rng.lognormal(10, 1, N_RECORDS).round(2),
        "weight": rng.uniform(5, 20, N_RECORDS).round(3),
        "region": rng.choice(list("ABCDEFGHIJ"), N_RECORDS),
        "married": rng.choice(["yes", "no"], N_RECORDS),
    }
    columns |= {f"v{j}": rng.integers(0, 3 + j, N_RECORDS) for j in range(15)}
    large = pd.DataFrame(columns)
    large.to_csv(folder / "large.csv", index=False)
    large.head(20_000).to_csv(folder / "small.csv", index=False)
    unikat.assess(
        folder / "small.csv", keys="age,region,married,v5,v9", population_size=1_000_000,
        model="latent-class", chains=2, max_sweeps=60, out=folder / "finished", progress=False,
    )  # fmt: skip
    path = folder / "finished/records.parquet"
    records = pq.read_table(path)
    times = N_RECORDS // len(records)
    long = pa.concat_tables([records] * times).drop_columns("row")
    long = long.add_column(0, "row", pa.array(np.arange(1, len(long) + 1)))
    pq.write_table(long, path, compression="zstd", row_group_size=1 << 18)


def pages() -> list[tuple[str, str, str]]:
    """Measure pages: what, seconds, asked."""
    rows = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write_files(folder)
        starts = []
        for _ in range(5):
            with workbench(folder) as (_, first):
                starts.append(first)
        rows.append(("from the command to the first page, median of 5", _s(*starts), "1.5 s"))
        with workbench(folder) as (client, _):
            rows += large_file(client)
            rows += large_records(client)
            rows += beside_a_run(client)
    return rows


def large_file(client: httpx.Client) -> list[tuple[str, str, str]]:
    """Open the large file, and fill in its form."""
    form = {"path": "large.csv", "column": "age", "grouping:age": "width(5)"}
    keys = {f"key:{name}": "on" for name in ("age", "region", "married", "v5")}
    rules = {**form, **keys, "rules": 'age < 14 and married == "yes"'}
    part = {"HX-Request": "true"}

    def post(where: str, data: dict[str, str]) -> float:
        return seconds(client.post, where, data=data, headers=part)

    opened = seconds(client.get, "/file?path=large.csv")
    rules_of_age = [f"width({width})" for width in range(2, 8)]
    first, *later = [post("/keys/groups", form | {"grouping:age": one}) for one in rules_of_age]
    summed = post("/keys/population", form | {"weights": "weight"})
    checked, again = post("/keys/check", rules), post("/keys/check", rules)
    return [
        ("a file of 1,000,000 × 20 (CSV) opened", _s(opened), "5 s"),
        ("its column grouped, first time", _s(first), "–"),
        ("another rule, median of 5", _s(*later), "–"),
        ("its weights summed", _s(summed), "–"),
        ("a rule of impossible combinations checked, first time", _s(checked), "–"),
        ("again", _s(again), "–"),
    ]


def large_records(client: httpx.Client) -> list[tuple[str, str, str]]:
    """Look at records of a run with as many."""
    asked = (
        "",
        "?sort=r2",
        "?key=age&above=0.1",
        "?page=100",
        "?sort=key_1&order=up",
        "?row=77777",
    )
    took = [seconds(client.get, f"/records/finished{query}") for query in asked * 3]
    return [
        (
            f"50 of 1,000,000 records at risk, slowest of {len(took)} questions",
            _s(max(took)),
            "0.3 s",
        )
    ]


def beside_a_run(client: httpx.Client) -> list[tuple[str, str, str]]:
    """Ask for pages while a run takes all cores."""
    form = {
        "path": "small.csv", "key:age": "on", "key:region": "on", "key:married": "on",
        "key:v5": "on", "key:v9": "on", "population_size": "1000000",
    }  # fmt: skip
    assert client.post("/keys", data=form).status_code == 200
    run = {"path": "small.csv", "model": "hdp", "max_sweeps": "1000000", "out": "long"}
    assert client.post("/run", data=run).status_code == 200
    while "τ1" not in client.get("/runs/long").text:
        time.sleep(0.5)
    asked = (
        "/files", "/file?path=small.csv", "/keys?path=small.csv", "/run?path=small.csv", "/runs",
        "/runs/long", "/runs/finished", "/static/workbench.css",
    )  # fmt: skip
    took = [seconds(client.get, page) for _ in range(ROUNDS) for page in asked]
    assert "Stop the run" in client.get("/runs/long").text, "the run ended too early"
    client.post("/cancel/long", data={})
    high = statistics.quantiles(took, n=20)[-1]
    what = f"a page while a run is going, 95% of {len(took)} answers below"
    return [(what, _s(high), "0.2 s"), ("their median", _s(*took), "–")]


def _s(*took: float) -> str:
    return f"{statistics.median(took):.2f} s"


MEASURED = {"pages": pages, "what-if": what_if, "levels": levels}


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=MEASURED, action="append", help="what to measure")
    options = parser.parse_args()
    print(machine())
    rows = [row for name in options.only or MEASURED for row in MEASURED[name]()]
    print_table(("what", "measured", "asked"), rows)


if __name__ == "__main__":
    main()
