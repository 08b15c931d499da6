"""Planted values are in no output but those that docs/reference/confidentiality.md lists."""

from __future__ import annotations

import gzip
import html
import io
import os
import re
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as parquet
import pytest

from hostile.leaks import PLANTED, found_in, named, planted, search
from hostile.watch import OTHERS, Seen, watched
from unikat.cli.main import main
from unikat.kernels.jit import cache_folder
from unikat.web.app import make_app
from unikat.web.folder import Folder
from unikat.web.security import Access
from web_client import PORT, Client

pytestmark = pytest.mark.slow

KEYS = "AGE,SEX,WORK,CODE"
SHORT = ["--chains", "2", "--workers", "1", "--max-sweeps", "30", "--allow-unconverged"]
SIZE = ["--population-size", "3000"]
MIXTURE = ["--model", "latent-class"]
RECORDS = {"level", "label", "number", "text", "income", "home"}
LEVELS = {"level", "label", "number"}
MAY_HOLD = {
    r"protect[\w-]*/protected\.\w+": RECORDS,
    r"applied\.csv": RECORDS,
    r"synthesize/synthetic_\d\.csv": LEVELS,
    r"protect[\w-]*/plan\.toml": LEVELS,
    r"protect[\w-]*/(?:protect\.toml|protect\.json|plans\.parquet)": LEVELS,
    r"protect[\w-]*/(?:report|committee)\.html": LEVELS,
    r"(?:suggest\.toml|disjoint\.csv|rows\.csv)": LEVELS,
    r"show/(?:report\.html|result\.json|records-at-risk\.csv)": LEVELS,
}
"""The outputs that may hold planted values, by path, and which; the page lists what they are."""
DOCUMENTED = (
    "protected.*", "apply", "synthetic_*.*", "plan.toml", "protect.toml", "protect.json",
    "plans.parquet", "zeros suggest --out", "zeros disjoint --out", "zeros check --rows",
    "--show-small-cells", "records-at-risk.csv", "states.checkpoint", "values-shown.log",
)  # fmt: skip


class Said(NamedTuple):
    """How a command ended."""

    code: int
    out: str
    err: str


class Place(NamedTuple):
    """A folder with files of planted values, and one to work in."""

    data: Path
    work: Path
    tmp: Path
    said: dict[str, Said]
    seen: Seen
    """The files that were there while the commands ran, with a umask that lets others in."""


def told(arguments: list[str]) -> Said:
    """Run a command and return what it says."""
    with redirect_stdout(io.StringIO()) as out, redirect_stderr(io.StringIO()) as err:
        code = main(arguments)
    return Said(code, out.getvalue(), err.getvalue())


def write(data: Path) -> None:
    """Write the planted file as text, as SPSS with labels, and what goes with it."""
    pyreadstat = pytest.importorskip("pyreadstat", reason="the extra 'stat' is not installed")
    frame = planted()
    frame.to_csv(data / "people.csv", index=False)
    frame.to_parquet(data / "people.parquet")
    (data / "people.csv.gz").write_bytes(gzip.compress((data / "people.csv").read_bytes()))
    names = sorted(set(frame["WORK"]))
    labels = {i + 1: name for i, name in enumerate(names)}
    labels[names.index(PLANTED["level"]) + 1] = PLANTED["label"]
    coded = frame.assign(WORK=frame["WORK"].map({name: i + 1 for i, name in enumerate(names)}))
    pyreadstat.write_sav(coded, str(data / "people.sav"), variable_value_labels={"WORK": labels})
    (data / "book.toml").write_text(
        "[WORK]\nlevels = ["
        + ", ".join(f'"{name}"' for name in names)
        + "]\nlabels = {"
        + ", ".join(
            f'{name} = "{PLANTED["label"] if name == PLANTED["level"] else f"L {name}"}"'
            for name in names
        )
        + "}\n"
    )
    (data / "policy.toml").write_text(
        'never = ["NAME"]\nminimum_cell = 2\n[[scenario]]\nname = "all"\n'
        'keys = ["AGE", "SEX", "WORK"]\n'
        'target = ["tau1 <= 5", "k >= 2", "diversity(INCOME) >= 2"]\n'
    )
    (data / "zeros.toml").write_text("rules = ['AGE < 22 and WORK == \"mine\"']\n")
    (data / "control.csv").write_text(planted(120).assign(AGE=33).to_csv(index=False))
    with sqlite3.connect(data / "people.sqlite") as base:
        frame.to_sql("people", base, index=False)
    base.close()


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    """Run every command on the planted files."""
    root = tmp_path_factory.mktemp("privacy")
    data, work, tmp = root / "data", root / "work", root / "tmp"
    before, scratch, umask = Path.cwd(), os.environ.get("TMPDIR"), os.umask(0)
    for folder in (data, work, tmp):
        folder.mkdir()
    try:
        write(data)
        with watched(work, tmp) as seen:
            made = Place(data, work, tmp, {}, seen)
            run_all(made)
        yield made
    finally:
        os.umask(umask)
        os.chdir(before)
        os.environ.pop("TMPDIR")
        if scratch is not None:
            os.environ["TMPDIR"] = scratch
        tempfile.tempdir = None


