"""Ctrl-C, lost parents and scripts, seen from outside the process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")

ROOT = Path(__file__).parents[2]
START = """
import sys
from inference.toy_chain import Toy, ToyTable, Watch
from unikat.inference.backends import Workers
from unikat.inference.chains import Plan, StopRule, sample

def tell(event):
    print("at", event.sweeps, flush=True)
"""
SAMPLE = """
draws = sample(
    MODEL(apart=1.0, pause=PAUSE, work=WORK), ToyTable(), Watch(), seed=1,
    plan=Plan(stop=StopRule(max_sweeps=MAX)), workers=Workers(n_workers=2), progress=tell,
)
print("done", draws.stop_reason, draws.n_sweeps, draws.scalars["first"].shape, flush=True)
"""


def fill(code, model="Toy", pause=0.0, work=1e6, max_sweeps=100):
    for name, value in {"MODEL": model, "PAUSE": pause, "WORK": work, "MAX": max_sweeps}.items():
        code = code.replace(name, str(value))
    return code


def start(tmp_path, code, *, model="Toy", pause=0.0, work=1e6, max_sweeps=100):
    """Run a script in a session of its own."""
    text = fill(code, model, pause, work, max_sweeps)
    script = tmp_path / "script.py"
    script.write_text(text)
    return subprocess.Popen(
        [sys.executable, "-W", "error", str(script)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"},
    )


def wait_for(process, line):
    for text in process.stdout:
        if text.startswith(line):
            return
    pytest.fail(f"{line!r} was not printed: {process.stderr.read()}")


def alive(session):
    """Processes of a session that are still running."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                fields = (folder / "stat").read_text().rsplit(")", 1)[1].split()
            except OSError:
                continue
            if int(fields[3]) == session and fields[0] != "Z":
                found.append(int(folder.name))
    return found


def ends(session, seconds=10.0):
    """Wait until nothing of a session is left."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if not alive(session):
            return True
        time.sleep(0.05)
    return False


def test_ctrl_c_in_a_terminal_keeps_what_is_complete(tmp_path):
    """Ctrl-C reaches every process of the terminal, the workers too."""
    process = start(tmp_path, START + SAMPLE, pause=0.01, max_sweeps=10**6)
    wait_for(process, "at 48")
    time.sleep(0.05)
    os.killpg(process.pid, signal.SIGINT)
    out, err = process.communicate(timeout=20)
    assert err == ""
    assert "done interrupted" in out
    assert process.returncode == 0
    assert ends(process.pid)


def test_ctrl_c_while_workers_start_is_quiet(tmp_path):
    code = START + "try:" + SAMPLE.replace("\n", "\n    ") + "\nexcept KeyboardInterrupt: pass"
    process = start(tmp_path, code, pause=0.01, max_sweeps=10**6)
    wait_for(process, "at 0")
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert err == ""
    assert ends(process.pid)


def test_a_second_ctrl_c_ends_the_wait(tmp_path):
    """Here a sweep takes seconds, and the first Ctrl-C waits for it."""
    process = start(tmp_path, START + SAMPLE, pause=1.0, work=1e9, max_sweeps=10**6)
    wait_for(process, "at 1")
    time.sleep(0.2)
    os.killpg(process.pid, signal.SIGINT)
    time.sleep(0.3)
    os.killpg(process.pid, signal.SIGINT)
    _, err = process.communicate(timeout=20)
    assert err.splitlines()[-1] == "KeyboardInterrupt"
    assert process.returncode != 0
    assert ends(process.pid)


def test_workers_do_not_outlive_a_killed_parent(tmp_path, monkeypatch):
    # Short enough for the paths of sockets, which else are made elsewhere.
    temporary = Path(tempfile.mkdtemp(prefix="u-", dir="/tmp"))
    monkeypatch.setenv("TMPDIR", str(temporary))
    process = start(tmp_path, START + SAMPLE, pause=0.01, max_sweeps=10**6)
    wait_for(process, "at 16")
    assert list(temporary.iterdir())
    os.kill(process.pid, signal.SIGKILL)
    process.stdout.close()
    process.stderr.close()
    process.wait()
    assert ends(process.pid)
    # Nor do its locks and sockets.
    assert list(temporary.iterdir()) == []
    temporary.rmdir()


def test_a_script_without_guard_is_run_once(tmp_path):
    process = start(tmp_path, "print('top', flush=True)\n" + START + SAMPLE)
    out, err = process.communicate(timeout=60)
    assert err == ""
    assert out.count("top") == 1
    assert "done sweep limit 100 (4, 100)" in out


OWN_MODEL = START + "class Own(Toy): pass\n"


def test_a_model_in_a_guarded_script(tmp_path):
    code = OWN_MODEL + "if __name__ == '__main__':" + SAMPLE.replace("\n", "\n    ")
    process = start(tmp_path, code, model="Own")
    out, err = process.communicate(timeout=60)
    assert err == ""
    assert "done sweep limit 100 (4, 100)" in out


def test_a_model_in_a_script_without_guard_is_told_what_to_do(tmp_path):
    process = start(tmp_path, OWN_MODEL + SAMPLE, model="Own")
    _, err = process.communicate(timeout=60)
    assert process.returncode != 0
    assert "under `if __name__ == '__main__':`" in err
    assert ends(process.pid)


def test_a_model_typed_in_runs_here(tmp_path):
    text = fill(OWN_MODEL + SAMPLE, "Own", max_sweeps=60)
    result = subprocess.run(
        [sys.executable, "-"],
        input=text,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        env=os.environ | {"PYTHONPATH": f"{ROOT / 'src'}{os.pathsep}{ROOT / 'tests'}"},
    )
    assert result.stderr == ""
    assert "done sweep limit 60 (4, 60)" in result.stdout
