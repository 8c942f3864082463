# `make help` lists what there is to do.
SHELL := /bin/bash
BIN := .venv/bin
TESTS ?= tests
UV_COMPILE = UV_CUSTOM_COMPILE_COMMAND='make lock' .setup/uv/bin/uv pip compile --quiet --python-version 3.11 --generate-hashes --no-emit-index-url

.PHONY: help setup demo test nightly fault chaos docs lint format lock bench stop clean

help:  ## list the targets
	@grep -hE '^[a-z]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 10

setup:  ## make .venv, a Docker engine, the job image and the servers' user, where they are missing
	@scripts/setup.sh

demo: setup  ## one real run, end to end, against a scripted provider
	@$(BIN)/pidispatch demo

test: setup lint  ## lint, then every test (TESTS=tests/store picks some)
	@$(BIN)/pytest -n 2 --dist loadfile -rfEs $(TESTS)

nightly: setup  ## every test in its large form, which takes hours (TESTS= as above)
	@PIDISPATCH_NIGHTLY=1 $(BIN)/pytest -n 2 --dist loadfile -rfEs --timeout 7200 $(TESTS)

fault: setup  ## kill every part at every step of a run (QUICK=1: a few cells); writes docs/fault-matrix.md
	@$(BIN)/python -m tests.fault.run $(if $(QUICK),--quick,--document docs/fault-matrix.md)

chaos: setup  ## 200 runs through ten minutes of random kill -9 (RUNS=, MINUTES=, SEED=)
	@$(BIN)/python -m tests.fault.chaos $(if $(RUNS),--runs $(RUNS)) $(if $(MINUTES),--minutes $(MINUTES)) $(if $(SEED),--seed $(SEED))

docs: setup  ## write the pages that are made of the code
	$(BIN)/python scripts/words_page.py

lint: setup  ## ruff, mypy and the import contracts
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-cache --no-logo

format: setup  ## let ruff rewrite what it can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

lock: setup  ## pin everything again, as new as pyproject.toml and image/package.json allow (UPGRADE=--upgrade)
	@test -x .setup/uv/bin/uv || { $(BIN)/python -m venv .setup/uv && .setup/uv/bin/pip install --quiet uv; }
	$(UV_COMPILE) $(UPGRADE) pyproject.toml -o requirements.lock
	$(UV_COMPILE) $(UPGRADE) --extra dev pyproject.toml -o requirements-dev.lock
	cd image && npm install --package-lock-only --ignore-scripts --no-audit --no-fund --omit-lockfile-registry-resolved

bench: setup  ## every benchmark, quickly; each ends with one line of JSON
	@status=0; for file in $$(grep -l '__main__' benchmarks/*.py); do \
	    echo "== $$file"; $(BIN)/python "$$file" --quick || status=1; done; exit $$status

stop:  ## stop the Docker engine, if `make setup` started it here
	@scripts/engine.sh stop

clean: stop  ## remove what make made in this checkout
	rm -rf .venv .setup dist build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
