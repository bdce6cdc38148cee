# Quern's build. `make` builds the library and the command; `make help` lists the rest.
CC      ?= cc
OBJCOPY ?= objcopy
BUILD   ?= build$(if $(findstring clang,$(CC)),-clang)$(if $(SAN),-san)$(if $(TSAN),-tsan)$(if $(DEBUG),-debug)$(if \
          $(COVER),-cover)
PREFIX  ?= /usr/local
VERSION := 0.1.0
SONAME  := libquern.so.0

WARN   := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
          -Wmissing-prototypes -Wpointer-arith -Wundef -Wvla -Werror
CFLAGS ?= -O2 -g
comma  := ,
SANFLAGS := $(if $(SAN)$(COVER),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all \
          -fno-omit-frame-pointer) $(if $(TSAN),-fsanitize=thread)$(if $(COVER), -fsanitize=fuzzer-no-link)
ALL_CFLAGS := -std=c17 -D_GNU_SOURCE -fPIC -fvisibility=hidden -ffp-contract=off -pthread \
          $(WARN) -Iinclude -Isrc -I. $(if $(SAN)$(DEBUG),-DQN_CHECK,-DNDEBUG) $(SANFLAGS) $(CFLAGS)
LDLIBS := -lm -ldl -pthread $(SANFLAGS)

ROOMS  := base trace machine sym graph grad func plan ir lower transform math schedule emit routine dev run \
          tune custom view io quant archive text data llm export onnx nn complex record
