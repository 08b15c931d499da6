"""No value of a record, no control character and no page of text leaves in a message."""

from __future__ import annotations

import csv
import gzip
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from unikat.cli.main import main

ROOT = Path(__file__).parents[2]
SECRET = "zoraquartz"
NEAR = "zoraquarz"
"""What a user types who nearly knows the value."""
NUMBER = "48151623"
ROWS = [f"{SECRET if i == 7 else 'abc'[i % 3]},{i % 2},{i % 5}" for i in range(60)]
GOOD = "NAME,SEX,AGE\n" + "".join(f"{row}\n" for row in ROWS)
FEW = ["--keys", "NAME,SEX,AGE", "--population-size", "1000"]
COMMANDS = {
    "assess": ["--out", "out"],
    "protect": ["--target", "tau1 <= 5", "--out", "out"],
    "check": ["--zeros", "rules.toml", "--rows", "out.csv"],
}


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.toml").write_text("rules = ['SEX == 1 and AGE == 0']\n")
    return tmp_path


def refused(capfd: Any, *command: str) -> str:
    """Run a command that must fail with one message, which is returned."""
    before = {path.name for path in Path.cwd().iterdir()}
    assert main([*command]) == 1
    out, err = capfd.readouterr()
    for secret in (SECRET, NUMBER):
        assert secret not in out + err
    assert "Traceback" not in err
    assert out == ""
    assert len(err) < 1400
    assert err.count("\n") <= 16
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", err), repr(err)
    assert {path.name for path in Path.cwd().iterdir()} == before
    return err


def records(header: str, *changes: tuple[str, str], rows: list[str] = ROWS) -> bytes:
    body = header + "".join(f"{row}\n" for row in rows)
    for old, new in changes:
        body = body.replace(old, new)
    return body.encode()


# What the file is, and the options that go with it.
HOSTILE: dict[str, tuple[bytes, list[str]]] = {
    "no header": (records("", rows=[ROWS[7], *ROWS]), FEW),
    "no header, texts": (records("", rows=[f"{SECRET},peter,north", "anna,zoe,south"] * 9), FEW),
    "no header, one record twice": (records("", rows=[f"{SECRET},{SECRET},b"] * 9), FEW),
    "no header, a long text": (records(f"{SECRET} {'and so on ' * 900},b,c\n"), FEW),
    "no header, dates": (records(f"{SECRET},1985-03-02,x\n"), FEW),
    "no header, nearly the keys": (records("", rows=[f"NAMES {SECRET},SEXY,AGES"] * 9), FEW),
    "open quote in the header": (records('NAME,"SEX,AGE\n'), FEW),
    "open quote, large": (records('NAME,"SEX,AGE\n', rows=ROWS * 3000), FEW),
    "open quote in a record": (records("NAME,SEX,AGE\n", (SECRET, f'"{SECRET}')), FEW),
    "another encoding": (GOOD.encode(), [*FEW, "--encoding", "cp037"]),
    "utf-16 that is none": (GOOD.encode(), [*FEW, "--encoding", "utf-16"]),
    "latin-1": (records("NAME,SEX,AGE\n", (SECRET, f"{SECRET}ñ")).replace(b"\xc3", b""), FEW),
    "utf-16 without a mark": (GOOD.encode("utf-16-le"), FEW),
    "another delimiter": (GOOD.encode(), [*FEW, "--delimiter", ";"]),
    "a field too many": (records("NAME,SEX,AGE\n", (SECRET, f"{SECRET},{SECRET}")), FEW),
    "a field too few": (records("NAME,SEX,AGE\n", (f"{SECRET},1,2", SECRET)), FEW),
    "zero bytes": (records("NAME,SEX,AGE\n", (SECRET, f"{SECRET}\0")), FEW),
    "an empty first line": (b"\n" + GOOD.encode(), FEW),
    "empty names": (records(",,\n"), FEW),
    "names that steer the terminal": (records("\x1b[31mN\x07,\x9b2J,\u202eAGE\n"), FEW),
    "a name like a formula": (records("=cmd|' /C calc'!A0,SEX,AGE\n"), FEW),
    "a thousand columns": (records(",".join(f"V{i}" for i in range(1000)) + "\n", rows=[]), FEW),
    "damaged gzip": (gzip.compress(GOOD.encode() * 900)[:-40], FEW),
    "numbers that are none": (GOOD.encode(), ["--keys", "NAME:width(5),SEX", *FEW[2:]]),
    "missing tokens": (records("NAME,SEX,AGE\n", ("a,", "NA,")), FEW),
    "blanks": (records("NAME,SEX,AGE\n", ("a,0,0", f"{SECRET} ,0,0")), FEW),
    "an identifier": (records("NAME,SEX,AGE\n", rows=[f"{SECRET}{i},1,{i % 2}" for i in range(60)]),
                      FEW),
    "the same everywhere": (records("NAME,SEX,AGE\n", rows=[f"{SECRET},1,0", f"{SECRET},1,1"]),
                            FEW),
    "missing everywhere": (GOOD.encode(), [*FEW, "--missing-values", f"a,b,c,{SECRET}"]),
    "a codebook with too few levels": (GOOD.encode(), [*FEW, "--codebook", "book.json"]),
    "weights that are texts": (GOOD.encode(), [*FEW, "--weights", "NAME"]),
    "sizes for other strata": (GOOD.encode(), ["--keys", "SEX,AGE", "--strata", "NAME",
                                               "--stratum-sizes", "sizes.csv"]),
    "a population that is too small": (GOOD.encode(), [*FEW[:3], "59"]),
}  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_files(name: str, command: str, here: Path, capfd: Any) -> None:
    content, options = HOSTILE[name]
    file = "data.csv.gz" if name == "damaged gzip" else "data.csv"
    (here / file).write_bytes(content)
    (here / "book.json").write_text(json.dumps({"NAME": {"levels": ["a", "b", "c"]}}))
    (here / "sizes.csv").write_text(f"stratum,size\na,300\nb,300\nc,300\n{NEAR},100\n")
    places = {"check": ["zeros", "check"]}
    design = {"--weights", "--strata", "--stratum-sizes", "--population-size"}
    if command == "check":
        pairs = zip(options[::2], options[1::2], strict=True)
        options = [part for pair in pairs if pair[0] not in design for part in pair]
        if name in ("weights that are texts", "sizes for other strata", "a population that is too "
                    "small"):  # fmt: skip
            pytest.skip("no design")
    refused(capfd, *places.get(command, [command]), file, *options, *COMMANDS[command])


