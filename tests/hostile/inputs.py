"""The cases of the fuzzer: a good input, spoiled in one to three places, and the command for it."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import shutil
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from random import Random
from typing import Any
from zipfile import ZIP_DEFLATED, ZIP_STORED

import click

from hostile import addresses, commands
from hostile.case import KEYS, SHORT, Case, people
from hostile.mutations import option, spoiled, spoiled_json, toml
from inference.checkpoint_files import joined, parts, sealed
from unikat.cli.main import cli
from unikat.models.catalogue import MODELS

FAST = ("loglinear", "hdp", "gom", "latent-class", "superpopulation-1", "skinner-holmes")
_NAMES = (
    "people.tsv", "people", "people.parquet", "people.arrow", "people.sav", "people.json",
    "a[1].csv", "pe*ple.csv", "=cmd.csv", "\x1b[2J.csv",
)  # fmt: skip
"""Names of files that do not say what they hold, or hold what a terminal or a shell reads."""
RULES = [
    "AGE < 22 and WORK == 'mine'",
    "SEX == 1 and WORK == 'farm' and AGE >= 58",
    "WORK in ('farm', 'mine') and AGE == 20",
]
_WRITTEN = {
    "assess": "assessment.toml",
    "compare": "comparison.toml",
    "evaluate": "evaluation.toml",
}
"""Commands of whose results cases are made, in folders of their names, and the run as run."""


def prepare(folder: Path, run: Callable[[list[str]], int]) -> None:
    """Make the results from which cases of damaged results are made; the commands run there."""
    (folder / "people.csv").write_text(people())
    common = ["people.csv", "--keys", KEYS, *SHORT]
    size = ["--population-size", "3000"]
    codes = [
        run(["assess", *common, *size, "--model", "hdp", "--out", "assess"]),
        run(["compare", *common, *size, "--models", "loglinear,hdp", "--out", "compare"]),
        run(["evaluate", *common, "--n", "40", "--repeats", "2", "--models", "loglinear",
             "--out", "evaluate"]),
    ]  # fmt: skip
    assert codes == [2, 2, 2], codes
    # Compiled now, so that no case has to wait for it.
    (folder / "zeros.toml").write_text("rules = " + json.dumps(RULES))
    for model in MODELS:
        given = ["assess", *common, *size, "--model", model, "--classics"]
        run([*given, "--overwrite", "--out", "compiled"])
        run(
            [
                *given,
                "--zeros",
                "zeros.toml",
                "--zeros-conflict",
                "drop",
                "--overwrite",
                "--out",
                "compiled",
            ]
        )
    shutil.rmtree(folder / "compiled")
    commands.prepare_more(folder, run)


def case(seed: int, i: int, folder: Path, bases: Path) -> Case:
    """Make case `i` of a campaign, its inputs in `folder`; the same for the same seed.

    Parameters
    ----------
    seed, i
        Of the campaign, and of the case in it.
    folder
        Empty; the command runs in it.
    bases
        Folder that `prepare` has filled.
    """
    rng = Random(f"{seed}-{i}")
    (folder / "people.csv").write_text(people())
    makers = [maker for maker, weight in MAKERS for _ in range(weight)]
    return rng.choice(makers)(rng, folder, bases)


def _short(rng: Random, source: str = "people.csv", model: str | None = None) -> list[str]:
    model = model or rng.choice(FAST)
    given = [source, "--keys", KEYS, "--population-size", "3000", "--model", model]
    return ["assess", *given, *SHORT, "--out", "out"]


def _file(rng: Random, folder: Path, bases: Path) -> Case:
    """A spoiled file of data."""
    text, name = people(), "people.csv"
    arguments = []
    for _ in range(rng.randint(0, 2)):
        text = _other_table(rng, text)
    content = text.encode()
    how = rng.random()
    if how < 0.35:
        content = spoiled(rng, content)
    elif how < 0.5:
        encoding = rng.choice(
            ("utf-16", "utf-8-sig", "latin-1", "cp037", "utf-7", "utf-32", "cp1252", "shift_jis")
        )
        content = text.encode(encoding, "replace")
        given = rng.choice(
            (encoding, encoding, option(rng), "rot13", "hex", "zlib", "idna", "utf-8")
        )
        arguments += ["--encoding", given] if rng.random() < 0.7 else []
    elif how < 0.62:
        name = "people.csv.gz"
        content = gzip.compress(content, mtime=0)
        content = spoiled(rng, content, 2) if rng.random() < 0.8 else content
    elif how < 0.85:
        name, content = _columnar(rng)
        content = spoiled(rng, content) if rng.random() < 0.8 else content
    if rng.random() < 0.15:
        name = rng.choice(_NAMES)
    (folder / "people.csv").unlink()
    (folder / name).write_bytes(content)
    if rng.random() < 0.15:
        arguments += ["--delimiter", rng.choice((";", "tab", "|", "", "zz", '"', "\n", "é"))]
    if rng.random() < 0.1:
        arguments += ["--missing", rng.choice(("level", "wildcard", "integrate"))]
    if rng.random() < 0.2:
        more = (
            "--weights W",
            "--strata WORK",
            "--classics",
            "--set design.inclusion=W",
            "--sensitive INCOME",
        )
        arguments += rng.choice(more).split()
    return Case("file", [*_short(rng, name), *arguments], ["out"])


def _other_table(rng: Random, text: str) -> str:
    """Change a table of people as a whole."""
    lines = text.splitlines()
    how = rng.randrange(14)
    if how == 0:
        lines = lines[1:]
    elif how == 1:
        lines[0] = lines[0].replace("AREA", rng.choice(("AGE", "", '"AREA', "area", "A\x1bREA")))
    elif how == 2:
        lines = lines[: rng.choice((1, 2, 3))]
    elif how == 3:
        lines[rng.randrange(len(lines))] = rng.choice(("", ",", '"', "1,2", "a" * 5000))
    elif how == 4:
        place = rng.randrange(7)
        value = rng.choice(("", "NaN", "1e308", "-1", "inf", "9" * 400, "=1+1", "0", "1,5", "é"))
        rows = [line.split(",") for line in lines]
        for row in rows[1 : rng.choice((2, len(rows)))]:
            if len(row) > place:
                row[place] = value
        lines = [",".join(row) for row in rows]
    elif how == 5:
        lines = [line.replace(",", ";") for line in lines]
    elif how == 6:
        lines = [f"{line},{'x,' * rng.choice((1, 300))}" for line in lines]
    elif how == 7:
        lines = [lines[0], *[f"{line}{i}" for i, line in enumerate(lines[1:])]]
    elif how == 8:
        lines = lines[:1] + lines[1:2] * 120
    elif how == 9:
        lines = [line.replace("zqx", "=zqx") for line in lines]
    return "\n".join(lines) + ("\n" if rng.random() < 0.9 else "")


def _columnar(rng: Random) -> tuple[str, bytes]:
    """The people in a format of columns."""
    import pandas as pd
    import pyarrow as pa
    import pyarrow.feather as feather

    frame = pd.read_csv(io.StringIO(people()))
    kind = rng.choice(("parquet", "arrow", "feather", "dta"))
    out = io.BytesIO()
    if kind == "parquet":
        frame.to_parquet(out)
    elif kind == "arrow":
        table = pa.Table.from_pandas(frame)
        with pa.ipc.new_file(out, table.schema) as writer:
            writer.write_table(table)
    elif kind == "feather":
        feather.write_feather(frame, out)
    else:
        frame.to_stata(out, time_stamp=None)
    return f"people.{kind}", out.getvalue()


SPECS: dict[str, list[tuple[str, str, str]]] = {
    "assess": [
        ("", "schema", "'unikat.assessment/1'"), ("", "population_size", "3000"),
        ("", "keys", "['AGE:width(5)', 'SEX', 'WORK', 'AREA']"), ("data", "path", "'people.csv'"),
        ("data", "delimiter", "','"), ("data", "encoding", "'utf-8'"),
        ("data", "missing", "'integrate'"), ("data", "missing_values", "['x']"),
        ("model", "name", "'hdp'"), ("model", "alpha", "'shared'"),
        ("model", "profile_shape", "1.0"), ("sampling", "chains", "2"), ("sampling", "seed", "1"),
        ("sampling", "thin", "2"), ("sampling", "max_sweeps", "16"),
        ("sampling", "max_seconds", "5"), ("sampling", "rhat", "1.01"), ("sampling", "ess", "400"),
        ("sampling", "workers", "1"), ("sampling", "threads", "1"), ("report", "level", "0.9"),
        ("report", "show_small_cells", "false"), ("zeros", "rules", json.dumps(RULES)),
        ("zeros", "on_conflict", "'drop'"), ("design", "household", "['HOME']"),
        ("classics", "sensitive", "['INCOME']"), ("classics", "missing_match", "1.0"),
        ("classics", "recursion", "2.0"), ("classics", "largest", "3"),
        ("classics", "dis_fraction", "0.01"), ("design", "weights", "'W'"),
        ("design", "strata", "'WORK'"), ("design", "relative_weights", "true"),
        ("design", "stratum_sizes", "{office = 800, farm = 800, mine = 800, school = 800}"),
        ("registry", "path", "'people.csv'"), ("registry", "format", "'csv'"),
    ],
    "compare": [
        ("", "schema", "'unikat.comparison-spec/1'"), ("", "population_size", "3000"),
        ("", "keys", "'AGE,SEX,WORK,AREA'"), ("", "models", "['loglinear', 'gom']"),
        ("", "held_out", "0.2"), ("", "level", "0.95"), ("data", "path", "'people.csv'"),
        ("path", "option", "'components'"), ("path", "values", "[2, 5]"),
        ("sampling", "chains", "2"), ("sampling", "max_sweeps", "16"), ("sampling", "workers", "1"),
        ("sampling", "seed", "1"), ("limits", "loglinear", "{risk = 16}"),
        ("zeros", "rules", json.dumps(RULES)), ("zeros", "on_conflict", "'missing'"),
    ],
    "evaluate": [
        ("", "schema", "'unikat.evaluation-spec/1'"), ("", "keys", "'AGE,SEX,WORK'"),
        ("", "n", "[40]"), ("", "repeats", "1"), ("", "models", "['loglinear']"),
        ("", "design", "'simple'"), ("", "strata", "'WORK'"), ("", "allocation", "'power'"),
        ("", "power", "0.5"), ("", "size", "'W'"), ("", "level", "0.95"),
        ("data", "path", "'people.csv'"), ("sampling", "chains", "2"), ("sampling", "workers", "1"),
        ("sampling", "max_sweeps", "16"), ("sampling", "seed", "1"),
    ],
}  # fmt: skip
"""Tables and values of a specification of each command; those after the first are left out now
and then."""
_LONG = {
    "repeats": ("0", "-1", "2", "1.5", "1e30", "[]", "'x'"),
    "chains": ("0", "-1", "1", "3", "1e30"),
    "workers": ("0", "-1", "1", "1e30", "'x'"),
    "threads": ("0", "-1", "1", "1e30", "'x'"),
}
"""Values of what may ask for much work in earnest, or for processes, which outlive a case."""
_ALWAYS = {"keys", "path", "population_size", "models", "n", "repeats", "name", "chains",
           "max_sweeps", "max_seconds", "workers", "rules"}  # fmt: skip


def _specification(rng: Random, folder: Path, bases: Path) -> Case:
    """A specification with hostile values."""
    command = rng.choice(("assess", "assess", "compare", "evaluate"))
    entries = SPECS[command]
    tables = {table for table, _, _ in entries if table in ("", "data", "model", "sampling")}
    tables |= {table for table, _, _ in entries if rng.random() < 0.05}
    chosen = [
        (table, name, value)
        for table, name, value in entries
        if table in tables and (name in _ALWAYS or rng.random() < 0.3)
    ]
    for _ in range(rng.choice((0, 1, 1, 1, 2))):
        at = rng.randrange(len(chosen))
        table, name, _ = chosen[at]
        if rng.random() < 0.1:
            name = rng.choice(("another", "''", '"a\\u0000"', "keys", "a" * 500))
        chosen[at] = (table, name, rng.choice(_LONG[name]) if name in _LONG else toml(rng))
    lines: list[str] = []
    for table in dict.fromkeys(table for table, _, _ in chosen):
        lines += [f"[{table}]"] if table else []
        lines += [f"{name} = {value}" for where, name, value in chosen if where == table]
    content = ("\n".join(lines) + "\n").encode("utf-8", "surrogateescape")
    if rng.random() < 0.15:
        content = spoiled(rng, content)
    (folder / "spec.toml").write_bytes(content)
    return Case("specification", [command, "spec.toml", "--out", "out", "--quiet"], ["out"])


def _codebook(rng: Random, folder: Path, bases: Path) -> Case:
    """A spoiled codebook."""
    book: dict[str, Any] = {
        "AGE": {"levels": list(range(18, 66)), "missing": [99]},
        "SEX": {"levels": [1, 2], "labels": ["male", "female"], "missing": [9]},
        "WORK": {"labels": {"office": "Office", "farm": "Farm"}},
        "AREA": "where people live",
    }
    if rng.random() < 0.4:
        book["AREA"] = rng.choice(
            (
                {"levels": ["north", "south"]},
                {"levels": [f"level {i}" for i in range(rng.choice((300, 150_000)))]},
                {"labels": {f"zqx{i}v": "same" for i in range(9)}},
                {"levels": [f"zqx{i}v" for i in range(40)], "labels": ["x" * 5000] * 40},
                {"levels": [True, 1, 1.0, "1"]},
                {"levels": [], "missing": []},
            )
        )
    how = rng.random()
    if how < 0.2:
        from unikat.files.toml import write_toml

        name, text = "book.toml", write_toml(book)
    else:
        name, text = "book.json", json.dumps(book)
        if how < 0.75:
            text = spoiled_json(rng, text)
    content = text.encode("utf-8", "surrogatepass")
    if how < 0.35:
        content = spoiled(rng, content)
    (folder / name).write_bytes(content)
    command = _short(rng)
    if rng.random() < 0.3:
        command = ["zeros", "suggest", "people.csv", "--keys", KEYS, "--quiet"]
    return Case("codebook", [*command, "--codebook", name], ["out"], shows_values=True)


def _rules(rng: Random, folder: Path, bases: Path) -> Case:
    """Spoiled rules, or a spoiled table of conditions."""
    rules = list(RULES)
    for _ in range(rng.randint(0, 2)):
        at = rng.randrange(len(rules))
        how = rng.random()
        if how < 0.45:
            rules[at] = spoiled(rng, rules[at].encode(), 2).decode("utf-8", "replace")
        elif how < 0.6:
            value = option(rng)
            rules[at] = rng.choice(
                (f"AGE < {value}", f"WORK == {value!r}", f"{value} == 1", f"SEX in ({value})")
            )
        elif how < 0.7:
            many = rng.choice((50, 2000))
            rules[at] = rng.choice(
                (" or ".join(["AGE < 20"] * many), "(" * many + "AGE < 20" + ")" * many,
                 "not " * many + "AGE < 20", f"WORK in ({', '.join(['farm'] * many)})")
            )  # fmt: skip
        else:
            rules[at] = rng.choice(("AGE >= 0", "WORK == 'nowhere'", "AREA == 'nowhere'", "AGE",
                                    "AGE < 20 or AGE >= 20", "INCOME > 3"))  # fmt: skip
    if rng.random() < 0.35:
        name = rng.choice(("zeros.csv", "zeros.tsv", "zeros.parquet", "zeros.txt"))
        table = "AGE,SEX,WORK\n20,1,\n,2,farm\n21,,mine\n"
        content = spoiled(rng, table.encode()) if rng.random() < 0.7 else table.encode()
    else:
        name = "zeros.toml"
        listed = ", ".join(json.dumps(rule) for rule in rules)
        on_conflict = rng.choice(("stop", "drop", "missing", option(rng)))
        content = f"rules = [{listed}]\non_conflict = {json.dumps(on_conflict)}\n".encode(
            "utf-8", "surrogatepass"
        )
    (folder / name).write_bytes(content)
    base = ["people.csv", "--keys", KEYS, "--zeros", name]
    command, outputs = rng.choice(
        (
            ([*_short(rng), "--zeros", name, "--zeros-conflict", "drop"], ["out"]),
            (["zeros", "check", *base, "--rows", "rows.csv"], ["rows.csv"]),
            (["zeros", "check", *base], []),
            (["zeros", "disjoint", *base, "--out", "list.csv", "--quiet"], ["list.csv"]),
            (["zeros", "suggest", *base, "--out", "more.toml", "--quiet"], ["more.toml"]),
        )
    )
    return Case("rules", command, outputs, shows_values=command[1] in ("disjoint", "suggest"))


def _commands() -> dict[tuple[str, ...], list[click.Option]]:
    """Options of every command but `demo`."""
    found: dict[tuple[str, ...], list[click.Option]] = {}
    for name, command in cli.commands.items():
        inner = command.commands.items() if isinstance(command, click.Group) else ()
        listed = [((name, sub), one) for sub, one in inner] or [((name,), command)]
        for path, one in listed:
            if path not in {("demo",), ("report",)}:
                found[path] = [
                    p
                    for p in one.get_params(click.Context(one, **cli.context_settings))
                    if isinstance(p, click.Option)
                ]
    return found


def _options(rng: Random, folder: Path, bases: Path) -> Case:
    """Hostile values of options of the command line."""
    commands = _commands()
    path = rng.choice([*commands, ("assess",), ("assess",)])
    start: dict[str, Any] = {"keys": KEYS}
    if path[0] != "zeros":
        start |= {"chains": "2", "workers": "1", "max_sweeps": "16", "out": "out", "quiet": True}
    if path[0] in ("assess", "compare", "protect"):
        start["population_size"] = "3000"
    start |= {
        "assess": {"model": rng.choice(FAST)},
        "compare": {"models": "loglinear"},
        "evaluate": {"n": "40", "repeats": "1", "models": "loglinear"},
        "protect": {"model": "latent-class", "recode": "AGE: width(10)"},
        "synthesize": {"model": "latent-class", "datasets": "2"},
        "attack": {"synthetic": "made.csv", "attacks": "20"},
    }.get(path[0], {})
    if path == ("zeros", "disjoint"):
        start["out"] = "out"
    if path[0] == "attack":
        (folder / "made.csv").write_text(people(60))
    if path[0] == "zeros":
        (folder / "zeros.toml").write_text("rules = " + json.dumps(RULES))
        start["zeros"] = "zeros.toml"
    names = {str(one.name): one for one in commands[path]}
    for name in rng.sample(sorted(names), rng.choice((1, 1, 2))):
        if name in ("workers", "threads"):  # Others would start processes.
            start[name] = rng.choice(("0", "-1", "1.5", "1e12", "9" * 5000, "nan", "x"))
        elif name in _LONG:
            start[name] = rng.choice(_LONG[name])
        else:
            start[name] = True if names[name].is_flag else option(rng)
    arguments = [*path, "people.csv"]
    for name, value in start.items():
        if name in names:
            flag = names[name].opts[-1]
            arguments += [flag] if value is True else [flag, value]
    if rng.random() < 0.05:
        arguments[len(path)] = option(rng)
    outputs = [str(start[name]) for name in ("out", "rows") if start.get(name)]
    shows = path == ("zeros", "suggest") or path == ("zeros", "disjoint") or "--json" in arguments
    return Case("options", arguments, outputs, shows_values=shows)


def _model(rng: Random, folder: Path, bases: Path) -> Case:
    """Hostile values of a model's options."""
    name = rng.choice(list(MODELS))
    options = [one.name for one in fields(MODELS[name])]
    set_to = []
    for one in rng.sample(options, min(len(options), rng.choice((1, 1, 2)))):
        value = option(rng) if rng.random() < 0.8 else toml(rng)
        set_to += ["--set", f"{one}={value}"]
    arguments = [*_short(rng, model=name), *set_to, "--max-seconds", "3"]
    if rng.random() < 0.25:
        (folder / "zeros.toml").write_text("rules = " + json.dumps(RULES))
        arguments += ["--zeros", "zeros.toml", "--zeros-conflict", "drop"]
    return Case("model options", arguments, ["out"])


