# Everything that people and CI do here. `make` alone lists it.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
CORES := $(shell n=$$(nproc 2>/dev/null || echo 2); [ $$n -gt 8 ] && n=8; echo $$n)
# Two more than there are cores, because tests on a server wait for half of their time.
SPARE := 2
WORKERS ?= $(shell echo $$(($(CORES) + $(SPARE))))
# Whole files, in the order that test/conftest.py gives them.
BY_FILE := --dist loadfile --no-loadscope-reorder
PYTEST = $(BIN)/pytest -n $(WORKERS) $(BY_FILE)
# The API server of `make test`: the embedded one, which needs no program of Kubernetes, or a real one.
SERVER ?= embedded
UNIT_TESTS := unit-tests-of-the-core unit-tests-of-the-rest
CORE := $(addprefix test/unit/,controller dialects job machinery planning projections)
# Chart and monitoring are stages of their own.
INTEGRATION := test/lab test/proof test/scenarios test/packaging --ignore=test/packaging/chart --ignore=test/packaging/monitoring
SEARCHES := $(addprefix test/proof/,test_search.py test_search_of_others.py test_search_of_queues.py)
# The minors of Kubernetes that `make test-matrix` tries, beside the default one of hack/lab/tools/tools.toml.
OTHER_MINORS ?= 1.33 1.34 1.37
# Some machines forbid Python to keep what it has compiled; pytest would then compile every test in every process, each
# time, which takes longer than to run the unit tests.
unexport PYTHONDONTWRITEBYTECODE

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

##@ Start here

.PHONY: help
help: ## List the targets
	@awk 'BEGIN { FS = ":.*## " } \
		/^##@ / { printf "\n%s\n", substr($$0, 5) } \
		/^[a-z0-9-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Train with TensorFlow on this machine, without a cluster
	@PYTHON=$(PYTHON) hack/demo

.PHONY: test
test: venv ## Run the unit tests, the simulation and the scenarios, without any program of Kubernetes
	@$(MAKE) --no-print-directory --jobs=3 --keep-going $(UNIT_TESTS) integration-tests

.PHONY: integration-tests
integration-tests: SPARE := 3
integration-tests: $(VENV)/.compiled
	$(PYTEST) --server=$(SERVER) -m 'not nightly' test/simulation $(INTEGRATION)

# All of them, or with ONLY=kubernetes_only what `make test` leaves out.
.PHONY: scenarios
scenarios: venv ## Run the scenarios on a real etcd and kube-apiserver, and what else needs them, or kubectl
	$(PYTEST) -m '$(or $(ONLY),kubernetes) and not nightly' $(INTEGRATION)

.PHONY: faults
faults: venv ## Run the fault catalogue: real servers and connections, broken on purpose
	$(PYTEST) test/faults

##@ While working

.PHONY: venv
venv: $(VENV)/.installed ## Make .venv with exactly what the lock says

# The lock has everything, so nothing is resolved (--no-deps). Python compiles what is imported, when it is: compiling all
# takes longer. uv, which is in the lock, installs in two seconds what takes pip thirty; where it cannot, because a mirror or
# a certificate is set for pip alone, pip does it.
$(VENV)/.installed: PIP := $(BIN)/pip install --quiet --disable-pip-version-check --no-compile --no-deps
$(VENV)/.installed: UV := $(BIN)/uv pip install --quiet --python $(BIN)/python --no-deps
$(VENV)/.installed: hack/requirements/ci.txt setup.cfg pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "make venv: Python 3.11 or newer is needed; set PYTHON=... to one" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
		echo "make venv: this Python cannot make virtual environments (Debian: apt install python3-venv)" >&2; exit 1; }
	@echo "venv: making $(VENV) with $$($(PYTHON) --version)"
	@$(PYTHON) -m venv --clear $(VENV)
	@echo "venv: installing the packages of $< (a download of 110 MB, unless they are kept)"
	@awk '/^uv==/ { found = 1 } found { print } found && !/\\$$/ { exit }' $< >$(VENV)/uv.txt
	@$(PIP) --require-hashes -r $(VENV)/uv.txt
	@$(UV) --require-hashes -r $< || { \
		echo "venv: uv could not; pip, which has settings of its own, takes longer"; $(PIP) --require-hashes -r $<; }
	@echo "venv: installing tf-operator, to be run from this folder"
	@$(PIP) --no-build-isolation -e .
	@touch $@

.PHONY: fmt
fmt: venv ## Format the code, and fix what the linter can fix
	$(BIN)/ruff format
	$(BIN)/ruff check --fix

.PHONY: test-unit
test-unit: venv ## Run the unit tests alone (seconds)
	@$(MAKE) --no-print-directory --jobs=2 --keep-going $(UNIT_TESTS)