@pytest.mark.parametrize(
    "command", [["compare", "--models", "hdp"], ["evaluate", "--n", "20", "--repeats", "1"]]
)
@pytest.mark.parametrize("name", ["no header", "open quote in the header", "another encoding"])
def test_hostile_files_of_other_commands(
    name: str, command: list[str], here: Path, capfd: Any
) -> None:
    content, options = HOSTILE[name]
    (here / "data.csv").write_bytes(content)
    keys = [part for part in options if part not in FEW[2:]]
    refused(capfd, *command[:1], "data.csv", *keys, *command[1:], "--out", "out")


@pytest.mark.parametrize(
    ("header", "told", "hidden"),
    [
        ("NAME,SEX,AGE", "There are 3 columns: NAME, SEX, AGE.", "first line"),
        ("SEX,AGE,Anna", "There are 3 columns: SEX, AGE, Anna.", "first line"),
        ("NAME,SEX,34", "There are 3 columns. Their names look like values", "NAME,"),
        ("Anna,Bern,teacher", "none has a name that was asked for", "Bern"),
        ("\x1b[1m,\x9b2J,\u202eSEX", "Their names are empty, long or not readable", "SEX."),
    ],
)
def test_the_header_as_a_whole_decides_what_is_shown(
    header: str, told: str, hidden: str, here: Path, capfd: Any
) -> None:
    (here / "data.csv").write_text(f"{header}\n1,2,3\n", encoding="utf-8")
    said = refused(capfd, "assess", "data.csv", "--keys", "SEX,OTHER", *FEW[2:], "--out", "out")
    assert told in said
    assert hidden not in said


def rules(*texts: str, **more: object) -> Path:
    path = Path("rules.toml")
    lines = [f"rules = {json.dumps(list(texts))}"]
    lines += [f"{name} = {json.dumps(value)}" for name, value in more.items()]
    path.write_text("\n".join(lines), encoding="utf-8")
    return path


