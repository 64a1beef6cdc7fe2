# The commands of this project.  `make` alone lists them.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Not quiet: a download of minutes shows its progress, on a terminal as a bar, elsewhere a line for each file.
PIP := $(BIN)/pip install --disable-pip-version-check --progress-bar on
ITERATIONS ?=
SEED ?=
SEEDS ?= 200
SECONDS ?= 3600
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help run test setup fmt lint types unit game contract sim e2e peers example chaos cluster mutants bench docs screens lock clean

help: ## list the commands
	@grep -hE '^[a-z0-9]+:.*##' $(MAKEFILE_LIST) | sed 's/:.*##/\t/' | expand -t 12

run: $(VENV)/.run ## run the loop on this machine for ten minutes, with proof at the end (ARGS="--minutes 5 --variants hex8_2p", ARGS="--over-wire")
	$(BIN)/ringrift run $(if $(ITERATIONS),--iterations $(ITERATIONS)) $(ARGS)

test: peers lint types unit game contract sim e2e ## set up and run every check and every test

setup: $(VENV)/.dev ## make .venv with everything the developer's commands need

$(VENV)/bin/python:
	@echo "set-up: a virtual environment in $(VENV)"
	$(PYTHON) -m venv $(VENV)

# torch comes in a step of its own: which build a machine takes is the machine's affair, so its file has no hash here.
$(VENV)/.run: requirements/run.txt requirements/cpu.txt pyproject.toml packaging/compat/pyproject.toml | $(VENV)/bin/python
	@echo "set-up 1 of 4: what the loop and the bundled game need"
	$(PIP) --require-hashes -r requirements/run.txt
	@echo "set-up 2 of 4: torch, the largest download (200 MB and more)"
	$(PIP) -c requirements/cpu.txt torch
	@echo "set-up 3 of 4: ringrift and ringrift-compat from this folder"
	$(PIP) --no-deps -e . -e packaging/compat
	touch $@

$(VENV)/.dev: requirements/dev.txt $(VENV)/.run
	@echo "set-up 4 of 4: what the developer's commands need"
	$(PIP) --require-hashes -r requirements/dev.txt
	touch $@

peers: ## install the programs that some tests use (redis, sshd, ip, iptables) where we may; else those tests are skipped
	@sh tools/peers.sh

fmt: $(VENV)/.dev ## format the code
	$(BIN)/ruff check --fix -q src tests tools bench scripts examples
	$(BIN)/ruff format -q src tests tools bench scripts examples

lint: $(VENV)/.dev ## ruff, import directions, house rules
	$(BIN)/ruff check -q src tests tools bench scripts examples
	$(BIN)/ruff format --check -q src tests tools bench scripts examples
	$(BIN)/lint-imports --no-cache
	$(BIN)/pytest tests/tidy

types: $(VENV)/.dev ## mypy, strict
	$(BIN)/mypy
	$(BIN)/mypy examples/dots/ringrift_dots examples/breakthrough/ringrift_breakthrough

# A machine may forbid it; here thousands of modules would be compiled again by every process of a test.
unit game contract sim e2e: export PYTHONDONTWRITEBYTECODE =

unit: $(VENV)/.dev ## unit tests and documents: the inner loop
	$(BIN)/pytest -n 2 --dist loadfile tests/unit tests/documents --ignore tests/documents/test_seeds.py

game: $(VENV)/.dev ## the bundled workload: rules, search, training
	$(BIN)/pytest -n 2 tests/reversi

contract: $(VENV)/.dev ## every port against every engine, the documented API, every example of the old documents
	$(BIN)/pytest -n 2 tests/contract tests/compat tests/documents/test_seeds.py

sim: $(VENV)/.dev ## simulation; SEED=7 runs one seed and prints its story, SEEDS=2000 runs more
	$(if $(SEED),$(BIN)/python -m ringrift.sim $(SEED),RINGRIFT_SIM_SEEDS=$(SEEDS) $(BIN)/pytest -n 2 tests/simulation)

e2e: $(VENV)/.dev ## real processes, real signals, the command line
	$(BIN)/pytest tests/e2e/test_reversi_kills.py # it measures seconds, so it has the machine to itself
	$(BIN)/pytest -n 2 --dist worksteal tests/e2e --ignore tests/e2e/test_reversi_kills.py

example: $(VENV)/.run ## train an example game for three minutes in a home of its own, with proof at the end (ARGS=breakthrough)
	$(BIN)/python tools/prove_example.py $(ARGS)

chaos: $(VENV)/.dev ## an hour of faults on the whole loop in real processes (SECONDS=600, SEED=7; ARGS="--only kill,fork")
	PYTHONPATH=tests $(BIN)/python -m chaos.run --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

cluster: $(VENV)/.dev ## an hour of faults on a coordinator and five workers, each on a network of its own (as root; SECONDS=600, SEED=7, ARGS="--workers 20 --vanish")
	PYTHONPATH=tests $(BIN)/python -m e2e.cluster_campaign --seconds $(SECONDS) $(if $(SEED),--seed $(SEED)) $(ARGS)

mutants: $(VENV)/.dev ## break the product in small ways, each of which a test must notice (AREA=events, NAME=part, NEW=1: only what is open)
	$(BIN)/python tests/mutations.py $(if $(AREA),--area $(AREA)) $(if $(NAME),--name $(NAME)) $(if $(NEW),--new) $(ARGS)

$(VENV)/.bench: requirements/bench.txt | $(VENV)/bin/python
	rm -rf $(VENV)/peers
	$(PIP) --require-hashes --target $(VENV)/peers -r requirements/bench.txt
	touch $@

bench: $(VENV)/.dev $(VENV)/.bench ## speed as ratios against raw SQLite and peers of the same run
	$(BIN)/python -m bench $(ARGS)

screens: $(VENV)/.dev ## make the pictures of docs/screens from a real run of some minutes; look at them
	$(BIN)/python -m tools.screens $(ARGS)

docs: $(VENV)/.dev ## write the reference pages and the states of the coverage page again; fails if they changed
	$(BIN)/python tools/reference.py
	$(BIN)/python tools/coverage.py
	git diff --exit-code docs/reference docs/coverage.md

# uv does not read pip's settings; without the folder of CPU wheels it would lock torch's CUDA packages.
lock: export UV_FIND_LINKS ?= $(shell $(BIN)/pip config get global.find-links 2>/dev/null)
lock: $(VENV)/.dev ## resolve the pinned requirements again
	$(BIN)/pip install -q uv
	$(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --no-emit-index-url -c requirements/cpu.txt --no-emit-package torch --extra train --extra cluster pyproject.toml -o requirements/run.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --no-emit-index-url -c requirements/cpu.txt --no-emit-package torch --extra train --extra dev pyproject.toml -o requirements/dev.txt
	$(BIN)/uv pip compile -q --generate-hashes --no-header --no-annotate --no-emit-index-url -c requirements/dev.txt requirements/bench.in -o requirements/bench.txt

clean: ## remove what set-up left here; what runs made stays in data
	rm -rf $(VENV) .mypy_cache .ruff_cache .hypothesis
