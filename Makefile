# Everything sets itself up: the only thing that has to be there is Python 3.11 or newer (PYTHON=... names another one).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PROPERTIES ?= config/server.properties
# The plain kind of editable install: the other puts an import hook before everything, which costs each start 30 ms.
EDITABLE := --config-settings editable_mode=compat --editable
# pytest compiles the tests in its own way and keeps that, which saves each of its processes ten seconds in the next run.
unexport PYTHONDONTWRITEBYTECODE
# How many of pytest's processes run side by side: tests wait for processes much of the time, so three keep two cores busy.
# A file of tests is one process's, and those that take longest come first (see tests/conftest.py).
WORKERS ?= 3
SIDE_BY_SIDE := --numprocesses=$(WORKERS) --dist=loadfile --no-loadscope-reorder
# What `make test` runs a second time with everything compiled hidden (a minute).
TWICE := tests/broker/network tests/broker/kafka_apis tests/broker/fetch tests/broker/replica/test_delayed_produce.py \
  tests/broker/replica/test_partition.py tests/broker/replica/test_replica_manager.py tests/broker/test_probes.py \
  tests/broker/waiting tests/storage/segment tests/storage/log
# What `make profile` profiles, and for how many seconds: a row of the benchmark (python -m bench.flame --help names them).
WORKLOAD ?= small
SECONDS ?= 20
# What `make bench` measures: benchmarks by their names, and options (python -m bench --help lists them).
WHAT ?=
# How long `make differential` begins new sequences; SEED=... draws those of an earlier run again.
MINUTES ?= 60
PACKAGES := broker cli config pipeline protocol security storage
# What is compiled where there is a C compiler (see setup.py), and all that its types come from.
COMPILED := $(shell find broker config protocol storage -name "*.py" -o -name "*.pxd")

# By another name than MAKE, for which `make -n run` would start a broker.
AGAIN := $(MAKE) --no-print-directory
pip-install = $(BIN)/python -m pip install --quiet --disable-pip-version-check
# What builds Barnabas, a line each.
build-needs = $(BIN)/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")'

# Installs optional dependencies by themselves: to install them with the project would compile it once more.
extra = $(BIN)/python -c 'import sys, tomllib; \
  extras = tomllib.load(open("pyproject.toml", "rb"))["project"]["optional-dependencies"]; \
  print(*(line for name in sys.argv[1:] for line in extras[name]), sep="\n")' $(1) \
  | $(pip-install) --requirement /dev/stdin

# What is left to chance follows from this in runs that explore: another with each, or the one that is given.
seed = $(or $(BARNABAS_SEED),$(shell $(BIN)/python -c 'import random; print(random.randrange(10**9))'))

.DEFAULT_GOAL := help
.PHONY: help run test explore coverage check lint types imports spark conformance cluster differential bench profile wheel docs interpreted clean

help: ## Shows this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

# Setting up and compiling take a lock each: two runs of `make` at the same time do it one after the other, and once. A
# start waits for another that sets up, and never for compilers.
ifndef HAS_LOCK
$(VENV)/.run: pyproject.toml
$(VENV)/.compiled: pyproject.toml setup.py $(COMPILED) | $(VENV)/.run
$(VENV)/.run $(VENV)/.compiled:
	@mkdir -p build
	@$(PYTHON) -c 'import fcntl, subprocess, sys; lock = open("build/$(@F).lock", "w"); fcntl.flock(lock, fcntl.LOCK_EX); \
	  sys.exit(subprocess.call(sys.argv[1:]))' $(AGAIN) HAS_LOCK=1 $@
else
$(VENV)/.run: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Barnabas needs Python 3.11 or newer, and $(PYTHON) is " + sys.version.split()[0] + "; name another with make PYTHON=...")'
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@echo "Setting up $(VENV)"
	@$(build-needs) | grep setuptools | $(pip-install) --requirement /dev/stdin
	@BARNABAS_INTERPRETED=1 $(pip-install) --no-build-isolation $(EDITABLE) .
	@touch $@

$(VENV)/.compiled: pyproject.toml setup.py $(COMPILED) | $(VENV)/.run
	@echo "Compiling Barnabas (a minute or two the first time; less for what has changed)"
	@touch $@.begun
	@{ $(build-needs) | $(pip-install) --requirement /dev/stdin && $(BIN)/python setup.py build_ext --inplace; } \
	  > build/compile.log 2>&1 || { tail -n 5 build/compile.log; echo "Compiling failed: build/compile.log says why" >&2; exit 1; }
	@ls barnabas__mypyc*.so > /dev/null 2>&1 \
	  || echo "Barnabas cannot be compiled here, and runs as plain Python: build/compile.log says why" >&2
	@$(BIN)/python -m compileall -q barnabas $(PACKAGES)
	@mv $@.begun $@
endif

$(VENV)/.test: pyproject.toml | $(if $(BARNABAS_INTERPRETED),$(VENV)/.run,$(VENV)/.compiled)
	@$(call extra,test lint)
	@touch $@

# Kerberos is for tests where there are its headers, libkrb5-dev.
$(VENV)/.kerberos: pyproject.toml | $(VENV)/.test
	@$(call extra,kerberos)
	@touch $@

# Spark is 1.2 GB of jars: only what runs it waits for that.
$(VENV)/.spark: pyproject.toml | $(VENV)/.test
	@echo "Bringing PySpark into $(VENV) (450 MB, the first time only)"
	@$(call extra,spark)
	@touch $@

