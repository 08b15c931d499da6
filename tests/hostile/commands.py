"""More cases of the fuzzer: protection, synthesis, attacks, margins, registries, databases.

`prepare_more` makes what the cases spoil: a protected file with its plan, synthetic files, files of
R, workbooks and databases.
"""

from __future__ import annotations

import csv
import io
import os
import shutil
import sqlite3
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

from data.workbooks import write_ods, write_xlsx
from hostile.case import KEYS, SHORT, Case, people
from hostile.mutations import option, spoiled, toml

POSTGRES = "HOSTILE_POSTGRES"
"""Variable with the address of a server with the table `people`; unset where there is none."""
SIZE = ["--population-size", "3000"]
MIXTURE = ["--model", "latent-class"]
PROTECT = ["protect", "people.csv", "--keys", KEYS, *SIZE, *MIXTURE, *SHORT]

_SCENARIOS = """[[scenario]]
name = "neighbour"
keys = ["AGE", "SEX"]
in_sample = true
target = "tau1 <= 90"

[[scenario]]
name = "employer"
keys = ["AGE", "WORK"]
target = ["tau1 <= 50", "r1 <= 0.9"]
"""
_HIERARCHY = "office;in;*\nschool;in;*\nfarm;out;*\nmine;out;*\n"
_MATRIX = ",office,school,farm,mine\n" + "".join(
    f"{one},{','.join('0.85' if one == other else '0.05' for other in names)}\n"
    for names in [("office", "school", "farm", "mine")]
    for one in names
)
_GOOD = {
    "--target": ("tau1 <= 50", "tau2 <= 80", "r1 <= 0.9", "k >= 2", "population_k >= 2",
                 "records(r1 > 0.5) <= 40"),
    "--recode": ("AGE: width(10)", "AGE: left out; AREA: rare(0.1)", "WORK: file(work.csv)"),
    "--recodings": ("AGE: width(5), width(10), top(50)", "WORK: file(work.csv); SEX: left out"),
    "--suppress": ("r1 <= 0.9", "k >= 2"),
    "--subsample": ("0.5", "50%,1"),
    "--weight-of-suppressed": ("1", "5"),
    "--columns": ("INCOME: sensitive", "WORK: other; AREA: identifier"),
    "--levels": ("AGE: numeric; WORK: nominal", "SEX: ordered"),
    "--pram": ("WORK: 0.9", "SEX: 0.8; WORK: 0.9", "WORK: matrix.csv"),
    "--swap": ("AREA", "AREA: r1 > 0.5"),
    "--set": ("swap_match=SEX", "swap_match=SEX,WORK"),
    "--keep": ("SEX", "SEX,AGE"),
    "--weights-of-keys": ("AGE=2,SEX=0.5", "AREA=0"),
    "--tables": ("AGE,SEX; WORK,AREA", "SEX,WORK,INCOME"),
    "--scenarios": ("scenarios.toml",),
    "--numeric": ("INCOME: microaggregate(3)", "INCOME: top(90%), round(10, random), noise(5%)",
                  "INCOME: microaggregate(2, by=SEX+AREA), swap(5%)"),
    "--perturbation-seed": ("1", "0"),
    "--margins": ("margins.csv",),
}  # fmt: skip
"""Values that are answered, for the options of `protect`."""
_QUERIES = (
    "SELECT * FROM people", "SELECT AGE, SEX, WORK, AREA FROM people WHERE AGE > 25",
    "SELECT * FROM people; DROP TABLE people", "SELECT * FROM people; COPY people TO 'people.csv'",
    "DROP TABLE people", "DELETE FROM people", "UPDATE people SET AREA = 'x'",
    "INSERT INTO people SELECT * FROM people", "ATTACH 'people.csv' AS x", "PRAGMA database_list",
    "COPY (SELECT * FROM people) TO 'stolen.csv'", "COPY people FROM PROGRAM 'touch stolen'",
    "INSTALL httpfs", "LOAD httpfs", "EXPORT DATABASE 'stolen'", "VACUUM INTO 'stolen.db'",
    "SELECT * FROM people WHERE AREA = (SELECT AREA::int FROM people)",
    "WITH x AS (DELETE FROM people RETURNING *) SELECT * FROM x", "CREATE TABLE x AS SELECT 1",
    "SELECT to_tsquery(AREA) FROM people", "SELECT AREA::regclass FROM people", "SELECT 1",
    "SELECT CAST(AREA AS INTEGER) AS AGE, SEX, WORK, AREA FROM people", "-- nothing", ";",
    "SELECT * FROM read_csv('people.csv')", "SELECT * FROM '/etc/passwd'", "VALUES (1, 2, 3, 4)",
    "SELECT *, error(AREA) FROM people", "SELECT load_extension('x')", "SELECT pg_sleep(1)",
    "SELECT 1/0 AS AGE, SEX, WORK, AREA FROM people", "SET memory_limit = '1GB'", "CALL x()",
    "SELECT writefile('stolen', AREA) FROM people", "/* SELECT */ DROP TABLE people",
    "SELECT * FROM people LIMIT 0", "SELECT AGE, AGE, SEX, WORK, AREA FROM people",
)  # fmt: skip


