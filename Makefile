# Everything a person needs. `make` alone lists it.

.DEFAULT_GOAL := help
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
COMPILE := $(BIN)/uv pip compile -q --python-version 3.11 --generate-hashes --override overrides.txt

# Stamps: what they depend on decides whether a step of the setup runs again.
STAMPS := $(VENV)/.stamps

.PHONY: help
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

.PHONY: setup
setup: $(STAMPS)/installed jars/.verified ## Build .venv from the pinned requirements and fetch the pinned JARs
	@:

# What is left to `make full` has the marker `full`, with ci=True if CI takes it too (tests/support/full.py). A worker
# has one Spark, one broker and one Airflow, and a file of tests stays on one worker (the groups of pytest-xdist 3.8
# have no effect with pytest 9.2). QUICK is a profile of Hypothesis with fewer examples.
PYTEST := $(BIN)/python -m pytest
QUICK := --hypothesis-profile quick
SPARK := -n 2 --dist loadfile --no-loadscope-reorder
AIRFLOW := -n 2 --dist loadfile --no-loadscope-reorder
E2E := -n 2 --dist loadfile
IN_TEST := -m "not full"
# COVERAGE=1 prints the branch coverage of the fast tests, and fails below the floor.
COVER := $(if $(COVERAGE),--cov --cov-report term:skip-covered)
IN_CI := -m "full(ci=True)"

.PHONY: lint
lint: setup ## Lint and types
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/lint-imports

.PHONY: docs
docs: setup ## Build the site of the documentation into var/site; a broken link fails
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

.PHONY: check
check: lint ## Lint, types, and the fast tests (under a minute)
	$(PYTEST) -q -n 2 $(QUICK) $(IN_TEST) tests/unit tests/streams tests/processors

.PHONY: test
test: setup ## Test everything once, fastest tier first, with real Kafka, Spark and Airflow (about 12 minutes)
	$(PYTEST) -n 2 $(QUICK) $(IN_TEST) $(COVER) --durations=10 tests/unit tests/streams tests/processors
	$(PYTEST) $(SPARK) $(IN_TEST) --durations=30 tests/spark
	$(PYTEST) $(AIRFLOW) $(IN_TEST) --durations=15 tests/airflow
	$(PYTEST) $(E2E) $(IN_TEST) --durations=15 tests/e2e

.PHONY: ci-full
ci-full: setup ## Run what `make test` leaves out and CI has time for: one more case of each kind
	$(PYTEST) -n 2 --dist loadfile $(QUICK) $(IN_CI) --durations=10 tests/unit
	$(PYTEST) $(SPARK) $(IN_CI) --durations=30 tests/spark
	$(PYTEST) $(AIRFLOW) $(IN_CI) --durations=15 tests/airflow
	$(PYTEST) $(E2E) $(IN_CI) --durations=15 tests/e2e
	$(PYTEST) $(IN_CI) --durations=10 tests/cluster

.PHONY: full
full: setup ## Run every test with all of its cases, and ten times the examples of each property (hours)
	$(PYTEST) -n 2 --dist loadfile --durations=10 tests/unit tests/streams tests/processors
	$(PYTEST) $(SPARK) --durations=30 tests/spark
	$(PYTEST) $(AIRFLOW) --durations=15 tests/airflow
	$(PYTEST) $(E2E) --timeout 3600 --durations=15 tests/e2e

.PHONY: examples
examples: setup ## Ten inputs at random for each stream on real Spark, cut and interrupted at random; EXAMPLES=3 for less
	SPARK_EXAMPLES=$(or $(EXAMPLES),10) $(PYTEST) -q --timeout 7200 tests/spark/streams/test_any_cut.py

.PHONY: mutants
mutants: setup ## Change one place at a time in the pure modules, and list the changes that no unit test notices
	rm -rf mutants
	$(BIN)/mutmut run
	$(BIN)/mutmut results

.PHONY: matrix
matrix: setup ## Move every kind of state up and down, however Spark keeps it, and kill a move at each step
	$(PYTEST) -q $(SPARK) tests/spark/state/partitions/test_matrix.py tests/spark/state/partitions/test_repartition_dies.py \
		tests/spark/state/migration/test_migrate_dies.py

.PHONY: pages
pages: setup ## Do every state operation by its form in a real browser; SCREENSHOTS=folder keeps pictures
	$(PYTEST) -v --timeout 3600 tests/e2e/pages

.PHONY: pictures
pictures: setup ## Take every picture of docs/images again, by the browser tests that are named for them
	SCREENSHOTS=docs/images $(PYTEST) -v --timeout 3600 $$($(BIN)/python -m tests.support.pages.pictures)

.PHONY: compose
compose: setup ## Build and run docker-compose.yaml on the Docker engine that is there, and break it
	$(PYTEST) -v --timeout 3600 --durations=10 tests/compose

.PHONY: cluster
cluster: setup ## Run streams on a standalone cluster with HDFS or S3 and on YARN, on hosts that share only the network (root)
	$(PYTEST) -v --timeout 3600 --durations=10 tests/cluster

.PHONY: cells
cells: setup ## Try the wheel with the oldest Airflow and the newest, the latter in a Debian of its own (20 minutes; root)
	$(PYTEST) -v --timeout 3600 tests/cells

