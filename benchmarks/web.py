"""The workbench, as a browser would feel it: seconds to the first page, to a large file, to a part.

    python benchmarks/web.py --table

The rows that were asked for, each beside its limit: `pages`, `ticks` and `levels`. `pages` starts
`unikat web` in a folder of its own with a file of 1,000,000 rows and 20 columns, `ticks` with one
of 100,000 records and 12 keys; both ask over HTTP, and nothing is cached in the asking program.
Times are of this machine and of what else runs on it, so seconds of processor time of the workbench
(or of the process behind its page) stand beside them.
"""

from __future__ import annotations

import argparse
import html
import re
import signal
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import httpx
import pandas as pd
from common import data_file, machine, print_table, processor_seconds
from what_if import KEYS, MORE, levels, what_if

UNIKAT = "import sys; from unikat.cli.main import main; sys.exit(main())"
N_RECORDS = 1_000_000
N_TICKED = 100_000
ROUNDS = 30
"""Times that each page is asked for while runs go on, and that levels are merged."""


PART = {"HX-Request": "true"}


class Took(NamedTuple):
    """Seconds of an answer: of the clock, and of the workbench's processor time."""

    wall: float
    cpu: float


class Bench(NamedTuple):
    """A workbench that is asked."""

    client: httpx.Client
    first: float
    """Seconds until its first page was there."""
    pid: int

    def took(self, ask: Callable[..., httpx.Response], path: str, **given: object) -> Took:
        """Seconds of one answer, which must be a page."""
        before, began = processor_seconds(self.pid), time.perf_counter()
        answer = ask(path, **given)
        wall = time.perf_counter() - began
        assert answer.status_code == 200, answer.text[:300]
        return Took(wall, processor_seconds(self.pid) - before)


@contextmanager
def workbench(folder: Path) -> Iterator[Bench]:
    """Start a workbench; it has answered with its first page."""
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
            yield Bench(client, first, process.pid)
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=120)
    finally:
        process.kill()


def ticks() -> list[tuple[str, str, str]]:
    """Measure what follows a tick, a merge and an undo before anything is fitted."""
    keys = KEYS + MORE
    people = pd.read_parquet(data_file("acs2024_persons_northeast"), columns=keys)
    with tempfile.TemporaryDirectory() as name:
        people.sample(N_TICKED, random_state=1).to_csv(Path(name) / "people.csv", index=False)
        with workbench(Path(name)) as bench:
            post, get = bench.client.post, bench.client.get
            form = {"path": "people.csv", **{f"key:{key}": "on" for key in keys[:1]}}

            def counted() -> Took:
                return bench.took(post, "/keys/counts", data=form, headers=PART)

            bench.took(get, "/keys?path=people.csv")
            started, new, again = counted(), [], []
            for key in keys[1:]:
                form[f"key:{key}"] = "on"
                new.append(counted())
            for key in keys:
                del form[f"key:{key}"]
                again.append(counted())
                form[f"key:{key}"] = "on"
                again.append(counted())
            beside, times = [], []
            # One whose size changes is another run, whose time is not known yet.
            asked = {**form, "population_size": "1000000"}
            times.append(bench.took(post, "/keys/time", data=asked, headers=PART))

            def ask(size: int) -> None:
                more = {**asked, "population_size": str(size)}
                times.append(bench.took(post, "/keys/time", data=more, headers=PART))

            for i, key in enumerate(keys[1:]):
                asking = threading.Thread(target=ask, args=(1_000_001 + i,))
                asking.start()
                time.sleep(0.05)
                del form[f"key:{key}"]
                beside.append(counted())
                form[f"key:{key}"] = "on"
                beside.append(counted())
                asking.join()
            where = {"path": "people.csv", "edit": "RAC1P"}
            opened = bench.took(get, "/levels", params=where)
            merged, undone = [], []
            for i in range(ROUNDS):
                given = {**where, "tick": [i % 4, 4 + i % 3], "do": "merge"}
                merged.append(bench.took(get, "/levels", params=given, headers=PART))
                shown = get("/levels", params=given).text
                fields = re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', shown)
                where |= {name: html.unescape(text) for name, text in fields}
                undone.append(
                    bench.took(get, "/levels", params={**where, "do": "undo"}, headers=PART)
                )
    size = f"n = {N_TICKED:,}, {len(keys)} keys"
    return [
        ("first key ticked since the start, to counts", _s(started), "–"),
        (f"a new key ticked to counts, {size}", _all(new), "0.2 s"),
        (f"a key ticked or unticked again, to counts, {size}", _all(again), "0.2 s"),
        ("the same while the expected time is counted", _all(beside), "0.2 s"),
        ("expected time of these keys, first since the start", _s(times[0]), "–"),
        ("expected time of these keys, beside ticks", _all(times[1:]), "–"),
        ("levels of a key opened, first time since the start", _s(opened), "–"),
        (f"levels merged to counts, {size}", _all(merged), "0.2 s"),
        (f"a merge undone to counts, {size}", _all(undone), "0.2 s"),
    ]


