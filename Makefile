# Needs Python 3.11 or newer with pip, and make. Nothing is installed outside this folder.
PYTHON ?= python3
PROVIDER ?=
ARGS ?=
# Two workers halve the time; `make test JOBS=0` runs in one process.
JOBS ?= 2

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help run test test-main test-clients check format lock bench bench-setup setup clean

BIN := .venv/bin
# An environment is made without pip and filled by the calling Python's, so that Debian's bare python3 does too.
VENV = $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Coatcheck needs Python 3.11 or newer, not " + sys.version.split()[0] + "; name one with PYTHON=…")' \
	&& { test -x $(1)/bin/python || $(PYTHON) -m venv --without-pip $(1); }
INSTALL = $(PYTHON) -m pip --python $(1)/bin/python --disable-pip-version-check install --quiet --require-hashes
NPM_CI = npm ci --ignore-scripts --no-audit --no-fund --loglevel=error
LOCK = $(BIN)/uv pip compile --quiet --universal --generate-hashes --python-version 3.11 --no-annotate --no-header \
	--no-emit-index-url --no-emit-find-links $(UPGRADE)

help: ## Show this list
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/\1|\2/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do \
		printf '  make %-14s %s\n' "$$name" "$$text"; done

run: .venv/.run ## The guided demo (ARGS=--exit ends after it, PROVIDER=openai takes the real service)
	$(if $(PROVIDER),COATCHECK_PROVIDER=$(PROVIDER)) $(BIN)/python -m gateway demo $(ARGS)

test: check test-main test-clients ## Everything: checks, tests, real clients; every skip with its reason

test-main: .venv/.dev tests/browser/node_modules/.done ## The tests but for those of tests/clients (ARGS goes to pytest)
	$(BIN)/python -m pytest -n $(JOBS) --dist loadfile $(ARGS)

test-clients: .venv/.dev .venv-clients/.done .venv-clients/.npm ## Other people's clients, in environments of their own, against a real gateway
	COATCHECK_PYTHON=$(CURDIR)/$(BIN)/python .venv-clients/bin/python -m pytest tests/clients

check: .venv/.dev ## ruff, mypy, import-linter
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: .venv/.dev ## Format the code and mend what ruff can mend
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: .venv/.dev ## Measure the gateway beside its peers (ARGS goes to tests.bench)
	$(BIN)/python -m tests.bench $(ARGS)

bench-setup: .venv-bench/.done ## Install LiteLLM, which `make bench` measures too where it is there

setup: .venv/.dev .venv-clients/.done .venv-clients/.npm tests/browser/node_modules/.done ## Set up both environments and do no more

lock: .venv/.dev ## Compile requirements/*.txt anew (UPGRADE=--upgrade takes newer versions)
	$(LOCK) pyproject.toml -o requirements/run.txt
	cd requirements && for name in dev clients bench; do ../$(LOCK) $$name.in -o $$name.txt || exit 1; done

clean: ## Remove the environments and caches
	rm -rf .venv .venv-clients .venv-bench tests/clients/npm/node_modules tests/browser/node_modules .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis

# A stamp is newer than the requirements that it stands for.
.venv/.run: requirements/run.txt
	$(call VENV,.venv)
	$(call INSTALL,.venv) -r requirements/run.txt
	@touch $@

.venv/.dev: requirements/dev.txt .venv/.run
	$(call INSTALL,.venv) -r requirements/dev.txt
	@touch $@

.venv-clients/.done: requirements/clients.txt
	$(call VENV,.venv-clients)
	$(call INSTALL,.venv-clients) -r requirements/clients.txt
	@touch $@

# The JavaScript clients and Codex (172 MB), with the Node.js that they need; without npm their tests are skipped, and say so.
.venv-clients/.npm: tests/clients/npm/package-lock.json .venv-clients/.done
	if command -v npm >/dev/null; then (cd tests/clients/npm && $(NPM_CI)) && touch $@; fi

# The OpenID provider of the browser tests, with its Node.js; they too are skipped without npm.
tests/browser/node_modules/.done: tests/browser/package-lock.json
	if command -v npm >/dev/null; then (cd tests/browser && $(NPM_CI)) && touch $@; fi

.venv-bench/.done: requirements/bench.txt
	$(call VENV,.venv-bench)
	$(call INSTALL,.venv-bench) -r requirements/bench.txt
	@touch $@
