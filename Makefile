# Two commands on a fresh machine with Python >= 3.10 and Rust: make demo, make test.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SOURCES := $(shell find rust python -name '*.rs' -o -name '*.py' -o -name '*.pyi' -o -name '*.json' -o -name 'Cargo.toml') \
	Cargo.toml Cargo.lock pyproject.toml

.PHONY: demo test test-all lint format msrv mutants fuzz bench bench-check bench-record bench-answers clean

demo: $(VENV)/.installed $(VENV)/.plot
	$(BIN)/flopbalance compare
	$(BIN)/flopbalance plot --out demo.html

test: $(VENV)/.installed $(VENV)/.tools
	cargo test --workspace --locked
	$(BIN)/python -m pytest -m alone tests
	$(BIN)/python -m pytest --numprocesses auto --dist worksteal -m 'not alone' --pyargs tests flopbalance
	$(BIN)/python -m mypy.stubtest flopbalance._core

# The one abi3 wheel against every CPython from 3.10 on that the machine has.
test-all: $(VENV)/.tools
	$(BIN)/python -m pip wheel --quiet --no-deps --wheel-dir dist .
	$(BIN)/python tests/every_python.py "$$(ls -t dist/flopbalance-*.whl | head -n 1)"

lint: $(VENV)/.installed $(VENV)/.tools
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS='-D warnings' cargo doc --no-deps --workspace --locked --quiet
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	PYTHONPATH=python $(BIN)/lint-imports

# Both crates, with the oldest Rust that Cargo.toml promises.
msrv:
	.ci/msrv

# Changes the code in a thousand small ways and runs the tests each time, which takes an hour or two on two cores; prints
# what no test sees and fails where rust/core/mutants.md does not say why. MUTANTS='--file …' for a part of it.
MUTANTS ?= $(foreach part,partition packing capped plan,--file 'rust/core/src/$(part)/**')
mutants:
	@cargo mutants --version > /dev/null 2>&1 || \
		{ echo 'cargo-mutants is missing: cargo install --locked cargo-mutants@27.1.0' >&2; exit 1; }
	mkdir -p build
	cargo mutants --output build --jobs 2 $(MUTANTS) || test $$? -eq 2 -o $$? -eq 3
	$(PYTHON) .ci/survivors.py build/mutants.out rust/core/mutants.md

# Generated calls of every public function, in the release build and in one that panics where arithmetic wraps; prints
# the smallest failing call. SEED=… for the calls of another run, CALL=… for one of them.
SECONDS ?= 60
fuzz: $(VENV)/.installed $(VENV)/.tools build/checked/.installed
	PYTHONPATH=tests $(BIN)/python -m fuzz --checked build/checked --seconds $(SECONDS) \
		$(if $(SEED),--seed $(SEED)) $(if $(CALL),--call $(CALL))

# Times, beside the stable sort, other packages and plain Python; the tables also go to bench/record/, dated.
bench: $(VENV)/.installed $(VENV)/.rivals
	mkdir -p build
	$(BIN)/python -m pytest bench --quiet --benchmark-quiet --benchmark-disable-gc --benchmark-json=build/bench.json
	PYTHONPATH=tests $(BIN)/python bench/table.py build/bench.json
	PYTHONPATH=tests $(BIN)/python bench/process.py
	PYTHONPATH=tests $(BIN)/python bench/curve.py
	PYTHONPATH=tests $(BIN)/python bench/small_calls.py
	$(BIN)/python bench/optimal.py
	$(BIN)/python bench/bounds.py
	$(BIN)/python bench/ladder.py

# Instruction counts of fixed workloads against the recorded ones; needs valgrind.
bench-check:
	$(PYTHON) bench/instructions.py

bench-record:
	$(PYTHON) bench/instructions.py --record

# The answers of the reference that are not known yet; plain Python takes some minutes for all.
bench-answers: $(VENV)/.installed
	PYTHONPATH=tests $(BIN)/python bench/answers.py

format: $(VENV)/.tools
	cargo fmt --all
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# The release build, installed as users install it; rebuilt when a source is newer.
$(VENV)/.installed: $(SOURCES) | $(VENV)
	$(BIN)/python -m pip install --quiet .
	touch $@

# Beside the release build, in a folder of its own, for make fuzz.
build/checked/.installed: $(SOURCES) | $(VENV)
	rm -rf build/checked
	MATURIN_PEP517_ARGS='--profile checked' $(BIN)/python -m pip install --quiet --no-deps --target build/checked .
	touch $@

$(VENV)/.tools: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet '.[test,lint,plot]'
	touch $@

$(VENV)/.plot: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet '.[plot]'
	touch $@

$(VENV)/.rivals: pyproject.toml $(VENV)/.installed
	$(BIN)/python -m pip install --quiet '.[test,bench]'
	touch $@

$(VENV):
	$(PYTHON) -m venv $(VENV)

clean:
	rm -rf $(VENV) target build dist
