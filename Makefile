# Every target makes the virtual environment it needs; a second run installs nothing.
# make PYTHON=/path/to/python chooses another interpreter.
PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
	$$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)
VENV := .venv
BIN  := $(VENV)/bin
AUDIT := .cache/audit
# Tests start hundreds of processes. Each would compile all modules again if none were allowed to keep them.
unexport PYTHONDONTWRITEBYTECODE
PIP  := $(BIN)/python -m pip --quiet --disable-pip-version-check

.PHONY: help demo test parts e2e soak fuzz stories planted-bugs upstream-suite ui-test image-check lint lock wheel audit bench bench-check bench-peer flame-graphs docs clean

help:
	@echo 'make demo    start a cluster in memory, run pods on it and see why each went where'
	@echo 'make test    run all tests, the conformance corpus included'
	@echo 'make parts   build a real kubectl, control plane and helm once, with Go; tests use them where they find them'
	@echo 'make e2e     run it beside the real kube-scheduler on a real API server; builds those once, with Go'
	@echo 'make soak    kill, freeze and cut real parts at random for an hour, and prove that nothing went wrong; SOAK_MINUTES=60'
	@echo 'make fuzz    damaged input for everything that reads any, other input each day; MINUTES=1 for each target'
	@echo 'make stories run the scheduler in a simulation with faults, other seeds each day; MINUTES=2'
	@echo 'make planted-bugs  plant bugs and list those that the simulation misses'
	@echo 'make ui-test look at every page of the web page with a real browser; installs Chromium where apt can'
	@echo 'make upstream-suite  run the specs of upstream'\''s end-to-end suite that pass against kubesched up'
	@echo 'make image-check  build the image with buildah and look inside; the base is made of a Python of this machine'
	@echo 'make lint    ruff, mypy strict, import-linter'
	@echo 'make lock    choose the newest versions of all dependencies for deploy/requirements.txt, with hashes'
	@echo 'make wheel   build the wheel twice, which must give the same file, and write an SBOM of those versions, in dist'
	@echo 'make audit   the same, and known vulnerabilities of those versions; needs the network'
	@echo 'make bench   measure decisions, and pods through the whole loop, per second'
	@echo 'make bench-check  compare the instructions per pod with the committed ones; UPDATE=--update accepts the new ones'
	@echo 'make bench-peer   measure beside the real kube-scheduler and a null binder; SIZE=quick, full or long, ROUNDS=1, MINUTES=14'
	@echo 'make flame-graphs draw where the scheduler spends its time, for four workloads'
	@echo 'make docs    build the documentation as a site, in build/site, with the generated reference'
	@echo 'make clean   remove the virtual environment and all caches'

demo: $(VENV)/.ready
	@$(BIN)/kubesched demo

# A test that fails beside thousands of others runs a second time, alone, and both results are printed: a fault fails twice.
define run-tests
	$(BIN)/pytest --cache-clear $(1) || { \
		echo 'What failed runs once more, alone. A test that passes now depends on time or on its neighbours: mend it.'; \
		$(BIN)/pytest --last-failed --last-failed-no-failures none $(1); }
endef

test: $(VENV)/.ready-dev
	$(call run-tests)

# A real kubectl, control plane and helm, which tests use where they find them.
parts: $(VENV)/.ready-dev
	@$(BIN)/python -m tests.e2e.build_parts

e2e: parts
	$(call run-tests,tests/e2e -rs)

# Real parts, killed, frozen and cut at random; the audit log proves afterwards that nothing went wrong.
SOAK_MINUTES ?= 60
soak: parts
	$(BIN)/python -m tests.e2e.soak --minutes $(SOAK_MINUTES)

# What a failure prints replays it. TARGETS="watch cel" tries only these; DAY=2026-11-16 the input of another day.
AT_ONCE ?= 2
fuzz: MINUTES = 1
fuzz: $(VENV)/.ready-dev
	$(BIN)/python -m tests.fuzz --minutes $(MINUTES) --at-once $(AT_ONCE) $(if $(DAY),--day $(DAY)) $(if $(SEED),--seed $(SEED)) $(TARGETS)

stories: MINUTES = 2
stories: $(VENV)/.ready-dev
	$(BIN)/python -m tests.torture.today --minutes $(MINUTES) $(if $(DAY),--day $(DAY))

# Plants bugs in the source, one at a time, and lists those that the simulation misses.
planted-bugs: $(VENV)/.ready-dev
	$(BIN)/python -m tests.torture.planted_bugs

# AREA=scheduling runs one area; see docs/reference/upstream-suite.md.
upstream-suite: parts
	$(BIN)/python -m tests.e2e.upstream_suite $(AREA)

