"""Notebooks of the documentation: pages of text that are executed when they are built.

A page under `notebooks/` is Markdown with blocks of ``python``, as every page is. It becomes a
notebook, which is executed; what its cells answered is put below their blocks, and the executed
notebook is laid beside the page. A cell that fails ends the build.
"""

from __future__ import annotations

import os
import re
import tempfile
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

_BLOCK = re.compile(r"^```python\n(.*?)^```\n?", flags=re.MULTILINE | re.DOTALL)
_ROLE = re.compile(r"\{term\}`([^`<]+?)(?: <[^`]*>)?`")
_LINK = re.compile(r"\[([^\]]+)\]\((?!https:)[^)]+\)")


def notebook_of(text: str) -> NotebookNode:
    """Return the notebook of a page, not executed.

    A notebook that somebody has downloaded knows no other page: terms and links lose theirs.
    """
    cells = []
    for place, part in enumerate(_BLOCK.split(text)):
        if place % 2:
            cells.append(new_code_cell(part.rstrip("\n"), id=f"cell-{place}"))
        elif part.strip():
            plain = _LINK.sub(r"\1", _ROLE.sub(r"\1", part.strip()))
            cells.append(new_markdown_cell(plain, id=f"cell-{place}"))
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return new_notebook(
        cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}}
    )


def execute(notebook: NotebookNode) -> None:
    """Execute a notebook in an empty folder, in place; the first cell that fails raises its error.

    The kernel is this very Python. It listens on files of that folder, not on a port.
    """
    with tempfile.TemporaryDirectory(prefix="nb") as folder:
        manager = KernelManager(
            kernel_name="python3", transport="ipc", connection_file=f"{folder}/kernel.json"
        )
        work = Path(folder, "work")
        work.mkdir()
        client = NotebookClient(
            notebook,
            km=manager,
            timeout=600,
            resources={"metadata": {"path": str(work)}},
            record_timing=False,
            coalesce_streams=True,
            store_widget_state=False,
        )
        client.execute(env={**os.environ, "IPYTHONDIR": f"{folder}/ipython"}, cleanup_kc=True)
        manager.cleanup_resources()


def with_answers(text: str, notebook: NotebookNode) -> str:
    """Return a page with what the cells of its executed notebook answered."""
    answers = iter([cell.outputs for cell in notebook.cells if cell.cell_type == "code"])
    return _BLOCK.sub(lambda block: block[0] + "".join(map(_shown, next(answers))), text)


def _shown(output: Any) -> str:
    """Return an answer of a cell in the page's Markdown; HTML and pictures as they are."""
    data = output.get("data", {})
    rich = data.get("text/html", data.get("image/svg+xml"))
    if rich is not None:
        # A line of progress that has done its work is empty.
        if not rich:
            return ""
        return f'\n````{{raw}} html\n<div class="answer">\n{rich}\n</div>\n````\n'
    said = output.get("text", data.get("text/plain", ""))
    return f"\n````{{code-block}} text\n:class: answer\n\n{said.rstrip()}\n````\n" if said else ""
