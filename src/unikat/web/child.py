"""The process of one run: reads a specification, calls the job, tells what happens.

It ends as by Ctrl-C when its standard input is closed: by the workbench, if the run is cancelled,
or by the system, if the workbench is gone.
"""

from __future__ import annotations

import os
import signal
import sys
import threading
from pathlib import Path
from typing import Any

from unikat.interrupts import interrupt_main_thread, left_behind, never_lost
from unikat.spec.kinds import ASSESS
from unikat.web.events import Teller
from unikat.web.kinds import REQUEST, kind_at, run


def main(folder: Path, inside: Path, *, resume: bool, source: str = "") -> None:
    """Do the run that the specification in a folder asks for, in that folder.

    Its files have to lie inside the folder of the workbench; of databases and queries only what
    was given there is taken, as `source_digest` tells it.
    """
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            # What the shell let the workbench ignore is not to be ignored here.
            signal.signal(getattr(signal, name), signal.default_int_handler)
    threading.Thread(target=_end_with_input, daemon=True).start()
    teller = Teller(folder)
    try:
        with never_lost():
            _perform(folder, inside, teller, resume=resume, source=source)
    except KeyboardInterrupt:
        teller.end("interrupted")


def _perform(folder: Path, inside: Path, teller: Teller, *, resume: bool, source: str) -> None:
    from unikat.errors import UnikatError, why
    from unikat.spec.trust import Trust

    kind = kind_at(folder) or ASSESS
    try:
        trust = Trust(inside=inside, sources=frozenset({source} - {""}))
        spec = kind.specification.read(folder / REQUEST, trust)
        found = run(spec, folder, resume=resume, overwrite=False, watcher=teller.watcher())
    except UnikatError as error:
        teller.end("failed", str(error))
    except MemoryError:
        teller.end(
            "failed", "There is not enough memory. Group or leave out keys with many levels."
        )
    except OSError as error:
        teller.end("failed", f"The system refused: {why(error)}.")
    except Exception as error:
        # Its text may quote records.
        teller.end(
            "failed",
            f"This is a defect of unikat ({type(error).__name__}), not of your data. To see where "
            "it arose, give the command of this run in a terminal, with  unikat --debug "
            f"{kind.name}.",
        )
    else:
        if _interrupted(found):
            teller.end("interrupted")
        else:
            teller.end("done" if found.converged else "unconverged")


def _interrupted(found: Any) -> bool:
    """Whether an answer is only what was done before Ctrl-C."""
    said = found.summary
    ended = getattr(said, "stage", "") == "preliminary" or (
        getattr(said, "stop_reason", "") == "interrupted"
    )
    return ended or not getattr(said, "complete", True)


def _end_with_input() -> None:
    os.read(0, 1)
    interrupt_main_thread()


if __name__ == "__main__":
    main(
        Path(sys.argv[1]),
        Path(sys.argv[2]),
        resume=sys.argv[3] == "resume",
        source="".join(sys.argv[4:]),
    )
    if left_behind():
        os._exit(0)