# After a change of a source the broker runs as plain Python while the compilers work in the background (nice). They finish
# even if the broker stops before, and the next start uses the libraries.
run: $(VENV)/.run ## Starts a broker on 127.0.0.1:9092, configured by config/server.properties
	@if [ "$$BARNABAS_INTERPRETED" ] || $(AGAIN) HAS_LOCK=1 --question $(VENV)/.compiled; then \
	  exec $(BIN)/barnabas serve $(PROPERTIES); fi; \
	  (nice -n 19 $(AGAIN) --silent $(VENV)/.compiled < /dev/null &); \
	  BARNABAS_INTERPRETED=1 BARNABAS_BEING_COMPILED=1 exec $(BIN)/barnabas serve $(PROPERTIES)

test: $(VENV)/.test ## Proves that it works: units, properties, stock Python clients, crashes
	$(BIN)/python -m pytest -q $(SIDE_BY_SIDE) --durations=20 --durations-min=1 -m 'not slow and not conformance and not spark and not cluster'
	@! ls *__mypyc*.so > /dev/null 2>&1 || { echo 'Once more as plain Python: the path of a request'; \
	  BARNABAS_INTERPRETED=1 $(BIN)/python -m pytest -q $(SIDE_BY_SIDE) -m 'not slow and not conformance and not cluster' $(TWICE); }

explore: $(VENV)/.test ## Runs what draws examples and seeds with others (BARNABAS_SEED=... for those of a run before)
	BARNABAS_SEED=$(seed) $(BIN)/python -m pytest -q $(SIDE_BY_SIDE) -m 'explores and not slow and not conformance and not spark and not cluster'

coverage: $(VENV)/.test ## Measures how much of each module its own tests run, and notes it in tests/coverage.txt (CHECK=1: may not fall)
	$(BIN)/python -m tests.support.own_coverage --workers $(WORKERS) $(if $(CHECK),--check)

spark: $(VENV)/.spark ## Runs what needs Spark (Java 17; Maven for what is held against Apache Kafka)
	@! command -v mvn > /dev/null || $(BIN)/python -m tests.conformance.kafka_jars
	BARNABAS_SEED=$(seed) $(BIN)/python -m pytest --durations=15 --durations-min=5 -m spark tests/pipeline

conformance: $(VENV)/.test ## Holds Barnabas against Apache Kafka itself (needs Java 17 and Maven)
	$(BIN)/python -m tests.conformance.kafka_jars
	BARNABAS_SEED=$(seed) $(BIN)/python -m pytest -q $(SIDE_BY_SIDE) --durations=40 --durations-min=5 -m '(slow or conformance) and not spark and not cluster'

# One process: a cluster takes all processors.
cluster: $(VENV)/.test ## Runs the scenarios of a cluster of JVM and Barnabas brokers (LAYOUTS=jbb,... FAULTS=200; Java 17 and Maven)
	$(BIN)/python -m tests.conformance.kafka_jars
	BARNABAS_SEED=$(seed) $(if $(LAYOUTS),BARNABAS_CLUSTER=$(LAYOUTS)) $(if $(FAULTS),BARNABAS_CLUSTER_FAULTS=$(FAULTS)) \
	  $(BIN)/python -m pytest --durations=40 tests/conformance/cluster

differential: $(VENV)/.test ## Sends random requests to Apache Kafka and to Barnabas and compares (SEED=, MINUTES=60; Java 17 and Maven)
	$(BIN)/python -m tests.conformance.kafka_jars
	$(BIN)/python -m tests.conformance.differential $(if $(SEED),--seed $(SEED)) --minutes $(MINUTES)

check: lint types imports ## Lint, types and the import contract

lint: $(VENV)/.test
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.test
	$(BIN)/mypy

imports: $(VENV)/.test
	$(BIN)/lint-imports

bench: $(VENV)/.test ## Measures Barnabas beside Apache Kafka and writes docs/performance.md (half an hour; Java for Kafka; WHAT=cluster: a cluster of each)
	$(BIN)/python -m bench $(WHAT)

$(VENV)/.bench: pyproject.toml | $(VENV)/.test
	@$(call extra,bench)
	@touch $@

profile: $(VENV)/.bench ## Draws where the time goes as a flame graph (WORKLOAD=small, SECONDS=20, NATIVE=1 for C frames)
	$(BIN)/python -m bench.flame $(WORKLOAD) --seconds $(SECONDS) $(if $(NATIVE),--native)

# manylinux_2_28 is glibc of August 2018: a wheel that needs a newer one is refused.
wheel: $(VENV)/.run ## Builds dist/barnabas-*.whl for this Python, which installs without a compiler on other Linux systems
	@$(call extra,wheel)
	@rm -rf build/wheel
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir build/wheel .
	PATH="$(CURDIR)/$(BIN):$$PATH" $(BIN)/python -m auditwheel repair --plat manylinux_2_28_$$(uname -m) --wheel-dir dist build/wheel/barnabas-*.whl

docs: $(VENV)/.test ## Writes the derived documents anew
	$(BIN)/python docs/generate.py

interpreted: ## Removes what is compiled: all runs as plain Python until a source changes (or .venv/.compiled goes)
	find broker config protocol storage -name '*.so' -delete
	rm -f *__mypyc*.so

clean: interpreted ## Removes what the build made, never data
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .mypy_cache .ruff_cache .hypothesis