def _copied(folder: Path, bases: Path, base: str) -> Path:
    shutil.copytree(bases / base, folder / base)
    return folder / base


def _results(rng: Random, folder: Path, bases: Path) -> Case:
    """Damaged results of a run, told by `report` or gone on with."""
    out = _copied(folder, bases, rng.choice(list(_WRITTEN)))
    files = [one for one in sorted(out.rglob("*")) if one.is_file() and one.suffix != ".checkpoint"]
    if out.name == "assess" and rng.random() < 0.8:
        files = [one for one in files if one.suffix in (".json", ".nc", ".toml")]
    one = rng.choice(files)
    if one.suffix == ".json" and rng.random() < 0.7:
        one.write_text(spoiled_json(rng, one.read_text()))
    elif one.suffix == ".nc" and rng.random() < 0.5:
        _hostile_netcdf(rng, one)
    elif one.suffix == ".fit":
        one.write_bytes(_hostile_checkpoint(rng, one.read_bytes()))
    else:
        one.write_bytes(spoiled(rng, one.read_bytes()))
    manifest = out / "manifest.json"
    if manifest.exists() and one != manifest and rng.random() < 0.75:
        content = json.loads(manifest.read_text())
        if one.name in content["sha256"]:
            content["sha256"][one.name] = hashlib.sha256(one.read_bytes()).hexdigest()
            manifest.write_text(json.dumps(content))
    if out.name == "assess" and rng.random() < 0.8:
        return Case("results", ["report", out.name], [f"{out.name}/report.html"])
    spec = f"{out.name}/{ {'assess': 'assessment', 'compare': 'comparison', 'evaluate': 'evaluation'}[out.name] }.toml"  # noqa: E501
    again = [out.name, spec, "--trust-spec", "--out", out.name, "--resume", "--quiet"]
    return Case("results", again, [out.name])


