/* fields.h - the quantities of a machine record, one row each.
 *
 * X(name, least, most, doc)   What belongs to the device at hand, threads, work groups and dot
 * instructions, comes from the device. */
X(vector_bytes, 4, 256, "bytes of a vector register")
X(registers, 1, 1024, "vector registers")
X(l1, 0, 1 << 24, "bytes of the first data cache of a core; 0: unknown")
X(l2, 0, 1 << 28, "bytes of the second cache of a core; 0: unknown")
X(l3, 0, 1LL << 36, "bytes of the third cache; 0: unknown")
X(line, 16, 1024, "bytes of a cache line")
X(page, 512, 1 << 24, "bytes at whose end the processor's own prefetching stops")
X(l2_rate, 1, 1024, "bytes a cycle that reach the registers from the second cache")
X(l3_rate, 1, 1024, "bytes a cycle from behind the second cache, of rows far apart")
X(memory_from, 1, 1024, "times the second cache: what is larger streams from memory")
X(stream_pages, 1, 16, "pages of one stream that are walked side by side; 1: in order")
