"""The command `unikat`: parses, calls the library, and renders; it computes nothing.

Only click is imported here, so that `unikat --help` answers at once.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence

import click

from unikat._version import __version__
from unikat.cli._boundary import Stops, open_streams, quiet_libraries, stopping, tell_unforeseen
from unikat.cli._output import quietly_closed, tell, write_any_character
from unikat.cli.commands import (
    apply,
    assess,
    attack,
    check,
    compare,
    demo,
    evaluate,
    export,
    policy,
    protect,
    report,
    synthesize,
    verify,
    web,
)  # fmt: skip
from unikat.cli.start import start
from unikat.cli.zeros import zeros
from unikat.errors import OutputError, UnikatError, bounded
from unikat.files.scratch import close_all
from unikat.interrupts import left_behind
from unikat.spec.network import NETWORK

DONE, FAILED, INTERRUPTED = 0, 1, 130
_OF_SIGNALS = 128
"""Added to the number of the signal that ended a run."""


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 error; 2 finished but not converged; 3 finished, "
    "and a limit (--threshold, --target, --policy) is not met or not known; 130 interrupted too "
    f"early to keep anything; 143 ended by SIGTERM, what was done is kept.\n\n{NETWORK}",
)
@click.version_option(__version__, prog_name="unikat")
@click.option(
    "--debug",
    is_flag=True,
    help="After an error that was not foreseen, show where it "
    "arose; no value of the data is shown.",
)
@click.pass_obj
def cli(state: dict[str, bool] | None, debug: bool) -> None:
    """Estimate the disclosure risk of a categorical microdata file, and reduce it.

    How many records that are unique in the file are also unique in the population, which records
    and which variables carry that risk, and how sure that is; which recoding reaches a target;
    synthetic files, and attacks on them.
    """
    if state is not None:
        state["debug"] = debug
    try:
        os.getcwd()
    except OSError:
        raise OutputError(
            "The working folder no longer exists; change to another folder and start again."
        ) from None


for _command in (
    apply, assess, attack, check, compare, demo, evaluate, export, policy, protect, report, start,
    synthesize, verify, web, zeros,
):  # fmt: skip
    cli.add_command(_command)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line, that of this process if None; return the exit code."""
    open_streams()
    code: object = FAILED
    write_any_character()
    with stopping() as stops, quiet_libraries(), quietly_closed():
        code = _answer(arguments, stops)
    found = code if isinstance(code, int) else DONE
    if stops.number is not None:
        found = _OF_SIGNALS + stops.number
    if left_behind():
        # Python would wait for compiled code, or end in the midst of it.
        close_all()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(found)
    return found


def _answer(arguments: Sequence[str] | None, stops: Stops) -> object:
    given = None if arguments is None else list(arguments)
    state = {"debug": False}
    try:
        return cli.main(given, prog_name="unikat", standalone_mode=False, obj=state)
    except click.ClickException as error:
        said = io.StringIO()
        error.show(said)
        tell(bounded(said.getvalue().rstrip()))
        return FAILED
    except UnikatError as error:
        if not stops.asked:
            tell(f"Error: {error}")
            return FAILED
        # It reached the workers too, and the run ended by their loss.
        click.echo("Interrupted. To go on, give the same command with --resume.", err=True)
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except KeyboardInterrupt:
        return _interrupted()
    except click.Abort as error:
        # Click takes the end of a file for Ctrl-C.
        if not isinstance(error.__cause__, EOFError):
            return _interrupted()
        tell_unforeseen(error.__cause__, debug=state["debug"])
        return FAILED
    except SystemExit as end:
        return end.code
    except BaseException as error:
        if stops.asked:
            return _interrupted()
        tell_unforeseen(error, debug=state["debug"])
        return FAILED


def _interrupted() -> int:
    click.echo("Interrupted; nothing was kept. What earlier runs had kept is as it was.", err=True)
    return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
