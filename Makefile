# Python 3.11 or newer and make are all these commands need: they build the rest in $(VENV).
# `make` by itself lists them.

PYTHON ?= python3
# Not from the environment: what another project calls VENV is not ours to rebuild.
VENV   := .venv
PORT   ?= 8000
ARGS   ?=
MINUTES ?= 10

BIN := $(VENV)/bin

.DEFAULT_GOAL := help
# But for what `test` starts together below.
ifndef TOGETHER
.NOTPARALLEL:
endif
.PHONY: help demo test test-all lint types migrations fast everything pytest conformance auth-check docs screenshots matrix format clean require-python environment-dev \
  bench bench-rows bench-pages bench-admin bench-streams bench-scale bench-growth bench-startup soak

help: ## List the commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# On SQLite whatever DATABASE_URL says: sample data and public passwords belong in no other database.
demo: require-python ## Start the demo site with sample data (PORT=8000)
	@$(PYTHON) scripts/preflight.py demo '$(PORT)'
	@$(PYTHON) scripts/environment.py '$(VENV)' demo
	@DATABASE_URL= $(BIN)/python manage.py demo --port '$(PORT)'

test: environment-dev ## Check style and types and run the fast tests, in minutes (ARGS="-k name")
	@$(MAKE) --no-print-directory -j2 TOGETHER=1 lint types migrations fast

test-all: everything conformance auth-check ## Run every test: services, processes, browser, conformance, coverage

lint: environment-dev ## Check style and formatting
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: environment-dev ## Check the types
	$(BIN)/mypy

migrations: environment-dev ## Check that no model lacks a migration
	DATABASE_URL= DEMO_DATABASE=:memory: $(BIN)/python manage.py makemigrations --check --dry-run

# Random order is pytest-randomly's doing; it prints the seed that repeats a run. No services: the same everywhere.
fast: environment-dev
	$(BIN)/python scripts/run_tests.py fast $(ARGS)

everything: environment-dev
	@rm -f .coverage .coverage.*
	$(BIN)/python scripts/with_services.py $(BIN)/python scripts/run_tests.py all $(ARGS)

pytest: environment-dev ## Run some tests of any kind (ARGS="tests/tasks -k lease")
	$(BIN)/python scripts/with_services.py $(BIN)/python scripts/run_tests.py chosen $(ARGS)

conformance: environment-dev ## Run the official conformance suite against every server (ARGS="--help")
	$(BIN)/python scripts/with_services.py $(BIN)/python -m tests.conformance.run $(ARGS)

auth-check: environment-dev ## Run the outside tools against the demo's login and consent pages (needs Chromium)
	$(BIN)/python -m tests.auth_check.run

docs: environment-dev ## Build the documentation into docs/_build
	$(BIN)/python -m sphinx -b html -W --keep-going -q docs docs/_build
	@echo "The pages are in docs/_build/index.html"

# Needs a name of each Python in PATH; what is not there is told, and left out.
matrix: require-python ## Run tests with every Python and Django there is (ARGS="--help")
	@$(PYTHON) scripts/preflight.py matrix
	@$(PYTHON) scripts/matrix.py $(ARGS)

screenshots: environment-dev ## Take the pictures of docs/images/admin (needs Chromium)
	$(BIN)/python scripts/screenshots.py $(ARGS)

format: environment-dev ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: environment-dev ## Measure requests per second (ARGS="--help")
	$(BIN)/python -m benchmarks $(ARGS)

bench-rows: environment-dev ## Measure calls on a table of a million rows (ARGS="--help")
	$(BIN)/python -m benchmarks.million $(ARGS)

bench-pages: environment-dev ## Measure the admin's pages on a log of a million calls (ARGS="--help")
	$(BIN)/python -m benchmarks.pages $(ARGS)

bench-admin: environment-dev ## Measure the admin's pages and the same as tools (ARGS="--help")
	$(BIN)/python -m benchmarks.office $(ARGS)

bench-streams: environment-dev ## Measure ten thousand open streams (ARGS="--help")
	$(BIN)/python -m benchmarks.streams $(ARGS)

bench-scale: environment-dev ## Measure several workers behind nginx (ARGS="--help")
	$(BIN)/python -m benchmarks.scale $(ARGS)

bench-growth: environment-dev ## Measure queries on tables that grow (ARGS="--help")
	$(BIN)/python -m benchmarks.growth $(ARGS)

bench-startup: environment-dev ## Measure the start of a site (ARGS="--help")
	$(BIN)/python -m benchmarks.startup $(ARGS)

soak: environment-dev ## Keep a site busy while its services die and come back (MINUTES=10)
	$(BIN)/python -m benchmarks.soak --minutes '$(MINUTES)' $(ARGS)

clean: ## Remove the virtual environment, the demo's database and every cache
	rm -rf .venv build dist docs/_build .coverage .coverage.* htmlcov .pytest_cache .mypy_cache .ruff_cache .hypothesis
	rm -f -- *.sqlite3 *.sqlite3-*
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

environment-dev: require-python
	@$(PYTHON) scripts/preflight.py $(or $(firstword $(MAKECMDGOALS)),test)
	@$(PYTHON) scripts/environment.py '$(VENV)' dev

require-python:
	@command -v '$(PYTHON)' >/dev/null || { \
	  echo "There is no '$(PYTHON)' on this machine. Install Python 3.11 or newer, or name yours: PYTHON=python3.12" >&2; \
	  exit 1; }