def prepare_more(folder: Path, run: Callable[[list[str]], int]) -> None:
    """Make what these cases spoil; the commands run in the folder, in which `people.csv` lies."""
    _files(folder)
    common = ["people.csv", "--keys", KEYS, *SHORT]
    codes = [
        run([*PROTECT, "--recode", "AGE: width(10); AREA: rare(0.1)", "--out", "protect"]),
        run(["synthesize", *common, *MIXTURE, "--datasets", "2", "--out", "synthesize"]),
    ]
    assert codes == [2, 2], codes
    for more in (["--target", "tau1 <= 90"], ["--pram", "WORK: 0.9"], ["--suppress", "k >= 2"]):
        run([*PROTECT, *more, "--out", "compiled", "--overwrite"])
    run([*_attack("synthesize"), "--out", "compiled-attack"])
    for name in ("compiled", "compiled-attack"):
        shutil.rmtree(folder / name, ignore_errors=True)
    rows = list(csv.reader(io.StringIO(people())))
    numbers = [rows[0], *([int(a), int(b), *rest] for a, b, *rest in rows[1:])]
    write_xlsx(folder / "people.xlsx", {"people": numbers})
    write_ods(folder / "people.ods", {"people": numbers})
    with sqlite3.connect(folder / "people.sqlite") as base:
        base.execute(f"CREATE TABLE people ({', '.join(rows[0])})")
        base.executemany(f"INSERT INTO people VALUES ({','.join('?' * 7)})", rows[1:])
    base.close()
    import duckdb
    import pandas as pd
    import pyreadr

    with duckdb.connect(folder / "people.duckdb") as other:
        other.execute("CREATE TABLE people AS SELECT * FROM read_csv('people.csv')")
    frame = pd.read_csv(folder / "people.csv")
    pyreadr.write_rds(str(folder / "people.rds"), frame)
    pyreadr.write_rdata(str(folder / "people.RData"), frame, df_name="people")


def _files(folder: Path) -> None:
    (folder / "scenarios.toml").write_text(_SCENARIOS)
    (folder / "work.csv").write_text(_HIERARCHY)
    (folder / "matrix.csv").write_text(_MATRIX)
    (folder / "margins.csv").write_text("SEX,count\n1,1400\n2,1600\n")


def _spoil_one(rng: Random, folder: Path, names: Sequence[str]) -> None:
    one = folder / rng.choice(names)
    one.write_bytes(spoiled(rng, one.read_bytes()))


def _text(rng: Random, good: Sequence[str]) -> str:
    """A good value, a spoiled one, or a hostile one; without NUL, which no command line has."""
    how, value = rng.random(), rng.choice(good)
    if how < 0.45:
        return value
    if how < 0.85:
        content = spoiled(rng, value.encode(), 2).replace(b"\x00", b"?")
        return content.decode("utf-8", "replace")
    return option(rng)