def run_all(made: Place) -> None:
    """Run all commands in the place."""
    os.environ["TMPDIR"], tempfile.tempdir = str(made.tmp), None
    os.chdir(made.work)
    pytest.importorskip("splink", reason="the extra 'link' is not installed")
    csv, sav = str(made.data / "people.csv"), str(made.data / "people.sav")
    keyed = ["--keys", KEYS, *SIZE, *MIXTURE, *SHORT]
    zeros = ["--keys", KEYS, "--zeros", str(made.data / "zeros.toml")]
    commands = {
        "classics": ["assess", csv, *keyed, "--classics", "--sensitive", "INCOME", "--by",
                     "NOTE,INCOME", "--household", "HOME", "--keep-states", "--key-errors",
                     "AGE: 0.1; *: 0.02"],
        "weighted": ["assess", csv, *keyed, "--weights", "W", "--relative-weights"],
        "labels": ["assess", sav, *keyed, "--registry", sav],
        "codebook": ["assess", csv, *keyed, "--codebook", str(made.data / "book.toml"),
                     "--zeros", str(made.data / "zeros.toml"), "--zeros-conflict", "drop"],
        "show": ["assess", csv, *keyed, "--show-small-cells"],
        "households": ["assess", csv, "--keys", "AGE,SEX,WORK", *SHORT, "--model", "households",
                       "--household", "HOME", "--population-households", "900"],
        "auto": ["assess", csv, "--keys", KEYS, *SIZE, *SHORT, "--set", "evidence_seconds=2"],
        "compare": ["compare", sav, "--keys", KEYS, *SIZE, *SHORT, "--models",
                    "latent-class,loglinear"],
        "evaluate": ["evaluate", sav, "--keys", KEYS, *SHORT, "--models", "latent-class", "--n",
                     "80", "--repeats", "2"],
        "synthesize": ["synthesize", csv, "--keys", KEYS, *MIXTURE, *SHORT, "--datasets", "2"],
        "attack": ["attack", csv, "--synthetic", "synthesize", "--keys", KEYS, "--targets",
                   "WORK", "--attacks", "30", *SHORT],
        "linked": ["attack", csv, "--external", str(made.data / "people.parquet"), "--keys", KEYS,
                   "--id", "NOTE"],
        "protect": ["protect", csv, *keyed, "--recode", "AGE: width(10); WORK: rare(0.05)",
                    "--suppress", "k >= 2", "--pram", "SEX: 0.9", "--swap", "CODE"],
        "protect-target": ["protect", sav, *keyed, "--target", "tau1 <= 200", "--tables",
                           "WORK,CODE; AGE,INCOME"],
    }  # fmt: skip
    for name, command in commands.items():
        made.said[name] = told([*command, "--out", name])
    last = {
        "verify": told(["verify", csv, "protect/protected.csv", *keyed,
                        "--out", "verify"]),
        "apply": told(["apply", "protect/plan.toml", csv, "--out", "applied.csv"]),
        "dry run": told(["assess", csv, *keyed, "--dry-run"]),
        "check": told(["zeros", "check", csv, *zeros, "--rows", "rows.csv"]),
        "disjoint": told(["zeros", "disjoint", csv, *zeros, "--out", "disjoint.csv"]),
        "suggest": told(["zeros", "suggest", csv, "--keys", KEYS, "--out", "suggest.toml"]),
        "judge": told(["check", csv, "--policy", str(made.data / "policy.toml"), *SIZE, *MIXTURE,
                       *SHORT, "--out", "judge"]),
        "certified": told(["check", csv, "--certificate", "judge/certificate.json"]),
        "report": told(["report", "labels"]),
    }  # fmt: skip
    made.said.update(last)


