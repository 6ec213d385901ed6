# Every target installs what it needs; the machine only needs Python, make and git.
# PYTHON=/path/to/python3.12 make test   selects the interpreter of a new .venv.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
READY_SMARTNOISE := $(VENV)-smartnoise/.ready
READY_OPACUS := $(VENV)-opacus/.ready
READY_BROWSER := $(VENV)-browser/.ready
READY_SECURITY := $(VENV)-security/.ready
PROVIDER := build/provider
SOURCES := accountant streams research tests
# Directories that older commits do not have.
SOURCES += $(wildcard benchmarks deploy examples)

PYTEST_ARGS ?=
# Tests without a broker that kill no process.
QUICK := not kafka and not faults
CORES := $(shell getconf _NPROCESSORS_ONLN)
# Most tests compute: one worker a core. A file runs in one worker, so that what its tests share is
# made once. The order is that of tests/durations/order.py.
COMPUTING := -n $(CORES) --dist loadfile --no-loadscope-reorder --ignore=tests/kafka --ignore=tests/faults --ignore=tests/mutants
# Tests that kill, pause or start processes mostly wait: two workers a core, but at most eight, as
# each takes up to 1 GB. `make test WORKERS=12` runs more. Tests are handed out one at a time.
WORKERS ?= $(shell echo $$(($(CORES) < 4 ? 2 * $(CORES) : 8)))
WAIT := -n $(WORKERS) --dist load --maxschedchunk 1
WAITING := $(WAIT) tests/kafka tests/faults tests/mutants
# What each test takes is recorded here.
DURATIONS := build/durations
export PIP_DISABLE_PIP_VERSION_CHECK = 1
# A user's own settings must not change a locked installation.
unexport PYTHONPATH PYTHONHOME PIP_REQUIRE_VIRTUALENV PIP_USER
# Tests start hundreds of processes, which should not each compile the same modules.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-fast test-changed mutants nightly test-cluster test-observability test-provider test-sources test-smartnoise test-opacus test-browser audit-dependencies sbom observe check format format-check lint types bench client dashboards docs reference durations figures pictures lock clean

help:  ## show this list
	@while IFS= read -r line; do case $$line in [a-z]*:*"  ## "*) \
	    printf '  make %-18s %s\n' "$${line%%:*}" "$${line#*  ## }" ;; esac; done < Makefile

setup: $(READY)  ## create .venv with the locked packages and this project

demo: $(READY)  ## replay a week of five analysts' requests, then audit the log
	@$(BIN)/accountant demo $(DEMO_ARGS)

test: $(READY)  ## run every test, also those on a real Kafka broker (30 minutes on 2 cores)
# With PYTEST_ARGS, tests run one after another: it may be a single test.
ifeq ($(strip $(PYTEST_ARGS)),)
	@rm -rf $(DURATIONS); failed=0; \
	DURATIONS=$(DURATIONS)/computing $(BIN)/python -m pytest $(COMPUTING) || failed=1; \
	DURATIONS=$(DURATIONS)/waiting $(BIN)/python -m pytest $(WAITING) || failed=1; \
	$(BIN)/python -m tests.durations $(DURATIONS); exit $$failed
else
	$(BIN)/python -m pytest $(PYTEST_ARGS)
endif

test-fast: $(READY)  ## run the tests that need no broker and kill no process (<= 60 s)
	$(BIN)/python -m pytest $(COMPUTING) -m "$(QUICK) and not slow" $(PYTEST_ARGS)

# What differs from this commit, also what is not committed yet.
SINCE ?= HEAD

test-changed: $(READY)  ## run the tests that the changes SINCE=HEAD reach; a submission needs `make test`
	$(BIN)/python -m tests.selection --since $(SINCE) -- $(WAIT) $(PYTEST_ARGS)

mutants: export NIGHTLY := 1
mutants: $(READY)  ## plant each known bug in a copy, and check that a test finds it (25 minutes)
	$(BIN)/python -m pytest $(WAIT) tests/mutants $(PYTEST_ARGS)

nightly: export NIGHTLY := 1
nightly: test test-cluster test-observability test-provider test-sources test-smartnoise test-browser sbom audit-dependencies  ## run all tests, with more repetitions (1 hour)

test-cluster: $(READY)  ## run the tests on three real brokers, with one that hangs (2 minutes)
	$(BIN)/python -m pytest -m cluster tests/faults $(PYTEST_ARGS)

test-observability: $(READY)  ## run the alerts' tests on a real Prometheus and Alertmanager (from apt)
	bin=$$(sh scripts/observability.sh) && \
	    OBSERVABILITY_BIN=$$bin $(BIN)/python -m pytest -m observability tests/observability $(PYTEST_ARGS)

test-provider: $(READY) $(PROVIDER)/.ready  ## run the HTTP server with tokens of a real OpenID provider; needs node, npm (3 minutes)
	PROVIDER_MODULES=$(PROVIDER)/node_modules \
	    $(BIN)/python -m pytest -m provider tests/provider $(PYTEST_ARGS)

test-sources: $(READY)  ## run the tests of sources in a real PostgreSQL, with its planted bugs (from apt; 2 minutes)
	bin=$$(sh scripts/postgresql.sh) && \
	    POSTGRESQL_BIN=$$bin $(BIN)/python -m pytest -m sources tests/sources $(PYTEST_ARGS)

