# `make test` is all a fresh machine needs: it creates the virtual environment, installs what constraints.txt pins, and tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# The real data for development, where they lie next to the project; anywhere else, tests that need them say so and skip.
SHARED_DATA := $(wildcard ../shared/data)
export DP_BENCH_DATA ?= $(abspath $(SHARED_DATA))

# Set in some containers: each of the hundreds of processes that tests start would compile torch and SciPy anew.
unexport PYTHONDONTWRITEBYTECODE

# Set by Git for its hooks: tests that make repositories of their own must not be given this one.
unexport GIT_DIR GIT_INDEX_FILE GIT_WORK_TREE

# quick, verify or paper: see conf/profile/. Everything but quick takes days on two cores.
PROFILE ?= quick

.PHONY: help setup check test lint format bench bench-peers chaos soak reproduce report reference clean

help: ## what can be made
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

setup: $(VENV)/.ready ## the virtual environment, with everything in it

# --no-compile: most of what is installed is never imported, and the rest is compiled when it is.
$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable '.[dev]'
	touch $@

# A process for each core, up to four; --dist=worksteal, as a few tests take most of the time.
PYTEST := $(BIN)/pytest --numprocesses=auto --maxprocesses=4 --dist=worksteal

check: setup lint ## lint and the tests that are not marked slow: under two minutes on two idle cores
	$(PYTEST) -m "not slow" -p no:cacheprovider

test: setup ## the whole test suite
	$(PYTEST)

lint: setup ## style and types: ruff check, ruff format --check, mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: setup ## fix what ruff can fix, and format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

reproduce: setup ## a part of the paper, planned for a quarter of an hour (PROFILE=verify|paper: days); the same command resumes
ifeq ($(PROFILE),quick)
	$(BIN)/dp-bench reproduce
else
	$(BIN)/dp-bench run -m experiment=paper profile=$(PROFILE)
	$(MAKE) report
endif

report: setup ## tables, figures and page from the runs in runs/
	$(BIN)/dp-bench report --profile $(PROFILE)

reference: setup ## keep the finished verify runs under reports/reference, report them, update the README's table
	$(BIN)/dp-bench archive runs reports/reference/runs --profile verify
	$(BIN)/dp-bench report --runs reports/reference/runs --profile verify --out reports/reference --readme README.md \
		--picture docs/results.png --appendix docs/artifact.md

bench: setup ## speed and memory of a step against plain PyTorch and Opacus, growth, whole runs: half an hour
	$(BIN)/python benchmarks/bench.py

PEERS := .venv-peers
bench-peers: setup $(PEERS)/.ready ## jax_privacy, in an environment of its own, against Online: a quarter of an hour
	$(BIN)/python benchmarks/peers.py --python $(PEERS)/bin/python

$(PEERS)/.ready: benchmarks/peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/pip install --quiet --disable-pip-version-check --requirement benchmarks/peers.txt
	touch $@

chaos: setup ## every system call of runs, sweeps, reports and caches fails in every way: prints the counts
	$(BIN)/python tests/chaos/walk.py

# Seconds after which it stops, whatever the count.
SOAK_SECONDS ?= 7200
soak: setup ## a run killed a thousand times at random moments, each time resumed
	$(BIN)/python tests/chaos/walk.py soak $(SOAK_SECONDS)

clean: ## remove the environment and caches, never runs or reports
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
