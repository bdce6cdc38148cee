# What the command is made of. The server of `quern serve` is libmicrohttpd's, where that is
# installed; HTTPD= builds without one. Included by the Makefile.
hash    := \#
HTTPD   ?= $(shell echo '$(hash)include <microhttpd.h>' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes)
HTTPD   := $(HTTPD)
CLISRC  := $(filter-out src/cli/serve/$(if $(HTTPD),without,http).c,$(wildcard src/cli/*.c src/cli/*/*.c))
# Those of models/ are the command's, and the tests'; they see the library by its headers.
MODELS  := $(patsubst %.c,$(BUILD)/%.o,$(wildcard models/*.c))
CLIOBJ  := $(CLISRC:%.c=$(BUILD)/%.o) $(MODELS)
# Replays, answers and models are tested as parts.
REPLAY  := $(patsubst %,$(BUILD)/src/cli/%.o,replay replay_calls replay_parse opened serve/request serve/answer \
          serve/queue) $(MODELS)
CLILIBS := $(if $(HTTPD),-lmicrohttpd)
