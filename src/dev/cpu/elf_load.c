/* elf_load.c - a loader for relocatable ELF objects (x86-64, `cc -c` and LLVM alike).
 *
 * What a compiler writes for one kernel is small: a section of code, some of constants, and
 * relocations that say where one refers to the other. Linking that is a page of work, so every
 * object takes the same way, whoever made it and whenever: the sections that the wanted functions
 * need are laid out, the executable ones in pages of code, the read-only ones in pages of constants
 * (code.c), relocations are applied, and the pages are sealed.
 *
 * Kernels have no state of their own: an object with writable data or thread-local storage is
 * refused. They may call the few functions of externals[] and nothing else; a call goes through a
 * stub among the code, since the C library may lie further away than a 32-bit displacement reaches.
 *
 * An object may come from a file, so nothing in it is believed: every offset, size, index and
 * relocated place is checked against what it must lie in. A corrupt object is an error, or loads as
 * what it says; it never makes the loader itself read or write outside object and pages. */
#include "dev/cpu/elf_load.h"

#include <elf.h>
#include <math.h>
#include <string.h>

/* Functions that compilers call on their own, and those of the maths library that stand in for
 * instructions old processors lack. */
/* clang-format off */
#define EXTERNALS(X)                                                                               \
    X(memcpy) X(memmove) X(memset) X(fmod) X(fmodf) X(fma) X(fmaf) X(floor) X(floorf) X(ceil)      \
    X(ceilf) X(rint) X(rintf) X(trunc) X(truncf)
/* clang-format on */
static const struct {
    const char *name;
    void (*function)(void);
} externals[] = {
#define X(f) {#f, (void (*)(void))f},
    EXTERNALS(X)
#undef X
};
enum { STUB = 16, MOST_SECTIONS = 4096 };
static const size_t most_bytes = (size_t)1 << 30;

typedef struct loader {
    code_store *store;
    const uint8_t *object;
    size_t size;
    const Elf64_Shdr *section; /* aligned copy of the section headers */
    size_t sections;
    size_t *at;   /* where each section lies, from the image on; NOWHERE: not loaded */
    bool *needed; /* sections that the functions asked for lie in or refer to */
    bool calls;   /* those refer to externals */
    code_room room;
    uint8_t *image;         /* the room's base */
    size_t stubs, slots;    /* one for each external, where there are calls */
    const uint8_t *symbols; /* the symbol table; may be unaligned */
    size_t symbol_count;
    const char *strings;
    size_t strings_size;
} loader;

#define NOWHERE SIZE_MAX

const char elf_no_memory[] = "out of memory";

static bool inside(uint64_t offset, uint64_t size, uint64_t whole) {
    return offset <= whole && size <= whole - offset;
}

static size_t round_up(size_t n, size_t to) {
    return (n + to - 1) / to * to;
}

static size_t headers_size(const loader *l) {
    return l->sections * (sizeof(Elf64_Shdr) + sizeof *l->at + sizeof *l->needed);
}

static const char *read_header(loader *l) {
    Elf64_Ehdr e;
    if (l->size < sizeof e) return "the object is too short";
    memcpy(&e, l->object, sizeof e);
    if (memcmp(e.e_ident, ELFMAG, SELFMAG) || e.e_ident[EI_CLASS] != ELFCLASS64 ||
        e.e_ident[EI_DATA] != ELFDATA2LSB || e.e_type != ET_REL || e.e_machine != EM_X86_64)
        return "not a relocatable x86-64 object";
    if (e.e_shentsize != sizeof(Elf64_Shdr) || !e.e_shnum || e.e_shnum > MOST_SECTIONS ||
        !inside(e.e_shoff, (uint64_t)e.e_shnum * sizeof(Elf64_Shdr), l->size))
        return "bad section table";
    l->sections = e.e_shnum;
    size_t headers = l->sections * sizeof(Elf64_Shdr), places = l->sections * sizeof *l->at;
    uint8_t *memory = heap_try(l->store->h, headers_size(l));
    if (!memory) return elf_no_memory;
    memcpy(memory, l->object + e.e_shoff, headers);
    l->section = (const Elf64_Shdr *)memory;
    l->at = (size_t *)(memory + headers);
    l->needed = memset(memory + headers + places, 0, l->sections);
    for (size_t i = 0; i < l->sections; i++) {
        const Elf64_Shdr *s = &l->section[i];
        l->at[i] = NOWHERE;
        if (s->sh_type != SHT_NOBITS && !inside(s->sh_offset, s->sh_size, l->size))
            return "a section lies outside the object";
    }
    return NULL;
}

