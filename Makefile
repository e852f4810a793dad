# Everything that people and CI run. `make demo` and `make test` start from nothing.

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
# A process of tests for each core; who has done its share takes over what others have left.
ON_EVERY_CORE := -n logical --maxprocesses 8 --dist worksteal

.PHONY: help demo test check kill bench golden migration pins

help:
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

demo: ## start a cloud and run the story with the openstack command and a real guest
	@scripts/setup demo
	@scripts/demo

test: ## set everything up, check the house rules, run every test
	@scripts/setup test
	@scripts/check
	$(PYTEST) $(ON_EVERY_CORE)

check: ## formatting, lint, types, layers and the house rules
	@scripts/setup test
	@scripts/check
	$(PYTEST) -q tests/tidy

kill: ## kill processes at every kill point, not only at the sample of make test
	@scripts/setup test
	$(PYTEST) $(ON_EVERY_CORE) -m kill --every

bench: ## measure the budgets (BENCH='attach --against HEAD~1' for a part, beside a commit)
	@scripts/setup test
	@$(PYTHON) -m bench $(BENCH)

golden: ## write generated documentation and golden files anew
	@scripts/setup test
	$(PYTEST) -q -m golden --golden

migration: ## make a migration: make migration SERVICE=volume
	@scripts/setup test
	$(PYTHON) -m mooring.store.revise $(SERVICE)

PINS := --generate-hashes --allow-unsafe --strip-extras \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header
VENDORS := import tomllib; extras = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*extras["optional-dependencies"]["vendors"], sep="\n")

pins: ## write the requirements files anew from pyproject.toml
	@scripts/setup test
	$(PYTHON) -m piptools compile -q --extra dev --extra brick $(PINS) \
		--output-file requirements.txt pyproject.toml
	$(PYTHON) -c '$(VENDORS)' | $(PYTHON) -m piptools compile -q $(PINS) \
		--constraint requirements.txt --output-file requirements-vendors.txt -