# pytest compiles test modules in its own way, and keeps them. The processes of the first run would each compile all of
# them, at the same time.
$(VENV)/.compiled: $(VENV)/.installed
	@$(BIN)/pytest -q --server=embedded -p no:cacheprovider --collect-only test/simulation $(INTEGRATION) >/dev/null 2>&1; touch $@

# Two processes of their own, because for tests of a millisecond it costs more to hand them out one by one than to run
# them. What they print comes when they end, so that it does not mix.
.PHONY: $(UNIT_TESTS)
unit-tests-of-the-core: TESTS := $(CORE)
unit-tests-of-the-rest: TESTS := test/unit $(addprefix --ignore=,$(CORE))
$(UNIT_TESTS): export COVERAGE_FILE = .coverage.$@
$(UNIT_TESTS):
	@output=$$($(BIN)/pytest -q --server=$(SERVER) -m 'not nightly' $(MORE) $(TESTS) 2>&1); status=$$?; \
	[ $$status -eq 0 ] && lines=1 || lines=1000; \
	echo "$@:"; printf '%s\n' "$$output" | tail -n $$lines; exit $$status

.PHONY: tools
tools: venv ## Get every tool that CI needs (builds what cannot be downloaded)
	hack/tool $$(hack/tool --list | awk '$$4 != "nightly" { print $$1 }')
	hack/environment docs

.PHONY: image
image: ## Build the operator's image with docker, podman or buildah (BASE=IMAGE: on that base)
	@hack/image $(if $(BASE),--base $(BASE))

# What .github/workflows/release.yaml runs, with the TAG, and PLATFORMS=linux/amd64,linux/arm64.
.PHONY: release-dry-run
release-dry-run: venv ## Build all that a release has into dist, twice, and compare (BASE=IMAGE: its image on that base)
	hack/release check $(if $(TAG),--tag $(TAG))
	rm -rf dist
	hack/release dry-run dist $(if $(BASE),--base $(BASE)) $(if $(PLATFORMS),--platforms $(PLATFORMS)) \
		$(if $(ENGINE),--engine $(ENGINE))
	hack/check-image dist/tf-operator-*-image.tar

# Or, with RELEASE=FOLDER, what is there.
.PHONY: release-try
release-try: venv ## Build a release on a base of Debian's packages, and try its wheel, its chart and its image (root on Linux)
	$(if $(RELEASE),,hack/base-image && $(MAKE) --no-print-directory release-dry-run BASE=localhost/tf-operator-base)
	RELEASE=$(or $(RELEASE),dist) $(BIN)/pytest test/packaging/test_wheel.py -k "not kubectl"
	RELEASE=$(or $(RELEASE),dist) $(BIN)/pytest test/packaging/chart/test_life.py -k installed_again
	RELEASE=$(or $(RELEASE),dist) $(BIN)/pytest test/cluster/e2e/test_install.py test/cluster/e2e/test_upgrade_and_removal.py

.PHONY: release-notes
release-notes: venv ## Print what the changelog says of a version (TAG=v0.1.0), or of what is not released yet
	@hack/release notes $(TAG)

.PHONY: generate
generate: venv ## Write everything that is generated
	@hack/generate

##@ What is too long for every change

.PHONY: nightly
nightly: mutants mutation scenarios test-matrix schedulers wheels release-try trainings local-trainings conversions histories proof-night local-server parity go-programs quiet kueue browser pages soak test-busy pythons bench ## Mutants, other minors, long trainings, ten minutes of faults, measurements

.PHONY: test-busy
test-busy: venv ## Run `make test` while four processes spin, so that no test depends on a fast machine
	hack/busy $(MAKE) --no-print-directory test

.PHONY: pythons
pythons: ## Run `make demo` and `make test` with each supported Python of this machine, in environments of their own
	@hack/pythons

.PHONY: kueue
kueue: venv ## Run the queues of Kueue, of two releases, with its own code for TFJobs and without it
	$(BIN)/pytest test/schedulers/kueue -m nightly

.PHONY: pages
pages: venv ## The pages whose commands install the operator, or train, and what kind makes of the page on it
	$(BIN)/pytest test/packaging/docs -m nightly

.PHONY: mutants
mutants: venv ## Reintroduce the defects of test/mutants, and expect a test to notice each
	hack/mutants

# Another sample each night. All of them take hours: hack/mutants score.
.PHONY: mutation
mutation: venv ## Make 300 small changes of the core, and count those that tests notice (BASE=REVISION: 30 in a branch's lines)
	hack/mutants score $(if $(BASE),--changed $(BASE) --sample 30,--sample 300 --seed $(or $(SEED),$$(date +%j)))

