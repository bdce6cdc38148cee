/* knobs.h - every QN_* environment knob, one row each; docs/knobs.md is generated from here.
 * X(NAME, name, kind, when, default, doc)   kind: NUMBER, SWITCH (0 or 1), TEXT, PATH (with a slash
 * in it, or on or off), LETTERS, COMPILER, TUNING (a number of seconds, or online); when: qn_set()
 * may change it at ANY time, or it is read when a context is OPENed and setting it later is an
 * error */
X(DEBUG, "debug", LETTERS, ANY, "",
  "letters: g graph, a autograd, f fusion, m memory, k kernel per pass, r rules, s schedules and "
  "search, c source, x timings, e devices")
X(DEVICE, "device", TEXT, OPEN, "cpu",
  "the device contexts open by default: cpu, opencl, ref or null")
X(THREADS, "threads", NUMBER, OPEN, "0",
  "threads of the CPU device; 0: the processors this process may use")
X(CPU, "cpu", COMPILER, OPEN, "",
  "how CPU kernels are compiled: llvm, cc, or empty for the first that works")
X(LLVM, "llvm", TEXT, OPEN, "",
  "which libLLVM compiles kernels: a version from 15 to 22, or a library's file, as a path with a "
  "slash; empty: the newest that is installed")
X(ISA, "isa", TEXT, OPEN, "",
  "the most instructions that CPU kernels may use: x86-64, x86-64-v2, x86-64-v3 or x86-64-v4; "
  "empty: all that the processor has")
X(CC, "cc", TEXT, OPEN, "cc", "the C compiler used by QN_CPU=cc, and for kernels given as C")
X(OPENCL, "opencl", TEXT, OPEN, "",
  "which OpenCL device, platform:device by number; empty: the first GPU, else what there is")
X(OPENCL_LIBRARY, "opencl_library", TEXT, OPEN, "libOpenCL.so.1",
  "the OpenCL library that is loaded at run time")
X(LAPACK, "lapack", TEXT, OPEN, "",
  "which LAPACK factors large matrices: a library's name or file; no: none, Quern's own routines; "
  "empty: OpenBLAS, if it is installed")
X(CACHE, "cache", PATH, ANY, "on",
  "where compiled kernels are kept: on: in $XDG_CACHE_HOME/quern or ~/.cache/quern; off: nowhere; "
  "or a folder, as a path with a slash, that is only the user's (mode 0700)")
X(TUNE, "tune", TUNING, ANY, "0",
  "seconds to spend on better schedules for the kernels this process compiles, before they run; or "
  "online: as they run, each kernel's candidates are tried for at most a tenth of its time. What "
  "is found is kept as wisdom; no result changes")
X(WISDOM, "wisdom", PATH, ANY, "on",
  "where schedules that tuning found are kept: on: in the folder of QN_CACHE; off: nowhere, none "
  "being used; or a file, as a path with a slash")
X(MACHINE, "machine", TEXT, OPEN, "",
  "the machine that schedules are made for: a family that quern machine lists, or a record as it "
  "prints one, as a path with a slash; empty: this one, with the rates that were measured")
X(HISTORY, "history", NUMBER, ANY, "32",
  "MiB of history that is kept for gradients while no tape is open: the nodes values were computed "
  "by, and data whose tensor was released; the oldest goes first")
X(KEPT_MEMORY, "kept_memory", NUMBER, ANY, "1024",
  "MiB that values may take which handles hold and which can be computed again: the one used "
  "longest ago goes first, and all go before memory runs out. 0 keeps none")
X(PLAN_MEMORY, "plan_memory", NUMBER, ANY, "64",
  "MiB that plans kept for the next time may take: the one used longest ago goes first. Static "
  "graphs are not counted")
X(PROGRAM_MEMORY, "program_memory", NUMBER, ANY, "128",
  "MiB that compiled kernels may take: the one used longest ago goes first. Those of static graphs "
  "are not counted")
X(RECORD, "record", TEXT, OPEN, "",
  "a file into which a context's calls are written, for quern replay; % in its name: the process's "
  "number; of the process's second context .2 follows it")
X(RECORD_MEMORY, "record_memory", NUMBER, OPEN, "65536",
  "KiB that a value may have to be in a recording itself, and not by its hash alone")
X(TRACE, "trace", TEXT, OPEN, "",
  "a file into which a context's spans, kernels, copies and memory are written, for Perfetto or "
  "chrome://tracing; % in its name: the process's number; of the process's second context .2 "
  "follows it")
X(SCHEDULE, "schedule", SWITCH, ANY, "1",
  "0 runs every kernel unscheduled, as lowered (for finding faults)")
X(FUSE, "fuse", SWITCH, ANY, "1", "0 materialises every node (for finding faults)")
X(LIFT, "lift", SWITCH, ANY, "1",
  "0 compiles every constant into its kernel instead of giving it at each launch (for finding "
  "faults)")
X(EXPLICIT, "explicit", SWITCH, ANY, "0",
  "1 forbids implicit casts: tensors of several dtypes that meet in one call are QN_EDTYPE, which "
  "names them. Numbers (qn_weak) meet everything")
X(LINES, "lines", SWITCH, ANY, "1",
  "0: tensors of the Python package do not keep the line that recorded them")
X(NAIVE, "naive", SWITCH, OPEN, "0",
  "1: quern.jit of the Python package runs the plain functions")
X(CHECK, "check", SWITCH, ANY, "0",
  "1 checks every index that is computed (gather, scatter, take, embedding, labels of losses) when "
  "it is used, on every device: one outside is an error of the read or run that names operation "
  "and value")
