"""Addresses and what is nearly one: no password in any message, file or name of a folder."""

from __future__ import annotations

import io
import os
import re
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import unikat
from unikat.cli.main import main
from unikat.errors import SpecError, UnikatError, brief, hidden, may_be_address, shown
from unikat.spec.addresses import checked_address, connection_parts

SECRET = "Geh31mrat"
NEARLY = [
    "postgresql+psycopg2://u:{}@h",
    "postgresql:/u:{}@h/d",
    " postgresql://u:{}@h/d",
    "POSTGRESQL://u:{}@h/d",
    "postgresql://u:{}@h/d",
    "postgresql://u:{}@h/d.csv",
    "postgresql:// u:{}@h/d",
    "postgresql ://u:{}@h/d",
    "postgresql:u:{}@h/d",
    "postgresql:\\\\u:{}@h/d",
    "postgresql\uff1a//u:{}@h/d",
    "postgresql://u:{}\uff20h/d",
    "postgresql://u:x {}@h/d",
    "postgresql://u:a@b:{}@h/d",
    "postgresql://u:{}%40h/d",
    "postgresql://u%3A{}@h/d",
    "postgresql://u:{}@h:no-port/d",
    "postgresql://{}@[::1/d",
    "postgresql://h/d?password={}",
    "postgresql://h/d?SSLPASSWORD={}",
    "postgres+asyncpg://u:{}@h/d",
    "mysql://u:{}@h/d",
    "mysql:/u/{}",
    "mssql+pyodbc://u:{}@dsn",
    "jdbc:postgresql://h/d?user=u&password={}",
    "jdbc:sqlserver://h;user=u;password={}",
    "jdbc:oracle:thin:u/{}@//h:1521/x",
    "odbc:Driver=x;Server=h;Pwd={}",
    "Driver={{x}};Server=h;PWD={{{}}}",
    "host=h user=u password={} dbname=d",
    "host=h password='a {}'",
    "dbname=d passwd = {}",
    "u:{}@h/d",
    "//u:{}@h/d",
    "s3://key:{}@bucket/x.csv",
    "https://u:{}@h/x.parquet",
    "ftp://u:{}@h/*.csv",
    "sqlite:////u:{}@h",
    "file:///u:{}@h/x",
]


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    rows = "\n".join(f"{i % 3},{i % 2}" for i in range(30))
    (tmp_path / "ok.csv").write_text(f"A,B\n{rows}\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def answered(*arguments: str) -> str:
    """What a command says that is to be refused."""
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        assert main(arguments) == 1, arguments
    return out.getvalue() + err.getvalue()


@pytest.mark.parametrize("shape", NEARLY)
def test_no_command_tells_a_password(here: Path, shape: str) -> None:
    address = shape.format(SECRET)
    keys = ("--keys", "A,B", "--population-size", "100")
    calls = [
        ("assess", address, *keys),
        ("assess", address),
        ("assess", "ok.csv", address, *keys),
        ("assess", "ok.csv", *keys, "--codebook", address),
        ("assess", "ok.csv", *keys, "--registry", address),
        ("assess", "ok.csv", *keys, "--margins", address),
        ("assess", "ok.csv", *keys, "--zeros", address),
        ("assess", "ok.csv", *keys, "--stratum-sizes", address),
        ("assess", "ok.csv", *keys, "--weights", address),
        ("assess", "ok.csv", *keys, "--executor", address),
        ("assess", "ok.csv", *keys, "--model", address),
        ("assess", "ok.csv", *keys, "--query", address),
        ("assess", "ok.csv", *keys, "--table", address),
        ("assess", "ok.csv", *keys, "--format", address),
        ("assess", "ok.csv", *keys, "--threshold", address),
        ("assess", "ok.csv", *keys, "--out", address),
        ("assess", "ok.csv", "--keys", address, "--population-size", "100"),
        ("apply", address, "ok.csv", "--out", "x.csv"),
        ("verify", address, "ok.csv", *keys),
        ("attack", "ok.csv", "--synthetic", address, "--keys", "A,B"),
        ("report", address),
        ("zeros", "check", "ok.csv", "--keys", "A,B", "--zeros", address),
        ("web", address, "--no-browser"),
        (address,),
        ("assess", f"--{address}"),
    ]
    for number, name in enumerate(("data.path", "data.database", "registry.path", "data.table")):
        file = here / f"{number}.toml"
        file.write_text(f'population_size = 100\nkeys = ["A", "B"]\n{name} = """{address}"""\n'
                        .replace("\\", "\\\\"))  # fmt: skip
        calls.append(("assess", file.name))
    before = sorted(os.listdir(here))
    # Every shape stands in a quarter of the places, and every place has a quarter of the shapes.
    for call in calls[NEARLY.index(shape) % 4 :: 4]:
        said = answered(*call)
        assert SECRET not in said, call
        assert "defect" not in said, call
    for source in (address, Path(address)):
        with pytest.raises(UnikatError) as refused:
            unikat.assess(source, keys=["A", "B"], population_size=100)
        assert SECRET not in str(refused.value)
    # Nothing is made in a folder of that name.
    assert sorted(os.listdir(here)) == before


@given(
    st.sampled_from(NEARLY),
    st.text(
        st.characters(categories=["L", "N", "P", "S"], exclude_characters="@'\"{}%"), min_size=3
    ),
    st.booleans(),
)
def test_any_password_is_hidden(shape: str, more: str, before: bool) -> None:
    """Whatever characters it has: of one value nothing is left of it."""
    password = more + SECRET if before else SECRET + more
    address = shape.format(password)
    for said in (brief(address), shown(address), str(SpecError(f"No file {brief(address)}."))):
        assert SECRET not in said
    assert may_be_address(address)


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://officer@db.example:5433/survey",
        "The address is postgresql://USER@HOST:PORT/DATABASE; characters such as @ are %40.",
        "tcp://127.0.0.1:8786 cannot be reached.",
        "C:\\data\\people.csv cannot be opened.",
        "There is no file /data/year=2020/people.csv. Check the path.",
        "AGE:width(5) and age: width(10); region: left out",
        "Choose --out (in Python: out=). Results: /tmp/a",
        "https://docs.example/page#part, see there.",
    ],
)
def test_what_holds_no_password_stays(text: str) -> None:
    assert hidden(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "pwd: Geh31mrat",
        "user me pwd:Geh31mrat",
        "pass=Geh31mrat",
        "db_pass: Geh31mrat",
        'no address: {"password": "Geh31mrat"}',
        "db.example:5432:people:me:Geh31mrat",
    ],
)
def test_passwords_that_stand_in_no_address(text: str) -> None:
    assert SECRET not in str(SpecError(f"No file {brief(text)}."))
    assert may_be_address(text)
    assert hidden("compass: 3, 12:30:15, bypass=no") == "compass: 3, 12:30:15, bypass=no"


