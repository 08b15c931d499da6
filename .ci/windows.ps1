# NOT RUN YET: the checks for Windows, written by reading. On a fresh clone, with Python 3.11 or newer.
# Tests of file modes, of signals other than Ctrl-C and of PostgreSQL do not hold here; they are left out by name.
$ErrorActionPreference = "Stop"
Set-Location (Join-Path $PSScriptRoot "..")
py -m venv .venv
$python = ".venv\Scripts\python.exe"
& $python -m pip install --quiet -c constraints.txt -e ".[dev]"
$env:PYTHONUTF8 = "1"
& $python -m ruff check .
& $python -m mypy
& $python -m pytest -q -p no:cacheprovider -k "not mode and not sigterm and not sighup and not postgres and not mpi"
# The wheel alone, in an empty environment, without a compiler.
& $python -m pip wheel --quiet --no-deps -w dist .
py -m venv dist\empty
& dist\empty\Scripts\python.exe -m pip install --quiet --only-binary :all: -c constraints.txt (Get-Item dist\unikat-*.whl).FullName
& dist\empty\Scripts\unikat.exe demo --out dist\demo