def test_every_command_ends_well(place: Place):
    failed = {name: said.err for name, said in place.said.items() if said.code not in (0, 2, 3)}
    # Rows break the rule: that is what `zeros check` says by its exit code.
    assert set(failed) <= {"check"}, failed


def test_outputs_hold_only_what_they_may(place: Place):
    wrong = {}
    for path, kinds in search(place.work).items():
        allowed = {
            one for name, held in MAY_HOLD.items() if re.fullmatch(name, path) for one in held
        }
        if not kinds <= allowed:
            wrong[path] = kinds - allowed
    assert wrong == {}


def test_the_search_finds_what_is_there(place: Place):
    """What may hold values does: else the search would be blind."""
    found = search(place.work)
    assert {"level", "number"} <= found["show/result.json"]
    assert {"level", "number"} <= found["show/report.html"]
    assert {"text", "income"} <= found["protect/protected.csv"]
    # The column is named as household numbers are, so it is renumbered.
    assert "home" not in found["protect/protected.csv"]
    assert "label" in found["protect-target/protected.sav"]
    assert found["protect/plan.toml"] == {"level"}


def test_terminals_temporary_folder_and_cache_hold_none(place: Place):
    for name, said in place.said.items():
        assert set(named(said.err)) == set(), name
        may_tell = {"suggest": LEVELS, "protect": LEVELS, "protect-target": LEVELS}
        assert set(named(said.out)) <= may_tell.get(name, set()), name
    assert list(place.tmp.iterdir()) == []
    cache = cache_folder()
    for path in Path(cache).rglob("*") if cache else ():
        if path.is_file():
            content = path.read_bytes()
            assert not any(str(one).encode() in content for one in PLANTED.values()), path.name


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_nobody_else_can_read_a_file_at_any_time(place: Place):
    """Those that libraries write into a folder of the owner are kept from others by the folder."""
    assert any("keys-0.parquet" in path for path in place.seen.files)
    assert place.seen.exposed == set()
    left = {
        str(path.relative_to(place.work)): oct(path.stat().st_mode)
        for path in place.work.rglob("*")
        if path.stat().st_mode & OTHERS
    }
    assert left == {}
    cache = cache_folder()
    assert not cache or not Path(cache).stat().st_mode & OTHERS


FAILING = {
    "weights of text": ["assess", "{csv}", "--weights", "NOTE"],
    "inclusion above 1": ["assess", "{csv}", "--set", "design.inclusion=INCOME"],
    "a stratum without size": ["assess", "{csv}", "--strata", "WORK", "--stratum-sizes", "{sizes}"],
    "a codebook without the level": ["assess", "{csv}", "--codebook", "{short}"],
    "a rule of text for numbers": ["assess", "{csv}", "--zeros", "{badzeros}"],
    "rows that break a rule": ["assess", "{csv}", "--zeros", "{all}"],
    "width of text": ["assess", "{csv}", "--keys", "WORK:width(5)"],
    "quantiles of text": ["assess", "{csv}", "--keys", "NOTE:quantile(5)"],
    "margins without the level": ["assess", "{csv}", "--margins", "{margins}"],
    "a registry without columns": ["assess", "{csv}", "--registry", "{sizes}"],
    "a member who differs": ["assess", "{csv}", "--model", "households", "--household", "HOME",
                             "--household-keys", "WORK", "--population-households", "900"],
    "no head": ["assess", "{csv}", "--model", "households", "--household", "HOME", "--head",
                "AGE > 200", "--set", "households.head_keys=WORK",
                "--population-households", "900"],
    "a row too long": ["assess", "{long}"],
    "a quote left open": ["assess", "{quote}"],
    "an encoding": ["assess", "{latin}"],
    "a broken gzip": ["assess", "{gz}"],
    "a broken Parquet file": ["assess", "{broken}"],
    "a broken SPSS file": ["assess", "{brokensav}"],
    "a cast in a query": ["assess", "{duckdb}", "--query",
                          "SELECT CAST(NOTE AS INTEGER) AS AGE, SEX, WORK, CODE FROM people"],
    "an error in a query": ["assess", "{duckdb}", "--query",
                            "SELECT AGE, SEX, error(NOTE) AS WORK, CODE FROM people"],
    "a query of SQLite": ["assess", "{sqlite}", "--query",
                          "SELECT json(NOTE) AS AGE, SEX, WORK, CODE FROM people"],
    "a hierarchy without the level": ["protect", "{csv}", "--recode", "WORK: file({hierarchy})"],
    "a matrix without the level": ["protect", "{csv}", "--pram", "WORK: {matrix}"],
    "a target out of reach": ["protect", "{csv}", "--target", "k >= 500", "--keep", "WORK,CODE"],
    "other levels": ["attack", "{csv}", "--synthetic", "{other}"],
    "a file of other rows": ["verify", "{csv}", "{control}"],
    "a key twice": ["verify", "{csv}", "{csv}", "--id", "WORK"],
    "a target that is none": ["attack", "{other}", "--synthetic", "{csv}", "--targets", "NOPE"],
}  # fmt: skip
"""Commands that fail because of a planted value, or near one."""


