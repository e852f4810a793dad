# Everything that people and CI run. `make demo` and `make test` start from nothing.

PYTHON := .venv/bin/python
PYTEST := $(PYTHON) -m pytest
# Two processes of tests for each core: with one more than cores, a third of the time of two cores
# went unused, as tests wait for guests, for databases and for processes that they have killed. Who
# has done its share takes over what others have left.
ON_EVERY_CORE := -n $(shell expr 2 \* $$(nproc)) --maxprocesses 8 --dist worksteal

# Tests that kill wait for leases and for processes longer than they work.
ON_MORE := -n $(shell expr 2 \* $$(nproc) + 1) --maxprocesses 12 --dist worksteal

# The processes that tests start read what the first one has compiled.
export PYTHONDONTWRITEBYTECODE =

.PHONY: help demo test check cases laws kill faults guests fuzz soak tempest beside bench golden
.PHONY: migration pins

help:
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 12

demo: ## start a cloud and run the story with the openstack command and a real guest
	@scripts/setup demo
	@scripts/demo

test: ## set everything up, check the house rules, run the tests: of cases and guests a sample
	@scripts/setup test
	@scripts/check
	$(PYTEST) $(ON_EVERY_CORE) --brief

check: ## formatting, lint, types, layers and the house rules
	@scripts/setup test
	@scripts/check
	$(PYTEST) -q tests/tidy

cases: ## run each case of each test that needs no real guest, on each of its databases
	@scripts/setup test
	$(PYTEST) $(ON_EVERY_CORE) -m "not hosts and not contract"

laws: ## hold every saga to the laws at every step and call, and every state of the release before
	@scripts/setup test
	$(PYTEST) $(ON_EVERY_CORE) --every tests/laws tests/upgrade

faults: ## seed every fault, and see it noticed by the tests it names
	@scripts/setup test
	$(PYTEST) $(ON_EVERY_CORE) --every tests/mutants

kill: ## kill processes at every kill point, not only at the sample of make test
	@scripts/setup test
	$(PYTEST) $(ON_MORE) -m kill --every

guests: ## run every test with real guests or stock clients
	@scripts/setup test
	$(PYTEST) $(ON_EVERY_CORE) --every -m "hosts or contract"

fuzz: ## send 100,000 odd requests, or REQUESTS=20000, and eight of each that writes at once
	@scripts/setup test
	FUZZ_REQUESTS=$(REQUESTS) $(PYTEST) $(ON_EVERY_CORE) --every tests/fuzz tests/crowd

soak: ## live through 3100 random histories of servers, volumes and shares, and watch the tables
	@scripts/setup test
	$(PYTEST) $(ON_EVERY_CORE) --every -m soak

tempest: ## run Tempest's tests of volumes, rebuild, moves and shares, in an environment of its own
	@scripts/setup demo
	@scripts/tempest

beside: ## run a real Nova, Cinder and Manila beside Mooring, in an environment of its own
	@scripts/setup beside
	@scripts/beside $(PARTS)

bench: ## measure the budgets (BENCH='attach --against HEAD~1', or PEER=clouds.yaml CLOUD=name)
	@scripts/setup test
	@$(PYTHON) -m bench$(if $(PEER),.peer $(PEER) $(CLOUD)) $(BENCH)

golden: ## write generated documentation and golden files anew
	@scripts/setup test
	$(PYTEST) -q -m golden --golden

migration: ## make a migration: make migration SERVICE=volume
	@scripts/setup test
	$(PYTHON) -m mooring.store.revise $(SERVICE)

PINS := --generate-hashes --allow-unsafe --strip-extras \
	--no-emit-index-url --no-emit-find-links --no-emit-trusted-host --no-header
EXTRA := import sys, tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	print(*project["optional-dependencies"][sys.argv[1]], sep="\n")

pins: ## write the requirements files anew from pyproject.toml
	@scripts/setup test
	$(PYTHON) -m piptools compile -q --extra dev --extra brick $(PINS) \
		--output-file requirements.txt pyproject.toml
	$(PYTHON) -c '$(EXTRA)' vendors | $(PYTHON) -m piptools compile -q $(PINS) \
		--constraint requirements.txt --output-file requirements-vendors.txt -
	$(PYTHON) -c '$(EXTRA)' s3 | $(PYTHON) -m piptools compile -q $(PINS) \
		--constraint requirements.txt --output-file requirements-s3.txt -
	$(PYTHON) -c '$(EXTRA)' tempest | $(PYTHON) -m piptools compile -q $(PINS) \
		--output-file requirements-tempest.txt -
	$(PYTHON) -c '$(EXTRA)' beside | $(PYTHON) -m piptools compile -q $(PINS) \
		--output-file requirements-beside.txt -
