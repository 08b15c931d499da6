"""Nothing is sent anywhere: a whole run, its workers included, uses no network address."""

from __future__ import annotations

import socket
import subprocess
import sys
from contextlib import suppress

import pytest

from conftest import forbidden_network
from hostile.watch import watched

MAIN = "import sys; from unikat.cli.main import main; sys.exit(main())"
REACH = "import socket; socket.create_connection(('127.0.0.1', 9))"


@pytest.mark.slow
def test_a_run_uses_no_network_and_shows_its_files_to_nobody(watched_network, tmp_path):
    """The longest: `auto`, with its workers, under a umask that lets others in."""
    environment, uses = watched_network
    here = tmp_path / "here"
    here.mkdir()
    with watched(here) as seen:
        run = subprocess.run(
            [sys.executable, "-c", MAIN, "demo", "--out", str(here / "demo")],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            umask=0,
        )
    assert run.returncode == 0, run.stderr
    assert uses() == []
    assert any(path.endswith("result.json") for path in seen.files)
    assert seen.open_ == {}


def test_use_in_a_child_would_be_noticed(watched_network):
    environment, uses = watched_network
    assert subprocess.run([sys.executable, "-c", REACH], env=environment, check=False, stderr=-3)
    assert len(uses()) == 1


def test_use_in_a_worker_would_be_noticed(watched_network, tmp_path):
    environment, uses = watched_network
    program = tmp_path / "program.py"
    program.write_text(
        "import multiprocessing\n"
        f"def reach():\n    {REACH}\n"
        "if __name__ == '__main__':\n"
        "    worker = multiprocessing.get_context('spawn').Process(target=reach)\n"
        "    worker.start()\n"
        "    worker.join()\n"
    )
    subprocess.run([sys.executable, program], env=environment, check=True, stderr=-3)
    assert len(uses()) == 1


@pytest.mark.usefixtures("no_network")
def test_local_sockets_stay_open():
    for end in socket.socketpair():
        end.close()


@pytest.mark.parametrize("use", ["socket.socket()", "socket.create_connection(('127.0.0.1', 9))"])
def test_use_in_this_process_is_noticed_even_if_swallowed(use):
    with pytest.raises(AssertionError), forbidden_network(), suppress(RuntimeError):
        eval(use)
