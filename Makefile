# make demo   set up, train a small model on the embedded text, score it, write its table row
# make test   set up, check and run the tests
# make bench  set up, run the quick benchmarks and print their ratios (5 minutes)
# make test-prepare   set up with TensorFlow, test the preparation of the real data sets
# make test-tpu-check set up with the TPU compiler, compile training steps for TPUs
# All may be run again at any time: what is installed or trained already is not done again; scoring,
# tests and benchmarks are.

# Large pages of memory: a training step takes 0.7 to 0.9 of the time (docs/speed.md). glibc only.
export GLIBC_TUNABLES ?= glibc.malloc.hugetlb=1

PYTHON ?= python3
VENV ?= .venv
RUN := $(VENV)/bin/python
UV := $(shell command -v uv 2>/dev/null)

DEMO := configs/wmt_ende.py:random+vanilla,scale=small
WORKDIR ?= runs/demo

.PHONY: demo test bench test-prepare test-tpu-check lint results clean help

help:
	@sed -n 's/^# \{0,1\}//p' Makefile

demo: $(VENV)/.installed
	@echo "--- training $(DEMO) in $(WORKDIR): about 4 minutes on 2 cores"
	$(RUN) train.py --config=$(DEMO) --workdir=$(WORKDIR)
	@echo "--- scoring it on the whole test split: about 1 minute"
	$(RUN) eval.py --workdir=$(WORKDIR)

test: lint
	@echo "--- running the tests, two at a time"
	$(RUN) -m pytest -n 2 --dist worksteal

bench: $(VENV)/.installed
	$(RUN) -m benchmarks --write=results/benchmarks.md

# TFDS' own builders need TensorFlow; nothing else does, so it has an environment of its own.
test-prepare: $(VENV)-prepare/.installed
	@echo "--- preparing small archives with every builder of TFDS that the tasks use"
	$(VENV)-prepare/bin/python -m pytest -m tensorflow tests/with_tensorflow

# The TPU compiler is 0.5 GB, and only compiling for a TPU that is not there needs it.
test-tpu-check: $(VENV)-tpu-check/.installed
	@echo "--- compiling training steps for TPUs that need not be there: some minutes"
	$(VENV)-tpu-check/bin/python -m pytest -m tpu_check tests/test_compile_for.py

lint: $(VENV)/.installed-dev
	@echo "--- checking style and types"
	$(RUN) -m ruff check .
	$(RUN) -m ruff format --check .
	$(VENV)/bin/pyright --pythonpath $(RUN)

results: $(VENV)/.installed
	$(RUN) eval.py --render

clean:
	rm -rf $(VENV) $(VENV)-prepare $(VENV)-tpu-check

# The requirements are installed again when their file changes.
$(VENV)/.installed: requirements.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or newer is needed, $(PYTHON) is $$($(PYTHON) -V); try make PYTHON=python3.12"; exit 1; }
	@echo "--- installing requirements.txt into $(VENV): about 1 to 2 minutes"
	@$(if $(UV),$(UV) venv --quiet --allow-existing --python $(PYTHON) $(VENV),$(PYTHON) -m venv $(VENV))
	@$(if $(UV),$(UV) pip install --quiet --python $(RUN) -r $<,$(RUN) -m pip install --quiet --disable-pip-version-check -r $<)
	@touch $@

$(VENV)/.installed-dev: requirements-dev.txt $(VENV)/.installed
	@echo "--- installing requirements-dev.txt into $(VENV)"
	@$(if $(UV),$(UV) pip install --quiet --python $(RUN) -r $<,$(RUN) -m pip install --quiet --disable-pip-version-check -r $<)
	@touch $@

$(VENV)-prepare/.installed: requirements-prepare.txt requirements.txt
	@echo "--- installing requirements-prepare.txt into $(@D): about 2 minutes, 1.8 GB"
	@$(if $(UV),$(UV) venv --quiet --allow-existing --python $(PYTHON) $(@D),$(PYTHON) -m venv $(@D))
	@$(if $(UV),$(UV) pip install --quiet --python $(@D)/bin/python,$(@D)/bin/python -m pip install --quiet --disable-pip-version-check) \
	  -r $< "$$(grep '^pytest' requirements-dev.txt)"
	@touch $@

$(VENV)-tpu-check/.installed: requirements-tpu-check.txt requirements.txt
	@echo "--- installing requirements-tpu-check.txt into $(@D): about 2 minutes, 1.2 GB"
	@$(if $(UV),$(UV) venv --quiet --allow-existing --python $(PYTHON) $(@D),$(PYTHON) -m venv $(@D))
	@$(if $(UV),$(UV) pip install --quiet --python $(@D)/bin/python,$(@D)/bin/python -m pip install --quiet --disable-pip-version-check) \
	  -r $< "$$(grep '^pytest>' requirements-dev.txt)"
	@touch $@