RULES: dict[str, list[str]] = {
    "a level that nobody has": [f"NAME == '{NEAR}'"],
    "an order that texts do not have": ["NAME < 3"],
    "a number within a level": ["AGE < 2 and NAME == 4"],
    "a long rule that forbids nothing": [" or ".join(["AGE < 0"] * 4000)],
    "a long rule that forbids everything": [" or ".join(["AGE < 99"] * 4000)],
    "a long rule that is none": [" or ".join(["AGE < 2"] * 4000) + " or"],
    "a long name": ["N" * 36_000 + " == 1"],
    "a long text": [f"NAME == '{'x' * 36_000}'"],
    "a long number": ["AGE < " + "9" * 6_000],
    "a long list": [f"NAME in ({', '.join(['9'] * 20_000)})"],
    "what steers a terminal": ["AGE < 2 \x1b[31m and \x07"],
    "many rules": ["AEG < 2"] * 500,
}


@pytest.mark.parametrize("name", RULES)
def test_hostile_rules(name: str, here: Path, capfd: Any) -> None:
    (here / "data.csv").write_text(GOOD)
    rules(*RULES[name])
    refused(capfd, "zeros", "check", "data.csv", *FEW[:2], "--zeros", "rules.toml")


def test_a_rule_on_quantiles_names_no_edge(here: Path, capfd: Any) -> None:
    body = "".join(f"{(int(NUMBER) if i < 30 else 3)},{i % 2}\n" for i in range(60))
    (here / "data.csv").write_text(f"PAY,SEX\n{body}")
    for rule in ("PAY < 5", "PAY == 9", "PAY == 'x'", "PAY < SEX"):
        rules(rule)
        keys = "PAY:quantile(4),SEX"
        said = refused(capfd, "zeros", "check", "data.csv", "--keys", keys, "--zeros", "rules.toml")
        assert "48" not in said.replace(rule, "")


def test_a_rule_with_a_level_that_nobody_has_is_told_of_codebooks(here: Path, capfd: Any) -> None:
    (here / "data.csv").write_text(GOOD)
    rules("SEX == 3")
    command = ["zeros", "check", "data.csv", *FEW[:2], "--zeros", "rules.toml"]
    said = refused(capfd, *command)
    assert "'SEX' has no level 3." in said
    assert "declare it in a codebook" in said
    assert "Its levels" not in said
    # What a codebook names may be shown and suggested.
    book = {"SEX": {"levels": [0, 1], "labels": ["men", "women"]}}
    (here / "book.json").write_text(json.dumps(book))
    said = refused(capfd, *command, "--codebook", "book.json")
    assert "Its levels are 'men', 'women'." in said
    rules("SEX == 'woman'")
    assert "Did you mean 'women'?" in refused(capfd, *command, "--codebook", "book.json")
    rules("SEX == 3")
    (here / "book.json").write_text(json.dumps({"SEX": {"levels": [0, 1, 3]}}))
    assert main([*command, "--codebook", "book.json"]) == 0


def test_the_data_as_a_table_of_rules(here: Path, capfd: Any) -> None:
    (here / "data.csv").write_text(GOOD)
    (here / "other.csv").write_text(f"{SECRET},1,2\nabc,1,2\n")
    (here / "third.csv").write_text(f"NAME,SEX\n{SECRET}s,1\n")
    for table in ("other.csv", "third.csv"):
        refused(capfd, "zeros", "check", "data.csv", *FEW[:2], "--zeros", table)


def test_records_that_break_rules_are_counted_and_not_shown(here: Path, capfd: Any) -> None:
    (here / "data.csv").write_text(GOOD)
    rules(*[f"SEX == 1 and AGE == {age}" for age in (0, 1, 2, 3, 4)] * 30)
    refused(capfd, "assess", "data.csv", *FEW, "--zeros", "rules.toml", "--out", "out")


@pytest.mark.parametrize(
    "encoding",
    ["rot13", "hex", "zlib", "bz2", "base64", "uu", "quopri", "idna", "punycode", "undefined",
     "unicode_escape", "klingon", "\udcff", "x" * 5000],
)  # fmt: skip
def test_encodings_that_are_none_of_texts(encoding: str, here: Path, capfd: Any) -> None:
    (here / "data.csv").write_text(GOOD)
    said = refused(capfd, "assess", "data.csv", *FEW, "--encoding", encoding, "--out", "out")
    assert "is not known as an encoding of text files" in said


