# make install   .venv with everything, built for this machine's processor
# make train     learns connect four           make test        with test-faults: as continuous integration
# make test-long the tests that take minutes   make lint        ruff, mypy, words, clang-format, clang-tidy
# make test-gpu     what only a GPU can show (benchmarks/gpu.sh measures it)
# make test-faults  every fault of docs/operations/faults.md, with real processes that are killed, stopped and cut off
# make test-nodes   the same on clusters of several nodes, one after the other; continuous integration has no time for it
# make soak MINUTES=60 SEED=1 WIRING=both  kills and stops parts of both wirings at random (nodes: and a whole node):
#                benchmarks/reliability/soak.py
# make fuzz      runs each target of tests/fuzz/fuzz_bytes.py FUZZ_RUNS times
# make lock      writes requirements.lock, whose wheels `make install LOCKED=1` installs and no others
# make sbom      writes build/sbom.json, the packages of .venv as CycloneDX
# make oracles   fetches the engines, game records and packages that the tests compare with
SHELL := /bin/bash
.SHELLFLAGS := -eu -o pipefail -c
.DELETE_ON_ERROR:
.ONESHELL:
.PHONY: install train test test-gpu test-faults test-nodes test-long soak fuzz lock sbom oracles lint format docs results clean

PYTHON ?= python3
TORCH_CPU_INDEX ?= https://download.pytorch.org/whl/cpu
PYTEST_ARGS ?=
# Tests that start whole runs stay together on one of these workers, and wait for half of their time: tests/conftest.py.
TEST_WORKERS ?= 3
# Tests of faults wait for deadlines most of the time, so more of them run at once than there are cores.
FAULT_WORKERS ?= 3
TRAIN_ARGS ?=
MINUTES ?= 60
SEED ?= 1
WIRING ?= both
FUZZ_RUNS ?= 10000000
FUZZ_ARGS ?=
# 1: each package has to be the file whose SHA-256 stands in requirements.lock, from whatever index.  Only torch is not
# there, because indexes serve several builds of it.  Its stamps have names of their own, because an installation without
# it has looked at no hash; one with it is as good as one without.
LOCKED ?=
LOCK := $(if $(filter 1,$(LOCKED)),-locked)

VENV := .venv
BIN := $(VENV)/bin
TOOLS := setuptools scikit-build-core nanobind cmake ninja
PIP := $(BIN)/python -m pip --disable-pip-version-check
CORE := $(shell find common/core -name '*.cpp' -o -name '*.h' -o -name '*.def' -o -name CMakeLists.txt)
PACKAGES := actors learner replay common configs deploy
ORACLES := $(shell sed -n 's/^oracles = \[\(.*\)\].*/\1/p' pyproject.toml | tr ',' ' ')
TORCH := $(shell sed -n 's/^torch==//p' constraints.txt)

# pip may be configured to look elsewhere, too: its report says where the wheel came from.
define TORCH_ORIGIN
import json, sys, urllib.parse
wheel = json.load(open(sys.argv[1]))["install"][0]
origin = urllib.parse.urlsplit(wheel["download_info"]["url"]).netloc or "a local folder"
print("torch: no NVIDIA driver, so the CPU build is taken:", wheel["metadata"]["version"], "from", origin)
endef

install: $(VENV)/.installed$(LOCK)

$(VENV)/.tools$(LOCK): constraints.txt $(if $(LOCK),requirements.lock)
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
ifeq ($(LOCKED),1)
	$(PIP) install --quiet --no-deps --force-reinstall --require-hashes -r requirements.lock
else
	$(PIP) install --quiet -c constraints.txt $(TOOLS)
endif
	touch $(VENV)/.tools $@

# Where there is no NVIDIA driver, the CPU build is a tenth of the download.
$(VENV)/.torch: $(VENV)/.tools$(LOCK)
	@if [ "$$($(BIN)/python -c 'import importlib.metadata as m; print(m.version("torch").split("+")[0])' 2>/dev/null)" = "$(TORCH)" ]; then
	  echo "torch: $(TORCH) is installed already"
	elif command -v nvidia-smi >/dev/null; then
	  echo "torch: this machine has an NVIDIA driver, so the ordinary index's build is taken"
	elif $(PIP) install --quiet --timeout 10 --retries 1 --no-deps --index-url $(TORCH_CPU_INDEX) \
	    --report $(VENV)/torch.json torch==$(TORCH); then
	  $(BIN)/python -c '$(TORCH_ORIGIN)' $(VENV)/torch.json
	else
	  echo "torch: no NVIDIA driver, but $(TORCH_CPU_INDEX) is out of reach: the ordinary index's torch==$(TORCH) is taken"
	fi
	touch $@

# Ray imports jsonschema, which with rfc3987-syntax builds a grammar, for a second in each of Ray's processes.
$(VENV)/.installed$(LOCK): pyproject.toml constraints.txt $(CORE) $(VENV)/.torch
ifeq ($(LOCKED),1)
	$(PIP) install --quiet -c constraints.txt torch==$(TORCH)
	SHUSAKU_NATIVE=1 $(PIP) install --quiet --no-build-isolation --no-deps --editable .
	$(PIP) check
else
	SHUSAKU_NATIVE=1 $(PIP) install --quiet --no-build-isolation -c constraints.txt --editable '.[test]'
