# `make test` is all a fresh machine needs: it makes .venv by itself, with uv where that is installed, else pip.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/.ready
# One more than there are cores: tests wait for processes and disks half of the time.
JOBS   ?= $(shell echo $$(( $$(nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2) + 1 )))

.PHONY: demo test check test-faults bench format clean

# A photo lab for three shops, whose workers are killed now and then, on a database of its own. Ctrl-C ends it.
demo: $(READY)
	$(BIN)/python examples/demo/demo.py

test: check
	$(BIN)/pytest -n $(JOBS) -m "not faults"

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Long runs: many crashes, large volumes. Minutes, not seconds.
test-faults: $(READY)
	$(BIN)/pytest -m faults --timeout 1800 -s

# Measures Leasehold against its bars and its peers, and writes bench/RESULTS.md; QUICK=1 only shows that it works.
bench: $(READY)-bench
	$(BIN)/python -m bench $(if $(QUICK),--quick)

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

$(READY): pyproject.toml constraints.txt
	@if command -v uv >/dev/null 2>&1; then \
	    uv venv --quiet --allow-existing --python $(PYTHON) $(VENV) && \
	    uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable ".[check]"; \
	else \
	    $(PYTHON) -m venv $(VENV) && \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[check]"; \
	fi
	@touch $@

$(READY)-bench: $(READY)
	@if command -v uv >/dev/null 2>&1; then \
	    uv pip install --quiet --python $(BIN)/python --constraint constraints.txt --editable ".[bench]"; \
	else \
	    $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable ".[bench]"; \
	fi
	@$(BIN)/python -m bench.install_peers
	@touch $@

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist bench/.oban bench/node/node_modules
