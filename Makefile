# Quern's build. `make` builds the library and the command; `make help` lists the rest.
CC      ?= cc
BUILD   ?= build$(if $(SAN),-san)$(if $(DEBUG),-debug)
PREFIX  ?= /usr/local
VERSION := 0.1.0
SONAME  := libquern.so.0

WARN   := -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wstrict-prototypes \
          -Wmissing-prototypes -Wpointer-arith -Wundef -Wvla -Werror
CFLAGS ?= -O2 -g
comma  := ,
ALL_CFLAGS := -std=c17 -D_GNU_SOURCE -fPIC -fvisibility=hidden -ffp-contract=off -pthread \
          $(WARN) -Iinclude -Isrc $(if $(DEBUG),-DQN_CHECK,-DNDEBUG) \
          $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer -DQN_CHECK) \
          $(CFLAGS)
LDLIBS := -lm -ldl -pthread $(if $(SAN),-fsanitize=address$(comma)undefined)

ROOMS  := base graph plan kern emit dev run io nn
LIBSRC := $(foreach r,$(ROOMS),$(wildcard src/$(r)/*.c))
LIBOBJ := $(LIBSRC:%.c=$(BUILD)/%.o)
CLIOBJ := $(patsubst %.c,$(BUILD)/%.o,$(wildcard src/cli/*.c))
TESTS  := $(patsubst tests/%.c,$(BUILD)/tests/%,$(wildcard tests/test_*.c tests/fuzz_*.c))
BENCH  := $(patsubst bench/%.c,$(BUILD)/bench/%,$(wildcard bench/bench_*.c))

all: $(BUILD)/libquern.a $(BUILD)/$(SONAME) $(if $(CLIOBJ),$(BUILD)/quern)

$(BUILD)/%.o: %.c
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -MMD -MP -c $< -o $@

$(BUILD)/libquern.a: $(LIBOBJ)
	@rm -f $@
	ar rcs $@ $^

$(BUILD)/$(SONAME): $(LIBOBJ) src/quern.map
	$(CC) -shared -Wl,-soname,$(SONAME) -Wl,--version-script=src/quern.map -Wl,-z,defs -o $@ $(LIBOBJ) $(LDLIBS)

$(BUILD)/quern: $(CLIOBJ) $(BUILD)/libquern.a
	$(CC) -o $@ $^ $(LDLIBS)

$(BUILD)/tests/%: tests/%.c $(BUILD)/libquern.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Itests -MMD -MP $< -o $@ $(BUILD)/libquern.a $(LDLIBS)

$(BUILD)/bench/%: bench/%.c $(BUILD)/libquern.a
	@mkdir -p $(@D)
	$(CC) $(ALL_CFLAGS) -Ibench -MMD -MP $< -o $@ $(BUILD)/libquern.a $(LDLIBS)

tests: all $(TESTS)

test: tests
	@sh tools/run_tests.sh $(BUILD) $(TESTS)

clean:
	rm -rf build build-san build-debug build-san-debug

help:
	@grep -E '^[a-z-]+:' Makefile | cut -d: -f1 | sort -u

-include $(shell find $(BUILD) -name '*.d' 2>/dev/null)
.PHONY: all tests test clean help