endif
	$(PIP) uninstall --quiet --yes rfc3987-syntax
	@mkdir -p build/names/shusaku
	@ln -sfn $(CURDIR)/deploy/api/shusaku/__init__.py build/names/shusaku/__init__.py
	@for folder in $(PACKAGES); do ln -sfn $(CURDIR)/$$folder build/names/shusaku/$$folder; done
	touch $(VENV)/.installed $@

train: install
	$(BIN)/shusaku train $(TRAIN_ARGS)

# Bounds in seconds are of a machine that does nothing else, so what fails beside other tests is run again, alone.
test: install
	@lint=0; $(MAKE) --no-print-directory lint || lint=$$?
	$(BIN)/python -m pytest -m "not long and not faults and not nodes" -n $(TEST_WORKERS) --dist loadgroup $(PYTEST_ARGS) || \
	$(BIN)/python -m pytest -m "not long and not faults and not nodes" --last-failed --last-failed-no-failures none \
	  $(PYTEST_ARGS)
	exit $$lint

test-faults: install
	$(BIN)/python -m pytest -m faults -n $(FAULT_WORKERS) --dist worksteal $(PYTEST_ARGS) || \
	$(BIN)/python -m pytest -m faults --last-failed --last-failed-no-failures none $(PYTEST_ARGS)

test-nodes: install
	$(BIN)/python -m pytest -m nodes $(PYTEST_ARGS)

# What only a GPU can show; benchmarks/gpu.sh measures it.
test-gpu: install
	$(BIN)/python -m pytest -m gpu $(PYTEST_ARGS)

test-long: install
	$(PIP) install --quiet -c constraints.txt atheris || echo "atheris is missing: nothing is fuzzed" >&2
	$(BIN)/python -m pytest -m long $(PYTEST_ARGS)

fuzz: install
	$(PIP) install --quiet -c constraints.txt atheris
	for target in record redis checkpoint shared_memory tcp sgf pgn kif csa jsonl; do
	  echo "$$target: $(FUZZ_RUNS) executions"
	  $(BIN)/python tests/fuzz/fuzz_bytes.py $$target -runs=$(FUZZ_RUNS) $(FUZZ_ARGS)
	done

# For Python 3.11 on Linux x86-64, as constraints.txt.  torch and the CUDA packages that one of its builds asks for are
# left out; no name of an index or of a folder is written.
lock: install
	$(PIP) install --quiet -c constraints.txt uv
	printf '%s\n' $(TOOLS) > build/tools.in
	$(BIN)/uv pip compile --quiet pyproject.toml build/tools.in --extra test -c constraints.txt --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --no-header --no-annotate --python-version 3.11 -o build/requirements.lock
	{ echo "# Made by \`make lock\` from pyproject.toml and constraints.txt."
	  awk '/^[A-Za-z]/ { keep = !/^(torch|triton|nvidia-|cuda-)/ } keep' build/requirements.lock; } > requirements.lock

sbom: install
	$(BIN)/python -m cyclonedx_py environment --pyproject pyproject.toml --output-reproducible --spec-version 1.6 \
	  --output-format JSON --output-file build/sbom.json $(BIN)/python

soak: install
	$(BIN)/python -m benchmarks.reliability.soak --minutes $(MINUTES) --seed $(SEED) --wiring $(WIRING)

oracles: $(VENV)/.tools$(LOCK)
	$(BIN)/python tests/fixtures/oracles.py
	$(PIP) install --quiet -c constraints.txt $(ORACLES) || {
	  echo "missing: $(subst ",,$(ORACLES)): tests that compare with them will be skipped, or fail under CI" >&2
	  [ -z "$${CI:-}" ]
	}

lint: install
	$(BIN)/ruff check .
	$(BIN)/mypy
	@if command -v luac >/dev/null; then luac -p replay/stream/*.lua; else echo "luac (Debian: lua5.1) is missing: Lua files are not checked"; fi
	$(BIN)/python -m pytest -q tests/test_words.py
	$(BIN)/clang-format --dry-run --Werror $(filter %.cpp %.h,$(CORE)) benchmarks/*/*.cpp
	$(MAKE) --no-print-directory build/.tidied

# clang-tidy takes about a minute on two cores, so it runs only after a change of the core; these files include its
# search, rows and bindings, and the games that it holds for so far.
TIDY := $(addprefix common/core/bindings/,analysis.cpp games.cpp network.cpp registry.cpp rows.cpp search.cpp) \
  $(addprefix common/core/bindings/games/,chess.cpp external_short.cpp go.cpp python_rules.cpp tic_tac_toe.cpp)
build/.tidied: .clang-tidy $(CORE) | $(VENV)/.installed$(LOCK)
	commands=$$(ls -t build/*/compile_commands.json | head -1)
	printf '%s\n' $(TIDY) | xargs -n 1 -P "$$(nproc)" $(BIN)/clang-tidy --quiet -p "$${commands%/*}"
	touch $@

format: install
	$(BIN)/ruff check --fix .
	$(BIN)/clang-format -i $(filter %.cpp %.h,$(CORE)) benchmarks/*/*.cpp

results: install
	$(BIN)/python -m benchmarks.make_results

docs: install
	$(BIN)/python -m shusaku.deploy.cli.config_reference

clean:
	rm -rf build dist .mypy_cache .ruff_cache .pytest_cache common/_core*.so $(VENV)/.installed*