def _hostile_netcdf(rng: Random, path: Path) -> None:
    """Draws of another shape, type or size, or kept in another file."""
    import h5py

    path.unlink()
    with h5py.File(path, "w") as file:
        for group in ("posterior", "warmup_posterior"):
            made = file.create_group(group)
            for name in ("tau1", "tau2", "tau1_expected", "tau2_expected"):
                how = rng.randrange(9)
                if how == 0:
                    made.create_dataset(name, (10**7, 10**7), "f8", chunks=(1, 1000))
                elif how == 1:
                    made[name] = "text"
                elif how == 2:
                    made[name] = h5py.ExternalLink("/etc/passwd", "/")
                elif how == 3:
                    made.create_dataset(name, (64,), "f8", external=[("/etc/passwd", 0, 512)])
                elif how == 4:
                    made[name] = h5py.SoftLink("/posterior/tau1")
                elif how == 5:
                    made.create_group(name)
                elif how == 6:
                    made[name] = [[float("nan"), float("inf")], [1e308, -1e308]]
                elif how == 7:
                    made[name] = rng.choice(([], [1.0], [[]], [[[1.0]]], 1.0))
                else:
                    made[name] = [[1.0] * 8] * 2


def _checkpoint(rng: Random, folder: Path, bases: Path) -> Case:
    """A damaged checkpoint, its checksum right or wrong, from which a run goes on."""
    out = _copied(folder, bases, rng.choice(("assess", "assess", "compare")))
    found = sorted([*out.rglob("*.checkpoint"), *out.rglob("*.fit")])
    one = rng.choice(found)
    one.write_bytes(_hostile_checkpoint(rng, one.read_bytes()))
    more = ["--max-sweeps", "24"] if rng.random() < 0.5 else []
    again = [
        out.name,
        f"{out.name}/{_WRITTEN[out.name]}",
        "--out",
        out.name,
        "--resume",
        "--quiet",
        *more,
    ]
    return Case("checkpoint", again, [out.name])