static const char *find_symbols(loader *l) {
    for (size_t i = 0; i < l->sections; i++) {
        const Elf64_Shdr *s = &l->section[i];
        if (s->sh_type != SHT_SYMTAB) continue;
        if (s->sh_link >= l->sections || l->section[s->sh_link].sh_type != SHT_STRTAB)
            return "bad symbol table";
        const Elf64_Shdr *names = &l->section[s->sh_link];
        l->symbols = l->object + s->sh_offset;
        l->symbol_count = s->sh_size / sizeof(Elf64_Sym);
        l->strings = (const char *)l->object + names->sh_offset;
        l->strings_size = names->sh_size;
        if (!l->strings_size || l->strings[l->strings_size - 1]) return "bad symbol names";
        return NULL;
    }
    return "no symbol table";
}

static Elf64_Sym symbol_at(const loader *l, size_t i) {
    Elf64_Sym s;
    memcpy(&s, l->symbols + i * sizeof s, sizeof s);
    return s;
}

static const char *symbol_name(const loader *l, const Elf64_Sym *s) {
    return s->st_name < l->strings_size ? l->strings + s->st_name : "";
}

static const char *section_name(const loader *l, const Elf64_Shdr *s) {
    Elf64_Ehdr e;
    memcpy(&e, l->object, sizeof e);
    if (e.e_shstrndx >= l->sections) return "";
    const Elf64_Shdr *names = &l->section[e.e_shstrndx];
    if (names->sh_type != SHT_STRTAB || s->sh_name >= names->sh_size ||
        l->object[names->sh_offset + names->sh_size - 1])
        return "";
    return (const char *)l->object + names->sh_offset + s->sh_name;
}

static bool need(loader *l, size_t section) {
    if (section >= l->sections || l->needed[section]) return false;
    return l->needed[section] = true;
}

/* The sections that relocations of a needed one refer to; false: they were needed before. */
static bool need_targets(loader *l, const Elf64_Shdr *relocations) {
    bool more = false;
    for (size_t k = 0; k < relocations->sh_size / sizeof(Elf64_Rela); k++) {
        Elf64_Rela r;
        memcpy(&r, l->object + relocations->sh_offset + k * sizeof r, sizeof r);
        size_t symbol = ELF64_R_SYM(r.r_info);
        if (symbol >= l->symbol_count) continue;
        Elf64_Sym s = symbol_at(l, symbol);
        if (s.st_shndx == SHN_UNDEF) l->calls = true;
        more |= need(l, s.st_shndx);
    }
    return more;
}

/* An object may hold more kernels than the one that is wanted: only what that needs is loaded. */
static void find_needed(loader *l, int n, const char *const *name) {
    for (size_t k = 0; k < l->symbol_count; k++) {
        Elf64_Sym s = symbol_at(l, k);
        for (int i = 0; i < n; i++)
            if (!strcmp(symbol_name(l, &s), name[i])) need(l, s.st_shndx);
    }
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < l->sections; i++) {
            const Elf64_Shdr *s = &l->section[i];
            if (s->sh_type == SHT_RELA && s->sh_info < l->sections && l->needed[s->sh_info])
                more |= need_targets(l, s);
        }
    }
}

