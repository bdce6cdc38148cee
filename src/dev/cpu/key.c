/* key.c - what the code of a kernel depends on beside the kernel, as text for the disk cache.
 *
 * A cached object may run only where a compiler would make the same one anew. So its key names the
 * processor, this very library (how kernels are called is its own affair, and who builds Quern anew
 * builds kernels anew) and the compiler. Of files it takes size and time of change; of the library
 * also the linker's build id, since there are systems on which every file has the same time.
 *
 * Which libLLVM will be found is not known before it is loaded, and loading it takes longer than a
 * small program runs. So the cache has a record of the one that was found last: while that file is
 * what it was, its objects are looked for without it. */
#include "dev/cpu/cpu.h"

#include <dlfcn.h>
#include <elf.h>
#include <link.h>
#include <stdlib.h>
#include <sys/stat.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

/* Intel's Sapphire Rapids takes a dot of bf16 in the time of four multiply-adds of f32, which is
 * half the speed of converted operands; AMD's cores in that of one. */
int cpu_dots(const cpu *c) {
    int dots = 0;
    bool bf16 = c->isa.bf16 && !c->isa.slow_bf16;
    if (!strcmp(c->ctx->knob[KNOB_CPU].text, "cc")) return 0;
    for (int i = 0; i < IR_DOTS; i++)
        if (ir_dots[i].sum == QN_I32 ? c->isa.vnni : bf16) dots |= 1 << i;
    return dots;
}

/* ---- the processor -------------------------------------------------------------------------- */

/* As it calls itself. */
void cpu_key_name(str *key) {
#if defined(__x86_64__)
    char name[49] = "";
    for (unsigned i = 0; i < 3; i++) {
        unsigned r[4] = {0};
        __get_cpuid_count(0x80000002u + i, 0, &r[0], &r[1], &r[2], &r[3]);
        memcpy(name + 16 * i, r, 16);
    }
    for (char *c = name; *c; c++)
        if (*c < ' ') *c = ' ';
    str_addf(key, "%s\n", name + strspn(name, " "));
#endif
}

/* What it is, and of the wide registers whether the system saves them. */
static void add_processor(const cpu *c, str *key) {
    str_add(key, "processor");
#if defined(__x86_64__)
    static const unsigned leaf[] = {0, 1, 7, 0xd, 0x80000002, 0x80000003, 0x80000004};
    for (size_t i = 0; i < COUNT_OF(leaf); i++) {
        unsigned r[4] = {0};
        __get_cpuid_count(leaf[i], leaf[i] == 0xd, &r[0], &r[1], &r[2], &r[3]);
        if (leaf[i] == 1)
            r[1] = 0, r[2] &= ~(1u << 27); /* which core this is; what the system enabled */
        if (leaf[i] == 0xd) r[1] = 0;
        str_addf(key, " %x.%x.%x.%x", r[0], r[1], r[2], r[3]);
    }
#endif
    str_add(key, " isa ");
    emit_isa_tell(&c->isa, key);
}

/* ---- files ---------------------------------------------------------------------------------- */

/* A file as it is now: its name, size and time of change. false: it is not there. */
static bool add_file(const char *path, str *key) {
    struct stat s;
    if (stat(path, &s)) return false;
    str_addf(key, "%s\n%lld %lld.%09ld\n", path, (long long)s.st_size, (long long)s.st_mtim.tv_sec,
             s.st_mtim.tv_nsec);
    return true;
}

static void add_build_id(const uint8_t *note, size_t size, str *key) {
    ElfW(Nhdr) n;
    for (size_t at = 0; at + sizeof n <= size;) {
        memcpy(&n, note + at, sizeof n);
        size_t name = at + sizeof n, text = name + ((n.n_namesz + 3u) & ~(size_t)3);
        if (text > size || n.n_descsz > size - text) return;
        if (n.n_type == NT_GNU_BUILD_ID && n.n_namesz == 4 && !memcmp(note + name, "GNU", 4))
            for (size_t i = 0; i < n.n_descsz; i++) str_addf(key, "%02x", note[text + i]);
        at = text + ((n.n_descsz + 3u) & ~(size_t)3);
    }
}

