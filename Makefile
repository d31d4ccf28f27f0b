# Two commands for newcomers: `make demo` and `make test`. Both set up what they need.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed
NIGHTLY := .venv/.installed-nightly
# The demonstration needs none of the extras: without .venv it makes a small environment of its own.
DEMO := $(if $(wildcard $(STAMP)),.venv,.venv-demo)

# Where a system tells Python to write no bytecode, each process of the tests would compile all that it imports.
export PYTHONDONTWRITEBYTECODE =

.PHONY: demo test lint types layers tests nightly all-tests portable mutate fuzz ledger fresh pythons installs docs site lock owner version licences clean

demo: $(DEMO)/.installed  ## train a small over-fitted network on real data and audit it
	$(DEMO)/bin/divulge demo

# What takes one core each goes first, side by side; a failure shows before the long tests begin.
test: $(STAMP)  ## what every change has to pass: all but the tests marked `slow`, which `make nightly` runs
	@echo "This takes about a quarter of an hour on two cores."
	$(MAKE) --jobs=2 --output-sync types site layers lint
	$(MAKE) tests

# Pages that people write: all but those that docs/generate.py writes whole.
PROSE = $(shell grep --recursive --files-without-match '<!-- Written by' --include='*.md' *.md docs examples papers fast)

# Programs that only some machines have are left out: it finds the same everywhere.
ACTIONLINT = -shellcheck= -pyflakes=

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/proselint check $(PROSE)
	$(BIN)/zizmor --offline --strict-collection --no-progress --quiet . examples/gate
	$(BIN)/actionlint $(ACTIONLINT) .github/workflows/*.yml examples/gate/.github/workflows/*.yml

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

# A file's tests stay in one process: they share what they set up. Files with slow tests come first
# and the documents' examples, all of them quick, last: no core waits long for the other.
# What the install promises has to be there; tests of what it lacks are left out, and counted.
PYTEST_ALL = pytest -p tests.installs.lacking -n auto --dist loadfile --no-loadscope-reorder
PYTEST_QUICK = $(PYTEST_ALL) --install dev -m 'not slow'

tests: $(STAMP)
	$(BIN)/python -m $(PYTEST_QUICK)

nightly: all-tests portable fuzz mutate ledger fresh installs  ## hours: all tests, other kernels, damaged files, mutants, speed, a fresh clone and installs

all-tests: $(NIGHTLY)  ## all tests, those marked `slow` too, with what is large to install
	$(BIN)/python -m $(PYTEST_ALL) --install nightly --hypothesis-profile=nightly

portable: $(NIGHTLY)  ## the tests that compute in floats, under the kernels of other processors
	$(BIN)/python -m tests.portable -n auto --dist loadfile

mutate: $(NIGHTLY)  ## change the code that measures and judges, and see whether a test notices
	$(BIN)/python -m tests.mutation $(MUTATE)

SEED ?= 0
COUNT ?= 100

fuzz: $(STAMP)  ## damage COUNT files of each kind, as SEED says, and read them
	$(BIN)/python -m tests.fuzz --seed $(SEED) --count $(COUNT)

ledger: $(NIGHTLY)  ## run the quick benchmarks, append their ratios to benchmarks/ledger.csv, and fail where one fell by half
	$(BIN)/python -u -m benchmarks.ledger --measure

FRESH ?=

fresh:  ## time the two commands of the README in a fresh clone; FRESH=demo takes one
	$(PYTHON) -m tests.fresh $(FRESH)

PYTHONS ?= python3.11 python3.12 python3.13

# Each in an environment of its own, .venv-python3.12 and the like; one that is not at hand is said.
pythons:  ## run the quick tests on every Python that divulge supports and that is at hand
	@for python in $(PYTHONS); do \
	  $$python -c "" 2>/dev/null || { echo "NOT TESTED: $$python is not installed"; continue; }; \
	  $$python -m venv .venv-$$python && \
	  .venv-$$python/bin/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]' $(ALL) && \
	  .venv-$$python/bin/python -m pip check && \
	  .venv-$$python/bin/python -m $(PYTEST_QUICK) || exit 1; \
	done

INSTALLS ?=

# base, each extra by itself, and the sets of extras that pages name, each in an environment that goes again.
# INSTALLS="base torch" takes these alone, PYTEST="-m 'not slow'" passes arguments on to pytest.
installs:  ## run the tests on the installs that users have: what an install lacks leaves its tests out
	$(PYTHON) -m tests.installs $(INSTALLS) -- -n auto --dist loadfile $(PYTEST)

docs: $(STAMP)  ## write the generated pages again, which the tests compare, and build the site
	$(BIN)/python docs/generate.py
	$(MAKE) site

site: $(STAMP)  ## build the documentation into site/; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# Each file that a release may install, by its hash, for the Python and the system that release.yml names.
LOCK = $(BIN)/uv pip compile --quiet --upgrade --generate-hashes --no-build --constraint constraints.txt \
  --python-version 3.12 --python-platform x86_64-manylinux_2_28 --custom-compile-command 'make lock'
REQUIREMENTS = .github/requirements

lock: $(STAMP)  ## write again what the jobs of a release install
	$(LOCK) $(REQUIREMENTS)/build.in --output-file $(REQUIREMENTS)/build.txt
	$(LOCK) pyproject.toml --extra docs --extra torch $(REQUIREMENTS)/site.in --output-file $(REQUIREMENTS)/site.txt

owner:  ## name the account that publishes divulge in every file: make owner OWNER=name
	$(PYTHON) packaging/names.py owner $(OWNER)

version:  ## name the version and its date in every file: make version VERSION=0.2.0
	$(PYTHON) packaging/names.py version $(VERSION)

licences: $(NIGHTLY)  ## write the page of licences again, from the metadata of all that the extras install
	$(BIN)/python docs/generate_licences.py

clean:
	rm -rf .venv .venv-* .mutation .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# Installed once, and again when what is to be installed changes. Python compiles what is imported, not all that is there.
INSTALL = $(BIN)/python -m pip install --quiet --no-compile --constraint constraints.txt

# The distributions of the checkout beside divulge: all are installed at once, so that none is looked for on an index.
ALL = --editable papers --editable fast

$(STAMP): pyproject.toml papers/pyproject.toml fast/pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(INSTALL) --editable '.[dev]' $(ALL)
	touch $@

$(NIGHTLY): $(STAMP)
	$(INSTALL) --editable '.[nightly]' $(ALL)
	touch $@

.venv-demo/.installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-demo
	.venv-demo/bin/python -m pip install --quiet --no-compile --constraint constraints.txt --editable .
	touch .venv-demo/.installed