def write_files(folder: Path) -> None:
    """Write a large file, and a run whose file of records is as long."""
    import numpy as np
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
            with workbench(folder) as bench:
                starts.append(Took(bench.first, processor_seconds(bench.pid)))
        rows.append(("from the command to the first page, median of 5", _s(*starts), "1.5 s"))
        with workbench(folder) as bench:
            rows += large_file(bench)
            rows += large_records(bench)
            rows += beside_two_runs(bench, folder)
    return rows


def large_file(bench: Bench) -> list[tuple[str, str, str]]:
    """Open the large file, and fill in its form."""
    form = {"path": "large.csv", "column": "age", "grouping:age": "width(5)"}
    keys = {f"key:{name}": "on" for name in ("age", "region", "married", "v5")}
    rules = {**form, **keys, "rules": 'age < 14 and married == "yes"'}

    def post(where: str, data: dict[str, str]) -> Took:
        return bench.took(bench.client.post, where, data=data, headers=PART)

    opened = bench.took(bench.client.get, "/file?path=large.csv")
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


def large_records(bench: Bench) -> list[tuple[str, str, str]]:
    """Look at records of a run with as many."""
    asked = (
        "",
        "?sort=r2",
        "?key=age&above=0.1",
        "?page=100",
        "?sort=key_1&order=up",
        "?row=77777",
    )
    get = bench.client.get
    took = [bench.took(get, f"/records/finished{query}") for query in asked * 3]
    return [
        (
            f"50 of 1,000,000 records at risk, slowest of {len(took)} questions",
            _s(max(took)),
            "0.3 s",
        )
    ]


def beside_two_runs(bench: Bench, folder: Path) -> list[tuple[str, str, str]]:
    """Ask for pages while two runs take all cores: one of the workbench, one of a terminal."""
    client = bench.client
    keys = ("age", "region", "married", "v5", "v9")
    form = {"path": "small.csv", "population_size": "1000000"}
    form |= {f"key:{key}": "on" for key in keys}
    assert client.post("/keys", data=form).status_code == 200
    run = {"path": "small.csv", "model": "hdp", "max_sweeps": "1000000", "out": "long"}
    assert client.post("/run", data=run).status_code == 200
    other = subprocess.Popen(
        [sys.executable, "-c", UNIKAT, "assess", "small.csv", "--keys", ",".join(keys),
         "--population-size", "1000000", "--model", "hdp", "--max-sweeps", "1000000",
         "--out", "other"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        started = time.perf_counter()
        while "τ1" not in client.get("/runs/long").text or time.perf_counter() < started + 20:
            time.sleep(0.5)
        asked = (
            "/files", "/file?path=small.csv", "/keys?path=small.csv", "/run?path=small.csv",
            "/runs", "/runs/long", "/runs/finished", "/static/workbench.css",
        )  # fmt: skip
        took = [bench.took(client.get, page) for _ in range(ROUNDS) for page in asked]
        assert "Stop the run" in client.get("/runs/long").text, "the run ended too early"
        assert other.poll() is None, "the run of the terminal ended too early"
    finally:
        other.kill()
        other.wait()
    client.post("/cancel/long", data={})
    walls, cpus = zip(*took, strict=True)
    high = Took(statistics.quantiles(walls, n=20)[-1], statistics.quantiles(cpus, n=20)[-1])
    what = f"a page while two runs are going, 95% of {len(took)} answers below"
    return [(what, _s(high), "0.2 s"), ("their median", _s(*took), "–")]


def _s(*took: Took) -> str:
    wall, cpu = (statistics.median(numbers) for numbers in zip(*took, strict=True))
    return f"{wall:.2f} s (processor {cpu:.2f} s)"


def _all(took: list[Took]) -> str:
    return f"{_s(*took)}, slowest of {len(took)} {max(took).wall:.2f} s"


MEASURED = {"pages": pages, "ticks": ticks, "levels": levels, "what-if": what_if}
TABLE = ("pages", "ticks", "levels")
"""What has the rows that were asked for."""


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", choices=MEASURED, action="append", help="what to measure")
    parser.add_argument("--table", action="store_true", help="only rows that have a limit")
    options = parser.parse_args()
    print(machine())
    names = options.only or (TABLE if options.table else MEASURED)
    rows = [row for name in names for row in MEASURED[name]()]
    if options.table:
        rows = [row for row in rows if row[2] != "–"]
    print_table(("what", "measured", "asked"), rows)


if __name__ == "__main__":
    main()