def _hostile_checkpoint(rng: Random, content: bytes) -> bytes:
    """Change header or arrays of a checkpoint, and make the checksum right again, mostly."""
    header, arrays = parts(content)
    how = rng.random()
    if how < 0.4:
        header = spoiled_json(rng, header.decode()).encode("utf-8", "surrogatepass")
    elif how < 0.6:
        old, new = rng.choice(
            (
                (b"'<f8'", b"'<f4'"), (b"'<f8'", b"'<i8'"), (b"'<f8'", b"'|O8'"),
                (b"'shape': (", b"'shape': (99999999999,"), (b"'shape': (2", b"'shape': (-2"),
                (b"'shape': (", b"'shape': (0,"), (b"'<i4'", b"'<U9'"), (b"'<f4'", b"'<f8'"),
                (b"False", b"True "), (b"NUMPY", b"NUMPU"), (b"{'descr'", b"{'descx'"),
            )
        )  # fmt: skip
        changed = rng.sample(range(len(arrays)), min(len(arrays), rng.choice((1, 1, 50))))
        arrays = [
            one.replace(old, new) if number in changed else one for number, one in enumerate(arrays)
        ]
    elif how < 0.8 and arrays:
        number = rng.randrange(len(arrays))
        arrays[number] = spoiled(rng, arrays[number])
    elif rng.random() < 0.8:
        return spoiled(rng, content)
    else:
        return sealed(spoiled(rng, content)[40:])
    if rng.random() < 0.05:
        rng.shuffle(arrays)
    return joined(header, arrays, rng.choice((ZIP_STORED, ZIP_STORED, ZIP_STORED, ZIP_DEFLATED)))


