# The commands of the project. Each one sets up what it needs first: `.venv` inside the tree, from constraints.txt.
#   make test                        needs Python 3.11-3.13 with the venv module, and make
#   make test SETUP=0 PYTHON=python3 uses an interpreter that already has the packages (hosts without a network)
# Wheels of one's own (a CPU build of torch, say) are found through pip's PIP_FIND_LINKS, which uv is told about.

SETUP ?= 1
PYTHON ?= $(shell for p in python3.11 python3.12 python3.13 python3; do \
	"$$p" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info < (3, 14))' 2>/dev/null && { echo "$$p"; break; }; done)
# Test processes: one a core, at most 8; JOBS=0 runs in one process without pytest-xdist.
JOBS ?= auto
# Further arguments of pytest: make test ARGS="-k swizzle"
ARGS ?=

VENV ?= .venv
CONSTRAINTS ?= constraints.txt
ifeq ($(SETUP),0)
PY := $(PYTHON)
READY :=
else
PY := $(VENV)/bin/python
READY := $(VENV)/.ready
endif

export PYTHONPATH := .:sdk$(if $(PYTHONPATH),:$(PYTHONPATH))
# Bytecode is kept whatever the caller's shell says: the tests start hundreds of processes, and each would compile all anew.
export PYTHONDONTWRITEBYTECODE :=
# uv reads none of pip's settings: hand on the two that name things on this host.
UV = UV_FIND_LINKS="$${UV_FIND_LINKS:-$$PIP_FIND_LINKS}" SSL_CERT_FILE="$${SSL_CERT_FILE:-$$PIP_CERT}" $(VENV)/bin/uv
# worksteal: neighbours run in one process, where what a module makes once is made once.
# Plugins that no test asks for are not loaded: each process spends half a second on them.
PYTEST = $(PY) -m pytest $(foreach one,playwright base_url schemathesis anyio,-p no:$(one)) $(if $(filter 0,$(JOBS)),,-n $(JOBS) --maxprocesses=8 --dist worksteal)
GROUPS = --extra gpu --extra torch --group server --group dev

.PHONY: help setup demo test test-long test-torch test-gpu test-ui lint serve containers format docs constraints clean
.DEFAULT_GOAL := help

help:
	@echo "make demo       a service tunes the example fusions; without a GPU: proves kernels in an emulator"
	@echo "make serve      the service and its dashboard, on what the demo left"
	@echo "make test       every test that needs no GPU"
	@echo "make test-long  the long property and mutation runs"
	@echo "make test-torch TORCH=2.11.0  the tests that call torch, with another version of it"
	@echo "make test-gpu   the tests that need an NVIDIA GPU"
	@echo "make test-ui    the dashboard in a headless Chromium"
	@echo "make lint       formatting, lint rules and types, over everything"
	@echo "make format     rewrite the sources as the formatter wants them"
	@echo "make docs       rewrite docs/rules.md, docs/operators.md and docs/api.md from the code"
	@echo "make containers lint the containers' files; build and run them where an engine is at hand"
	@echo "make setup      only the environment, in .venv; the commands above do it themselves"
	@echo "make constraints  pin what pyproject.toml has gained"
	@echo "make clean      remove .venv, caches and what demo and build left"
	@echo "Add SETUP=0 PYTHON=python3 to use an interpreter that already has the packages."

setup: $(READY)

# The client is installed from the tree as it stands there: torch finds its backend, and there is a command `fusetune`.
$(VENV)/.ready: pyproject.toml $(CONSTRAINTS) Makefile
	@test -x $(VENV)/bin/python || test -n "$(PYTHON)" || { \
	  echo "set-up: no Python 3.11, 3.12 or 3.13 found. Install one (Debian, Ubuntu: apt install python3 python3-venv)" \
	       "or name it: make PYTHON=/path/to/python3.11" >&2; exit 2; }
	@test -x $(VENV)/bin/python || $(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "set-up: $(PYTHON) cannot make a virtual environment. Install its venv module" \
	       "(Debian, Ubuntu: apt install python3-venv) and try again." >&2; exit 2; }
	@test -x $(VENV)/bin/uv || { $(VENV)/bin/python -m pip --version >/dev/null 2>&1 || \
	  $(VENV)/bin/python -m ensurepip >/dev/null; } && { test -x $(VENV)/bin/uv || \
	  $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c $(CONSTRAINTS) uv; }
	@echo "set-up: installing the pinned packages into $(VENV)"
	@$(UV) pip install --quiet --python $(VENV)/bin/python -c $(CONSTRAINTS) -r pyproject.toml $(GROUPS)
	@$(UV) pip install --quiet --python $(VENV)/bin/python --no-deps -e .
	@touch $@

demo: $(READY)
	$(PY) -m examples.demo

# Arrays that end stay with the process: given back to the system, each page of the next one is cleared when it is touched,
# a tenth of the time of tests of numbers. Read by glibc, and by no other C library.
test test-long test-torch: export MALLOC_MMAP_THRESHOLD_ ?= 33554432
test test-long test-torch: export MALLOC_TRIM_THRESHOLD_ ?= 268435456

test: $(READY)
	$(PYTEST) $(ARGS)

test-long: $(READY)
	$(PYTEST) -m "long and not gpu" $(ARGS)

# What calls torch, with another torch than the pinned one, in an environment beside `.venv`. What torch itself pins is free.
TORCH_TESTS = tests/sdk tests/benchmarks tests/search/user_fusions tests/compiler/emit/test_short_casts.py tests/test_docs.py
test-torch:
	@test -n "$(TORCH)" || { echo "test-torch: name a version of torch: make test-torch TORCH=2.11.0" >&2; exit 2; }
	@mkdir -p build && { grep -vE '^(torch|setuptools|triton|sympy|fsspec|networkx|nvidia-.*|cuda-.*)==' constraints.txt; \
	  echo 'torch==$(TORCH)'; } > build/torch-$(TORCH).new
	@cmp -s build/torch-$(TORCH).new build/torch-$(TORCH).txt || cp build/torch-$(TORCH).new build/torch-$(TORCH).txt
	@$(MAKE) --no-print-directory test VENV=.venv-torch-$(TORCH) CONSTRAINTS=build/torch-$(TORCH).txt \
	  ARGS="$(TORCH_TESTS) $(ARGS)"

# One process: the tests share one card.
test-gpu: $(READY)
	$(PY) -m pytest -m gpu $(ARGS)

# A pytest process of its own: Playwright leaves an event loop behind that asynchronous tests trip over.
test-ui: $(READY)
	$(PY) -m pytest -m ui tests/ui $(ARGS)

lint: $(READY)
	$(PY) -m ruff format --check .
	$(PY) -m ruff check .
	$(PY) -m mypy

serve: $(READY)
	$(PY) -m service serve --worker --data-dir .demo $(ARGS)

containers: $(READY)
	docker/check.sh

format: $(READY)
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

docs: $(READY)
	$(PY) -m docs.generate_rules
	$(PY) -m docs.generate_operators
	$(PY) -m docs.generate_api
	$(PY) -m docs.generate_concepts

# Resolved without find-links, so that the CUDA build's own packages are pinned too.
constraints: $(READY)
	env -u UV_FIND_LINKS $(VENV)/bin/uv pip compile --quiet --universal -p 3.11 --no-header --no-annotate \
	  -c constraints.txt pyproject.toml $(GROUPS) -o .constraints.new
	{ grep '^#' constraints.txt; cat .constraints.new; } > .constraints.txt
	mv .constraints.txt constraints.txt
	rm -f .constraints.new

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .demo fusetune-data build dist
