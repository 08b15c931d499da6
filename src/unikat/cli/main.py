"""The command `unikat`: parses, calls the library, and renders; it computes nothing.

Only click is imported here, so that `unikat --help` answers at once.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from unikat import __version__
from unikat.cli._output import quietly_closed
from unikat.cli.assess import assess
from unikat.cli.compare import compare
from unikat.cli.demo import demo
from unikat.cli.evaluate import evaluate
from unikat.cli.report import report
from unikat.cli.zeros import zeros
from unikat.errors import UnikatError

DONE, FAILED, INTERRUPTED = 0, 1, 130


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Exit codes: 0 done; 1 error; 2 finished but not converged; 130 interrupted too early "
    "to keep anything.",
)
@click.version_option(__version__, prog_name="unikat")
def cli() -> None:
    """Tell how exposed a categorical microdata file is.

    How many records that are unique in the file are also unique in the population, which records
    and which variables carry that risk, and how sure that is. Everything stays on this machine.
    """


cli.add_command(assess)
cli.add_command(compare)
cli.add_command(demo)
cli.add_command(evaluate)
cli.add_command(report)
cli.add_command(zeros)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line.

    Parameters
    ----------
    arguments
        What follows `unikat`; those of this process if None.

    Returns
    -------
    int
        The exit code.
    """
    code: object = FAILED
    with quietly_closed():
        code = _answer(arguments)
    return code if isinstance(code, int) else DONE


def _answer(arguments: Sequence[str] | None) -> object:
    given = None if arguments is None else list(arguments)
    try:
        return cli.main(given, prog_name="unikat", standalone_mode=False)
    except click.ClickException as error:
        error.show()
        return FAILED
    except UnikatError as error:
        click.echo(f"Error: {error}", err=True)
        return FAILED
    except (KeyboardInterrupt, click.Abort):
        click.echo("Interrupted; nothing was kept.", err=True)
        return INTERRUPTED


if __name__ == "__main__":
    sys.exit(main())
