"""A seeded fuzzer of the whole program: makes a hostile input, runs the command, judges the answer.

    PYTHONPATH=src:tests python -m hostile.fuzz SEED FIRST LAST     run these cases, print findings

Cases run one after the other in a worker process, most of them by a call of `main`, so that one
takes tenths of a second. A case that does not end, or that takes the process with it, is noticed
by its parent, which goes on with the next.
"""

from __future__ import annotations

import contextlib
import faulthandler
import hashlib
import io
import json
import logging
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import postgres_server
from hostile.case import Case, people
from hostile.commands import POSTGRES
from hostile.inputs import case, prepare

SECONDS = 60.0
"""Longest that a case may take; five times as long in a process of its own."""
MEMORY = 8 << 30
"""Address space of a case: what a header declares must not be allocated."""
CHARACTERS, LINES = 1_500, 20
"""Longest message of an error."""
SECRET = re.compile(r"zqx\d+v|9173\d{3}")
PROGRAM = "import sys; from unikat.cli.main import main; sys.exit(main())"
DEFECT = "defect of unikat"
"""What the program says where it was not prepared."""
_ROOT = Path(__file__).parents[2]
_BATCH = 250
"""Cases of a worker, whose memory grows with each."""


@dataclass
class Outcome:
    """How a case ended, and what was wrong with that."""

    seed: int
    i: int
    kind: str
    arguments: list[str]
    code: int | None = None
    seconds: float = 0.0
    problems: list[str] = field(default_factory=list)
    """Each begins with a word for its sort, and a colon."""
    said: str = ""
    """End of standard error."""


def campaign(
    seed: int, first: int, last: int, *, limit: float = SECONDS, until: float | None = None
) -> Iterator[Outcome]:
    """Run cases `first` to `last` - 1 in worker processes, and yield how each ended.

    Parameters
    ----------
    seed, first, last
        Which cases.
    limit
        Seconds after which a case counts as one that hangs.
    until
        Moment of `time.monotonic` after which no case begins.
    """
    with contextlib.ExitStack() as stack:
        scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix="hostile-"))
        databases = stack.enter_context(_postgres())
        at = first
        while at < last and (until is None or time.monotonic() < until):
            end = min(at + _BATCH, last)
            command = [sys.executable, "-m", "hostile.fuzz", "--worker", scratch, str(limit)]
            environment = {**os.environ, "PYTHONPATH": f"{_ROOT / 'src'}:{_ROOT / 'tests'}"}
            environment |= databases
            log = Path(scratch) / "worker.log"
            with log.open("wb") as errors:
                worker = subprocess.Popen(
                    [*command, str(seed), str(at), str(end)], env=environment, stderr=errors,
                    stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, text=True,
                )  # fmt: skip
            assert worker.stdout is not None
            begun: dict[str, Any] | None = None
            with worker.stdout as lines:
                for line in lines:
                    told = json.loads(line)
                    if "problems" in told:
                        begun = None
                        yield Outcome(**told)
                    else:
                        begun, at = told, told["i"] + 1
                    if begun is None and until is not None and time.monotonic() >= until:
                        worker.kill()
                        worker.wait()
                        return
            code = worker.wait()
            if begun is not None and code in (0, 1, 2) and "Timeout (" not in log.read_text():
                # What is left in the midst of compiled code is ended with the process.
                yield Outcome(**begun, code=code)
            elif begun is not None:
                said = log.read_text(errors="replace")
                sort = "hang" if "Timeout (" in said else "crash"
                problem = f"{sort}: the process ended with {code}\n{said[-3000:]}"
                yield Outcome(**begun, code=code, problems=[problem])
            elif code:
                raise RuntimeError(f"the worker failed: {log.read_text(errors='replace')[-3000:]}")


@contextlib.contextmanager
def _postgres() -> Iterator[dict[str, str]]:
    """Start a server with the table of people, where its programs are; yield how it is reached."""
    if postgres_server.programs() is None:
        yield {}
        return
    import pyarrow.csv

    with postgres_server.server() as running:
        table = pyarrow.csv.read_csv(io.BytesIO(people().encode()))
        with _password():
            running.run(
                "CREATE ROLE reader LOGIN PASSWORD '" + postgres_server.SECRET + "'",
                table=("people", table),
            )
            running.run("GRANT SELECT ON people TO reader")
        yield {POSTGRES: running.address("reader"), "PGPASSWORD": postgres_server.SECRET}


