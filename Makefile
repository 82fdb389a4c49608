# rewardrate: two commands on a fresh machine are `make demo` and `make test`.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
OUT    ?= runs/demo$(if $(QUICK),-quick)
# Many tests wait for processes, so one worker more than cores keeps the cores busy.
TESTS  := $(BIN)/pytest -n $$(( $$(nproc 2>/dev/null || echo 1) + 1 )) --dist worksteal

# Tests start hundreds of Python processes: where this is set, each of them would compile the package again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo quick test test-deep check ready bench docs site clean

help:            ## say what can be made
	@grep -E '^[a-z-]+: .*##|^[a-z-]+: +##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit("rewardrate needs Python 3.11 or newer, and %s is %d.%d; name another with: make PYTHON=python3.11" % (sys.executable, *sys.version_info[:2]) if sys.version_info < (3, 11) else 0)'
	$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); exit 1; }
	$(BIN)/python -m pip install --quiet --upgrade pip || { rm -rf $(VENV); exit 1; }

# One stamp per set of packages: an install is repeated only when pyproject.toml changes.
$(VENV)/.demo: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[agent,report,bandit,gym]'
	@touch $@

$(VENV)/.test: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet -e '.[dev,report,agent,bandit,ray,trl,tensorboard,wandb,mlflow,gym]'
	@touch $@ $(VENV)/.demo

# Pages are tested in a real browser. It is installed where that may be done; elsewhere those tests are skipped, and make says so.
BROWSER := { command -v chromium || command -v chromium-browser || command -v google-chrome; } >/dev/null 2>&1
$(VENV)/.browser: | $(BIN)/python
	@if $(BROWSER); then :; elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		echo "installing Chromium, to test pages as a reader sees them"; \
		{ timeout 120 apt-get update -qq && DEBIAN_FRONTEND=noninteractive timeout 600 \
			apt-get install -qq -y --no-install-recommends chromium fonts-dejavu-core; } >/dev/null 2>&1 || true; fi
	@if $(BROWSER); then touch $@; else echo "there is no Chromium here: the tests in a browser are SKIPPED"; fi

# verl needs an older transformers than ours, so it has an environment of its own. Where it cannot be installed, its
# tests are skipped, and make says so.
VERL := .venv-verl
$(VERL)/.ready: pyproject.toml
	@echo "installing verl into $(VERL), to test the method on it"
	@if { [ -x $(VERL)/bin/python ] || $(PYTHON) -m venv $(VERL); } && \
		timeout 900 $(VERL)/bin/python -m pip install --quiet -e '.[verl]'; then touch $@; \
	else rm -rf $(VERL); echo "verl could not be installed: the run on stock verl is SKIPPED"; fi

demo: $(VENV)/.demo            ## train a small language model with and without a time cost, and open the page (QUICK=1: a taste)
	$(BIN)/rewardrate train laptop --arm both --out $(OUT) $(if $(QUICK),--set budget.steps=3 --set budget.wall_seconds=50)
	$(BIN)/rewardrate report $(OUT) --open

check: $(VENV)/.test           ## lint, format and types
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

ready: check $(VENV)/.browser $(VERL)/.ready

quick: $(VENV)/.test           ## the fast tests, in about two minutes: no attacks, no Ray, no verl, no browser, no fuzzing
	$(TESTS) -m 'not slow and not deep' --durations=5

test:                          ## everything CI runs: lint, types, tests, coverage floor
	@$(MAKE) --no-print-directory -j3 ready
	$(TESTS) --cov --cov-report= --durations=12
	@echo 'lines that no test runs: $(BIN)/coverage report'

test-deep: $(VENV)/.test       ## the large sizes of fuzz and leak tests, which every release must pass
	$(TESTS) -m deep --durations=12

bench: $(VENV)/.test           ## speed, as ratios measured side by side
	@set -e; for script in benchmarks/bench_*.py; do echo "== $$script"; $(BIN)/python $$script; done

docs: $(VENV)/.test            ## remake the figures and tables that the docs show, then check every link
	$(BIN)/python docs/build.py

site: $(VENV)/.test            ## the documentation as pages that open from disk: site/index.html
	$(BIN)/python docs/make_site.py

clean:                         ## remove the virtual environment and caches
	rm -rf $(VENV) $(VERL) .pytest_cache .mypy_cache .ruff_cache .hypothesis .coverage build dist site
