"""The server of the workbench: on this machine alone, for one browser, until Ctrl-C."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import uvicorn

from unikat.errors import OutputError, why
from unikat.report.text.language import check_language
from unikat.web.app import make_app
from unikat.web.folder import Folder
from unikat.web.security import Access

HOST = "127.0.0.1"
"""Nothing but this machine."""


def serve(
    folder: Path,
    *,
    port: int = 0,
    browser: bool = True,
    read_only: bool = False,
    language: str = "",
    tell: Callable[[str], None] = print,
) -> None:
    """Serve the workbench of a folder until Ctrl-C; runs that go on then keep what is done.

    Parameters
    ----------
    folder
        The folder whose files are shown.
    port
        Where to listen; 0 takes one that is free.
    browser
        Open the page in the browser.
    read_only
        Show finished runs alone, take nothing in and write nothing.
    language
        Of the pages, until another one is chosen on a page; by default the last one that was
        chosen in the folder, else that of the browser.
    tell
        Called with each line for the user; the last one is the address.

    Raises
    ------
    NotInFolderError
        If there is no such folder.
    OutputError
        If the port cannot be used.
    SpecError
        If there are no words of the language.
    """
    root = Folder.of(folder)
    if language:
        check_language(language)
    with _listening(port) as listener:
        access = Access(port=listener.getsockname()[1])
        app, bench = make_app(root, access, read_only=read_only, spoken=language)
        server = uvicorn.Server(
            uvicorn.Config(
                app,
                log_config=None,
                access_log=False,
                server_header=False,
                lifespan="off",
                ws="none",
                timeout_graceful_shutdown=1,
            )
        )
        shown = "is open"
        if read_only:
            shown = "shows finished runs, and takes nothing in"
        tell(f"The workbench of {root.root} {shown}. Ctrl-C ends it.")
        tell(access.address)
        if browser:
            threading.Thread(target=_open, args=(access.address,), daemon=True).start()
        try:
            with contextlib.suppress(KeyboardInterrupt):
                server.run(sockets=[listener])
        finally:
            bench.explorers.close()
            bench.foreseer.close()
            bench.runs.close()


def _listening(port: int) -> socket.socket:
    # With the protocol named, asyncio switches Nagle's algorithm off: headers and content of an
    # answer are two writes, and the second would wait some 40 ms for the browser's acknowledgement.
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        # A port that was just left can be taken again at once; on Windows this would share it.
        if hasattr(socket, "AF_UNIX"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, port))
        listener.listen(128)
    except OverflowError:
        listener.close()
        raise OutputError(f"{port} is no port; give a number from 1024 to 65535.") from None
    except OSError as error:
        listener.close()
        raise OutputError(
            f"Port {port} cannot be used ({why(error)}). Give another with --port, or leave it out."
        ) from None
    return listener


def _open(address: str) -> None:
    import webbrowser

    with contextlib.suppress(Exception):
        webbrowser.open(address)