@contextlib.contextmanager
def _password() -> Iterator[None]:
    before = os.environ.get("PGPASSWORD")
    os.environ["PGPASSWORD"] = postgres_server.SECRET
    try:
        yield
    finally:
        del os.environ["PGPASSWORD"]
        if before is not None:
            os.environ["PGPASSWORD"] = before


def work(scratch: Path, limit: float, seed: int, first: int, last: int) -> None:
    """Run cases, and print a line of JSON before and after each."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    for category in (RuntimeWarning, UserWarning):
        warnings.simplefilter("always", category)
    # Where the program hides them from its users.
    logging.getLogger("py.warnings").addHandler(_Heard())
    told = os.fdopen(os.dup(1), "w")
    log = os.fdopen(os.dup(2), "w")
    bases = scratch / "bases"
    if not bases.exists():
        bases.mkdir()
        os.chdir(bases)
        with captured(scratch / "bases.log"):
            prepare(bases, _main)
    for i in range(first, last):
        folder = scratch / "case"
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "work").mkdir(parents=True)
        (folder / "tmp").mkdir()
        made = case(seed, i, folder / "work", bases)
        outcome = Outcome(seed=seed, i=i, kind=made.kind, arguments=made.arguments)
        begun = {"seed": seed, "i": i, "kind": made.kind, "arguments": made.arguments}
        print(json.dumps(begun), file=told, flush=True)
        # A process of its own may have to compile.
        longest = 5 * limit if made.subprocess else limit
        faulthandler.dump_traceback_later(longest + 10.0, exit=True, file=log)
        run(made, folder, outcome, longest)
        faulthandler.cancel_dump_traceback_later()
        print(json.dumps(asdict(outcome)), file=told, flush=True)
    os.chdir("/")


_heard: list[str] = []
"""Warnings of libraries in this case."""


class _Heard(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        _heard.append(record.getMessage())


def _main(arguments: list[str]) -> int:
    from unikat.cli.main import main

    return main(arguments)


@contextlib.contextmanager
def captured(path: Path) -> Iterator[None]:
    """Let everything that this process and its children write go into `path`.out and `path`.err."""
    kept = os.dup(1), os.dup(2)
    streams = []
    try:
        for number, end in ((1, "out"), (2, "err")):
            stream = open(f"{path}.{end}", "wb", buffering=0)  # noqa: SIM115
            streams.append(stream)
            os.dup2(stream.fileno(), number)
        yield
    finally:
        with contextlib.suppress(OSError):
            sys.stdout.flush()
        sys.stderr.flush()
        for number, stream, before in zip((1, 2), streams, kept, strict=True):
            os.dup2(before, number)
            os.close(before)
            stream.close()


def run(made: Case, folder: Path, outcome: Outcome, limit: float = SECONDS) -> None:
    """Run a case, whose inputs are in `folder`/work, and judge it."""
    os.chdir(folder / "work")
    _heard.clear()
    before = _tree(folder / "work")
    os.environ["TMPDIR"] = str(folder / "tmp")
    tempfile.tempdir = None
    begin = time.monotonic()
    try:
        with captured(folder / "said"):
            if made.subprocess:
                environment = {**os.environ, **made.environment}
                command = [sys.executable, "-c", PROGRAM, *made.arguments]
                ended = subprocess.run(command, env=environment, timeout=limit)
                outcome.code = ended.returncode
            else:
                outcome.code = made.call() if made.call else _main(made.arguments)
    except subprocess.TimeoutExpired:
        outcome.problems.append(f"hang: no end after {limit:.0f} seconds")
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        where = f"{Path(place.filename).name}:{place.lineno} in {place.name}"
        outcome.problems.append(f"traceback: {type(error).__name__} at {where}: {str(error)[:300]}")
    outcome.seconds = time.monotonic() - begin
    out = (folder / "said.out").read_bytes().decode(errors="replace")
    err = (folder / "said.err").read_bytes().decode(errors="replace")
    outcome.said = err[-600:]
    outcome.problems += [
        *_judged_words(made, outcome.code, out, err),
        *_judged_files(made, outcome.code, err, before, _tree(folder / "work")),
    ]
    outcome.problems += [f"warning: {words[:300]}" for words in dict.fromkeys(_heard)]
    left = [one.name for one in (folder / "tmp").iterdir()]
    if left:
        outcome.problems.append(f"temporary files: {left[:5]}")


def _judged_words(made: Case, code: int | None, out: str, err: str) -> Iterator[str]:
    """What is wrong with exit code and messages."""
    if code not in (0, 1, 2, None):
        yield f"exit code: {code}"
    if "Traceback (most recent" in err + out:
        yield f"traceback: {err.strip().splitlines()[-1][:300] if err.strip() else ''}"
    if DEFECT in err + out:
        yield f"defect: {err.strip()[-300:]}"
    if warning := next((line for line in err.splitlines() if "Warning: " in line[:300]), ""):
        yield f"warning: {warning[:300]}"
    if code == 1:
        answers = made.arguments[:2] == ["zeros", "check"] or "failed; --resume" in err
        if "Error: " not in err and not answers:
            yield "no message: exit code 1"
        n = len(err.strip().splitlines())
        if len(err) > CHARACTERS or n > LINES:
            yield f"long message: {len(err)} characters, {n} lines"
    if re.search(r"[\x00-\x08\x0b-\x1f\x7f]", err):
        yield "control characters: on standard error"
    shown = err if code in (0, 2) and made.shows_values else err + out
    if found := SECRET.search(shown.replace("\x00", "")):
        around = shown[max(0, found.start() - 60) : found.end() + 20]
        yield f"value shown: {around!r}"


def _judged_files(
    made: Case, code: int | None, err: str, before: dict[str, Any], after: dict[str, Any]
) -> Iterator[str]:
    """What is wrong with the files that are there now."""
    outputs = [os.path.normpath(one) for one in made.outputs]
    failed = code == 1 and "Error: " in err
    for name in sorted({*before, *after}):
        kind, mode, _ = after.get(name, ("", 0, ""))
        # A folder of results, what is in it, and those above it.
        mine = any(
            f"{name}/".startswith(f"{one}/") or one.startswith(f"{name}/") for one in outputs
        )
        if name.partition("/")[0] == "cache" or name.endswith("/.unikat"):
            # Kernels, and the lock of a folder.
            continue
        if name not in after:
            yield f"deleted: {name}"
        elif name not in before:
            if not mine or failed or code is None:
                yield f"left behind: {name} (exit code {code})"
            elif mode & 0o077:
                yield f"mode: {name} has {mode:o}"
        elif before[name][0] == "file" and before[name][2] != after[name][2]:
            # A study that goes on keeps the fits that it finishes before one that it refuses.
            kept = "--resume" in made.arguments and Path(name).parts[1:2] in (("fits",), ("tasks",))
            if not mine or (failed and not kept):
                yield f"overwritten: {name} (exit code {code})"
        elif kind != before[name][0]:
            yield f"overwritten: {name} was a {before[name][0]}"


def _tree(folder: Path) -> dict[str, tuple[str, int, str]]:
    """Kind, mode and digest of everything in a folder, by its path."""
    found = {}
    for parent, folders, files in os.walk(folder):
        for name in (*folders, *files):
            path = os.path.join(parent, name)
            mode = os.lstat(path).st_mode & 0o777
            if os.path.islink(path) or not os.path.isfile(path):
                kind, digest = "link" if os.path.islink(path) else "folder", ""
            else:
                with open(path, "rb") as file:
                    kind, digest = "file", hashlib.file_digest(file, "sha256").hexdigest()
            found[os.path.relpath(path, folder)] = (kind, mode, digest)
    return found


def main(arguments: list[str]) -> int:
    """Run cases as a worker, or as a campaign that prints what was wrong."""
    if arguments[0] == "--worker":
        scratch, limit, seed, first, last = arguments[1:]
        work(Path(scratch), float(limit), int(seed), int(first), int(last))
        return 0
    seed, first, last = map(int, arguments[:3])
    n_wrong = 0
    for outcome in campaign(seed, first, last):
        if outcome.problems:
            n_wrong += 1
            print(f"{outcome.seed}-{outcome.i} {outcome.kind} {_short(outcome.arguments)}")
            for problem in outcome.problems:
                print(f"    {problem}", flush=True)
    print(f"{n_wrong} of {last - first} cases were not answered rightly")
    return 1 if n_wrong else 0


def _short(arguments: list[str]) -> str:
    return ascii(" ".join(one if len(one) < 80 else f"{one[:60]}…" for one in arguments))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