def _cache(rng: Random, folder: Path, bases: Path) -> Case:
    """A damaged cache of compiled kernels; in a process of its own, which has loaded none."""
    from unikat.kernels.jit import cache_folder

    real = Path(cache_folder())
    copy = folder / "cache" / real.name
    shutil.copytree(real, copy)
    for one in (copy.parent, copy, *copy.rglob("*")):
        os.chmod(one, 0o700 if one.is_dir() else 0o600)
    files = sorted(one for one in copy.rglob("*") if one.is_file())
    for one in rng.sample(files, min(len(files), rng.choice((1, 3, len(files))))):
        content = one.read_bytes()
        one.write_bytes(rng.choice((b"", content[: len(content) // 2], spoiled(rng, content))))
    made = Case("cache", _short(rng, model="loglinear"), ["out", "cache"])
    made.environment = {"UNIKAT_CACHE_DIR": str(folder / "cache")}
    made.subprocess = True
    return made


def _process(rng: Random, folder: Path, bases: Path) -> Case:
    """Any other case, in a process of its own."""
    maker = rng.choice(
        [maker for maker, _ in MAKERS if maker not in (_process, _cache, addresses.workbench)]
    )
    made = maker(rng, folder, bases)
    made.subprocess = True
    return made


MAKERS = (
    (_file, 240), (_specification, 170), (_codebook, 80), (_rules, 110), (_options, 130),
    (_model, 110), (_results, 80), (_checkpoint, 70), (_process, 17), (_cache, 3),
    *commands.MAKERS, (addresses.workbench, 100),
)  # fmt: skip
"""What makes cases, and how often."""
