# schedlab: build, run, test. `make` alone says what there is.

CARGO ?= cargo
# More words for `schedlab run`: make run ARGS="my-plan.toml --strict"
ARGS ?=

# All of it; `make run` builds what most people use.
FEATURES := --features full

# 1: the tests of the lab run after all others, not next to them.
TEST_JOBS ?= 2

# Some shells start background jobs with these ignored; tests interrupt what they start.
TEST := env --default-signal=INT,QUIT $(CARGO) test --locked $(FEATURES)

.DEFAULT_GOAL := help
.PHONY: help run test test-quick test-lab test-rest bench bpf dist release sbom install-deps clean

help: ## say what there is to make
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' $(firstword $(MAKEFILE_LIST)) | \
	  while IFS='|' read -r target about; do printf '%-20s %s\n' "$$target" "$$about"; done

run: ## build, and measure this machine's scheduler with the plan `quick`
	@CARGO='$(CARGO)' sh scripts/run.sh $(ARGS)

test: ## run every test
	@sh scripts/need.sh build test lab programs page fleet
	$(CARGO) test --locked --workspace $(FEATURES) --no-run
	@echo 'The output of each half comes when it has ended.'
	@$(MAKE) --no-print-directory --jobs=$(TEST_JOBS) --keep-going --output-sync=target test-lab test-rest

# Guests have a time of their own and fill the CPUs; the other tests mostly wait.
test-lab:
	$(TEST) --test lab -- --show-output

test-rest:
	$(TEST) --workspace --no-fail-fast --lib --test main -- --show-output

test-quick: ## run the tests for the minute between two edits
	$(TEST) --workspace --lib --test main -- $(patsubst %,--skip %,$(shell cat tests/slow.txt))

bench: ## measure schedlab itself: the cost of a sample, of a worker, of a start
	@sh scripts/need.sh build
	$(CARGO) bench --locked $(FEATURES) --bench '*'

bpf: ## compile the BPF programs and schedulers anew (clang-19)
	@sh scripts/bpf.sh

dist: ## make one static binary, dist/schedlab
	@sh scripts/need.sh build dist
	@bash scripts/dist.sh

release: ## make an archive, a .deb and checksums: make release VERSION=1.2.3
	@sh scripts/need.sh build dist release
	@bash scripts/release.sh '$(VERSION)'

sbom: ## write anew what the binary is made of: THIRD-PARTY.txt, sbom.cdx.json
	SCHEDLAB_BLESS=1 $(CARGO) test --locked $(FEATURES) --test main third_party

install-deps:
	@sh scripts/need.sh build test lab programs fleet dist release

clean: ## remove what was built
	$(CARGO) clean
	rm -rf dist
