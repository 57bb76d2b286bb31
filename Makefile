# `make test` is all a fresh machine needs: it makes .venv by itself, with uv where that is installed, else pip.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# Two more than there are cores: with one more, two cores were idle for half of the run.
JOBS   ?= $(shell echo $$(( $$(nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2) + 2 )))

# Without bytecode, each process of a test would compile all modules.
unexport PYTHONDONTWRITEBYTECODE

# Installs a package as root, where apt-get is. The lists of a new machine may be empty or old: then they are updated.
install = { [ "$$(id -u)" = 0 ] && command -v apt-get && { apt-get install -y -qq $(1) || \
    { apt-get update -qq && apt-get install -y -qq $(1); }; }; } >/dev/null 2>&1

.PHONY: demo screenshots test test-programs test-oldest check test-faults bench format clean

# A photo lab for three shops, whose workers are killed now and then, on a database of its own. Ctrl-C ends it.
demo: $(READY)
	$(BIN)/python examples/demo/demo.py

# The pictures of the README, of the demo's console in both themes.
screenshots: $(READY)
	$(BIN)/python -m tests.console.screenshots

# Beside the checks, one process compiles all tests: otherwise each of the parallel ones would, for two minutes.
test: CHOSEN := not faults and not programs
test: $(READY)
	@$(BIN)/pytest --collect-only -qq -m "$(CHOSEN)" >/dev/null 2>&1 & $(MAKE) --no-print-directory check && wait
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m "$(CHOSEN)"

# Worker processes, `leasehold dev`, the embedded Postgres, the examples, Django projects, the console in a browser, and each
# command and code block of the README and the docs, all started as users start them. Chromium is installed as root, and so is
# Prometheus where its package would start no service. Without them their tests are skipped, unless CI is set, or REQUIRE_BROWSER
# and REQUIRE_PROMETHEUS are.
test-programs: $(READY)
	@command -v chromium >/dev/null || $(call install,chromium) || \
	    echo "There is no Chromium: the tests of the console are skipped."
	@command -v prometheus >/dev/null || { [ ! -d /run/systemd/system ] && $(call install,--no-install-recommends prometheus); } || \
	    echo "There is no Prometheus: the tests that ask it the queries of the dashboard are skipped."
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m "programs and not faults"

# The store's, the worker's and the CLI's tests on the oldest Postgres that the machine's packages offer; as root it is
# installed. Where there is none, a line says why, and nothing is run.
test-oldest: $(READY)
	$(BIN)/python -m tests.oldest_postgres -n $(JOBS) --dist worksteal

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Long runs: many crashes, large volumes. Minutes, not seconds. One of them needs pgbouncer, and is skipped without it.
test-faults: $(READY)
	@PATH="$$PATH:/usr/sbin" command -v pgbouncer >/dev/null || $(call install,pgbouncer) || \
	    echo "There is no pgbouncer: the run through it is skipped."
	$(BIN)/pytest -m faults --timeout 1800 -s

# Measures Leasehold against its bars and its peers, and writes bench/RESULTS.md; QUICK=1 only shows that it works.
# SERVER=system measures on the oldest PostgreSQL of this machine's packages, SERVER=postgresql://… on another server.
bench: $(READY)-bench
	@$(BIN)/python -m bench $(if $(QUICK),--quick) $(if $(SERVER),--server "$$SERVER")

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml constraints.txt
	@echo "Installing Leasehold and its tools into $(VENV). This takes about a minute, and is done once."
	@if command -v uv >/dev/null 2>&1; then \
	    uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	    uv pip install --python $(BIN)/python --constraint constraints.txt --editable ".[check]"; \
	else \
	    $(PYTHON) -m venv $(VENV) && \
	    $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable ".[check]"; \
	fi
	@touch $@

$(READY)-bench: $(READY)
	@echo "Installing the queues that Leasehold is measured against. This takes some minutes, and is done once."
	@if command -v uv >/dev/null 2>&1; then \
	    uv pip install --python $(BIN)/python --constraint constraints.txt --editable ".[bench]"; \
	else \
	    $(BIN)/python -m pip install --disable-pip-version-check --constraint constraints.txt --editable ".[bench]"; \
	fi
	@$(BIN)/python -m bench.install_peers
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist bench/.oban bench/node/node_modules