NESTED = "[" * 100_000
BOOKS: dict[str, tuple[str, bytes]] = {
    "deep JSON": ("book.json", b'{"SEX": ' + NESTED.encode()),
    "deep TOML": ("book.toml", b"SEX = " + NESTED.encode()),
    "JSON with long numbers": ("book.json", b'{"SEX": {"levels": [' + b"9" * 6000 + b"]}}"),
    "TOML with long numbers": ("book.toml", b"[SEX]\nlevels = [" + b"9" * 6000 + b"]"),
    "JSON with large numbers": ("book.json", b'{"SEX": {"levels": [1, ' + b"9" * 400 + b"]}}"),
    "JSON with NaN": ("book.json", b'{"SEX": {"levels": [1, NaN]}}'),
    "JSON with infinity": ("book.json", b'{"SEX": {"levels": [1, 1e999]}}'),
    "half a character": ("book.json", b'{"SEX": {"labels": {"1": "\\ud800"}}}'),
    "half a character among levels": ("book.json", b'{"NAME": {"levels": ["\\udfff", "a"]}}'),
    "a table as a label": ("book.json", b'{"SEX": {"labels": {"1": {"a": {"b": 1}}}}}'),
    "latin-1": ("book.json", '{"SEX": {"1": "männlich"}}'.encode("latin-1")),
    "a list": ("book.json", b"[1, 2]"),
    "an unknown part of 36,000 characters": (
        "book.json", json.dumps({"SEX": {"levels": [0, 1], "l" * 36_000: 1}}).encode()),
    "150,000 levels": ("book.json", json.dumps({"SEX": {"levels": list(range(150_000))}}).encode()),
    "a level twice": ("book.json", b'{"NAME": {"levels": ["zoraquartz", "zoraquartz"]}}'),
    "no level": ("book.json", b'{"NAME": {"levels": []}}'),
    "nothing": ("book.json", b""),
}  # fmt: skip


@pytest.mark.parametrize("name", BOOKS)
def test_hostile_codebooks(name: str, here: Path, capfd: Any) -> None:
    (here / "data.csv").write_text(GOOD)
    file, content = BOOKS[name]
    (here / file).write_bytes(content)
    said = refused(capfd, "assess", "data.csv", *FEW, "--codebook", file, "--out", "out")
    assert "codebook" in said


@pytest.mark.parametrize("name", ["b" * 300 + ".json", "b\udcff.json", "none.json", "."])
def test_names_of_codebooks_fail_before_anything_is_sampled(
    name: str, here: Path, capfd: Any
) -> None:
    (here / "data.csv").write_text(GOOD)
    if "\udcff" in name:
        Path(name).write_text('{"SEX": {"1": "x"}}')
    said = refused(capfd, "assess", "data.csv", *FEW, "--codebook", name, "--out", "out")
    assert "codebook" in said


SPECS: dict[str, bytes] = {
    "deep": b"keys = " + NESTED.encode(),
    "deep tables": b".".join([b"a"] * 4000) + b" = 1",
    "long numbers": b"population_size = " + b"9" * 6000,
    "large numbers": b"population_size = " + b"9" * 4000,
    "latin-1": 'keys = "Größe"'.encode("latin-1"),
    "many mistakes": b"".join(b"k%d = 1\n" % i for i in range(122)),
    "a long key": b"keys = ['" + b"A" * 36_000 + b"', 'B']\npopulation_size = 9\n"
                  b"[data]\npath = 'data.csv'",
    "a path with a zero": b'keys = ["SEX", "AGE"]\npopulation_size = 999\n'
                          b'[data]\npath = "data.csv"\ncodebook = "a\\u0000b.json"',
    "a long model": b'model = "' + b"x" * 36_000 + b'"\nkeys = ["SEX", "AGE"]\n'
                    b"population_size = 999\n[data]\npath = 'data.csv'",
    "a long value": b'[data]\nmissing = "' + b"x" * 36_000 + b'"',
}  # fmt: skip


@pytest.mark.parametrize("name", SPECS)
def test_hostile_specifications(name: str, here: Path, capfd: Any) -> None:
    (here / "data.csv").write_text(GOOD)
    (here / "run.toml").write_bytes(SPECS[name])
    refused(capfd, "assess", "run.toml", "--out", "out")


