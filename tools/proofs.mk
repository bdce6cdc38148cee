# Proofs that take longer than a test may, and pages that programs write: included by the Makefile.
soak: tools/soak.sh  ## fuzz readers and calls under sanitizers, and graphs, for SOAK_SECONDS, and keep the tally
	@$(MAKE) --no-print-directory SAN=1 build-san/tests/fuzz_parse build-san/tests/fuzz_api
	@$(MAKE) --no-print-directory $(BUILD)/tests/fuzz_graph $(BUILD)/tests/fuzz_loops
	@nice sh tools/soak.sh build-san $(BUILD)

cover:  ## the same by coverage, with clang and libFuzzer, for COVER_SECONDS
	@$(MAKE) --no-print-directory CC=clang COVER=1 BUILD=build-cover build-cover/tests/fuzz_parse \
	    build-cover/tests/cover_parse
	@nice sh tools/cover.sh build-cover

faults:  ## put faults into readers, one by one, and count the inputs that fuzz_parse takes to find each
	@$(MAKE) --no-print-directory SAN=1 build-san/internal.a
	@nice python3 tools/faults.py $(FAULTS)

$(BUILD)/tests/cover_parse: tests/ir/cover_parse.c $(BUILD)/internal.a
	@echo "  cc $<"; $(CC) $(ALL_CFLAGS) -Itests -MMD -MP -MT $@ -MF $@.d -fsanitize=fuzzer $< -o $@ \
	    $(BUILD)/internal.a $(LDLIBS)

# A sweep of all floats takes hours: it goes on where it was, SECONDS at a time, while the code is the same.
STEP    ?= 1
SECONDS ?= 600
ACCURACY = $$(sha1sum tests/accuracy_oracle.h | cut -c1-8)
accuracy: $(BUILD)/tests/test_accuracy  ## measure errors of functions (STEP=1, SECONDS=600) into docs/accuracy.md
	@$(BUILD)/tests/test_accuracy --sweep docs/accuracy.tally $(ACCURACY) $(STEP) $(SECONDS) || test $$? = 2
	@$(BUILD)/tests/test_accuracy --table docs/accuracy.tally $(ACCURACY) \
	    "$$(date +%F) at $$(git rev-parse --short HEAD)" > $(BUILD)/accuracy.md
	@cp $(BUILD)/accuracy.md docs/accuracy.md

docs: $(BUILD)/tests/test_transform_docs  ## write docs/transforms.md from the transform table and its examples
	@$(BUILD)/tests/test_transform_docs --print > $(BUILD)/transforms.md
	@cp $(BUILD)/transforms.md docs/transforms.md

KILLS ?= 20
KILL_MODELS ?= "" mlp gan lstm bert
kill-test: all  ## kill quern train at random KILLS times, and hold what goes on against an undisturbed one
	@for m in $(KILL_MODELS); do python3 tools/kill_train.py $(BUILD)/quern $(KILLS) 1 "$$m" || exit 1; done

abi:  ## take what the headers promise to compiled programs now as the baseline
	@python3 tools/abi.py write

ONNX_PYTHON ?= python3
onnx-tests: $(BUILD)/$(SONAME)  ## run the node tests of the onnx package (ONNX_PYTHON=python3, ONNX_ARGS=...)
	@$(ONNX_PYTHON) tools/onnx_tests.py --library $(BUILD)/$(SONAME) $(ONNX_ARGS)

onnx-tests-c: $(BUILD)/$(SONAME)  ## the same through C, compiled and run (ONNX_ARGS="--list F --resume")
	@$(ONNX_PYTHON) tools/onnx_tests.py --library $(BUILD)/$(SONAME) --exported $(ONNX_ARGS)

.PHONY: soak cover faults kill-test accuracy docs abi onnx-tests onnx-tests-c

onnx-networks: python  ## whole networks beside onnxruntime, exported by PyTorch (ONNX_PYTHON=python3 with both)
	@$(ONNX_PYTHON) tools/compare/onnx_networks.py $(ONNX_ARGS)
bench-onnx: python  ## their times beside onnxruntime's (ONNX_ARGS="-t 2 resnet50")
	@$(ONNX_PYTHON) bench/models/onnx_nets.py $(ONNX_ARGS)
export-networks: all  ## whole networks as C: bits and times beside the library's (EXPORT_ARGS="--runs 20 gpt2")
	@$(ONNX_PYTHON) tools/compare/export_networks.py --quern $(BUILD)/quern $(EXPORT_ARGS)
.PHONY: onnx-networks bench-onnx export-networks

gen-check:  ## check that generated regions are up to date and unedited
	@python3 tools/gen.py --check

symbols: all  ## check what the shared library takes and gives
	@sh tools/check_symbols.sh $(BUILD)/$(SONAME) $(HEADERS)

valgrind: all $(BUILD)/tests/test_graph $(BUILD)/tests/test_grad $(BUILD)/tests/test_io  ## a sample under valgrind
	@sh tools/valgrind.sh $(BUILD)

bench-machines: all $(BUILD)/bench/peers  ## every case under every family's schedules (BENCH_ARGS=...)
	@$(BUILD)/bench/peers --machines $(BENCH_ARGS)
.PHONY: bench-machines

MODELS_PYTHON ?= python3
bench-models: python  ## steps of training beside PyTorch and JAX (MODELS_PYTHON with both, MODELS_ARGS=...)
	@$(MODELS_PYTHON) bench/models/main.py $(MODELS_ARGS)
.PHONY: bench-models
