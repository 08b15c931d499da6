#!/usr/bin/env bash
# NOT RUN YET: the checks for macOS, written by reading. On a fresh clone, with Python 3.11 or newer.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
make test ARGS="-p no:cacheprovider"
make lint
make types
.ci/release
# What is known to differ: docs/reference/platforms.md. These look at it.
.venv/bin/python -m pytest -q -m "slow or not slow" tests/files tests/inference tests/test_interrupts.py \
    tests/cli/test_demo.py -k "lock or signal or interrupt or worker or demo or mode"
