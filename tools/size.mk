# How the library is kept small: docs/decisions/018-size.md. Included by the Makefile.

# Nothing unwinds through the library but debuggers, which find what they need in .debug_frame.
ALL_CFLAGS += $(if $(strip $(SANFLAGS)),,-fno-asynchronous-unwind-tables)

# What runs for each node or launch, or over data, is compiled for speed, the rest to be small: of the routines those
# whose inner loops are elsewhere, of the rules those that are seldom asked.
SELDOM := routine/bidiagonal.c routine/symmetric.c graph/rules/move.c graph/rules/repeat.c
FAST := base/arena.c base/guard.c base/handle.c base/hash.c base/heap.c base/str.c base/threads.c \
    graph/build.c graph/history.c graph/make.c graph/node.c graph/order.c graph/shape.c graph/tensor.c \
    graph/tuple.c func/api.c func/frame.c sym/sym.c sym/map.c plan/key.c plan/lift.c \
    run/buffer.c run/loop/loop.c run/plan.c run/realize.c dev/cpu/cpu.c
FAST := $(FAST:%=src/%) $(wildcard src/graph/rules/*.c src/routine/*.c src/routine/*/*.c)
FAST := $(filter-out $(SELDOM:%=src/%),$(FAST))
SMALL := $(patsubst %.c,$(BUILD)/%.o,$(filter-out $(FAST),$(LIBSRC)))
$(if $(filter -O2,$(CFLAGS)),$(SMALL)): ALL_CFLAGS += -Os
# Keys of elements are to be made by vectors; at -O2 gcc makes none of loops of unknown length.
$(if $(filter -O2,$(CFLAGS)),$(BUILD)/src/routine/order.o): ALL_CFLAGS += -O3