def test_control_characters_of_the_command_line_are_escaped(here: Path, capfd: Any) -> None:
    (here / "da\x1bta.csv").write_text("SEX,AGE\n1,2\n")
    for command in (
        ["assess", "no\x1b[31m.csv", *FEW],
        ["assess", "da\x1bta.csv", "--keys", "A\x07,B", *FEW[2:]],
        ["no\x1bcommand"],
        ["assess", "--no\x1boption"],
        ["zeros", "check", "da\x1bta.csv", *FEW[:2], "--zeros", "\x9b2J.toml"],
    ):
        refused(capfd, *command)


def fields(path: Path) -> list[list[str]]:
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def test_no_formula_is_written_into_a_csv(here: Path, capfd: Any) -> None:
    formula = "=cmd|' /C calc'!A0"
    body = "".join(f"{[formula, '-1', '+x', 'b'][i % 4]},{i % 2}\n" for i in range(40))
    (here / "data.csv").write_text(f"=A,SEX\n{body}", encoding="utf-8")
    rules(f'`=A` == "{formula}" and SEX == 0', "-5 < SEX and `=A` == '+x' and SEX == 0",
          "`=A` == -1 and SEX == 1")  # fmt: skip
    asked = ["data.csv", "--keys", "=A,SEX"]
    rows = [*asked, "--zeros", "rules.toml", "--rows", "rows.csv"]
    assert main(["zeros", "check", *rows]) == 1
    broken = capfd.readouterr().out
    assert main(["zeros", "disjoint", *asked, "--zeros", "rules.toml", "--out", "other.csv"]) == 0
    for name in ("rows.csv", "other.csv"):
        for row in fields(here / name):
            assert not [field for field in row if re.match(r"[=+@]|-(?!\d+$)", field)], row
    # It is read back as what it was.
    assert f"'{formula}" in [row[0] for row in fields(here / "other.csv")]
    capfd.readouterr()
    assert main(["zeros", "check", *asked, "--zeros", "other.csv"]) == 1
    last = [line.split()[:4] for line in broken.splitlines() if line.startswith("all together")]
    again = capfd.readouterr().out.splitlines()
    assert last == [line.split()[:4] for line in again if line.startswith("all together")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "locale", [{"LC_ALL": "C"}, {"LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}]
)
def test_texts_do_not_depend_on_the_locale(locale: dict[str, str], here: Path) -> None:
    """Rules, codebooks and files hold letters that the locale's encoding does not have."""
    rows = "".join(f"{['groß', 'klein'][i % 2]},{i % 3}\n" for i in range(30))
    (here / "data.csv").write_text(f"Größe,SEX\n{rows}", encoding="utf-8")
    (here / "book.toml").write_text('["Größe"]\nlevels = ["groß", "klein", "τ"]', encoding="utf-8")
    rules("`Größe` == 'τ' and SEX == 1", "`Größe` == 'groß' and SEX == 0")
    (here / "run.toml").write_text(
        'keys = ["Größe", "SEX"]\n[data]\npath = "data.csv"\ncodebook = "book.toml"\n',
        encoding="utf-8",
    )
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("LC_", "LANG", "PYTHON"))}
    command = [sys.executable, "-m", "unikat.cli.main", "zeros", "check", "run.toml", "--zeros",
               "rules.toml"]  # fmt: skip
    done = subprocess.run(
        command, env={**plain, "PYTHONPATH": str(ROOT / "src"), **locale}, capture_output=True
    )
    assert done.returncode == 1, done.stderr
    assert b"5 of 30 rows of data.csv break a rule." in done.stdout
    assert done.stderr == b""


def test_messages_say_how_to_write_keys_in_a_shell(here: Path, capfd: Any) -> None:
    columns = {"PAY": [f"{i}.5" for i in range(60)], "SEX": [i % 2 for i in range(60)]}
    (here / "data.csv").write_text(
        "PAY,SEX\n" + "".join(f"{a},{b}\n" for a, b in zip(*columns.values(), strict=True))
    )
    said = refused(capfd, "assess", "data.csv", "--keys", "PAY,SEX", *FEW[2:], "--out", "out")
    assert "'PAY:quantile(10)'" in said
    numbers = pa.table(columns | {"PAY": [i / 2 for i in range(60)]})
    pq.write_table(numbers, here / "data.parquet")
    said = refused(capfd, "assess", "data.parquet", "--keys", "PAY,SEX", *FEW[2:], "--out", "out")
    assert "'PAY:quantile(10)', 'PAY:width(5)' or 'PAY:cut(0,1000,5000)'" in said