def protect(rng: Random, folder: Path, bases: Path) -> Case:
    """Hostile recodings, targets, perturbations, scenarios, hierarchies and matrices."""
    _files(folder)
    if rng.random() < 0.5:
        _spoil_one(rng, folder, ("scenarios.toml", "work.csv", "matrix.csv", "margins.csv"))
    names = {rng.choice(("--target", "--recode", "--pram", "--swap", "--scenarios"))}
    names |= set(rng.sample(sorted(_GOOD), rng.choice((0, 1, 1, 2))))
    arguments = [*PROTECT, "--out", "out"]
    for name in sorted(names):
        arguments += [name, _text(rng, _GOOD[name])]
    return Case("protect", arguments, ["out"])


def plan(rng: Random, folder: Path, bases: Path) -> Case:
    """A damaged or foreign plan, or a plan for another file."""
    content = (bases / "protect" / "plan.toml").read_bytes()
    how = rng.random()
    if how < 0.5:
        content = spoiled(rng, content)
    elif how < 0.8:
        lines = content.decode().splitlines()
        at = rng.choice([i for i, line in enumerate(lines) if " = " in line])
        name = lines[at].split(" = ")[0]
        lines[at] = f"{rng.choice((name, 'another'))} = {toml(rng)}"
        content = "\n".join(lines).encode("utf-8", "surrogateescape")
    (folder / "plan.toml").write_bytes(content)
    table = people()
    if rng.random() < 0.4:
        table = rng.choice((table.replace("farm", "wood"), table.replace("AGE", "YEARS"),
                            table.replace(",1,", ",3,"), table.replace("zqx0v", "zqx99v"),
                            spoiled(rng, table.encode()).decode("utf-8", "replace")))  # fmt: skip
    (folder / "people.csv").write_text(table, encoding="utf-8")
    return Case(
        "plan",
        ["apply", "plan.toml", "people.csv", "--out", "made.csv"],
        ["made.csv", ".unikat"],
    )


def verify(rng: Random, folder: Path, bases: Path) -> Case:
    """A spoiled file that another program has protected."""
    content = (bases / "protect" / "protected.csv").read_bytes()
    if rng.random() < 0.8:
        content = spoiled(rng, content)
    (folder / "made.csv").write_bytes(content)
    arguments = ["verify", "people.csv", "made.csv", "--keys", KEYS, *SIZE, *MIXTURE]
    more = ("--id INCOME", "--missing-values *", "--target r1<=0.5", "--weights W", "--id AGE", "")
    return Case("verify", [*arguments, *SHORT, *rng.choice(more).split(), "--out", "out"], ["out"])


def _attack(synthetic: str) -> list[str]:
    return ["attack", "people.csv", "--synthetic", synthetic, "--keys", KEYS, "--attacks", "20",
            *SHORT]  # fmt: skip


def attack(rng: Random, folder: Path, bases: Path) -> Case:
    """Spoiled synthetic files and control files, and hostile options."""
    names = [f"synthetic_{i}.csv" for i in (1, 2)]
    for name in names:
        shutil.copy(bases / "synthesize" / name, folder)
    (folder / "control.csv").write_text(people(60).replace("zqx0v", "zqx1v"))
    if rng.random() < 0.6:
        _spoil_one(rng, folder, [*names, "control.csv"])
    good = {
        "--control": ("control.csv", "people.csv"), "--targets": ("WORK", "INCOME", "AREA"),
        "--link": ("AGE,SEX", "WORK"), "--population": ("people.csv", "control.csv"),
        "--population-size": ("3000",), "--attacks": ("20",), "--risk": ("nowhere",),
    }  # fmt: skip
    arguments = [*_attack(",".join(names)), "--out", "out"]
    for name in rng.sample(sorted(good), rng.choice((0, 1, 2, 3))):
        arguments += [name, _text(rng, good[name])]
    return Case("attack", arguments, ["out"])


def synthesize(rng: Random, folder: Path, bases: Path) -> Case:
    """Hostile options of a synthesis, or a spoiled file."""
    if rng.random() < 0.4:
        _spoil_one(rng, folder, ("people.csv",))
    good = {
        "--datasets": ("2", "3"), "--replace": ("WORK", "AREA,SEX"), "--household": ("HOME",),
        "--weights": ("W",), "--strata": ("SEX",), "--share": ("all same `SEX`", "size = 3"),
        "--method": ("flat", "truncated"), "--head": ("SEX == 1",), "--missing": ("level",),
    }  # fmt: skip
    arguments = ["synthesize", "people.csv", "--keys", KEYS, *MIXTURE, *SHORT, "--out", "out"]
    for name in rng.sample(sorted(good), rng.choice((0, 1, 1, 2))):
        arguments += [name, _text(rng, good[name])]
    return Case("synthesize", arguments, ["out"])