# Pictures of the pages are kept in .cache/ui. Without a browser, and without the right to install one, it says so.
ui-test: $(VENV)/.ready-dev
	@$(BIN)/python -m tests.web.browser.install
	$(call run-tests,tests/web/browser -rs)

# Needs buildah and pip's registry, but no registry of images. What it makes is kept in .cache/image.
image-check: $(VENV)/.ready-dev
	KUBESCHED_IMAGE=1 $(BIN)/pytest tests/deploy/test_image.py -rs

lint: $(VENV)/.ready-dev
	$(BIN)/ruff check src tests examples
	$(BIN)/ruff format --check src tests examples
	$(BIN)/mypy
	$(BIN)/lint-imports

# The versions for deployment, for every platform and Python; pip refuses any file with another hash.
lock: $(AUDIT)/.ready
	$(AUDIT)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-annotate --no-header --no-emit-index-url --no-emit-find-links pyproject.toml --output-file deploy/requirements.txt
	$(AUDIT)/bin/python -c 'import tomllib; print(*tomllib.load(open("pyproject.toml", "rb"))["build-system"]["requires"], sep="\n")' \
		| $(AUDIT)/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
		--no-annotate --no-header --no-emit-index-url --no-emit-find-links - --output-file deploy/requirements-build.txt

wheel: $(AUDIT)/.ready
	$(AUDIT)/bin/python -m tests.reproducible_wheel dist
	$(AUDIT)/bin/cyclonedx-py requirements deploy/requirements.txt --pyproject pyproject.toml --output-reproducible \
		--output-file dist/sbom.json

# A package that pip-audit cannot look up in its database on the network counts as a failure.
audit: wheel
	$(AUDIT)/bin/pip-audit --strict --require-hashes --disable-pip --requirement deploy/requirements.txt

bench: $(VENV)/.ready
	$(BIN)/kubesched bench --output bench/results.json

# Counts do not depend on the load of the machine.
bench-check: $(VENV)/.ready
	$(BIN)/kubesched bench --scheduler-perf bench/workloads --label-filter guard --check bench/instructions.json $(UPDATE)

# The size is a label of bench/workloads. After so many minutes no further workload begins.
SIZE ?= quick
ROUNDS ?= 1
MINUTES ?= 14
bench-peer: parts
	$(BIN)/kubesched bench --scheduler-perf bench/workloads --peer --label-filter $(SIZE) --rounds $(ROUNDS) --minutes $(MINUTES) \
		--output bench/peer-$(SIZE).json --markdown docs/performance.md --ratios README.md

flame-graphs: $(VENV)/.ready
	$(BIN)/kubesched bench --scheduler-perf bench/workloads --flame docs/flame-graphs \
		Plain/1000Nodes Mixed/1000Nodes Preemption/250Nodes_50Pods Devices/100Nodes

# Broken links and pages outside the navigation are errors. The generated pages of the reference are committed.
docs: $(VENV)/.ready-docs
	$(BIN)/python -m tests.site.reference
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo 'The site is in build/site. To read it with its search: $(BIN)/python -m http.server --directory build/site'

clean:
	rm -rf $(VENV) build .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache

# What runs.
$(VENV)/.ready: pyproject.toml
	@test -n "$(PYTHON)" || { echo 'kubesched needs Python 3.11 or newer, and there is none on the PATH.' >&2; \
		echo 'Install one, or name it: make PYTHON=/path/to/python3.12 demo' >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo 'kubesched needs Python 3.11 or newer; "$(PYTHON)" is older, or no Python at all.' >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo '"$(PYTHON)" cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv' >&2; exit 1; }
	@echo 'Setting up $(VENV), once...' >&2
	@test -x $(BIN)/pip || $(PYTHON) -m venv --clear $(VENV)
	@$(PIP) install --editable .
	@touch $@

# What tests and checks need beside it. pip reads [dependency-groups] from 25.1 on.
$(VENV)/.ready-dev: $(VENV)/.ready
	@echo 'Installing the tools for tests and checks, once...' >&2
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --group dev
	@touch $@

# What the site needs beside it.
$(VENV)/.ready-docs: $(VENV)/.ready
	@echo 'Installing the tools for the documentation, once...' >&2
	@$(PIP) install --upgrade 'pip>=25.1'
	@$(PIP) install --group docs
	@touch $@

# The tools of `make lock`, `make wheel` and `make audit` stay apart: they are no part of what is tested.
$(AUDIT)/.ready: pyproject.toml
	@test -x $(AUDIT)/bin/pip || $(PYTHON) -m venv --clear $(AUDIT)
	@$(AUDIT)/bin/python -m pip --quiet --disable-pip-version-check install --upgrade 'pip>=25.1'
	@$(AUDIT)/bin/python -m pip --quiet --disable-pip-version-check install --group audit
	@touch $@