def test_addresses_that_can_be_understood() -> None:
    for address in ("postgresql://db/d", "postgres://u@[::1]:5432/d", "postgresql:///d?host=/run"):
        assert checked_address(address) == address
    for address in ("postgresql://u%3Ax@h/d", "postgresql://u@h@h/d", "postgresql://u v@h"):
        with pytest.raises(SpecError, match=re.escape("postgresql://USER@HOST:PORT/DATABASE")):
            checked_address(address)


def test_addresses_are_taken_apart_as_by_the_library_of_postgresql() -> None:
    """What stands last decides, so that a page shows where a connection would go."""
    for address, host in (
        ("postgresql://good.example/d?host=evil.example", "evil.example"),
        ("postgresql://good.example,evil.example:1/d", "good.example,evil.example"),
        ("postgresql://good.ex%61mple/d", "good.example"),
        ("postgresql://u@[::1]:5432/d", "::1"),
        ("postgresql://u@h/d?%68ost=%65vil", "evil"),
    ):
        assert connection_parts(checked_address(address))["host"] == host
    named = "postgresql://good.example/d?hostaddr=192.0.2.1&service=other&passfile=/tmp/x"
    found = connection_parts(checked_address(named))
    assert (found["hostaddr"], found["service"], found["passfile"]) == (
        "192.0.2.1", "other", "/tmp/x",
    )  # fmt: skip
    # Behind # other programs see no parameters, and that library does.
    for address in (
        f"postgresql://h/d#?password={SECRET}",
        f"postgresql://u@h/#?p%61ssword={SECRET}",
    ):
        with pytest.raises(SpecError):
            checked_address(address)


@pytest.mark.parametrize("name", ["scram_client_key", "scram_server_key", "oauth_client_secret"])
def test_parameters_that_let_others_log_in_are_no_part_of_an_address(name: str) -> None:
    with pytest.raises(SpecError) as refused:
        checked_address(f"postgresql://u@h/d?{name}={SECRET}")
    assert SECRET not in str(refused.value)
    assert checked_address("postgresql://u@h/d?sslmode=require&connect_timeout=3")
