# `make test` is all a fresh machine needs: it makes the virtual environment, installs what constraints.txt pins, and tests.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

# The real data for development, where they lie beside the project; anywhere else, tests that need them say so and skip.
SHARED_DATA := $(wildcard ../shared/data)
export DP_BENCH_DATA ?= $(abspath $(SHARED_DATA))

# quick, verify or paper: see conf/profile/. Everything but quick takes days on two cores.
PROFILE ?= quick
reproduce_quick := grid.k=5

.PHONY: help setup test lint bench reproduce report reference clean

help: ## what can be made
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*##/\t/' | expand -t 12

setup: $(VENV)/.ready ## the virtual environment, with everything in it

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[dev]'
	touch $@

test: setup ## the whole test suite
	$(BIN)/pytest

lint: setup ## style and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

reproduce: setup ## train what PROFILE says, then report it (resumable: the same command goes on)
	$(BIN)/dp-bench run -m experiment=paper profile=$(PROFILE) $(reproduce_$(PROFILE))
	$(MAKE) report

report: setup ## tables, figures and page from what is in runs/
	$(BIN)/dp-bench report --profile $(PROFILE)

reference: setup ## keep the finished runs of PROFILE=verify under reports/reference, report them, put the table into the README
	$(BIN)/dp-bench report --profile verify --keep reports/reference/runs
	$(BIN)/dp-bench report --runs reports/reference/runs --profile verify --out reports/reference --readme README.md

bench: setup ## speed and memory of a step against plain PyTorch and Opacus, growth, whole runs: half an hour
	$(BIN)/python benchmarks/bench.py

clean: ## remove the environment and caches, never runs or reports
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis
