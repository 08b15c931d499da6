"""In a notebook: one cell assesses a frame, shows the answer, and Ctrl-C keeps what is done."""

from __future__ import annotations

import queue
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from jupyter_client.manager import KernelManager
from nbclient import NotebookClient
from nbformat.v4 import new_code_cell, new_notebook

pytestmark = pytest.mark.slow

FRAME = """
import numpy as np, pandas as pd
rng = np.random.default_rng(3)
frame = pd.DataFrame({
    "age": rng.integers(0, 9, 300), "sex": rng.integers(0, 2, 300),
    "work": rng.geometric(0.3, 300), "place": rng.integers(0, 6, 300),
})
"""
KINDS = {
    "pandas": "frame.index = [f'p{i}' for i in range(300)]",
    "polars": "import polars as pl\nframe = pl.from_pandas(frame)",
}
WITHOUT_WIDGETS = "import sys\nsys.modules['ipywidgets'] = None"
"""Importing it fails, as where it is not installed."""
SHORT = "chains=2, max_sweeps=60, set={'sampling.thin': 2}, workers=1"


@pytest.fixture
def kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[KernelManager]:
    """A kernel of this very Python."""
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("PYTHONPATH", ":".join(path for path in sys.path if path))
    manager = KernelManager(kernel_name="python3")
    spec = manager.kernel_spec
    assert spec is not None
    spec.argv = [sys.executable, "-m", "ipykernel_launcher", "-f", "{connection_file}"]
    yield manager
    if manager.has_kernel:
        manager.shutdown_kernel(now=True)
    manager.cleanup_resources()
    manager.context.destroy(linger=0)


def executed(kernel: KernelManager, cells: list[str], folder: Path) -> Any:
    """Run cells, one after the other; an error in one is raised here."""
    notebook = new_notebook(cells=[new_code_cell(cell) for cell in cells])
    resources = {"metadata": {"path": str(folder)}}
    client = NotebookClient(notebook, km=kernel, timeout=300, resources=resources)
    client.execute(cleanup_kc=True)
    nbformat.validate(notebook)
    return notebook


@pytest.mark.parametrize("widgets", [True, False], ids=["widgets", "without"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_notebook_assesses_a_frame(
    kernel: KernelManager, tmp_path: Path, kind: str, widgets: bool
) -> None:
    cells = [
        "" if widgets else WITHOUT_WIDGETS,
        FRAME + KINDS[kind],
        "import unikat\n"
        'result = unikat.assess(frame, keys="age,sex,work,place", population_size="9,000", '
        f'model="latent-class", {SHORT})\n'
        "result",
        "result.plot.keys()",
        "result.records",
        "print(result)\n"
        "print(type(result.records).__module__.partition('.')[0])\n"
        "print(len(result.draws['posterior']['tau1']))",
        'few = dict(keys="age,sex,work", models="loglinear")\n'
        f"unikat.compare(frame, population_size=9000, **few, {SHORT})",
        f"unikat.evaluate(frame, n=50, repeats=1, **few, {SHORT})",
        f"print(unikat.compare(frame, population_size=9000, progress=False, **few, {SHORT}))",
    ]
    notebook = executed(kernel, cells, tmp_path)
    shown = [
        "".join(
            output.get("data", {}).get("text/html", "") or output.get("text", "")
            for output in cell["outputs"]
        )
        for cell in notebook.cells
    ]
    for cell in notebook.cells:
        for output in cell["outputs"]:
            # No warning, and no output that only a widget could show.
            assert output.get("name") != "stderr", output
            assert "application/vnd.jupyter.widget-view+json" not in output.get("data", {})
    # Progress was shown, and has given way to what was found, and to the answer.
    assert "300 records, 4 keys" in shown[2]
    assert "<progress" not in shown[2]
    assert "also unique in the population" in shown[2]
    assert "<svg" in shown[2]
    assert "<svg" in shown[3]
    assert "sample_unique" in shown[4]
    assert shown[5].splitlines()[-2:] == [kind, "2"]
    assert shown[5].startswith("Assessment of a data frame: 300 records")
    assert "loglinear" in shown[6]
    assert "loglinear" in shown[7]
    # A table is a part of the text, and not shown by itself.
    assert [output["output_type"] for output in notebook.cells[8]["outputs"]] == ["stream"]
    assert shown[8].splitlines()[1].startswith("model ")


def test_interrupting_the_kernel_keeps_what_is_done(kernel: KernelManager, tmp_path: Path) -> None:
    kernel.start_kernel(cwd=str(tmp_path))
    client = kernel.client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    client.execute(FRAME + "import unikat", reply=True, timeout=120)
    client.execute(
        'result = unikat.assess(frame, keys="age,sex,work,place", population_size=9000, '
        'model="latent-class", chains=2, workers=1, '
        "set={'sampling.rhat': 1.0000001, 'sampling.ess': 1e9}, max_sweeps=10**9)"
    )
    deadline = time.monotonic() + 240
    while time.monotonic() < deadline:
        message = client.get_iopub_msg(timeout=240)
        shown = str(message["content"].get("data", {}).get("text/html", ""))
        assert message["msg_type"] != "error", message["content"]
        # Sampling, and shown as a bar.
        if "<progress" in shown and "effective draws" in shown:
            break
    kernel.interrupt_kernel()
    reply = client.get_shell_msg(timeout=60)
    assert reply["content"]["status"] == "ok"
    client.execute("print(result.result.stop_reason, result.converged, result.tau1.mean > 0)")
    text = ""
    while "\n" not in text:
        try:
            message = client.get_iopub_msg(timeout=60)
        except queue.Empty:
            break
        if message["msg_type"] == "stream":
            text += message["content"]["text"]
    assert text == "interrupted False True\n"
    client.stop_channels()
