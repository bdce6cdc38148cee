/* lines.c - the user's place: the line of Python that records an operation.
 *
 * Each tensor carries the number of its place, so that an error that comes when a value is computed
 * can say where it was recorded. To find the line of an instruction Python reads a table from its
 * beginning, so places are kept by code object and instruction: then it costs a look at the frame
 * and one into a table. Lines of this package are not the user's: the caller's are taken. */
#include "core.h"

#include <dlfcn.h>
#include <string.h>

enum { SITES = 4096 };
typedef struct site {
    PyCodeObject *code; /* a reference: else another could come to lie where it was */
    int instruction;
    uint32_t place;
} site;
typedef struct place {
    PyObject *file;
    int line;
} place;

static struct {
    site site[SITES];
    place *place; /* from 1 on */
    uint32_t places, cap;
    PyObject *numbers; /* dict: (file, line) -> number */
    PyObject *back, *instruction, *file_name;
    int (*last_instruction)(PyFrameObject *);
    char package[1024]; /* the folder of this package */
} all;
#define OURS UINT32_MAX

void lines_open(void) {
    all.numbers = PyDict_New();
    all.back = PyUnicode_InternFromString("f_back");
    all.instruction = PyUnicode_InternFromString("f_lasti");
    all.file_name = PyUnicode_InternFromString("co_filename");
    /* Public since 3.11, but not of the limited API: where it is not to be had an attribute is. */
    *(void **)&all.last_instruction = dlsym(RTLD_DEFAULT, "PyFrame_GetLasti");
    Dl_info here;
    if (dladdr((void *)lines_open, &here) && here.dli_fname) {
        const char *end = strrchr(here.dli_fname, '/');
        size_t n = end ? (size_t)(end - here.dli_fname) + 1 : 0;
        if (n < sizeof all.package) memcpy(all.package, here.dli_fname, n);
    }
}

static int instruction_of(PyFrameObject *frame) {
    if (all.last_instruction) return all.last_instruction(frame);
    PyObject *o = PyObject_GetAttr((PyObject *)frame, all.instruction);
    int i = o ? (int)PyLong_AsLong(o) : -1;
    Py_XDECREF(o);
    return i;
}

/* The number of a line, a new one where it has none. */
static uint32_t number_of(PyObject *file, int line) {
    PyObject *key = Py_BuildValue("(Oi)", file, line), *number = NULL;
    uint32_t n = 0;
    if (key && all.numbers) number = PyDict_GetItemWithError(all.numbers, key);
    if (number) {
        n = (uint32_t)PyLong_AsUnsignedLong(number);
    } else if (key) {
        if (all.places + 2 > all.cap) {
            uint32_t cap = all.cap ? 2 * all.cap : 256;
            place *grown = PyMem_Realloc(all.place, cap * sizeof *grown);
            if (grown) all.place = grown, all.cap = cap;
        }
        number = all.places + 2 <= all.cap ? PyLong_FromUnsignedLong(all.places + 1) : NULL;
        if (number && !PyDict_SetItem(all.numbers, key, number)) {
            n = ++all.places;
            Py_INCREF(file);
            all.place[n] = (place){file, line};
        }
        Py_XDECREF(number);
    }
    Py_XDECREF(key);
    PyErr_Clear();
    return n;
}

static uint32_t place_of(PyFrameObject *frame, PyCodeObject *code) {
    PyObject *file = PyObject_GetAttr((PyObject *)code, all.file_name);
    const char *text = file && PyUnicode_Check(file) ? PyUnicode_AsUTF8AndSize(file, NULL) : NULL;
    uint32_t n = 0;
    if (text && *all.package && !strncmp(text, all.package, strlen(all.package)))
        n = OURS;
    else if (text)
        n = number_of(file, PyFrame_GetLineNumber(frame));
    Py_XDECREF(file);
    PyErr_Clear();
    return n;
}

static uint32_t place_at(PyFrameObject *frame) {
    PyCodeObject *code = PyFrame_GetCode(frame);
    int i = instruction_of(frame);
    site *s = &all.site[((uintptr_t)code / 16 * 31 + (unsigned)i * 7) % SITES];
    if (likely(s->code == code && s->instruction == i)) {
        Py_DECREF((PyObject *)code);
        return s->place;
    }
    uint32_t n = place_of(frame, code);
    PyCodeObject *old = s->code;
    *s = (site){code, i, n};
    Py_XDECREF((PyObject *)old);
    return n;
}

uint32_t line_here(void) {
    if (!core.lines) return 0;
    PyFrameObject *frame = PyEval_GetFrame(), *next;
    if (!frame) return 0;
    uint32_t n = place_at(frame);
    if (likely(n != OURS)) return n;
    Py_INCREF((PyObject *)frame);
    while (frame && n == OURS) {
        next = (PyFrameObject *)PyObject_GetAttr((PyObject *)frame, all.back);
        Py_DECREF((PyObject *)frame);
        frame = next;
        if (frame && (PyObject *)frame == Py_None) {
            Py_DECREF((PyObject *)frame);
            frame = NULL;
        }
        n = frame ? place_at(frame) : 0;
    }
    Py_XDECREF((PyObject *)frame);
    PyErr_Clear();
    return n == OURS ? 0 : n;
}

const char *line_of(uint32_t number, int *line) {
    if (!number || number > all.places) return NULL;
    *line = all.place[number].line;
    const char *text = PyUnicode_AsUTF8AndSize(all.place[number].file, NULL);
    if (!text) PyErr_Clear();
    return text;
}