static const char here;

/* Of all that is loaded the one that holds `here`. Raising through the C library's frames would
 * leave its lock taken, so notes are only found here. */
typedef struct notes {
    const uint8_t *at[8];
    size_t size[8];
    int count;
} notes;

static int find_notes(struct dl_phdr_info *info, size_t size, void *out) {
    (void)size;
    notes *n = out;
    bool ours = false;
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        ours |=
            p->p_type == PT_LOAD && (uintptr_t)&here - (info->dlpi_addr + p->p_vaddr) < p->p_memsz;
    }
    for (int i = 0; ours && i < info->dlpi_phnum && n->count < 8; i++) {
        const ElfW(Phdr) *p = &info->dlpi_phdr[i];
        if (p->p_type != PT_NOTE) continue;
        n->at[n->count] = (const uint8_t *)(info->dlpi_addr + p->p_vaddr);
        n->size[n->count++] = p->p_memsz;
    }
    return ours;
}

static void add_library(str *key) {
    Dl_info info;
    notes n = {.count = 0};
    str_addf(key, "quern %s ", qn_version());
    dl_iterate_phdr(find_notes, &n);
    for (int i = 0; i < n.count; i++) add_build_id(n.at[i], n.size[i], key);
    struct stat s;
    if (dladdr(&here, &info) && info.dli_fname && !stat(info.dli_fname, &s))
        str_addf(key, " %lld %lld.%09ld", (long long)s.st_size, (long long)s.st_mtim.tv_sec,
                 s.st_mtim.tv_nsec);
}

void cpu_key_processor(const cpu *c, str *key) {
    cpu_key_name(key);
    add_processor(c, key);
}

void cpu_key_here(const cpu *c, str *key) {
    add_processor(c, key);
    str_add(key, "\n");
    add_library(key);
    str_add(key, "\n");
}

/* ---- the compiler --------------------------------------------------------------------------- */

void cpu_key_llvm(const char *file, str *compiler) {
    compiler->len = 0;
    str_add(compiler, "llvm\n");
    add_file(file, compiler);
}

void cpu_key_cc(qn_ctx *qn, const char *file, str *compiler) {
    compiler->len = 0;
    str_addf(compiler, "cc %s\n", qn->knob[KNOB_CC].text);
    add_file(file, compiler);
}

/* ---- the record of libLLVM ------------------------------------------------------------------ */

/* The loader looks for the libLLVM that the knob names where the environment says, too. */
static void set_record_key(cpu *c) {
    const char *path = secure_getenv("LD_LIBRARY_PATH");
    c->record_key.len = 0;
    str_addf(&c->record_key, "%slibLLVM last found\n%s\n%s\n", c->here.s, path ? path : "",
             c->ctx->knob[KNOB_LLVM].text);
}

/* Sets the compiler's key to that of the libLLVM found last; false: it is to be looked for. */
bool cpu_key_recall(cpu *c) {
    char file[1024];
    int none;
    c->record.len = 0;
    set_record_key(c);
    if (!cpu_cache_get(c->ctx, &c->cache, &c->record_key, &c->record, &none)) return false;
    const char *from = strchr(c->record.s, '\n'); /* behind "llvm" */
    size_t n = from ? strcspn(++from, "\n") : 0;
    if (!n || n >= sizeof file) return false;
    memcpy(file, from, n);
    file[n] = 0;
    cpu_key_llvm(file, &c->compiler);
    return c->compiler.len == c->record.len && !memcmp(c->compiler.s, c->record.s, c->record.len);
}

/* The compiler's key becomes the record; one that is empty says that none can be loaded. */
void cpu_key_record(cpu *c, bool found) {
    if (!found && !c->record.len) return;
    if (found && c->record.len == c->compiler.len &&
        !memcmp(c->record.s, c->compiler.s, c->record.len))
        return;
    c->record.len = 0;
    str_add(&c->record, found ? c->compiler.s : "");
    set_record_key(c);
    cpu_cache_put(c->ctx, &c->cache, &c->record_key, &c->record, 0);
}
