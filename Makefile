# `make demo` runs the main job on a simulated town; `make test` runs every quick test, and
# `make test-statistical` the slow ones.
# Either needs only Python 3.11 or newer, pip and make: it first prepares .venv in this folder.
#
#   make test ARGS="-k cells"         pass arguments on
#   make check BASE=main              lint, types, and the tests of what differs from main
#   make env PYTHON=python3.12        choose the Python of a new .venv

PYTHON ?=
ARGS ?=
export BASE ?= HEAD
JOBS ?= auto --maxprocesses=4
# Tests start hundreds of processes; without bytecode each compiles the sources again (0.5 s of 2.2).
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
# The stamps carry this folder's name: a copied or moved .venv is installed anew.
PLACE := $(shell pwd | cksum | cut -d ' ' -f 1)
CORE := .venv/.core-$(PLACE)
DEV := .venv/.dev-$(PLACE)

.PHONY: help demo test test-statistical test-all check lint format types docs gallery reproduce env clean
.DELETE_ON_ERROR:

help:
	@echo "make demo   assess a sample from a simulated town whose truth is known"
	@echo "make test   run every quick test"
	@echo "make test-statistical   run the slow ones: laws of samplers, kills, documentation, browser"
	@echo "make test-all   run both"
	@echo "make check  lint, types, and the tests of what changed since the last commit"
	@echo "make lint | format | types | docs   the other checks"
	@echo "make gallery   the figures and tables of all reports, for the documentation"
	@echo "make reproduce   the papers' tables from ../shared/data; what is there is not made again"
	@echo "make env    prepare .venv for development;  make clean   remove it"

# The demo needs no development tools, but an environment that has them serves as well.
demo: $(if $(wildcard $(DEV)),$(DEV),$(CORE))
	@$(BIN)/unikat demo --overwrite $(ARGS)

test: $(DEV)
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadfile --max-worker-restart 0 $(ARGS)

# Files of these differ by minutes, so workers share out tests, not files.
test-statistical: $(DEV)
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --max-worker-restart 0 -m slow $(ARGS)

# In one session, since to find all tests takes 20 processor seconds in every worker.
test-all: $(DEV)
	@$(BIN)/python -m pytest -n $(JOBS) --dist worksteal --max-worker-restart 0 -m "slow or not slow" $(ARGS)

check: lint types
	@$(BIN)/python -m pytest -q -n $(JOBS) --dist load $$($(BIN)/python tests/changed.py) $(ARGS)

lint: $(DEV)
	@$(BIN)/python -m ruff check .
	@$(BIN)/python -m ruff format --check .

format: $(DEV)
	@$(BIN)/python -m ruff check --fix .
	@$(BIN)/python -m ruff format .

types: $(DEV)
	@$(BIN)/python -m mypy

docs: $(DEV)
	@$(BIN)/python -m sphinx -W --keep-going -q -b html docs docs/_build/html
	@echo "docs/_build/html/index.html"

# A minute or two: the figures and tables of all reports, from runs on the simulated town.
gallery: $(DEV)
	@$(BIN)/python benchmarks/gallery.py $(ARGS)

# Interrupted, it goes on where it stopped; ARGS="--only paper1-table3 --again" repeats an entry.
reproduce: $(DEV)
	@$(BIN)/python benchmarks/reproduce.py $(ARGS)
	@$(BIN)/python benchmarks/reproduction_page.py

env: $(DEV)

clean:
	rm -rf .venv docs/_build

$(CORE): package := .
$(DEV): package := .[dev,docs]
$(CORE) $(DEV): pyproject.toml constraints.txt
	@$(install)

# An .unfinished file stands in .venv while it is being changed; a .venv in which it is found, or
# whose Python does not run, was interrupted or is broken and is made anew.
define install
set -eu; \
supported='import sys, venv; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))'; \
newer='import sys, venv; sys.exit(sys.version_info < (3, 11))'; \
find_python() { \
	for check in "$$supported" "$$newer"; do \
		for name in $(or $(PYTHON),python3 python3.14 python3.13 python3.12 python3.11 python); do \
			if "$$name" -c "$$check" >/dev/null 2>&1; then echo "$$name"; return; fi; \
		done; \
	done; \
}; \
python=$$(find_python); \
if [ -z "$$python" ]; then \
	echo "unikat needs Python 3.11 or newer: $(or $(PYTHON),none was found on the PATH)." >&2; \
	echo "Install one, or name it: make PYTHON=/path/to/python3.12 ..." >&2; \
	exit 1; \
fi; \
if kill -0 "$$(cat .venv/.unfinished 2>/dev/null)" 2>/dev/null; then \
	echo "Another make is preparing .venv: wait for it (or: make clean)." >&2; \
	exit 1; \
fi; \
if [ -e .venv/.unfinished ] || ! $(BIN)/python -c "$$newer" >/dev/null 2>&1; then \
	echo "Preparing .venv with $$("$$python" --version) (a minute or two the first time)"; \
	rm -rf .venv; mkdir .venv; echo $$$$ >.venv/.unfinished; \
	"$$python" -m venv .venv >/dev/null 2>&1 || "$$python" -m venv --without-pip .venv; \
else \
	echo "Installing into .venv"; \
	echo $$$$ >.venv/.unfinished; \
	rm -f .venv/.core-* .venv/.dev-*; \
fi; \
if command -v uv >/dev/null 2>&1 \
	&& uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '$(package)'; then :; \
elif $(BIN)/python -m pip --version >/dev/null 2>&1; then \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '$(package)'; \
else \
	"$$python" -m pip --python $(BIN)/python install --quiet -c constraints.txt -e '$(package)'; \
fi; \
touch $@; \
rm .venv/.unfinished
endef
