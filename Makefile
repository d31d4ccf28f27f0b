# Two commands for newcomers: `make demo` and `make test`. Both set up what they need.

PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.installed

.PHONY: demo test lint types layers tests portable portable-quick mutate docs site clean

demo: $(STAMP)  ## train a small over-fitted network on real data and audit it
	$(BIN)/divulge demo

test: lint types layers tests portable-quick site  ## everything that continuous integration checks

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/ruff format --check

types: $(STAMP)
	$(BIN)/mypy

layers: $(STAMP)
	$(BIN)/lint-imports

# A file's tests stay on one core: they share what they set up. In order of folders: the documents'
# examples, all of them quick, come last, and no core waits long for the other.
tests: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder

portable: $(STAMP)  ## the tests that compute in floats, under the kernels of other processors
	$(BIN)/python -m tests.portable -n auto --dist loadfile

portable-quick: $(STAMP)
	$(BIN)/python -m tests.portable quick

mutate: $(STAMP)  ## change the code that measures and judges, and see whether a test notices
	$(BIN)/python -m tests.mutation $(MUTATE)

docs: $(STAMP)  ## write the generated pages again, which the tests compare, and build the site
	$(BIN)/python docs/generate.py
	$(MAKE) site

site: $(STAMP)  ## build the documentation into site/; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

clean:
	rm -rf .venv .mutation .pytest_cache .mypy_cache .ruff_cache .import_linter_cache

# Installed once, and again when what is to be installed changes.
$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --constraint constraints.txt --editable '.[dev]'
	touch $(STAMP)
