/* mapped.c - tensors that lie in the file: memory of theirs is the file's pages, which the system
 * reads when they are touched, shares between processes, and drops when it needs memory.
 *
 * A file is mapped whole, once, read-only, when the first tensor is asked for. The mapping is the
 * archive's and the tensors' together, so it outlives the archive where these do. Tensors are
 * borrowed memory (qn_borrow), which nobody writes: an assignment takes other memory. What cannot
 * lie there, being in another order than in memory, bools, which are checked, and what is not at
 * multiples of its elements' size, is copied as ever.
 *
 * Pages that are touched one after the other come at the pace of whoever touches them. Where all
 * will be, a thread asks for them ahead, from the file's begin to its end, while the program does
 * what it needs no pages for: so a cold start waits for the disk or for kernels, not for both.
 *
 * A file that somebody cuts short while it is mapped ends a process that reads behind its new end,
 * by SIGBUS: no check can help that. So its size is looked at once more before it is mapped. */
#include "archive/archive.h"
#include "run/run.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

struct archive_map {
    heap *heap;
    uint8_t *at;
    size_t size;
    int64_t users; /* the archive, and each tensor */
    /* What asks for pages ahead, where `reads`; a thread of the process `owner`. */
    pthread_t thread;
    pid_t owner;
    bool reads;
    _Atomic bool stop;
};

/* ---- ahead ----------------------------------------------------------------------------------- */

enum { AHEAD_PIECE = 1 << 20 }; /* bytes that are asked for at once */

/* Linux has it since 5.14, headers since later. It gives an error where a touch gives SIGBUS. */
#if defined __linux__ && !defined MADV_POPULATE_READ
#define MADV_POPULATE_READ 22
#endif

/* Wait until a piece is there; elsewhere, and where Linux is old, it is only asked for. */
static bool piece_comes(void *at, size_t size) {
#ifdef MADV_POPULATE_READ
    if (madvise(at, size, MADV_POPULATE_READ) == 0 || errno != EINVAL) return errno != EFAULT;
#endif
    return posix_madvise(at, size, POSIX_MADV_WILLNEED) == 0;
}

static void *ahead_main(void *arg) {
    archive_map *m = arg;
    for (size_t at = 0; at < m->size && !m->stop; at += AHEAD_PIECE) {
        size_t left = m->size - at;
        errno = 0;
        if (!piece_comes(m->at + at, left < AHEAD_PIECE ? left : AHEAD_PIECE)) break;
    }
    return NULL;
}

/* Does the file fit the memory with room to spare? Else its end would push its begin out again. */
static bool is_small(uint64_t size) {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 && size / (uint64_t)page < (uint64_t)pages / 4 * 3;
}

void archive_ahead(const qn_archive *known) {
    archive *f = object_of(known, HANDLE_ARCHIVE, "archive_ahead");
    archive_map *m = f ? f->map : NULL;
    if (!m || m->reads || !is_small(m->size)) return;
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    m->owner = getpid();
    m->reads = pthread_create(&m->thread, NULL, ahead_main, m) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

/* ---- the mapping ----------------------------------------------------------------------------- */

void archive_unmap(void *of) {
    archive_map *m = of;
    if (--m->users) return;
    m->stop = true;
    if (m->reads && m->owner == getpid()) pthread_join(m->thread, NULL); /* a fork has none */
    munmap(m->at, m->size);
    heap_free(m->heap, m, sizeof *m);
}

/* Pages of 2 MiB for what is read from now on, where the file system has them: matrices that are
 * streamed from memory come faster than by pages of 4 KiB. Only a wish, so no error is one. */
static void ask_large_pages(void *at, size_t size) {
#ifdef MADV_HUGEPAGE
    madvise(at, size, MADV_HUGEPAGE);
#else
    (void)at, (void)size;
#endif
}

static archive_map *map_of(archive *f) {
    struct stat now;
    if (f->map) return f->map;
    if (fstat(f->fd, &now) || now.st_size < 0 || (uint64_t)now.st_size < f->size)
        archive_bad(f, f->size, "the file changes while it is read");
    archive_map *m = heap_alloc(&f->ctx->heap, sizeof *m);
    void *at = mmap(NULL, (size_t)f->size, PROT_READ, MAP_PRIVATE, f->fd, 0);
    if (at == MAP_FAILED) {
        int why = errno;
        heap_free(&f->ctx->heap, m, sizeof *m);
        raise_error(f->ctx, QN_EIO, "%s: cannot map it: %s", f->path, strerror(why));
    }
    ask_large_pages(at, (size_t)f->size);
    *m = (archive_map){.heap = &f->ctx->heap, .at = at, .size = (size_t)f->size, .users = 1};
    return f->map = m;
}

bool archive_lies(const archive *f, const archive_entry *e) {
    size_t width = e->quant ? 1 : qn_dtype_size((qn_dtype)e->dtype);
    return f->mapped && f->kind->in_file && e->bytes && !e->strides && !e->swapped && !e->flipped &&
           e->dtype != QN_BOOL && !dtype_is_complex(e->dtype) && e->at % width == 0;
}

typedef struct lying {
    archive *f;
    const archive_entry *e;
    qn_dtype dtype;
    int64_t shape[QN_MAX_RANK];
    qn_tensor *made;
} lying;

static void lie_work(void *arg) {
    lying *l = arg;
    archive_map *m = map_of(l->f);
    qn_lender lender = QN_LENDER(.give_back = archive_unmap, .owner = m);
    m->users++; /* given back at once where it is copied after all */
    l->made = qn_borrow(l->f->ctx, l->dtype, l->e->rank, l->shape, m->at + l->e->at, &lender);
    if (!l->made) m->users--;
}

/* The entry's bytes as elements of a dtype, along the last axis where these are of blocks. */
static qn_tensor *lie(archive *f, const archive_entry *e, qn_dtype dtype) {
    const quant_type *q = quant_find(e->quant);
    lying l = {.f = f, .e = e, .dtype = dtype};
    memcpy(l.shape, e->shape, e->rank * sizeof *l.shape);
    if (q)
        l.shape[e->rank - 1] =
            l.shape[e->rank - 1] / q->elements * (q->bytes / (int64_t)qn_dtype_size(dtype));
    return guarded(f->ctx, lie_work, &l) == QN_OK ? l.made : NULL;
}

qn_tensor *archive_mapped(archive *f, const archive_entry *e) {
    return lie(f, e, e->quant ? QN_U8 : (qn_dtype)e->dtype);
}

qn_tensor *archive_halves(const qn_archive *known, const char *name) {
    archive *f = object_of(known, HANDLE_ARCHIVE, "archive_blocks");
    const archive_entry *e = f ? archive_find(f, name) : NULL;
    const quant_type *q = e ? quant_find(e->quant) : NULL;
    bool lies = q && q->bytes % 2 == 0 && e->at % 2 == 0 && archive_lies(f, e);
    return lies && f->ctx->run->dev->host_memory ? lie(f, e, QN_F16) : NULL;
}
