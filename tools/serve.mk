# What the command is made of. The server of `quern serve` is libmicrohttpd's, where that is
# installed; HTTPD= builds without one. Included by the Makefile.
hash    := \#
HTTPD   ?= $(shell echo '$(hash)include <microhttpd.h>' | $(CC) -E -x c - >/dev/null 2>&1 && echo yes)
HTTPD   := $(HTTPD)
CLISRC  := $(filter-out src/cli/serve/$(if $(HTTPD),without,http).c,$(wildcard src/cli/*.c src/cli/serve/*.c))
CLIOBJ  := $(CLISRC:%.c=$(BUILD)/%.o)
CLILIBS := $(if $(HTTPD),-lmicrohttpd)
