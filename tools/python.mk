# The Python package: python/quern with its extension module, which has the library in it. Included by the Makefile.
PYTHON     ?= python3
PYTHONS    := $(wildcard python/src/*.c)
PYTHONO    := $(PYTHONS:%.c=$(BUILD)/%.o)
PYTHON_DIR  = $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))')
# A free-threaded Python has no stable interface: there the module is for its version alone.
PYTHON_ABI  = $(shell $(PYTHON) -c 'import sysconfig; g = sysconfig.get_config_var; print( \
    g("EXT_SUFFIX") if g("Py_GIL_DISABLED") else ".abi3.so")')
PYTHON_API  = $(if $(filter .abi3.so,$(PYTHON_ABI)),-DPy_LIMITED_API=0x030b0000)

python: python/quern/_core$(PYTHON_ABI)  ## build the Python package in its place (PYTHON=...)

$(BUILD)/python/src/%.o: python/src/%.c
	@mkdir -p $(@D)
	@echo "  cc $<"; $(CC) $(ALL_CFLAGS) $(PYTHON_API) -isystem $(PYTHON_DIR) -MMD -MP -c $< -o $@

python/quern/_core%.so: $(PYTHONO) $(BUILD)/libquern.a python/src/core.map
	@echo "  ld $@"; $(CC) -shared -Wl,--version-script=python/src/core.map -Wl,--gc-sections -o $@ $(PYTHONO) \
	    $(BUILD)/libquern.a $(LDLIBS)

wheel: python  ## a wheel of it into build/ (PYTHON=...)
	@$(PYTHON) python/backend.py $(BUILD)

# LLVM's code generator as a wheel beside it, from static archives: tools/setup.sh --llvm-static installs them.
LLVM_STATIC ?= /usr/lib/llvm-19/lib
wheel-llvm:  ## LLVM's code generator as a wheel into build/ (LLVM_STATIC=folder of its archives)
	@mkdir -p $(BUILD); $(PYTHON) python/llvm_wheel.py $(BUILD) $(LLVM_STATIC)

TEST_PYTHON ?= $(PYTHON)
test-python: python  ## the tests of the Python package
	@cd python && $(TEST_PYTHON) -m unittest discover -s tests -t . $(TEST_PYTHON_ARGS)

mypy: python  ## the package's types and stubs, by mypy (TEST_PYTHON with mypy)
	@cd python && MYPYPATH=. $(TEST_PYTHON) -m mypy quern
	@cd python && MYPYPATH=. $(TEST_PYTHON) -m mypy --strict --follow-imports=silent tests/typed.py
	@cd python && MYPYPATH=. $(TEST_PYTHON) -m mypy.stubtest quern._core --ignore-missing-stub --concise \
	    --allowlist ../tools/stubtest.txt

.PHONY: python wheel wheel-llvm test-python mypy

# The suite of the array API's makers, https://github.com/data-apis/array-api-tests, with its submodule array-api.
ARRAY_API_TESTS ?=
array-api: python  ## the array API's own tests (ARRAY_API_TESTS=folder of the suite, TEST_PYTHON with pytest)
	@test -n "$(ARRAY_API_TESTS)" || { echo "array-api: ARRAY_API_TESTS= names the folder of the suite"; exit 1; }
	@cd $(ARRAY_API_TESTS) && PYTHONPATH=$(CURDIR)/python ARRAY_API_TESTS_MODULE=quern.array_api \
	    ARRAY_API_TESTS_VERSION=2024.12 $(TEST_PYTHON) -m pytest array_api_tests -q --max-examples 200 --disable-deadline \
	    -p no:cacheprovider -W ignore $(ARRAY_API_ARGS)

.PHONY: array-api