def beside(rng: Random, folder: Path, bases: Path) -> Case:
    """Spoiled margins and registries."""
    kind = rng.choice(("margins", "registry"))
    if kind == "margins":
        content = rng.choice((
            "SEX,count\n1,1400\n2,1600\n", "SEX,WORK,count\n" + "".join(
                f"{s},{w},375\n" for s in (1, 2) for w in ("office", "farm", "mine", "school")),
            "AGE,SEX,count\n", "SEX,count\n1,0\n2,3000\n", "SEX,count\n1,-5\n2,1e30\n",
        )).encode()  # fmt: skip
    else:
        content = people(200).encode()
    if rng.random() < 0.75:
        content = spoiled(rng, content)
    (folder / f"{kind}.csv").write_bytes(content)
    arguments = ["assess", "people.csv", "--keys", KEYS, *SHORT, "--out", "out"]
    arguments += ["--model", rng.choice(("latent-class", "loglinear")), f"--{kind}", f"{kind}.csv"]
    sized = kind == "registry" or rng.random() < 0.3
    return Case(kind, [*arguments, *(SIZE if sized else [])], ["out"])


def binary(rng: Random, folder: Path, bases: Path) -> Case:
    """A spoiled file of R or a workbook: its bytes, or the parts of its archive."""
    name = rng.choice(("people.rds", "people.RData", "people.xlsx", "people.xlsx", "people.ods"))
    content = (bases / name).read_bytes()
    if name[-4:] in ("xlsx", ".ods") and rng.random() < 0.7:
        content = _spoiled_archive(rng, content)
    elif rng.random() < 0.9:
        content = spoiled(rng, content)
    (folder / name).write_bytes(content)
    arguments = ["assess", name, "--keys", KEYS, *SIZE, "--model", "loglinear", *SHORT]
    if rng.random() < 0.2:
        arguments += rng.choice((["--sheet", option(rng)], ["--table", option(rng)]))
    kind = "file of R" if name.startswith("people.r") or name.endswith("RData") else "workbook"
    return Case(kind, [*arguments, "--out", "out"], ["out"])


def _spoiled_archive(rng: Random, content: bytes) -> bytes:
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    one = rng.choice(sorted(parts))
    how = rng.random()
    if how < 0.7:
        parts[one] = spoiled(rng, parts[one])
    elif how < 0.8:
        del parts[one]
    elif how < 0.9:
        parts["../stolen.csv"] = b"x"
    else:
        parts[one] = (
            parts[one]
            .replace(b'r="A1"', b'r="XFD1048576"')
            .replace(b"<v>", b"<v>9" + b"9" * rng.choice((5, 400)))
        )
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, part in parts.items():
            archive.writestr(name, part)
    return written.getvalue()


def query(rng: Random, folder: Path, bases: Path) -> Case:
    """Hostile queries of DuckDB and SQLite files, which they must not change, and of PostgreSQL."""
    where = rng.choice(
        ("people.duckdb", "people.sqlite", os.environ.get(POSTGRES, "people.duckdb"))
    )
    if not where.startswith("postgresql:"):
        content = (bases / where).read_bytes()
        (folder / where).write_bytes(spoiled(rng, content) if rng.random() < 0.15 else content)
    if rng.random() < 0.9:
        more = ["--query", _text(rng, _QUERIES)]
    else:
        more = ["--table", _text(rng, ("people", "main.people", "public.people"))]
    kind = "PostgreSQL" if where.startswith("postgresql:") else where.partition(".")[2]
    arguments = ["assess", where, "--keys", KEYS, *SIZE, "--model", "loglinear", *SHORT, *more]
    return Case(f"query: {kind}", [*arguments, "--out", "out"], ["out"])


MAKERS = (
    (protect, 110), (plan, 70), (verify, 50), (attack, 60), (synthesize, 50), (beside, 70),
    (binary, 90), (query, 110),
)  # fmt: skip
"""What makes cases, and how often."""
