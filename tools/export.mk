# The text of routines as data of the library, for exported programs: included by the Makefile.
ROUTINE_TEXT := src/base/dtypes.h src/graph/routines.h src/graph/call.h $(addprefix src/routine/,alone.h routine.h \
          order.h order.c radix.c radix_word.h radix_select.h quick.c sort.c places.c) \
          $(wildcard src/routine/fft/*.[ch])
$(BUILD)/export/routine_text.h: tools/routine_text.sh $(ROUTINE_TEXT)
	@mkdir -p $(@D); sh $^ >$@
$(BUILD)/src/export/routines.o: ALL_CFLAGS += -I$(BUILD)
$(BUILD)/src/export/routines.o: $(BUILD)/export/routine_text.h