.PHONY: test-matrix
test-matrix: venv ## Run the scenarios on the other supported minors of Kubernetes
	@for minor in $(OTHER_MINORS); do \
		echo "== Kubernetes $$minor"; \
		KUBERNETES_MINOR=$$minor $(PYTEST) -m kubernetes test/scenarios --ignore=test/scenarios/parity || exit 1; \
	done

.PHONY: schedulers
schedulers: venv ## Gangs on kube-scheduler 1.37 and scheduler-plugins on simulated nodes; what chart and overlays install for scheduling
	KUBERNETES_MINOR=1.37 $(BIN)/pytest -s test/schedulers --ignore=test/schedulers/kueue

.PHONY: wheels
wheels: venv ## Run a job from the wheel with each Python that is supported, and jobs of Kubeflow's own Python client
	$(BIN)/pytest test/packaging/test_wheel.py test/packaging/test_kubeflow_sdk.py -m nightly

.PHONY: trainings
trainings: images ## The end-to-end tests that are too long for every change: trainings that are drained, resumed, or long, and a network plugin
	@$(MAKE) --no-print-directory e2e E2E=nightly

.PHONY: local-trainings
local-trainings: venv ## The same trainings without a cluster, the demo, interrupted and killed at 20 moments each, and 50 programs that hang
	$(BIN)/pytest test/scenarios/local/test_trainings.py
	$(BIN)/pytest -m nightly test/scenarios/local/test_hangs.py

.PHONY: conversions
conversions: venv ## 10,000 TFJobs through all versions, 100,000 malformed ones, 1000 requests while certificates change, Helm 4
	ROUND_TRIPS=10000 $(BIN)/pytest -q --timeout 0 test/simulation/test_conversion.py
	ROTATION_REQUESTS=1000 $(BIN)/pytest -q --timeout 0 test/scenarios/app/test_older_versions.py
	$(BIN)/pytest -q -m nightly test/packaging/chart

.PHONY: histories
histories: venv ## Lives of three operators (SEEDS=100000), 1,000 random histories of jobs and leaders, an operator killed at every write
	SEEDS=$(or $(SEEDS),100000) $(BIN)/pytest -q -n $(CORES) --timeout 0 test/proof/test_processes.py
	HISTORIES=1000 CRASHES=all $(BIN)/pytest -q --timeout 0 test/simulation/test_histories_of_kinds.py \
		test/simulation/test_job_histories.py test/simulation/test_lives.py test/simulation/test_queue_day.py \
		test/simulation/test_leaderelection.py
	ANY_OBJECTS=5000 $(BIN)/pytest -q --timeout 0 test/simulation/test_any_object.py

.PHONY: parity
parity: venv ## 10,000 random sequences of requests, and an old kubectl, to the embedded API server and to kube-apiserver
	PARITY_SEQUENCES=10000 $(BIN)/pytest -q --timeout 0 test/scenarios/parity/test_sequences.py
	$(BIN)/pytest -q -m nightly test/scenarios/parity/test_kubectl.py

.PHONY: proof-night
proof-night: venv ## Search every state of the same jobs with one more fault each, and find planted defects by the search alone
	PROOF=night $(BIN)/pytest -q -n 2 --dist worksteal --timeout 0 $(SEARCHES)
	$(BIN)/pytest -q -m nightly test/proof/test_bites.py

.PHONY: local-server
local-server: venv ## Send 10,000 bad requests to the embedded API server, and interrupt its start 20 times
	BAD_REQUESTS=10000 $(BIN)/pytest -q --timeout 0 test/simulation/test_bad_requests.py
	INTERRUPTED_STARTS=20 $(BIN)/pytest -q test/scenarios/local/test_up.py

.PHONY: go-programs
go-programs: venv ## Run the suites of controller-runtime, and sample-controller, on the embedded API server and on kube-apiserver
	$(BIN)/pytest -q -m nightly test/scenarios/parity/test_go_programs.py

.PHONY: quiet
quiet: venv ## Have fifty jobs run for ten minutes in which nothing happens and nothing may be written
	QUIET_SECONDS=600 $(BIN)/pytest -q --timeout 900 test/scenarios/test_quiet.py

.PHONY: soak
soak: venv ## Live for ten minutes (SOAK_SECONDS) under random faults of every kind
	$(BIN)/pytest -s test/faults/soak.py

# With a Python like the image's, if this machine has one: else the figures are a tenth too high, and bench_operator says so.
.PHONY: bench
bench: ## Measure: the initial list of 10,000 pods, and what jobs cost, each beside other clients in one run
	@for python in $(PYTHON) /usr/bin/python3; do $$python test/bench/python_build.py && break; done 2>/dev/null || python=$(PYTHON); \
		$(MAKE) --no-print-directory measurements VENV=.venv-bench PYTHON=$$python

