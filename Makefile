# Each target does its own set-up: a fresh clone needs only Python 3.11, pip, make and a C compiler.
#   make reproduce   the whole reproduction at scale smoke on the embedded data, then one HTML report
#   make test        linters and all tests

PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV   := .venv
BIN    := $(VENV)/bin
READY  := $(VENV)/ready
CORES  ?= all
ARGS   ?=
SCALE  ?= paper
FOLDER ?= .

.PHONY: reproduce status test lint fast-test ui bench report splits commit-splits schema freeze rates lock clean

# A kill leaves Snakemake's lock behind: it is taken away where no Snakemake can be at work in this folder.
reproduce: $(READY)
	@$(BIN)/python -m fedbayes.unlock
	$(BIN)/snakemake --cores $(CORES) $(ARGS)

# What became of every run, e.g. make status ARGS="scale=paper papers=[bpfed]"; --missing lists outdated runs and those that never started.
status: $(READY)
	@$(BIN)/python -m fedbayes.status $(ARGS)

test: lint
	$(BIN)/pytest -n 3

fast-test: $(READY)
	$(BIN)/pytest -n 2 -m "not slow"

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/snakefmt --check Snakefile workflow
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/snakemake --lint

# The MLflow pages, on this machine only. MLflow's own start page is about language models: this address is the table.
ui: $(READY)
	@echo "Open http://127.0.0.1:5000/#/experiments/1/runs?workflowType=machine_learning&viewStateShareKey=reproduction"
	MLFLOW_DISABLE_TELEMETRY=true $(BIN)/mlflow ui --host 127.0.0.1 --port 5000 --workers 1

# The engine beside a plain one-client-at-a-time loop, as ratios measured in one process.
bench: $(READY)
	$(BIN)/python -m fedbayes.benchmark results/benchmark.json $(ARGS)

# Snakemake's own report with provenance and runtimes, after a reproduction and with its arguments in ARGS.
report: $(READY)
	$(BIN)/snakemake --report report.zip $(ARGS)

# Generate every split data.dvc pins; `dvc status` is clean afterwards.
splits: $(READY)
	$(BIN)/python -m fedbayes.data.commit_splits check

# After a change of a split: write config/splits.csv and data.dvc anew.
commit-splits: $(READY)
	$(BIN)/python -m fedbayes.data.commit_splits write

# After a change of a method's or network's Config.
schema: $(READY)
	$(BIN)/python -m fedbayes.schema

# Copy finished results of a scale (SCALE=paper or reduced) into docs/reproduction/ and the README.
freeze: $(READY)
	$(BIN)/python -m fedbayes.analysis.freeze $(SCALE)

# Bring config/rates.csv up to date from finished runs (below FOLDER) and frozen ones: what the plan's costs are made of.
rates: $(READY)
	$(BIN)/python -m fedbayes.analysis.rates $(FOLDER)

# requirements.lock: exact versions of what pyproject.toml asks for; torch's own build and its drivers are left to pip.
lock: $(READY)
	( echo "# Exact versions of everything the project needs, made by 'make lock'. torch's CUDA libraries are left to pip: a CPU build has none."; \
	  $(BIN)/pip freeze --all --exclude-editable | grep -viE '^(pip|nvidia-.*|cuda-.*|triton|opencv-python-headless)==' | sed 's/+cpu//' | sort -f ) > $(VENV)/lock
	mv $(VENV)/lock requirements.lock

# OpenCV in its headless form, over the one that imagecorruptions-imaug asks for: that needs the system's libGL and X11.
OPENCV = $(shell sed -n 's/^opencv-python==//p' requirements.lock)

# Without isolation: an isolated build would fetch build tools that the lock does not pin.
$(READY): requirements.lock pyproject.toml
	$(PYTHON) -m venv --clear $(VENV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps opencv-python-headless==$(OPENCV)
	$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

# The environment and Snakemake's notes; results, data and the MLflow store are yours to delete.
clean:
	rm -rf $(VENV) .snakemake