@pytest.fixture(scope="module")
def spoiled(place: Place) -> dict[str, str]:
    """Files that bring the planted values into messages, if anything does."""
    data = place.data
    frame = planted()
    text = (data / "people.csv").read_text()
    row = next(line for line in text.splitlines() if str(PLANTED["level"]) in line)
    content = {
        "sizes": "WORK,size\noffice,9000\nfarm,9000\n",
        "short": '[WORK]\nlevels = ["office", "farm", "mine", "school"]\n',
        "badzeros": "rules = ['WORK < 3']\n",
        "all": "rules = ['AGE >= 20']\n",
        "margins": "WORK,count\noffice,1000\nfarm,1000\nmine,500\nschool,500\n",
        "long": text.replace(row, f"{row},{PLANTED['text']},{PLANTED['text']}"),
        "quote": text.replace(row, f'"{row}'),
        "hierarchy": "office;in\nschool;in\nfarm;out\nmine;out\n",
        "matrix": ",office,farm\noffice,0.9,0.1\nfarm,0.1,0.9\n",
    }
    suffixes = {"short": "toml", "badzeros": "toml", "all": "toml"}
    made = {}
    for name, written in content.items():
        path = data / f"{name}.{suffixes.get(name, 'csv')}"
        path.write_text(written)
        made[name] = str(path)
    (data / "latin.csv").write_bytes(text.replace(str(PLANTED["level"]), f"{PLANTED['level']}é")
                                     .encode("latin-1"))  # fmt: skip
    zipped = (data / "people.csv.gz").read_bytes()
    (data / "bad.csv.gz").write_bytes(zipped[: len(zipped) // 2])
    whole = (data / "people.parquet").read_bytes()
    (data / "bad.parquet").write_bytes(whole[:900] + whole[1000:])
    sav = (data / "people.sav").read_bytes()
    (data / "bad.sav").write_bytes(sav[: len(sav) // 2])
    frame.assign(WORK="x", CODE=9).to_csv(data / "other.csv", index=False)
    import duckdb

    with duckdb.connect(data / "people.duckdb") as base:
        base.execute("CREATE TABLE people AS SELECT * FROM frame")
    named_files = {"csv": "people.csv", "latin": "latin.csv", "gz": "bad.csv.gz",
                   "broken": "bad.parquet", "brokensav": "bad.sav", "duckdb": "people.duckdb",
                   "sqlite": "people.sqlite", "other": "other.csv",
                   "control": "control.csv"}  # fmt: skip
    return made | {name: str(data / file) for name, file in named_files.items()}


@pytest.mark.parametrize("name", FAILING)
def test_messages_hold_none(place: Place, spoiled: dict[str, str], name: str):
    command = [word.format(**spoiled) if "{" in word else word for word in FAILING[name]]
    given = [*command, "--out", "failed"]
    if "--keys" not in command:
        given += ["--keys", KEYS]
    if "--population-households" not in command and "--weights" not in command:
        given += SIZE
    if command[0] != "attack" and "--model" not in command:
        given += MIXTURE
    said = told([*given, *SHORT])
    shutil.rmtree("failed", ignore_errors=True)
    assert set(named(said.out)) | set(named(said.err)) == set(), said.err
    assert "defect of unikat" not in said.err
    assert list(place.tmp.iterdir()) == []


@pytest.mark.parametrize("field", ["rule", "labels", "codes"])
def test_a_damaged_plan_is_refused_without_its_levels(place: Place, tmp_path: Path, field: str):
    text = Path("protect/plan.toml").read_text()
    at = text.index("[[keys]]")
    block = f'[[keys]]\nname = "WORK"\nkey = "WORK"\n{field} = {{{PLANTED["level"]} = []}}\n'
    plan = tmp_path / "plan.toml"
    plan.write_text(text[:at] + block)
    command = ["apply", str(plan), str(place.data / "people.csv"), "--out", "no.csv"]
    said = told(command)
    assert said.code == 1
    assert f"keys.0.{field}" in said.err
    assert set(named(said.err)) == set()


def workbench(folder: Path) -> Client:
    access = Access(port=PORT)
    app, bench = make_app(Folder.of(folder), access)
    return Client(app, access, bench)


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_nobody_else_can_read_a_file_of_the_workbench(place: Place):
    folder = place.work / "bench"
    folder.mkdir()
    folder.chmod(0o777)
    shutil.copy(place.data / "people.csv", folder)
    shutil.copytree(place.work / "classics", folder / "classics")
    umask = os.umask(0)
    try:
        with watched(folder, place.tmp) as seen:
            client = workbench(folder)
            keys = {"path": "people.csv", "population_size": "3000"}
            keys |= {f"key:{key}": "on" for key in ("AGE", "SEX", "WORK")}
            assert client.post("/keys", keys).status_code == 303
            run = {"path": "people.csv", "model": "latent-class", "chains": "2", "workers": "2"}
            client.post("/run", run | {"max_sweeps": "40", "out": "run"})
            # The stream ends when the run has ended.
            assert "event: end" in client.ask("/events/run").text
            assert 'class="value"' in client.ask("/records/run?values=1").text
            client.ask("/what-if/classics")
            client.bench.runs.close()
    finally:
        os.umask(umask)
    names = ("result.json", "workbench.jsonl", "values-shown.log")
    assert {str(folder / "run" / name) for name in names} <= seen.files
    assert seen.exposed == set()
    shutil.rmtree(folder)


def test_the_workbench_shows_no_values_unasked(place: Place, tmp_path: Path):
    shutil.copy(place.data / "people.csv", tmp_path)
    for name in ("labels", "classics", "protect"):
        shutil.copytree(place.work / name, tmp_path / name)
    client = workbench(tmp_path)
    form = {"file": "people.csv", "path": "people.csv", "keys": "WORK", "key": "WORK",
            "population_size": "3000", "zeros": "AGE < 3"}  # fmt: skip
    try:
        pages = [
            *(client.ask(path) for path in ("/files", "/file?path=people.csv", "/runs",
              "/keys?path=people.csv", "/run?path=people.csv", "/runs/labels", "/runs/classics",
              "/records/labels", "/records/classics", "/what-if/classics")),
            *(client.post(path, form) for path in ("/keys/groups", "/keys/check", "/keys/suggest",
              "/keys/population", "/keys/keep", "/keys")),
        ]  # fmt: skip
    finally:
        client.bench.runs.close()
    for page in pages:
        assert page.status_code < 500
        assert set(named(html.unescape(page.text))) == set(), page.url
    left = {path: kinds for path, kinds in search(tmp_path).items()
            if not path.startswith(("people.csv", "protect/"))}  # fmt: skip
    assert left == {}


def test_packed_values_are_found():
    secret = str(PLANTED["level"])
    table = pa.table({"a": [secret], "b": [PLANTED["income"]]})
    written = io.BytesIO()
    parquet.write_table(table, written, compression="zstd")
    assert found_in(written.getvalue(), "x.parquet") == {"level", "income"}
    packed = io.BytesIO()
    np.savez_compressed(packed, names=np.array([secret]), numbers=np.array([PLANTED["number"]]))
    assert found_in(b"checksum" + packed.getvalue(), "x.npz") == {"level", "number"}
    assert found_in(gzip.compress(secret.encode()), "x.gz") == {"level"}
    assert found_in(html.escape(f"<{secret}>").encode(), "x.html") == {"level"}
    assert found_in(secret.encode("utf-16"), "x") == {"level"}
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in secret)
    assert found_in(f'["{escaped}"]'.encode(), "x.json") == {"level"}
    assert found_in("".join(f"&#{ord(c)};" for c in secret).encode(), "x.html") == {"level"}
    assert found_in(b"0.867530917", "x.json") == set()


def test_the_list_is_documented():
    page = Path(__file__).parents[2] / "docs" / "reference" / "confidentiality.md"
    text = page.read_text(encoding="utf-8")
    assert [name for name in DOCUMENTED if name not in text] == []