/* Give a place to every needed section that is executable (or not, the second time). */
static const char *lay_out(loader *l, bool executable, size_t *end) {
    for (size_t i = 0; i < l->sections; i++) {
        const Elf64_Shdr *s = &l->section[i];
        if (!(s->sh_flags & SHF_ALLOC) || !s->sh_size) continue;
        if (!(s->sh_flags & SHF_EXECINSTR) == executable) continue;
        if (s->sh_flags & SHF_TLS) return "the object has thread-local data";
        if ((s->sh_flags & SHF_WRITE) && strncmp(section_name(l, s), ".data.rel.ro", 12))
            return "the object has writable data";
        uint64_t align = s->sh_addralign ? s->sh_addralign : 1;
        if (align > 4096 || (align & (align - 1))) return "bad section alignment";
        *end = round_up(*end, align);
        if (!l->needed[i]) continue;
        if (s->sh_size > most_bytes || *end > most_bytes) return "the object is too large";
        l->at[i] = *end;
        *end += s->sh_size;
    }
    return NULL;
}

/* From places among the code and among the constants to places from the image on. */
static void place(loader *l) {
    for (size_t i = 0; i < l->sections; i++)
        if (l->at[i] != NOWHERE)
            l->at[i] += l->section[i].sh_flags & SHF_EXECINSTR ? l->room.text : l->room.data;
    l->stubs += l->room.text;
    l->slots += l->room.data;
    l->image = l->room.base;
}

static void write_calls(const loader *l) {
    static const uint8_t jump[6] = {0xff, 0x25, 0, 0, 0, 0}; /* jmp *next(%rip) */
    for (size_t i = 0; i < COUNT_OF(externals); i++) {
        memcpy(l->image + l->stubs + i * STUB, jump, sizeof jump);
        memcpy(l->image + l->stubs + i * STUB + sizeof jump, &externals[i].function, 8);
        memcpy(l->image + l->slots + i * 8, &externals[i].function, 8);
    }
}

static const char *map_image(loader *l) {
    size_t text = 0, data = l->calls ? COUNT_OF(externals) * 8 : 0;
    const char *why = lay_out(l, true, &text);
    if (why || (why = lay_out(l, false, &data))) return why;
    if (l->calls) {
        l->stubs = round_up(text, STUB);
        text = l->stubs + COUNT_OF(externals) * STUB;
    }
    if (!code_take(l->store, text, data, &l->room)) return elf_no_memory;
    place(l);
    for (size_t i = 0; i < l->sections; i++)
        if (l->at[i] != NOWHERE && l->section[i].sh_type != SHT_NOBITS)
            memcpy(l->image + l->at[i], l->object + l->section[i].sh_offset, l->section[i].sh_size);
    if (l->calls) write_calls(l);
    return NULL;
}

/* Where a symbol lies, from the image on. `external` is its row, or -1. */
static const char *resolve(const loader *l, size_t index, size_t *at, int *external) {
    if (index >= l->symbol_count) return "a relocation names no symbol";
    Elf64_Sym s = symbol_at(l, index);
    *external = -1;
    if (s.st_shndx == SHN_UNDEF) {
        const char *name = symbol_name(l, &s);
        for (size_t i = 0; i < COUNT_OF(externals); i++) {
            if (strcmp(name, externals[i].name)) continue;
            *external = (int)i;
            *at = l->stubs + i * STUB;
            return NULL;
        }
        return "the object needs a function that kernels may not call";
    }
    if (s.st_shndx >= l->sections || l->at[s.st_shndx] == NOWHERE)
        return "a relocation refers to what is not loaded";
    if (s.st_value > l->section[s.st_shndx].sh_size) return "a symbol lies outside its section";
    *at = l->at[s.st_shndx] + s.st_value;
    return NULL;
}

