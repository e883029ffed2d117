# Everything sets itself up: the only thing that has to be there is Python 3.11 or newer (PYTHON=... names another one).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROPERTIES ?= config/server.properties
# The plain kind of editable install: the other puts an import hook before everything, which costs each start 30 ms.
EDITABLE := --config-settings editable_mode=compat --editable
# How many tests of `make conformance` run side by side: they wait for processes much of the time.
WORKERS ?= 2
# What `make profile` profiles, and for how many seconds: a row of the benchmark (python -m bench.flame --help names them).
WORKLOAD ?= small
SECONDS ?= 20
# The modules that are compiled where there is a C compiler: see setup.py.
COMPILED := $(wildcard protocol/*.pxd protocol/records/*.pxd)

.DEFAULT_GOAL := help
.PHONY: help run test check lint types imports spark conformance bench profile docs clean

help: ## Shows this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

$(VENV)/.run: pyproject.toml setup.py $(COMPILED) $(wildcard $(COMPILED:.pxd=.py))
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Barnabas needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + "; name another with make PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV) (a minute, the first time only)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(EDITABLE) .
	@$(BIN)/python -m compileall -q broker config pipeline protocol storage
	@touch $@

$(VENV)/.test: $(VENV)/.run
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(EDITABLE) '.[test,lint]'
	@touch $@

# Spark is 1.2 GB of jars: only what runs it waits for that.
$(VENV)/.spark: $(VENV)/.test
	@echo "Bringing PySpark into $(VENV) (450 MB, the first time only)"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(EDITABLE) '.[test,lint,spark]'
	@touch $@

run: $(VENV)/.run ## Starts a broker on 127.0.0.1:9092, configured by config/server.properties
	@exec $(BIN)/barnabas serve $(PROPERTIES)

test: $(VENV)/.test ## Proves that it works: units, properties, stock Python clients, crashes
	$(BIN)/python -m pytest -m 'not slow and not conformance and not spark'

spark: $(VENV)/.spark ## Runs what needs Spark (Java 17)
	$(BIN)/python -m pytest -m spark

conformance: $(VENV)/.spark ## Holds Barnabas against Apache Kafka itself (needs Java 17 and Maven)
	$(BIN)/python -m tests.conformance.kafka_jars
	$(BIN)/python -m pytest --numprocesses=$(WORKERS) --dist=loadfile --durations=40 --durations-min=5 -m 'slow or conformance or spark'

check: lint types imports ## Lint, types and the import contract

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

imports: $(VENV)/.test
	$(BIN)/lint-imports

bench: $(VENV)/.test ## Measures Barnabas beside Apache Kafka and writes docs/performance.md (half an hour; Java for Kafka)
	$(BIN)/python -m bench

$(VENV)/.bench: $(VENV)/.test
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check $(EDITABLE) '.[bench]'
	@touch $@

profile: $(VENV)/.bench ## Draws where the time goes as a flame graph (WORKLOAD=small, SECONDS=20, NATIVE=1 for C frames)
	$(BIN)/python -m bench.flame $(WORKLOAD) --seconds $(SECONDS) $(if $(NATIVE),--native)

docs: $(VENV)/.test ## Writes the derived documents anew
	$(BIN)/python docs/generate.py

clean: ## Removes what the build made, never data
	rm -rf $(VENV) build dist *.egg-info protocol/*.so protocol/records/*.so .pytest_cache .mypy_cache .ruff_cache .hypothesis
