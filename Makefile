# Every target sets itself up: it needs python3 (3.11 or newer), make and a package index.
# Everything is installed into .venv of this folder; nothing outside it is changed.
#
#   PYTHON=python3.12 make test     choose the interpreter
#   make unit ARGS="-k timeline"    pass arguments to pytest
#   make test JOBS=1                one test process instead of several side by side

PYTHON ?= python3
ARGS ?=
# Many tests wait for other processes or for time to pass: more than a small machine has cores.
JOBS ?= 4

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

export PIP_DISABLE_PIP_VERSION_CHECK := 1
# Tests start hundreds of processes: none of them should have to compile what it imports.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help setup test check warm unit soak fuzz coverage format bench bench-pending bench-pipeline bench-remoting bench-queues bench-grpc bench-restart bench-hostile bench-client bench-tasks bench-peers docs demo serve clean-venv

help: ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: $(READY) ## make .venv with the pinned versions (the other targets do it by themselves)

test: $(READY) ## all checks and all tests: the command to run before a commit
	@$(MAKE) --no-print-directory -j2 check warm
	@$(BIN)/python -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder --durations=20 $(ARGS)

check: $(READY) ## format, lint, types, layering
	@echo "ruff format --check" && $(BIN)/ruff format --check --quiet --diff .
	@echo "ruff check" && $(BIN)/ruff check --quiet .
	@echo "mypy --strict" && $(BIN)/mypy src tests $(wildcard benchmarks)
	@echo "lint-imports" && $(BIN)/lint-imports --no-logo

warm: $(READY) # what every server that tests start would make for itself
	@$(BIN)/python -m tests.warming

unit: $(READY) ## the fast tests: no processes, no Spark
	@$(BIN)/python -m pytest -m "not slow and not spark and not soak" $(ARGS)

soak: $(READY) ## the long campaigns, some hours; CONTRIBUTING.md says what takes how long
	@DUELINE_SOAK=1 $(BIN)/python -m pytest --timeout=0 $(ARGS)

fuzz: $(READY) ## fuzz the decoders for three minutes (ARGS="--seconds 600"); Linux only
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group fuzz
	@$(BIN)/python -m tests.fuzz $(ARGS)

coverage: $(READY) ## all tests, with branch coverage; fails below the floor in pyproject.toml
	@$(BIN)/coverage erase
	@$(BIN)/coverage run -m pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder $(ARGS)
	@$(BIN)/coverage combine --quiet
	@$(BIN)/coverage report

format: $(READY) ## format the code and repair what ruff can repair
	@$(BIN)/ruff check --quiet --fix-only .
	@$(BIN)/ruff format --quiet .

bench: $(READY) ## measure the store
	@$(BIN)/python -m benchmarks.store $(ARGS)

bench-pending: $(READY) ## measure what operators do with ten million pending
	@$(BIN)/python -m benchmarks.pending $(ARGS)

bench-pipeline: $(READY) ## measure the way through Spark
	@$(BIN)/python -m benchmarks.pipeline $(ARGS)

bench-remoting: $(READY) ## measure RocketMQ's 4.x protocol
	@$(BIN)/python -m benchmarks.remoting $(ARGS)

bench-queues: $(READY) ## measure many topics on one broker
	@$(BIN)/python -m benchmarks.queues $(ARGS)

bench-restart: $(READY) ## measure how late a restart makes messages
	@$(BIN)/python -m benchmarks.restart $(ARGS)

bench-grpc: $(READY) ## measure RocketMQ's 5.x protocol
	@$(BIN)/python -m benchmarks.grpc $(ARGS)

bench-hostile: $(READY) ## measure honest clients beside hostile ones (ARGS=--floods: beside floods)
	@$(BIN)/python -m benchmarks.hostile $(ARGS)

bench-client: $(READY) ## measure the import of the Python client
	@$(BIN)/python -m benchmarks.client_import $(ARGS)

bench-tasks: $(READY) ## run Celery and dramatiq, and kill their workers
	@$(BIN)/python -m benchmarks.tasks $(ARGS)

bench-peers: $(READY) ## measure beside Redis, beanstalkd and RocketMQ, where they are installed
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group peers
	@$(BIN)/python -m benchmarks.peers $(ARGS)

docs: $(READY) ## build the documents as a site, in build/site
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group docs
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict && echo "see build/site/start/index.html"

demo: $(READY) ## see delayed messages arrive
	@$(BIN)/dueline demo $(ARGS)

serve: $(READY) ## run a broker in this terminal
	@$(BIN)/dueline serve $(ARGS)

clean-venv: ## remove .venv, so that the next target makes it anew
	@rm -rf $(VENV)

# The stamp is written last: an interrupted installation is done again.
$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) >/dev/null || { \
	  echo "make: expected a Python of version 3.11 or newer; found no '$(PYTHON)'." \
	       "Install one, or name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "make: expected Python 3.11 or newer; found $$($(PYTHON) -V 2>&1)." \
	       "Name a newer one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "make: '$(PYTHON) -m venv' failed, see above." \
	       "On Debian and Ubuntu the module is a package: apt install python3-venv" >&2; exit 1; }
	@echo "installing the pinned packages into $(VENV) (some minutes the first time) ..."
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --upgrade pip
	@$(BIN)/python -m pip install --quiet --constraint constraints.txt --group dev --editable .
	@touch $@
