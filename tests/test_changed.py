"""Which tests `make check` runs."""

from __future__ import annotations

from pathlib import PurePosixPath

import changed


def test_a_module_brings_its_tests_and_the_fixed_runs():
    found = changed.tests_of([PurePosixPath("src/unikat/models/mixtures/latent_class.py")])
    assert "src/unikat/models/mixtures/latent_class.py" in found
    assert "tests/models/mixtures/test_mixtures.py" in found
    assert {"tests/test_architecture.py", "tests/test_digests.py"} <= set(found)
    assert not any(name.startswith(("tests/cli", "tests/hostile")) for name in found)


def test_a_text_needs_no_fixed_runs():
    found = changed.tests_of(
        [PurePosixPath("src/unikat/report/text/zeros.py"), PurePosixPath("docs/zeros.md")]
    )
    assert "tests/report/text/test_zeros.py" in found
    assert "tests/test_digests.py" not in found


def test_a_changed_test_is_run():
    assert "tests/cli/test_main.py" in changed.tests_of([PurePosixPath("tests/cli/test_main.py")])
    assert changed.tests_of([]) == ["tests/test_architecture.py"]
