# The commands of this project.  `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ITERATIONS ?=
SEED ?=
SEEDS ?= 200
SECONDS ?= 3600
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test setup fmt lint types unit game contract sim e2e chaos mutants bench docs lock clean

help: ## list the commands
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

run: $(VENV)/.run ## run the loop on this machine for ten minutes, with proof at the end (ARGS="--minutes 5 --variants hex8_2p")
	$(BIN)/ringrift run $(if $(ITERATIONS),--iterations $(ITERATIONS)) $(ARGS)

test: lint types unit game contract sim e2e ## set up and run every check and every test

setup: $(VENV)/.dev ## make .venv with everything the developer's commands need

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)

# torch comes in a step of its own: which build a machine takes is the machine's affair, so its file has no hash here.
$(VENV)/.run: requirements/run.txt requirements/cpu.txt pyproject.toml packaging/compat/pyproject.toml | $(VENV)/bin/python
	$(BIN)/pip install -q --require-hashes -r requirements/run.txt
	$(BIN)/pip install -q -c requirements/cpu.txt torch
	$(BIN)/pip install -q --no-deps -e . -e packaging/compat
	touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	$(BIN)/pip install -q --require-hashes -r requirements/dev.txt
	touch $@

fmt: $(VENV)/.dev ## format the code
	$(BIN)/ruff check --fix -q src tests tools bench scripts
	$(BIN)/ruff format -q src tests tools bench scripts

lint: $(VENV)/.dev ## ruff, import directions, house rules
	$(BIN)/ruff check -q src tests tools bench scripts
	$(BIN)/ruff format --check -q src tests tools bench scripts
	$(BIN)/lint-imports --no-cache
	$(BIN)/pytest tests/tidy

types: $(VENV)/.dev ## mypy, strict
	$(BIN)/mypy

# A machine may forbid it; here thousands of modules would be compiled again by every process of a test.
unit game contract sim e2e: export PYTHONDONTWRITEBYTECODE =

unit: $(VENV)/.dev ## unit, house rules and documents: the inner loop
	$(BIN)/pytest -n 2 --dist loadfile tests/unit tests/tidy tests/documents --ignore tests/documents/test_seeds.py

game: $(VENV)/.dev ## the bundled workload: rules, search, training
	$(BIN)/pytest -n 2 tests/reversi

contract: $(VENV)/.dev ## every port against every engine, the documented API, every example of the old documents
	$(BIN)/pytest -n 2 tests/contract tests/compat tests/documents/test_seeds.py

sim: $(VENV)/.dev ## simulation; SEED=7 runs one seed and prints its story, SEEDS=2000 runs more
	$(if $(SEED),$(BIN)/python -m ringrift.sim $(SEED),RINGRIFT_SIM_SEEDS=$(SEEDS) $(BIN)/pytest -n 2 tests/simulation)

e2e: $(VENV)/.dev ## real processes, real signals, the command line
	$(BIN)/pytest tests/e2e/test_reversi_kills.py # it measures seconds, so it has the machine to itself
	$(BIN)/pytest -n 2 --dist worksteal tests/e2e --ignore tests/e2e/test_reversi_kills.py

chaos: $(VENV)/.dev ## an hour of faults on the whole loop in real processes (SECONDS=600, SEED=7; ARGS="--only kill,fork")
	PYTHONPATH=tests $(BIN)/python -m chaos.run --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

mutants: $(VENV)/.dev ## break the product in small ways, each of which a test must notice (AREA=events, NAME=part, NEW=1: only what is open)
	$(BIN)/python tests/mutations.py $(if $(AREA),--area $(AREA)) $(if $(NAME),--name $(NAME)) $(if $(NEW),--new) $(ARGS)

$(VENV)/.bench: requirements/bench.txt | $(VENV)/bin/python
	rm -rf $(VENV)/peers
	$(BIN)/pip install -q --require-hashes --target $(VENV)/peers -r requirements/bench.txt
	touch $@

bench: $(VENV)/.dev $(VENV)/.bench ## speed as ratios against raw SQLite and peers of the same run
	$(BIN)/python -m bench $(ARGS)

docs: $(VENV)/.dev ## write the reference pages and the states of the coverage page again; fails if they changed
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/coverage.py
	git diff --exit-code docs/reference docs/coverage.md

# uv does not read pip's settings; without the folder of CPU wheels it would lock torch's CUDA packages.
lock: export UV_FIND_LINKS ?= $(shell $(BIN)/pip config get global.find-links 2>/dev/null)
lock: $(VENV)/.dev ## resolve the pinned requirements again
	$(BIN)/pip install -q uv
	$(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --no-emit-index-url -c requirements/cpu.txt --no-emit-package torch --extra train pyproject.toml -o requirements/run.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --no-emit-index-url -c requirements/cpu.txt --no-emit-package torch --extra train --extra dev pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --no-emit-index-url -c requirements/dev.txt requirements/bench.in -o requirements/bench.txt

clean: ## remove what set-up and runs left here
	rm -rf $(VENV) data .mypy_cache .ruff_cache .hypothesis
