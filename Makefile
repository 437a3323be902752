# make demo     train a translator from scratch, in about three minutes
# make test     install everything and run all tests but the slow ones
# make help     all targets
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: help demo test test-slow browser lint format clean

help:
	@echo "make demo       train an English-German translator from scratch and look at it (about 3 minutes of training)"
	@echo "make test       all tests but the slow ones"
	@echo "make test-slow  the slow proofs: minutes each"
	@echo "make browser    install Debian's chromium, in which pages are tested (needs root; without it those tests skip)"
	@echo "make lint       ruff, pyright, import-linter"
	@echo "make format     ruff, writing"
	@echo "make clean      remove $(VENV) and caches; runs/ stays"

demo: $(VENV)/.demo
	$(BIN)/manyheads demo

test: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

test-slow: $(VENV)/.dev
	$(BIN)/python -m pytest -m slow

browser:
	@command -v chromium || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; }

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/pyright
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf $(VENV) .pytest_cache .ruff_cache .import_linter_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Python 3.11 or newer is needed: make PYTHON=/path/to/python3.11 …"; exit 1; }
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Python's venv is not installed: apt-get install python3-venv"; exit 1; }

$(VENV)/.demo: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing manyheads into $(VENV)"
	$(PIP) --editable '.[look]'
	@touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "installing manyheads and what its tests need into $(VENV)"
	$(PIP) --editable '.[dev]'
	@touch $@