test-smartnoise: $(READY_SMARTNOISE)  ## run the engines' tests with SmartNoise and its older OpenDP (3 minutes)
	$(VENV)-smartnoise/bin/python -m pytest -m "smartnoise or not smartnoise" tests/streams/engines $(PYTEST_ARGS)

test-opacus: $(READY_OPACUS)  ## run the trainings' tests with Opacus and PyTorch, which take 6 GB (1 minute)
	$(VENV)-opacus/bin/python -m pytest -m opacus tests/streams/engines/test_opacus.py tests/streams/engines/test_opacus_kinds.py $(PYTEST_ARGS)

test-browser: $(READY_BROWSER)  ## run the pages' tests in a real browser, and draw every state; needs chromium (5 minutes)
	$(VENV)-browser/bin/python -m pytest -m browser tests/browser $(PYTEST_ARGS)

audit-dependencies: $(READY_SECURITY)  ## look up advisories about the locked packages; fails if it cannot
	$(VENV)-security/bin/pip-audit --strict --disable-pip --require-hashes --progress-spinner off \
	    --requirement requirements/curator.txt

sbom: $(READY_SECURITY)  ## write dist/sbom.cdx.json: the locked packages of an installation (CycloneDX)
	@mkdir -p dist
	$(VENV)-security/bin/cyclonedx-py requirements --output-reproducible --pyproject pyproject.toml \
	    --output-file dist/sbom.cdx.json requirements/curator.txt
	@echo "dist/sbom.cdx.json: $$(grep -c '"purl"' dist/sbom.cdx.json) packages"

observe: $(READY)  ## run a ledger with Prometheus and Alertmanager, and print the alerts
	@bin=$$(sh scripts/observability.sh) && OBSERVABILITY_BIN=$$bin $(BIN)/python scripts/observe.py

check: format-check lint types test  ## run all checks that a change must pass

format: $(READY)  ## format the sources
	$(BIN)/ruff format $(SOURCES)
	$(BIN)/ruff check --fix-only --quiet $(SOURCES)

format-check: $(READY)
	$(BIN)/ruff format --check $(SOURCES)

lint: $(READY)  ## run ruff
	$(BIN)/ruff check $(SOURCES)

types: $(READY)  ## run mypy --strict on the packages and the dashboards
	$(BIN)/mypy --strict
	$(BIN)/mypy --strict --explicit-package-bases -p deploy.grafana.dashboards

bench: $(READY)  ## run the benchmarks: print a table, write JSON
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

dashboards: $(READY)  ## generate deploy/grafana/json from the dashboards' code
	$(BIN)/python -m deploy.grafana.dashboards

client: $(READY)  ## generate the synchronous client from the asynchronous one
	$(BIN)/python scripts/unasync.py

reference: $(READY)  ## write the generated pages of the reference, running the examples of commands and routes
	$(BIN)/python scripts/reference/commands_page.py
	$(BIN)/python scripts/reference/routes_page.py
	$(BIN)/python scripts/reference/reasons_page.py
	$(BIN)/python scripts/reference/made_pages.py

docs: export NO_MKDOCS_2_WARNING := 1
docs: $(READY)  ## build the documentation as a site in build/site, with search; a broken link fails
	@$(BIN)/python -m mkdocs build --strict
	@echo "open build/site/index.html"

durations: $(READY)  ## write the page about what tests take, and their order, from the last `make test`
	$(BIN)/python -m tests.durations $(DURATIONS) --commit

figures: $(READY)  ## draw docs/figures again from the functions that decide
	$(BIN)/python -m research.figures --out docs/figures $(FIGURES_ARGS)

pictures: $(READY)  ## run the demo without Docker, and draw it; needs node, npm, chromium
	$(BIN)/python -m tests.rendering.scene $(PICTURES_ARGS)

lock: $(READY)  ## resolve the dependencies again, with hashes
	sh scripts/lock.sh $(VENV)

clean:  ## remove the environment and the tools' files
	rm -rf $(VENV) $(VENV)-smartnoise $(VENV)-opacus $(VENV)-browser $(VENV)-security build dist .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info
	find . -name __pycache__ -type d -not -path './.git/*' -prune -exec rm -rf {} +

$(READY): pyproject.toml requirements/dev.txt scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV)
	@touch $@

$(READY_SECURITY): pyproject.toml requirements/security.txt scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV)-security requirements/security.txt
	@touch $@

$(READY_SMARTNOISE): pyproject.toml requirements/smartnoise.txt scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV)-smartnoise requirements/smartnoise.txt
	@touch $@

$(READY_OPACUS): pyproject.toml requirements/opacus.txt scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV)-opacus requirements/opacus.txt
	@touch $@

$(READY_BROWSER): pyproject.toml requirements/browser.txt scripts/setup.sh
	@PYTHON="$(PYTHON)" sh scripts/setup.sh $(VENV)-browser requirements/browser.txt
	@touch $@

$(PROVIDER)/.ready: tests/provider/package.json tests/provider/package-lock.json scripts/provider.sh
	@sh scripts/provider.sh $(PROVIDER)
	@touch $@