static const char *relocate(loader *l, size_t target, const Elf64_Rela *r) {
    size_t at;
    int external;
    unsigned type = (unsigned)ELF64_R_TYPE(r->r_info);
    if (type == R_X86_64_NONE) return NULL;
    const char *why = resolve(l, ELF64_R_SYM(r->r_info), &at, &external);
    if (why) return why;
    size_t width = type == R_X86_64_64 || type == R_X86_64_PC64 ? 8 : 4;
    if (!inside(r->r_offset, width, l->section[target].sh_size))
        return "a relocation lies outside its section";
    size_t place = l->at[target] + r->r_offset;
    uint64_t value;
    switch (type) {
    case R_X86_64_64:
        value = (uint64_t)(uintptr_t)l->image + at + (uint64_t)r->r_addend;
        break;
    case R_X86_64_PC64:
    case R_X86_64_PC32:
    case R_X86_64_PLT32:
        value = (uint64_t)at + (uint64_t)r->r_addend - place;
        break;
    case R_X86_64_GOTPCREL:
    case R_X86_64_GOTPCRELX:
    case R_X86_64_REX_GOTPCRELX:
        if (external < 0) return "a local symbol through the offset table";
        value = (uint64_t)(l->slots + (size_t)external * 8) + (uint64_t)r->r_addend - place;
        break;
    default:
        return "a kind of relocation that position-independent code does not have";
    }
    if (width == 4 && (int64_t)value != (int32_t)value) return "a relocation out of reach";
    memcpy(l->image + place, &value, width);
    return NULL;
}

static const char *relocate_all(loader *l) {
    for (size_t i = 0; i < l->sections; i++) {
        const Elf64_Shdr *s = &l->section[i];
        if (s->sh_type != SHT_RELA) continue;
        if (s->sh_info >= l->sections) return "bad relocation section";
        if (l->at[s->sh_info] == NOWHERE) continue;
        for (size_t k = 0; k < s->sh_size / sizeof(Elf64_Rela); k++) {
            Elf64_Rela r;
            memcpy(&r, l->object + s->sh_offset + k * sizeof r, sizeof r);
            const char *why = relocate(l, s->sh_info, &r);
            if (why) return why;
        }
    }
    return NULL;
}

static const char *find_functions(loader *l, int n, const char *const *name, void **function) {
    for (int i = 0; i < n; i++) function[i] = NULL;
    for (size_t k = 0; k < l->symbol_count; k++) {
        Elf64_Sym s = symbol_at(l, k);
        if (ELF64_ST_TYPE(s.st_info) != STT_FUNC || s.st_shndx >= l->sections) continue;
        if (l->at[s.st_shndx] == NOWHERE || !(l->section[s.st_shndx].sh_flags & SHF_EXECINSTR) ||
            s.st_value >= l->section[s.st_shndx].sh_size)
            continue;
        for (int i = 0; i < n; i++)
            if (!strcmp(symbol_name(l, &s), name[i])) {
                size_t room = l->section[s.st_shndx].sh_size - s.st_value;
                function[i] = l->image + l->at[s.st_shndx] + s.st_value;
                if (!i) l->room.length = s.st_size < room ? s.st_size : room;
            }
    }
    for (int i = 0; i < n; i++)
        if (!function[i]) return "the object lacks the kernel's function";
    return NULL;
}

static const char *load(loader *l, int n, const char *const *name, void **function) {
    const char *why;
    if ((why = read_header(l)) || (why = find_symbols(l))) return why;
    find_needed(l, n, name);
    if ((why = map_image(l)) || (why = relocate_all(l)) ||
        (why = find_functions(l, n, name, function)))
        return why;
    return code_seal(&l->room) ? NULL : "the system refuses executable memory";
}

const char *elf_load(code_store *c, const elf_object *object, void **function, code_room *room) {
    loader l = {.store = c, .object = object->bytes, .size = object->size};
    const char *why = load(&l, object->n, object->name, function);
    if (l.section) heap_free(c->h, (void *)l.section, headers_size(&l));
    if (why) code_give(c, &l.room);
    *room = l.room;
    return why;
}