LIBSRC := $(foreach r,$(ROOMS),$(wildcard src/$(r)/*.c src/$(r)/*/*.c))
LIBOBJ := $(LIBSRC:%.c=$(BUILD)/%.o)
include tools/serve.mk
programs = $(patsubst $(1)/%.c,$(BUILD)/$(1)/%,$(wildcard $(foreach p,$(2),$(1)/$(p))))
TESTS    := $(patsubst %.c,$(BUILD)/tests/%,$(notdir $(wildcard tests/*/test_*.c tests/*/fuzz_*.c)))
SCRIPTS  := $(wildcard tests/*/test_*.sh)
$(foreach t,$(sort $(TESTS)),$(if $(word 2,$(filter $t,$(TESTS))),$(error two tests are called $(notdir $t))))
BENCH    := $(call programs,bench,bench_*.c)
VERSUS   := $(patsubst %.c,$(BUILD)/%.o,$(wildcard bench/versus/*.c))
HEADERS  := $(wildcard include/quern*.h)
EXAMPLES := $(call programs,examples,[0-9]*.c)
all: $(BUILD)/libquern.a $(BUILD)/$(SONAME) $(if $(CLIOBJ),$(BUILD)/quern)  ## library and command

# Inside the library public functions have names of their own; models are users of the public ones.
$(filter-out $(foreach r,record onnx data,$(BUILD)/src/$(r)/%),$(LIBOBJ)) \
    $(filter $(BUILD)/src/onnx/save/%,$(LIBOBJ)): ALL_CFLAGS += -include src/record/inside.h
$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	@echo "  cc $<"; $(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

# The list of sources, touched when it changes: a file that goes must leave the library, too.
$(BUILD)/sources: FORCE
	@mkdir -p $(@D); echo '$(LIBSRC) $(CLIOBJ)' | cmp -s - $@ || echo '$(LIBSRC) $(CLIOBJ)' >$@

# Everything under its own name, for tests and benchmarks: they reach internal functions, and replays.
$(BUILD)/internal.a: $(LIBOBJ) $(REPLAY) $(BUILD)/sources
	@rm -f $@; echo "  ar $@"; $(AR) rcs $@ $(LIBOBJ) $(REPLAY)

# What is installed: one object in which only the public names are global.
$(BUILD)/libquern.a: $(LIBOBJ) $(BUILD)/sources
	@rm -f $@
	@rm -f $@; echo "  ar $@"; $(LD) -r -o $(BUILD)/quern.o $(LIBOBJ)
	@$(OBJCOPY) --wildcard --keep-global-symbol='qn_*' $(BUILD)/quern.o; $(AR) rcs $@ $(BUILD)/quern.o

$(BUILD)/$(SONAME): $(LIBOBJ) $(BUILD)/sources src/quern.map
	@echo "  ld $@"; $(CC) -shared -Wl,-soname,$(SONAME) -Wl,--build-id -Wl,--version-script=src/quern.map \
	    $(if $(SAN)$(TSAN),,-Wl$(comma)-z$(comma)defs) -o $@ $(LIBOBJ) $(LDLIBS)

$(BUILD)/quern: $(CLIOBJ) $(BUILD)/internal.a
	@echo "  ld $@"; $(CC) -o $@ $^ $(CLILIBS) $(LDLIBS)

# program FOLDER LIBRARY: examples are users' programs.
define program
$(BUILD)/$(1)/%: $(1)/%.c $(BUILD)/$(2)
	@mkdir -p $$(@D)
	@echo "  cc $$<"; $$(CC) $$(ALL_CFLAGS) -I$(1) -MMD -MP -MT $$@ -MF $$@.d $$< -o $$@ \
	    $(BUILD)/$(2) $$(LDLIBS)
endef
$(eval $(call program,bench,internal.a))
$(eval $(call program,examples,libquern.a))

# Tests stand in the folder of the room they test; their programs lie side by side.
vpath test_%.c $(wildcard tests/*)
vpath fuzz_%.c $(wildcard tests/*)
vpath cover_%.c $(wildcard tests/*)
$(BUILD)/tests/%: %.c $(BUILD)/internal.a
	@mkdir -p $(@D)
	@echo "  cc $<"; $(CC) $(ALL_CFLAGS) -Itests -MMD -MP -MT $@ -MF $@.d $< -o $@ \
	    $(BUILD)/internal.a $(LDLIBS)

long-attention: $(BUILD)/tests/test_long_attention ; $< long  ## attention over 131,072 keys: minutes
tests: all $(TESTS) $(EXAMPLES)  ## build the test programs
test: setup  ## set up, build and run every test; ends with "N passed, N failed, N skipped"
	@$(MAKE) --no-print-directory tests
	@sh tools/run_tests.sh $(BUILD) $(SCRIPTS) $(TESTS)

examples: $(EXAMPLES)  ## build the lessons of examples/

bench: all $(BENCH)  ## run the benchmarks
	@for b in $(BENCH); do echo "== $$b"; $$b || exit 1; done

$(BUILD)/bench/peers: $(VERSUS) $(BUILD)/internal.a
	@echo "  ld $@"; $(CC) -o $@ $^ $(LDLIBS)

bench-peers: all $(BUILD)/bench/peers  ## compare with other libraries (BENCH_ARGS=...), into docs/performance.md
	@$(BUILD)/bench/peers -o $(BUILD)/bench $(BENCH_ARGS)
	@python3 tools/bench_table.py $(BUILD)/bench/versus.jsonl docs/performance.md

bench-check: all $(BUILD)/bench/peers  ## the same, and hold it against the floors
	@$(BUILD)/bench/peers -o $(BUILD)/bench --check $(BENCH_ARGS)

COMPARE_PYTHON ?= python3
compare: all  ## compare every function with NumPy, PyTorch and mpmath, where installed (COMPARE_ARGS=...)
	@$(COMPARE_PYTHON) tools/compare/compare.py --library $(BUILD)/$(SONAME) $(COMPARE_ARGS)

demo: setup  ## train a small GPT on this source tree (DEMO_TEXT=file for another text) and sample it
	@$(MAKE) --no-print-directory all
	@sh tools/demo.sh $(BUILD) "$(DEMO_TEXT)"

setup:  ## install the Debian packages that are missing
	@sh tools/setup.sh

style:  ## check the house rules
	@python3 tools/style.py

# Paths in the package files are those the user will see: without DESTDIR.
FILL = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@VERSION@|$(VERSION)|g'
install: all  ## install into PREFIX (under DESTDIR)
	install -d $(addprefix $(DESTDIR)$(PREFIX)/,bin include lib/pkgconfig lib/cmake/quern share/man/man1)
	install -m 755 $(BUILD)/quern $(DESTDIR)$(PREFIX)/bin/quern
	install -m 644 $(HEADERS) $(DESTDIR)$(PREFIX)/include
	install -m 644 $(BUILD)/libquern.a $(DESTDIR)$(PREFIX)/lib/libquern.a
	install -m 755 $(BUILD)/$(SONAME) $(DESTDIR)$(PREFIX)/lib/libquern.so.$(VERSION)
	ln -sf libquern.so.$(VERSION) $(DESTDIR)$(PREFIX)/lib/$(SONAME)
	ln -sf $(SONAME) $(DESTDIR)$(PREFIX)/lib/libquern.so
	install -m 644 docs/quern.1 $(DESTDIR)$(PREFIX)/share/man/man1/quern.1
	-python3 tools/man.py $(DESTDIR)$(PREFIX)/share/man/man3 $(VERSION)
	$(FILL) tools/quern.pc.in > $(DESTDIR)$(PREFIX)/lib/pkgconfig/quern.pc
	$(FILL) tools/quern-config.cmake.in > $(DESTDIR)$(PREFIX)/lib/cmake/quern/quern-config.cmake
	$(FILL) tools/quern-config-version.cmake.in \
	    > $(DESTDIR)$(PREFIX)/lib/cmake/quern/quern-config-version.cmake

uninstall:  ## remove what install put there
	rm -rf $(DESTDIR)$(PREFIX)/lib/cmake/quern $(addprefix $(DESTDIR)$(PREFIX)/share/man/man3/,quern*.3 qn_*.3)
	rm -f $(addprefix $(DESTDIR)$(PREFIX)/,bin/quern $(HEADERS) lib/libquern.a lib/$(SONAME) \
	    lib/libquern.so lib/libquern.so.$(VERSION) lib/pkgconfig/quern.pc share/man/man1/quern.1)

clean:  ## remove every build folder
	rm -rf build build-*

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*  ## (.*)/\1\t\2/p' Makefile tools/proofs.mk | expand -t 12
	@echo "variables: CC, CFLAGS, PREFIX, DESTDIR, SAN=1 (sanitizers), TSAN=1 (of threads), DEBUG=1 (internal checks)"

include tools/proofs.mk tools/export.mk tools/size.mk tools/python.mk
-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
FORCE:
.PHONY: all tests test examples bench bench-peers bench-check compare demo setup style gen-check symbols \
    valgrind install uninstall clean help long-attention
