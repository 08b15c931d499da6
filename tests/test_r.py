"""The package of R under `r/`: its tests pass with this Python, and every function is documented.

It needs R and packages that Debian has (`.ci/run` installs them); sdcMicro is only on CRAN, and its
tests say so where it is absent.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import doc_pages
from unikat import datasets

PACKAGE = Path(__file__).parents[1] / "r"
DOCS = Path(__file__).parents[1] / "docs"
PAGES = [path for path in sorted(DOCS.rglob("*.md")) if "```r\n" in path.read_text("utf-8")]
QUICK = """
library(unikat)
quickly <- function(f) {
  force(f)
  function(...) {
    limits <- list(model = "latent-class", chains = 2, max_sweeps = 60, workers = 1,
                   progress = FALSE)
    limits <- limits[setdiff(names(limits), names(list(...)))]
    suppressWarnings(do.call(f, c(list(...), limits)))
  }
}
for (name in c("assess", "protect", "synthesize")) {
  assign(name, quickly(getExportedValue("unikat", name)))
}
library <- function(package, ...) {
  package <- as.character(substitute(package))
  if (package != "unikat") base::library(package, character.only = TRUE, ...)
}
"""
"""Before the blocks of a page: short runs, as of the commands of other pages."""
NEEDED = ("jsonlite", "processx", "tibble", "testthat", "haven", "survey", "htmltools")


def rscript(code: str, **settings: str) -> subprocess.CompletedProcess[str]:
    """Run lines of R, with no more than the tests' own Python to be found."""
    return subprocess.run(
        ["Rscript", "--vanilla", "-e", code],
        env=os.environ | {"UNIKAT_PYTHON": sys.executable, "OMP_NUM_THREADS": "1"} | settings,
        capture_output=True,
        text=True,
        check=False,
    )


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> str:
    """Return a library of R with the package in it."""
    if shutil.which("Rscript") is None:
        pytest.skip("R is absent (Debian's r-base-core)")
    names = ", ".join(map(repr, NEEDED))
    lacking = rscript(f"cat(setdiff(c({names}), rownames(installed.packages())))").stdout
    if lacking:
        pytest.skip(f"R lacks {lacking} (Debian's r-cran-...)")
    folder = tmp_path_factory.mktemp("library")
    command = ["R", "CMD", "INSTALL", "--no-test-load", "-l", str(folder), str(PACKAGE)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return str(folder)


@pytest.mark.slow
def test_the_tests_of_the_package_pass(library):
    tests = PACKAGE / "tests" / "testthat"
    code = (
        "library(unikat); testthat::set_max_fails(Inf); testthat::test_dir("
        f"{str(tests)!r}, package = 'unikat', load_package = 'installed', reporter = 'summary', "
        "stop_on_warning = TRUE)"
    )
    done = rscript(code, R_LIBS=library)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no Python with unikat" not in done.stdout


@pytest.mark.slow
def test_every_function_and_argument_of_the_package_is_documented(library):
    code = (
        f"lib <- {library!r}; print(tools::undoc('unikat', lib.loc = lib)); "
        "print(tools::codoc('unikat', lib.loc = lib)); "
        f"print(tools::checkDocFiles(dir = {str(PACKAGE)!r}))"
    )
    done = rscript(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "", done.stdout


@pytest.mark.slow
@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.stem)
def test_the_lines_of_r_of_a_page_run(path, library, tmp_path):
    datasets.write_examples(tmp_path)
    script = [QUICK]
    for one in doc_pages.examples(path):
        if one.language == "r" and one.note != "not run":
            block = one.text
            if one.note == "needs":
                block = f"if (requireNamespace({one.value!r}, quietly = TRUE)) {{\n{block}}}"
            script.append(f"cat('line {one.line}\\n')\n{block}")
    (tmp_path / "page.R").write_text("\n".join(script), encoding="utf-8")
    done = subprocess.run(
        ["Rscript", "--vanilla", "page.R"],
        cwd=tmp_path,
        env=os.environ | {"UNIKAT_PYTHON": sys.executable, "R_LIBS": library},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
