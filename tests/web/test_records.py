"""The records at risk of a run: which are listed, and when values of their keys are shown."""

from __future__ import annotations

import csv
import html
import re
import shutil
import stat
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import unikat
from unikat.data import CellTable, Key
from unikat.data.held import hold
from unikat.errors import OutputError, SpecError
from unikat.jobs.files import RunRows
from unikat.report.folders.records_listed import PAGE, Wanted, export_records, list_records
from unikat.web.app import make_app
from unikat.web.folder import Folder
from unikat.web.security import Access
from web_client import PORT, Client

HEAD = "age,sex,region,work\n"
LINES = [
    f"{i * 7 % 90 if i % 9 else 'NA'},{'fm'[i % 2]},{'ABCD'[i * i % 4]},{i * i * 3 % 17}\n"
    for i in range(200)
]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a file, and a run of it."""
    folder = tmp_path_factory.mktemp("records")
    (folder / "people.csv").write_text(HEAD + "".join(LINES))
    unikat.assess(
        folder / "people.csv", keys="age,sex,region,work", missing_values="age: NA",
        population_size=900, model="latent-class", chains=2, max_sweeps=60, workers=1,
        out=folder / "run", progress=False,
    )  # fmt: skip
    return folder


@pytest.fixture
def bench(made: Path, tmp_path: Path) -> Client:
    """A workbench of a copy of that folder."""
    shutil.copytree(made, tmp_path / "data")
    access = Access(port=PORT)
    app, workbench = make_app(Folder.of(tmp_path / "data"), access)
    return Client(app, access, workbench)


def rows_of(page: str) -> list[int]:
    return [int(row) for row in re.findall(r"/neighbours/run\?row=(\d+)", page)]


def test_the_list_is_that_of_the_file_for_spreadsheets(made: Path) -> None:
    path = made / "run/records.parquet"
    with open(made / "run/records-at-risk.csv", newline="") as file:
        lines = list(csv.DictReader(file))
    assert len(lines) > 2 * PAGE
    rows: list[int] = []
    n_pages = list_records(path, Wanted()).n_pages
    for page in range(1, n_pages + 1):
        found = list_records(path, Wanted(page=page))
        rows += [record.row for record in found.records]
    assert found.shown
    assert found.n_found == found.n_at_risk == len(rows) == len(lines)
    by_row = {int(line["row"]): line for line in lines}
    assert sorted(rows) == sorted(by_row)
    risks = [float(by_row[row]["r1_shown"]) for row in rows]
    assert risks == sorted(risks, reverse=True)
    first = list_records(path, Wanted(sort="row", descending=False)).records[0]
    line = by_row[first.row]
    assert (f"{first.r1:.6g}", f"{first.r2:.6g}") == (line["r1_shown"], line["r2_shown"])
    assert [key for key, _ in first.keys] == [
        line[f"key_{i}"] for i in (1, 2, 3) if line[f"key_{i}"]
    ]


def test_records_are_found_by_risk_key_and_row(made: Path) -> None:
    path = made / "run/records.parquet"
    every = [
        record for page in (1, 2, 3, 4) for record in list_records(path, Wanted(page=page)).records
    ]
    middle = sorted(record.r1 for record in every)[len(every) // 2]
    expected = {
        record.row
        for record in every
        if record.r1 >= middle and "work" in [key for key, _ in record.keys]
    }
    found = list_records(path, Wanted(above=middle, key="work", sort="r2"))
    assert found.n_found == len(expected) > 0
    assert {record.row for record in found.records} <= expected
    r2 = [record.r2 for record in found.records]
    assert r2 == sorted(r2, reverse=True)
    only = list_records(path, Wanted(row=every[7].row))
    assert only.records == (every[7],)
    assert list_records(path, Wanted(key="' OR ''='")).records == ()
    for wrong in ({"above": 2}, {"above": float("nan")}, {"row": 0}, {"page": 0}, {"sort": "x"}):
        with pytest.raises(SpecError):
            Wanted(**wrong)  # type: ignore[arg-type]
    with pytest.raises(OutputError, match="cannot be read"):
        list_records(made / "people.csv", Wanted())


def test_a_page_keeps_what_is_asked_for(bench: Client) -> None:
    page = bench.ask("/records/run")
    assert page.status_code == 200
    assert len(rows_of(page.text)) == PAGE
    assert "Not converged" in page.text
    assert "risk by what the file shows" in page.text
    part = bench.ask("/records/run?key=work&above=0.001", headers={"HX-Request": "true"}).text
    assert "<html" not in part
    assert 'name="key"' not in part
    links = html.unescape(" ".join(re.findall(r'href="([^"]+)"', part)))
    assert "/records/run?above=0.001&key=work&sort=r2&order=down" in links
    assert bench.ask("/records/run?page=2").text.count("Page before") == 1
    wrong = bench.ask("/records/run?above=much")
    assert wrong.status_code == 422
    assert 'value="much"' in wrong.text
    assert "is a number such as 0.2" in wrong.text
    assert bench.ask("/records/people.csv").status_code == 404
    assert "/records/run" in bench.ask("/runs/run").text


def test_values_are_shown_when_asked_for_and_that_is_written_down(bench: Client) -> None:
    run = bench.bench.folder.root / "run"
    log = run / "values-shown.log"
    page = bench.ask("/records/run").text
    assert 'class="value"' not in page
    assert "values-shown.log" in page
    assert not log.exists()
    page = bench.ask("/records/run?values=1&sort=row&order=up").text
    row = rows_of(page)[3]
    line = re.search(rf">{row}</a></th>.*?</tr>", page)
    assert line is not None
    shown = re.findall(r'class="value" data-name="\w+">([^<]*)<', line[0])
    assert ",".join(shown) == LINES[row - 1].strip()
    written = log.read_text()
    assert re.fullmatch(r"\S+\+00:00 run: the values of the keys of 50 records were .*\n", written)
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    bench.ask("/records/run?values=1&sort=row&order=up&page=2")
    assert log.read_text().count("\n") == 2
    # Another file of the same name has other records.
    (bench.bench.folder.root / "people.csv").write_text(HEAD + "".join(LINES[::-1]))
    refused = bench.ask("/records/run?values=1")
    assert refused.status_code == 422
    assert "has changed since this run" in refused.text
    assert 'class="value"' not in refused.text
    assert log.read_text().count("\n") == 2


def test_facets_count_what_their_links_show(made: Path) -> None:
    path = made / "run/records.parquet"
    every = list_records(path, Wanted())
    assert sum(one.n for one in every.by_risk) == every.n_at_risk
    assert [one.n for one in every.by_key] == sorted((one.n for one in every.by_key), reverse=True)
    for one in every.by_risk:
        below = 1.0 if one.high == 1.0 else one.high
        assert list_records(path, Wanted(above=one.low, below=below)).n_found == one.n
    key = every.by_key[0].key
    # Those of a key are counted by the risk of that key alone, and all keys beside it.
    some = list_records(path, Wanted(key=key, above=0.1))
    assert sum(one.n for one in some.by_risk) == list_records(path, Wanted(key=key)).n_found
    assert {one.key for one in some.by_key} == {
        one.key for one in list_records(path, Wanted(above=0.1)).by_key
    }
    with pytest.raises(SpecError, match="below"):
        Wanted(above=0.5, below=0.5)


def test_what_is_listed_is_saved_without_values(bench: Client, made: Path) -> None:
    path = made / "run/records.parquet"
    wanted = Wanted(key="work", sort="row", descending=False)
    lines = list(csv.DictReader(export_records(path, wanted).splitlines()))
    assert len(lines) == list_records(path, wanted).n_found > PAGE
    assert [int(line["row"]) for line in lines] == sorted(int(line["row"]) for line in lines)
    assert all("work" in (line["key_1"], line["key_2"], line["key_3"]) for line in lines)
    page = bench.ask("/records/run?key=work&sort=row&order=up")
    address = re.search(r'href="([^"]*records-file[^"]*)"', page.text)
    assert address is not None
    saved = bench.ask(html.unescape(address[1]).removeprefix(bench.access.base))
    assert saved.text == export_records(path, wanted)
    assert "attachment" in saved.headers["content-disposition"]
    assert bench.ask("/records-file/none").status_code == 404
    assert bench.ask("/records-file/run?above=x").status_code == 422
    reads, _ = make_app(bench.bench.folder, bench.access, read_only=True)
    committee = Client(reads, bench.access, bench.bench)
    assert committee.ask("/records-file/run").status_code == 404


def test_neighbours_are_the_records_that_differ_in_one_key() -> None:
    rng = np.random.default_rng(1)
    names, kept = ["A", "B", "C", "D"], rng.random(150) < 0.8
    keys = [Key.of_size(name, size) for name, size in zip(names, (3, 4, 2, 5), strict=True)]
    codes = rng.integers(-1, [key.n_levels for key in keys], (150, 4))
    table = CellTable.from_codes(codes[kept], keys, population_size=1000)
    row_cell = np.full(150, -1, np.int32)
    row_cell[kept] = table.record_cell
    rows = RunRows(held=hold(pd.DataFrame(codes, columns=names), names), table=table,
                   row_cell=row_cell)  # fmt: skip
    lines = [tuple(line) if here else None for line, here in zip(codes.tolist(), kept, strict=True)]
    for row in np.flatnonzero(kept)[:40].tolist():
        own = lines[row]
        near: dict[str, list[object]] = {name: [] for name in names}
        for line in filter(None, lines):
            differs = [name for name, a, b in zip(names, line, own, strict=True) if a != b]
            if len(differs) == 1:
                near[differs[0]].append(line)
        found = rows.neighbours(row + 1)
        assert found.n_same == lines.count(own)
        assert {one.key: (one.n_records, one.n_levels) for one in found.by_key} == {
            name: (len(some), len(set(some))) for name, some in near.items()
        }
        without = [one.n_without for one in found.by_key]
        assert without == sorted(without, reverse=True)
        assert without[0] == found.n_same + max(map(len, near.values()))
        listed = {(one.key, one.row - 1, one.n_records) for one in found.listed}
        assert listed == {
            (name, lines.index(line), lines.count(line)) for name in names for line in near[name]
        }
        only = rows.neighbours(row + 1, names[0], most=1)
        assert (only.n_listed, len(only.listed)) == (len(set(near["A"])), bool(near["A"]))
    for wrong in (0, 151, int(np.flatnonzero(~kept)[0]) + 1):
        with pytest.raises(SpecError, match="no such record"):
            rows.neighbours(wrong)
    with pytest.raises(SpecError, match="no such key"):
        rows.neighbours(row + 1, "<b>")


def test_neighbours_are_browsed_without_values(bench: Client) -> None:
    root = bench.bench.folder.root
    row = rows_of(bench.ask("/records/run").text)[0]
    page = bench.ask(f"/neighbours/run?row={row}")
    assert page.status_code == 200
    assert 'class="value"' not in page.text
    assert not (root / "run/values-shown.log").exists()
    # Of records that are not unique, too, which have no risk.
    for further in (*rows_of(page.text)[:3], *range(1, 12)):
        assert bench.ask(f"/neighbours/run?row={further}").status_code == 200
    shown = bench.ask(f"/neighbours/run?row={row}&values=1").text
    own = dict(
        re.findall(
            r"<tr><th scope=.row.>(?:<a[^>]*>)?(\w+)<.*?data-name=.Value. class=.value.>([^<]*)<",
            shown,
        )
    )
    assert ",".join(own[name] for name in HEAD.strip().split(",")) == LINES[row - 1].strip()
    assert (root / "run/values-shown.log").read_text().count("\n") == 1
    for wrong in ("", "?row=0", "?row=x", "?row=201", f"?row={row}&key=%3Cb%3E"):
        refused = bench.ask(f"/neighbours/run{wrong}")
        assert refused.status_code == 422
        assert "<b>" not in refused.text
    assert bench.ask("/neighbours/none?row=1").status_code == 404
    assert bench.ask("/neighbours/..%2F..?row=1").status_code == 404
    (root / "people.csv").write_text(HEAD + "".join(LINES[::-1]))
    assert "has changed since this run" in bench.ask(f"/neighbours/run?row={row}").text
    reads, _ = make_app(bench.bench.folder, bench.access, read_only=True)
    committee = Client(reads, bench.access, bench.bench)
    assert committee.ask(f"/neighbours/run?row={row}").status_code == 404