.PHONY: soak
soak: setup ## Watch sockets, descriptors and memory under steady batches for SOAK_MINUTES (15)
	$(PYTEST) -s --timeout 7200 proof/soak

.PHONY: truth
truth: setup ## Prove every stream on generated traffic, killed over and over; TRUTH="--seeds 1 --kills 3" for less
	$(BIN)/python -m proof.kills $(TRUTH)

.PHONY: chaos
chaos: setup ## Kill one thing after another under the whole platform for MINUTES (120), by SEED (1); then compare every row
	$(BIN)/python -m proof.chaos --minutes $(or $(MINUTES),120) --seed $(or $(SEED),1) $(CHAOS)

.PHONY: care
care: setup ## Let the partitions of a state follow its load on the whole platform, with a day of two minutes (45 minutes)
	$(BIN)/python -m proof.care --platform $(CARE)

.PHONY: bench
bench: setup ## Measure against Flink, Bytewax and Quix; BENCH="--events 200000 --runs 1" for a quick look
	$(BIN)/python -m benchmarks.run $(BENCH)
	$(BIN)/python -m benchmarks.report

.PHONY: bench-stores
bench-stores: setup ## Measure stores of states and their settings; TABLE=stores, settings, sizes or uncommitted for one table
	$(BIN)/python -m benchmarks.log_shape
	$(BIN)/python -m benchmarks.stores $(TABLE)
	$(BIN)/python -m benchmarks.report

.PHONY: demo
demo: setup ## Run 10,000 real events through everything; KEEP=1 leaves it running
	@$(BIN)/python -m proof.demo $(if $(filter-out 0,$(KEEP)),--keep)

.PHONY: up
up: setup ## Start Kafka and Airflow
	@$(BIN)/stateward up

.PHONY: down
down: ## Stop everything that `up` and its streams have started
	@$(BIN)/stateward down

.PHONY: status
status: ## Show the parts and the streams
	@$(BIN)/stateward status

.PHONY: lock
lock: $(STAMPS)/installed ## Resolve requirements*.in and jars.toml again into their locks
	$(COMPILE) requirements.in -o requirements.txt
	$(COMPILE) requirements-image.in --constraint requirements.txt -o requirements-image.txt
	$(COMPILE) requirements-spark.in --constraint requirements.txt -o requirements-spark.txt
	$(BIN)/stateward jars --lock

# Each JVM writes a list; those of Spark's drivers and jobs are put together.
.PHONY: class-list
class-list: setup ## Record which classes Spark loads, for their archive; after a change of its version
	rm -rf var/classes && mkdir -p var/classes
	JAVA_TOOL_OPTIONS=-XX:DumpLoadedClassList=$(CURDIR)/var/classes/%p.lst $(MAKE) demo
	JAVA_TOOL_OPTIONS=-XX:DumpLoadedClassList=$(CURDIR)/var/classes/%p.lst $(PYTEST) -q $(IN_TEST) \
	  tests/spark/state/verbs tests/spark/streams/test_native_streams.py
	grep -l '^org/apache/spark/deploy/SparkSubmit' var/classes/*.lst | xargs grep -hv '^#' | awk '!seen[$$0]++' \
	  | gzip -9n > stateward/platform/jars/classes.lst.gz

.PHONY: wheel
wheel: setup ## Build the wheel of the library into dist/
	$(BIN)/python -m hatchling build -t wheel

.PHONY: clean
clean: ## Stop everything, then remove the environment, the JARs and all state in var/
	@if [ -x $(BIN)/stateward ]; then \
	  $(BIN)/stateward down; \
	  STATEWARD_HOME=$${STATEWARD_HOME:-$(CURDIR)/var}/demo $(BIN)/stateward down; \
	fi
	rm -rf $(VENV) jars var mutants *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis

$(STAMPS)/machine: stateward/platform/jars/java.py
	@command -v $(PYTHON) >/dev/null || { echo "setup: $(PYTHON) was not found. Install Python 3.11" \
	  "(Debian 12: apt-get install python3.11 python3.11-venv), or name it: make setup PYTHON=/path/to/python3.11" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; v = sys.version_info[:2]; v == (3, 11) or sys.exit(f"setup: Python 3.11 is needed, found {v[0]}.{v[1]}")'
	@$(PYTHON) -m stateward.platform.jars.java
	@$(PYTHON) -c 'import ensurepip, venv' || { echo "setup: $(PYTHON) lacks venv;" \
	  "install it (Debian: apt-get install python3.11-venv)" >&2; exit 1; }
	@[ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV)
	@mkdir -p $(STAMPS) && touch $@

$(STAMPS)/requirements: requirements.txt | $(STAMPS)/machine
	@echo "setup: installing the pinned requirements into $(VENV)"
	@[ -x $(BIN)/uv ] || $(BIN)/python -m pip install -q --disable-pip-version-check "$$(grep -oE '^uv==[0-9.]+' requirements.txt)"
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip sync --require-hashes --compile-bytecode requirements.txt
	@touch $@

$(STAMPS)/installed: pyproject.toml $(STAMPS)/requirements
	@VIRTUAL_ENV=$(CURDIR)/$(VENV) $(BIN)/uv pip install -q --no-deps --no-build-isolation -e .
	@touch $@

jars/.verified: jars.lock stateward/platform/jars/classes.lst.gz $(STAMPS)/installed
	@$(BIN)/stateward jars
	@touch $@