.PHONY: measurements
measurements: venv
	@$(BIN)/python -m compileall -q $(VENV)/lib || true  # as in the image: what is compiled at its start takes memory
	$(BIN)/python test/bench/bench_informer.py
	PYTHONPATH=test:hack $(BIN)/python test/bench/bench_operator.py
	PYTHONPATH=test:hack $(BIN)/python test/bench/bench_local.py
	PYTHONPATH=test:hack $(BIN)/python test/bench/bench_progress.py

##@ What CI checks

.PHONY: check
check: lint types contracts verify docs proof test scenarios faults chart monitoring cluster images e2e cover ## Everything that CI runs (as root on Linux: clusters and images need it)

.PHONY: lint
lint: venv ## Style, bugs and formatting (ruff); workflows (actionlint, zizmor)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/zizmor --offline --quiet .github/workflows
	$$(hack/tool actionlint) -color

.PHONY: types
types: venv ## Types (mypy --strict)
	$(BIN)/mypy

.PHONY: contracts
contracts: venv ## Layers (import-linter), names, sizes and the purity of the core (hack/check-house); that such checks bite
	$(BIN)/lint-imports --no-logo
	PYTHONPATH=hack:test $(BIN)/lint-imports --no-logo --config hack/imports.cfg
	$(BIN)/python hack/check-house
	$(BIN)/pytest test/house

.PHONY: verify
verify: venv ## Everything generated is what its source says
	@before=$$(git diff | git hash-object --stdin; git status --porcelain); hack/generate || exit 1; \
	after=$$(git diff | git hash-object --stdin; git status --porcelain); \
	[ "$$before" = "$$after" ] || { git --no-pager diff --stat; \
		echo "make verify: a generated file was not what its source says; commit what hack/generate has written" >&2; exit 1; }

.PHONY: proof
proof: venv ## Search every state of small jobs, more than a million, and live 500 lives of three operators under faults
	PROOF=gate $(BIN)/pytest -q -n 2 --dist worksteal --timeout 0 $(SEARCHES) test/proof/test_processes.py

.PHONY: docs
docs: venv ## The documentation site, into site/: every page in the navigation, every link and anchor, no other host
	hack/docs

.PHONY: chart
chart: venv ## The Helm chart: its suites, Helm 3 and 4, checks of what it makes, and its life on a real control plane
	$(PYTEST) -m 'not nightly' test/packaging/chart

.PHONY: monitoring
monitoring: venv ## Alerts and dashboards, on a real Prometheus that scrapes a live operator
	$(BIN)/pytest test/packaging/monitoring

.PHONY: gpu
gpu: venv ## Run programs on the GPUs of this machine, and compare figures with nvidia-smi
	@if $(BIN)/python -c 'import sys; from tf_operator.local.node.gpus import devices; sys.exit(not devices.find())'; \
		then $(BIN)/pytest --server=embedded test/gpu; \
		else echo "make gpu: this machine has no NVIDIA GPU, so nothing was tried"; fi

.PHONY: browser
browser: docs ## What people see, in a headless Chromium: the site and tfjob ui, with axe, dark and light, wide and narrow
	@hack/browser >/dev/null && hack/environment browser >/dev/null
	$(BIN)/pytest --server=embedded test/browser

.PHONY: cluster
cluster: venv ## hack/cluster, as root on Linux: what pods can do in it, and that nothing is left of it
	$(BIN)/pytest test/cluster --ignore=test/cluster/e2e

.PHONY: images
images: venv ## The images that the end-to-end tests need, built once for the same files (root on Linux)
	@hack/e2e-image operator training

.PHONY: e2e
e2e: venv ## The operator as a pod, installed by its chart, and TensorFlow that trains in pods (root, or E2E_KUBECONFIG)
	@[ -n "$$E2E_KUBECONFIG" ] || [ "$$(uname) $$(id -u)" = "Linux 0" ] || { \
		echo "make e2e: make a cluster as root on Linux, or name one by E2E_KUBECONFIG (CONTRIBUTING.md)" >&2; exit 2; }
	$(BIN)/pytest test/cluster/e2e -m $(or $(E2E),'not nightly') --durations 0 --durations-min 5

.PHONY: cover
cover: MORE := -p no:cacheprovider --cov --cov-report= --cov-fail-under=0
cover: venv ## Branch coverage by the unit tests, against its floors
	@rm -f .coverage .coverage.*
	@$(MAKE) --no-print-directory --jobs=2 --keep-going MORE="$(MORE)" $(UNIT_TESTS)
	@hack/check-coverage

.PHONY: clean
clean: ## Remove what the targets above have made in this folder
	rm -rf $(VENV) .venv-bench .coverage .coverage.* htmlcov build dist site ./*.egg-info
	rm -rf .mypy_cache .pytest_cache .ruff_cache .hypothesis .import_linter_cache
