# The habits of this project. `make` alone lists them.
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DEFAULT_GOAL := help
.PHONY: help demo sam3 meta test e2e e2e-full alerts lint bench images cluster-up cluster-down crds generate lock sbom audit clean

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SUPPLY := .cache/supply
UV_VERSION := 0.13.9
# Two processes share the tests (tests/sharing.py); those that need Kubernetes come last.
TOGETHER = -n 2 --dist loadfile --no-loadscope-reorder
INSTALL = $(BIN)/uv pip install --quiet --compile-bytecode --python $(BIN)/python --constraints requirements.lock --editable

help: ## list the targets
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: $(VENV)/.base ## segment the example photos with the engine that needs no weights
	@tools/demo.sh

sam3: $(VENV)/.base ## install the sam3 engine (PyTorch and transformers, about 6 GB)
	@$(INSTALL) '.[sam3]'

meta: $(VENV)/.base ## install the sam3-meta engine (for NVIDIA GPUs)
	@$(INSTALL) '.[meta]'

test: $(VENV)/.dev ## run all tests; installs the servers that they need (Debian, Ubuntu)
	@tools/install_servers.sh
	@mkdir -p .cache && nice $(BIN)/python -m tests.cluster build >.cache/cluster-build.log 2>&1 & # tests that need it wait
	$(BIN)/python -m pytest $(TOGETHER) $(PYTEST_ARGS)

e2e: $(VENV)/.dev ## run the walk through the web page, and the tests of the whole on a Kubernetes of one node (Debian, root)
	@tools/install_servers.sh
	$(BIN)/python -m pytest tests/api/web/test_walk.py tests/e2e $(PYTEST_ARGS)

e2e-full: $(VENV)/.dev ## run those that need the worker's image with torch (6 GB, built in minutes)
	@tools/install_servers.sh
	$(BIN)/python -m pytest tests/e2e/full $(PYTEST_ARGS)

alerts: $(VENV)/.dev ## check the alerts' rules, and run the tests of each by promtool
	@tools/install_servers.sh
	promtool check rules --lint=all --lint-fatal charts/samjobs/files/rules/*.yaml
	$(BIN)/python -m pytest tests/alerts $(PYTEST_ARGS)

lint: $(VENV)/.dev ## format check, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev ## print the tables of every benchmark (BENCH_ARGS=--quick for short ones)
	@for bench in pipeline resume queue kubernetes scale_up api; do $(BIN)/python -m benchmarks.$$bench $(BENCH_ARGS); done

images: ## build both container images with docker, podman or buildah
	@tools/build_images.sh

crds: $(VENV)/.dev ## write the CRDs and the chart's copies of them
	$(BIN)/python -m tools.crds

cluster-up: $(VENV)/.dev ## start a Kubernetes of one node on this machine, without Docker (Debian, root)
	@tools/install_servers.sh
	@$(BIN)/python -m tests.cluster up

cluster-down: ## end it, and remove all that it left
	@$(BIN)/python -m tests.cluster down

generate: $(VENV)/.dev ## write what is made from the code: reference pages, CRDs, the chart's schema
	$(BIN)/python -m tools.generate
	$(BIN)/python -m tools.chart

lock: $(VENV)/.uv ## bring requirements.lock up to date with pyproject.toml
	$(BIN)/uv pip compile pyproject.toml --all-extras --universal --generate-hashes --no-header --no-emit-index-url \
	  --no-annotate --python-version 3.11 --output-file requirements.lock
	$(BIN)/uv pip compile tools/supply.in --universal --generate-hashes --no-header --no-emit-index-url --no-annotate \
	  --python-version 3.11 --output-file tools/supply.lock

sbom: $(VENV)/.base $(SUPPLY)/.done ## write what each image is made of, with hashes: dist/IMAGE.cdx.json (CycloneDX)
	@$(BIN)/python -m tools.sbom $(SUPPLY)/bin/cyclonedx-py

audit: $(VENV)/.base $(SUPPLY)/.done ## ask a public service for advisories against requirements.lock
	@$(BIN)/python -m tools.audit $(SUPPLY)/bin/pip-audit

clean: ## remove what the other targets made
	rm -rf $(VENV) .cache build dist demo-output bench-output .mypy_cache .ruff_cache .pytest_cache

$(VENV)/.uv:
	@PYTHON=$(PYTHON) tools/make_venv.sh $(VENV) $(UV_VERSION)
	@touch $@

$(SUPPLY)/.done: $(VENV)/.uv tools/supply.lock
	@echo "installing cyclonedx-bom and pip-audit"
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(SUPPLY)
	@$(BIN)/uv pip install --quiet --python $(SUPPLY)/bin/python --require-hashes --requirements tools/supply.lock
	@touch $@

$(VENV)/.base: $(VENV)/.uv pyproject.toml requirements.lock
	@echo "installing samjobs"
	@$(INSTALL) .
	@touch $@

$(VENV)/.dev: $(VENV)/.uv pyproject.toml requirements.lock
	@echo "installing samjobs with torch, transformers and the development tools (about 6 GB)"
	@$(INSTALL) '.[dev,sam3,meta,azure,gcs]'
	@touch $@
