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

from unikat.web.events import Teller

REQUEST = "workbench.toml"
"""File of the specification in the folder of the run, until the run writes its own."""


def main(folder: Path, *, resume: bool) -> None:
    """Do the run that the specification in a folder asks for, in that folder."""
    for name in ("SIGINT", "SIGTERM", "SIGHUP"):
        if hasattr(signal, name):
            # What the shell let the workbench ignore is not to be ignored here.
            signal.signal(getattr(signal, name), signal.default_int_handler)
    threading.Thread(target=_end_with_input, daemon=True).start()
    teller = Teller(folder)
    try:
        _perform(folder, teller, resume=resume)
    except KeyboardInterrupt:
        teller.end("interrupted")


def _perform(folder: Path, teller: Teller, *, resume: bool) -> None:
    from unikat.errors import UnikatError, why
    from unikat.jobs.assess import run
    from unikat.spec.assessment import AssessmentSpec
    from unikat.spec.from_options import Inputs

    try:
        spec = AssessmentSpec.read(folder / REQUEST)
        found = run(
            spec,
            Inputs(),
            folder,
            resume=resume,
            overwrite=False,
            watcher=teller.watcher(),
        )
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
            "it arose, give the command of this run in a terminal, with  unikat --debug assess.",
        )
    else:
        if found.result.stage == "preliminary" or found.result.stop_reason == "interrupted":
            teller.end("interrupted")
        else:
            teller.end("done" if found.converged else "unconverged")


def _end_with_input() -> None:
    os.read(0, 1)
    if hasattr(signal, "pthread_kill"):
        ident = threading.main_thread().ident
        assert ident is not None
        signal.pthread_kill(ident, signal.SIGINT)
    else:
        import _thread

        _thread.interrupt_main()


if __name__ == "__main__":
    main(Path(sys.argv[1]), resume="resume" in sys.argv[2:])
    from unikat.interrupts import left_behind

    if left_behind():
        os._exit(0)
