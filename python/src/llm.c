/* llm.c - quern_llm.h's language models, and quern_text.h's tokenizers and templates, of which
 * llm.py makes what Python calls so.
 *
 * A model computes without the interpreter's lock, a chunk, a token or a piece of text at a time,
 * and between them signals have their turn. Each call is given all ids and reads those that the
 * cache has not, so two texts that are made by turns, or by two threads, do not mix. What the
 * library gives is valid until the next call on the model, which a signal's handler may make: it is
 * copied before. */
#include "core.h"

#include <quern_llm.h>

#include <stdlib.h>
#include <string.h>

/* A model, a tokenizer or a template; a model's tokenizer holds its model. */
typedef struct text_object {
    PyObject_HEAD qn_llm *m;
    qn_tokenizer *t;
    qn_template *p;
    qn_ctx *qn;
    PyObject *owner;
    int64_t chunk; /* of a model */
    uint32_t epoch;
} text_object;
static PyTypeObject *model_type, *tokenizer_type, *template_type;

/* ---- the objects ----------------------------------------------------------------------------- */

static bool text_is_here(const text_object *o) {
    return (o->m || o->t || o->p) && o->epoch / EPOCH_FORK == core.epoch / EPOCH_FORK;
}

static void text_shut(text_object *o) {
    core_enter();
    text_object was = *o; /* another thread may have come first */
    o->m = NULL;
    o->t = NULL;
    o->p = NULL;
    if (!text_is_here(&was)) return;
    if (was.m) qn_llm_close(was.m);
    if (was.t && !was.owner) qn_tokenizer_close(was.t);
    if (was.p) qn_template_free(was.p);
}

static void text_free(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    text_shut((text_object *)self);
    Py_XDECREF(((text_object *)self)->owner);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *text_close(PyObject *self, PyObject *none) {
    (void)none;
    text_shut((text_object *)self);
    Py_RETURN_NONE;
}

static text_object *text_new(PyTypeObject *type, qn_ctx *qn) {
    text_object *o = PyObject_New(text_object, type);
    if (!o) return NULL;
    o->m = NULL;
    o->t = NULL;
    o->p = NULL;
    o->owner = NULL;
    o->qn = qn;
    o->chunk = 0;
    o->epoch = core.epoch;
    return o;
}

/* The object, when no other thread computes; NULL with an exception. */
static text_object *text_of(PyObject *self) {
    core_enter();
    text_object *o = (text_object *)self;
    bool here = text_is_here(o) && (!o->owner || text_is_here((text_object *)o->owner));
    if (here) return o;
    PyErr_SetString(PyExc_ValueError, "this model has been closed, or is of another process");
    return NULL;
}

/* A model whose values may be read. */
static text_object *model_of(PyObject *self) {
    if (!may_read(NULL, "what a language model says")) return NULL;
    return text_of(self);
}

/* ---- ids ------------------------------------------------------------------------------------- */

/* Ids are given as memory of int32_t, and come back as a list. */
typedef struct id_list {
    Py_buffer view;
    const int32_t *id;
    int64_t n;
} id_list;

static bool ids_fit(id_list *ids) {
    ids->id = ids->view.buf;
    ids->n = ids->view.len / (Py_ssize_t)sizeof *ids->id;
    if (ids->view.len % (Py_ssize_t)sizeof *ids->id == 0) return true;
    PyErr_SetString(PyExc_ValueError, "ids are whole numbers of 32 bits");
    return false;
}

static int32_t *ids_copy(int64_t n, const int32_t *ids) {
    int32_t *copy = n < 0 ? NULL : malloc((size_t)n * sizeof *copy + 1);
    if (copy && n) memcpy(copy, ids, (size_t)n * sizeof *copy);
    return copy;
}

static PyObject *ids_give(int64_t n, const int32_t *ids) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list && i < n; i++) {
        PyObject *id = PyLong_FromLong(ids[i]);
        if (!id || PyList_SetItem(list, (Py_ssize_t)i, id)) Py_CLEAR(list);
    }
    return list;
}

/* The list of a call that gave n ids, `code` n or -1, and frees the copy. */
static PyObject *ids_result(qn_ctx *qn, bool fine, int64_t n, int32_t *copy) {
    PyObject *list = NULL;
    if (n < 0)
        raise_of(qn);
    else if (!copy)
        PyErr_NoMemory();
    else if (fine)
        list = ids_give(n, copy);
    free(copy);
    return list;
}

/* ---- models ---------------------------------------------------------------------------------- */

enum { ADAPTERS_MOST = 64 };

/* Of a tuple of pairs of a path, as bytes, and a scale: how many, or -1. */
static int adapters_of(PyObject *pairs, qn_llm_adapter *out) {
    const Py_ssize_t n = PyTuple_Size(pairs);
    if (n > ADAPTERS_MOST)
        PyErr_Format(PyExc_ValueError, "%zd adapters; up to %d are taken", n, ADAPTERS_MOST);
    if (n < 0 || n > ADAPTERS_MOST) return -1;
    for (Py_ssize_t i = 0; i < n; i++)
        if (!PyArg_ParseTuple(PyTuple_GetItem(pairs, i), "yd", &out[i].path, &out[i].scale))
            return -1;
    return (int)n;
}

/* llm_open(path, device, context, chunk, cache_bits, adapters) */
static PyObject *llm_open(PyObject *self, PyObject *args) {
    (void)self;
    PyObject *path = NULL, *device, *pairs;
    long long context, chunk, bits;
    qn_llm_adapter adapter[ADAPTERS_MOST];
    if (!PyArg_ParseTuple(args, "O&OLLLO!", PyUnicode_FSConverter, &path, &device, &context, &chunk,
                          &bits, &PyTuple_Type, &pairs))
        return NULL;
    const int adapters = adapters_of(pairs, adapter);
    if (adapters < 0) {
        Py_DECREF(path);
        return NULL;
    }
    qn_ctx *qn = may_read(NULL, "what a language model says") ? core_ctx_of(device) : NULL;
    text_object *o = qn ? text_new(model_type, qn) : NULL;
    if (o) {
        qn_llm_options options =
            QN_LLM_OPTIONS(.context = context, .chunk = chunk, .cache_bits = bits,
                           .adapters = adapters, .adapter = adapter);
        computing c = compute_begin();
        qn_llm *m = qn_llm_open(qn, PyBytes_AsString(path), &options);
        bool fine = compute_end(c);
        o->m = m;
        o->chunk = chunk ? chunk : 128; /* as quern_llm.h has it */
        if (!m) raise_of(qn);
        if (!m || !fine) Py_CLEAR(o);
    }
    Py_DECREF(path);
    return (PyObject *)o;
}

static PyObject *model_info(PyObject *self, PyObject *none) {
    (void)none;
    text_object *o = text_of(self);
    qn_llm_info i = {0};
    if (!o) return NULL;
    if (qn_llm_get_info(o->m, &i, sizeof i)) return raise_of(o->qn);
    return Py_BuildValue("{ss sL sL sL sL sL sL sL sL sK sK sO}", "architecture", i.architecture,
                         "vocabulary", (long long)i.vocabulary, "width", (long long)i.width,
                         "layers", (long long)i.layers, "heads", (long long)i.heads, "kv_heads",
                         (long long)i.kv_heads, "head", (long long)i.head, "context",
                         (long long)i.context, "trained", (long long)i.trained, "parameters",
                         (unsigned long long)i.parameters, "bytes", (unsigned long long)i.bytes,
                         "chat", i.chat ? Py_True : Py_False);
}

/* The model's tokenizer, or None. */
static PyObject *model_tokenizer(PyObject *self, PyObject *none) {
    (void)none;
    text_object *o = text_of(self);
    qn_tokenizer *t = o ? qn_llm_tokenizer(o->m) : NULL;
    if (!o) return NULL;
    if (!t) Py_RETURN_NONE;
    text_object *made = text_new(tokenizer_type, o->qn);
    if (!made) return NULL;
    made->t = t;
    made->epoch = o->epoch;
    Py_INCREF(self);
    made->owner = self;
    return (PyObject *)made;
}

static PyObject *model_ends(PyObject *self, PyObject *id) {
    text_object *o = text_of(self);
    long i = o ? PyLong_AsLong(id) : -1;
    if (!o || PyErr_Occurred()) return NULL;
    return PyBool_FromLong(i >= 0 && i <= INT32_MAX && qn_llm_ends(o->m, (int32_t)i));
}

static PyObject *model_held(PyObject *self, PyObject *none) {
    (void)none;
    const int32_t *ids;
    text_object *o = text_of(self);
    int64_t n = o ? qn_llm_read(o->m, &ids) : -1;
    return n < 0 ? NULL : ids_give(n, ids);
}

static PyObject *model_rewind(PyObject *self, PyObject *number) {
    long long n = PyLong_AsLongLong(number);
    text_object *o = PyErr_Occurred() ? NULL : text_of(self);
    if (!o) return NULL;
    if (qn_llm_rewind(o->m, n)) return raise_of(o->qn);
    Py_RETURN_NONE;
}

/* How many of the ids the cache begins with; the last one is to be read in any case. */
static int64_t common(const text_object *o, const id_list *ids) {
    const int32_t *held;
    int64_t n = qn_llm_read(o->m, &held), same = 0;
    while (same < n && same < ids->n - 1 && held[same] == ids->id[same]) same++;
    return same;
}

/* Is there nothing to complain of? Who reads the rest says what it is. */
static bool ids_are_fine(const text_object *o, const id_list *ids) {
    qn_llm_info info = {0};
    if (qn_llm_get_info(o->m, &info, sizeof info) || ids->n > info.context) return false;
    for (int64_t i = 0; i < ids->n; i++)
        if (ids->id[i] < 0 || ids->id[i] >= info.vocabulary) return false;
    return true;
}

/* read_chunk(ids): a chunk of those that the cache has not, if there are more than one; whether
 * there may be another. */
static PyObject *model_read_chunk(PyObject *self, PyObject *args) {
    id_list ids;
    if (!PyArg_ParseTuple(args, "y*", &ids.view)) return NULL;
    text_object *o = ids_fit(&ids) ? model_of(self) : NULL;
    int64_t same = o ? common(o, &ids) : 0;
    bool more = o && ids.n - same > o->chunk && ids_are_fine(o, &ids);
    if (more) {
        computing c = compute_begin();
        qn_code code = qn_llm_rewind(o->m, same);
        if (!code) code = qn_llm_feed(o->m, o->chunk, ids.id + same, NULL);
        bool fine = compute_end(c);
        if (code) raise_of(o->qn);
        if (code || !fine) o = NULL;
    }
    PyBuffer_Release(&ids.view);
    return o ? PyBool_FromLong(more) : NULL;
}

static PyObject *floats_give(qn_ctx *qn, int64_t n, const float *x) {
    qn_tensor *t = qn_from(qn, QN_F32, 1, &n, x);
    return t ? tensor_wrap(t) : raise_of(qn);
}

/* logits(ids): [vocabulary] behind the last one. */
static PyObject *model_logits(PyObject *self, PyObject *args) {
    id_list ids;
    qn_llm_info info = {0};
    if (!PyArg_ParseTuple(args, "y*", &ids.view)) return NULL;
    text_object *o = ids_fit(&ids) ? model_of(self) : NULL;
    float *out = NULL;
    PyObject *made = NULL;
    if (o && !qn_llm_get_info(o->m, &info, sizeof info)) {
        out = malloc((size_t)info.vocabulary * sizeof *out);
        if (!out) PyErr_NoMemory();
    }
    if (out) {
        const float *logits = NULL;
        int64_t same = common(o, &ids);
        computing c = compute_begin();
        qn_code code = qn_llm_rewind(o->m, same);
        if (!code) code = qn_llm_feed(o->m, ids.n - same, ids.id + same, &logits);
        if (!code) memcpy(out, logits, (size_t)info.vocabulary * sizeof *out);
        bool fine = compute_end(c);
        if (code)
            raise_of(o->qn);
        else if (fine)
            made = floats_give(o->qn, info.vocabulary, out);
    }
    free(out);
    PyBuffer_Release(&ids.view);
    return made;
}

static PyObject *model_embed(PyObject *self, PyObject *args) {
    id_list ids;
    qn_llm_info info = {0};
    if (!PyArg_ParseTuple(args, "y*", &ids.view)) return NULL;
    text_object *o = ids_fit(&ids) ? model_of(self) : NULL;
    float *out = NULL;
    PyObject *made = NULL;
    if (o && !qn_llm_get_info(o->m, &info, sizeof info)) {
        out = malloc((size_t)info.width * sizeof *out);
        if (!out) PyErr_NoMemory();
    }
    if (out) {
        computing c = compute_begin();
        qn_code code = qn_llm_embed(o->m, ids.n, ids.id, out);
        bool fine = compute_end(c);
        if (code)
            raise_of(o->qn);
        else if (fine)
            made = floats_give(o->qn, info.width, out);
    }
    free(out);
    PyBuffer_Release(&ids.view);
    return made;
}

static PyObject *model_score(PyObject *self, PyObject *args) {
    id_list ids;
    double nll = 0;
    if (!PyArg_ParseTuple(args, "y*", &ids.view)) return NULL;
    text_object *o = ids_fit(&ids) ? model_of(self) : NULL;
    PyObject *made = NULL;
    if (o) {
        computing c = compute_begin();
        qn_code code = qn_llm_score(o->m, ids.n, ids.id, &nll);
        bool fine = compute_end(c);
        if (code)
            raise_of(o->qn);
        else if (fine)
            made = PyFloat_FromDouble(nll);
    }
    PyBuffer_Release(&ids.view);
    return made;
}

/* ---- texts by a model ------------------------------------------------------------------------ */

typedef struct piece {
    char *text;
    size_t size;
    bool full; /* there was no memory for it */
} piece;

/* The first piece of text ends the call: the next one goes on behind it. */
static bool take_piece(void *arg, const char *text, size_t size) {
    piece *p = arg;
    p->text = malloc(size + 1);
    p->full = !p->text;
    p->size = size;
    if (p->text) memcpy(p->text, text, size);
    return false;
}

/* step(ids, most, as_text, ignore_end, grammar, schema, matched, (temperature, top_k, top_p, min_p,
 * repetition, presence, frequency, last, seed)): new ids and the text that they bring, or None; of
 * no text, one id. */
static PyObject *model_step(PyObject *self, PyObject *args) {
    id_list ids;
    long long most, matched, top_k, last;
    const char *grammar, *schema;
    unsigned long long seed;
    int as_text, ignore_end;
    qn_sample_options s = QN_SAMPLE_OPTIONS();
    if (!PyArg_ParseTuple(args, "y*LppzzL(dLdddddLK)", &ids.view, &most, &as_text, &ignore_end,
                          &grammar, &schema, &matched, &s.temperature, &top_k, &s.top_p, &s.min_p,
                          &s.repetition, &s.presence, &s.frequency, &last, &seed))
        return NULL;
    s.top_k = top_k;
    s.last = last;
    s.seed = seed;
    text_object *o = ids_fit(&ids) ? model_of(self) : NULL;
    PyObject *list = NULL, *text = NULL;
    if (o) {
        piece p = {0};
        qn_llm_generate_options g =
            QN_LLM_GENERATE(.most = as_text ? most : 1, .sample = &s, .ignore_end = ignore_end,
                            .grammar = grammar, .schema = schema,
                            .matched = grammar || schema ? matched : 0);
        if (as_text) g.piece = take_piece, g.arg = &p;
        const int32_t *out = NULL;
        qn_ctx *qn = o->qn;
        computing c = compute_begin();
        int64_t n = qn_llm_generate(o->m, ids.n, ids.id, &g, &out);
        int32_t *copy = ids_copy(n, out);
        bool fine = compute_end(c);
        if (n >= 0 && p.full) fine = (PyErr_NoMemory(), false);
        list = ids_result(qn, fine, n, copy);
        if (list && p.text) text = PyUnicode_DecodeUTF8(p.text, (Py_ssize_t)p.size, "replace");
        free(p.text);
        if (list && p.text && !text) Py_CLEAR(list);
    }
    PyBuffer_Release(&ids.view);
    if (!list) return NULL;
    return text ? Py_BuildValue("(NN)", list, text) : Py_BuildValue("(NO)", list, Py_None);
}

/* chat(messages as JSON): ids up to where the answer is to begin. */
static PyObject *model_chat(PyObject *self, PyObject *messages) {
    Py_ssize_t size = 0;
    const char *text = PyUnicode_Check(messages) ? PyUnicode_AsUTF8AndSize(messages, &size) : NULL;
    if (!text && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "chat: JSON is a text");
    text_object *o = text ? text_of(self) : NULL;
    if (!o) return NULL;
    const int32_t *ids = NULL;
    qn_ctx *qn = o->qn;
    computing c = compute_begin();
    int64_t n = qn_llm_encode_chat(o->m, text, (size_t)size, &ids);
    int32_t *copy = ids_copy(n, ids);
    return ids_result(qn, compute_end(c), n, copy);
}

/* ---- tokenizers ------------------------------------------------------------------------------ */

/* A text of bytes or str, UTF-8, whose memory is the object's. */
static const char *utf8_of(PyObject *o, Py_ssize_t *size) {
    if (PyUnicode_Check(o)) return PyUnicode_AsUTF8AndSize(o, size);
    char *text = NULL;
    if (PyBytes_Check(o) && !PyBytes_AsStringAndSize(o, &text, size)) return text;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "a text is wanted, not %R", o);
    return NULL;
}

/* tokenizer_open(JSON) */
static PyObject *tokenizer_open(PyObject *self, PyObject *json) {
    (void)self;
    Py_ssize_t size;
    const char *text = utf8_of(json, &size);
    qn_ctx *qn = text ? core_ctx() : NULL;
    text_object *o = qn ? text_new(tokenizer_type, qn) : NULL;
    if (!o) return NULL;
    computing c = compute_begin();
    qn_tokenizer *t = qn_tokenizer_open(qn, text, (size_t)size);
    bool fine = compute_end(c);
    o->t = t;
    if (!t) raise_of(qn);
    if (!t || !fine) Py_CLEAR(o);
    return (PyObject *)o;
}

/* encode(text, special, plain) */
static PyObject *tokenizer_encode(PyObject *self, PyObject *args) {
    PyObject *given;
    int special, plain;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "Opp", &given, &special, &plain)) return NULL;
    const char *text = utf8_of(given, &size);
    text_object *o = text ? text_of(self) : NULL;
    if (!o) return NULL;
    unsigned flags = (special ? QN_ENCODE_SPECIAL : 0u) | (plain ? QN_ENCODE_PLAIN : 0u);
    const int32_t *ids = NULL;
    qn_ctx *qn = o->qn;
    computing c = compute_begin();
    int64_t n = qn_tokenizer_encode(o->t, text, (size_t)size, flags, &ids);
    int32_t *copy = ids_copy(n, ids);
    return ids_result(qn, compute_end(c), n, copy);
}

/* decode(ids, skip_special) */
static PyObject *tokenizer_decode(PyObject *self, PyObject *args) {
    id_list ids;
    int skip;
    size_t size = 0;
    if (!PyArg_ParseTuple(args, "y*p", &ids.view, &skip)) return NULL;
    text_object *o = ids_fit(&ids) ? text_of(self) : NULL;
    const char *text = o ? qn_tokenizer_decode(o->t, ids.n, ids.id, skip, &size) : NULL;
    PyObject *made = NULL;
    if (text)
        made = PyUnicode_DecodeUTF8(text, (Py_ssize_t)size, "replace");
    else if (o)
        raise_of(o->qn);
    PyBuffer_Release(&ids.view);
    return made;
}

static PyObject *tokenizer_size(PyObject *self, PyObject *none) {
    (void)none;
    text_object *o = text_of(self);
    return o ? PyLong_FromLong(qn_tokenizer_size(o->t)) : NULL;
}

/* The id of a spelling, or None. */
static PyObject *tokenizer_id(PyObject *self, PyObject *token) {
    Py_ssize_t size;
    const char *text = utf8_of(token, &size);
    text_object *o = text ? text_of(self) : NULL;
    if (!o) return NULL;
    int32_t id = strlen(text) == (size_t)size ? qn_tokenizer_id(o->t, text) : -1;
    if (id < 0) Py_RETURN_NONE;
    return PyLong_FromLong(id);
}

/* (spelling, is it special?) of an id, or None. */
static PyObject *tokenizer_token(PyObject *self, PyObject *number) {
    long id = PyLong_AsLong(number);
    text_object *o = PyErr_Occurred() ? NULL : text_of(self);
    if (!o) return NULL;
    bool special = false, fits = id >= 0 && id <= INT32_MAX;
    const char *text = fits ? qn_tokenizer_token(o->t, (int32_t)id, &special) : NULL;
    if (!text) Py_RETURN_NONE;
    PyObject *spelling = PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
    return spelling ? Py_BuildValue("(NO)", spelling, special ? Py_True : Py_False) : NULL;
}

/* ---- templates ------------------------------------------------------------------------------- */

static PyObject *template_new(PyObject *self, PyObject *given) {
    (void)self;
    Py_ssize_t size;
    const char *text = utf8_of(given, &size);
    qn_ctx *qn = text ? core_ctx() : NULL;
    text_object *o = qn ? text_new(template_type, qn) : NULL;
    if (!o) return NULL;
    o->p = qn_template_new(qn, text, (size_t)size);
    if (!o->p) raise_of(qn);
    if (!o->p) Py_CLEAR(o);
    return (PyObject *)o;
}

/* render(variables as JSON) */
static PyObject *template_render(PyObject *self, PyObject *variables) {
    Py_ssize_t size;
    size_t length = 0;
    const char *json = utf8_of(variables, &size);
    text_object *o = json ? text_of(self) : NULL;
    if (!o) return NULL;
    const char *text = qn_template_render(o->p, json, (size_t)size, &length);
    return text ? PyUnicode_DecodeUTF8(text, (Py_ssize_t)length, "replace") : raise_of(o->qn);
}

/* ---- into the module ------------------------------------------------------------------------- */

static PyMethodDef of_model[] = {
    {"info", model_info, METH_NOARGS, "info($self)\n--\n\nWhat it is, by name."},
    {"tokenizer", model_tokenizer, METH_NOARGS, "tokenizer($self)\n--\n\nIts own, or None."},
    {"ends", model_ends, METH_O, "ends($self, id)\n--\n\nDoes it end a text or a turn?"},
    {"held", model_held, METH_NOARGS, "held($self)\n--\n\nThe ids in the cache."},
    {"rewind", model_rewind, METH_O, "rewind($self, n)\n--\n\nForget all but n of them."},
    {"read_chunk", model_read_chunk, METH_VARARGS,
     "read_chunk($self, ids)\n--\n\nRead a chunk; whether there may be another."},
    {"logits", model_logits, METH_VARARGS, "logits($self, ids)\n--\n\nBehind the last of them."},
    {"embed", model_embed, METH_VARARGS, "embed($self, ids)\n--\n\nTheir mean output."},
    {"score", model_score, METH_VARARGS, "score($self, ids)\n--\n\nThe sum of -log p."},
    {"step", model_step, METH_VARARGS,
     "step($self, ids, most, as_text, ignore_end, grammar, schema, matched, sample)\n--\n\n"
     "New ids, and their text."},
    {"chat", model_chat, METH_O, "chat($self, messages)\n--\n\nThe ids of a conversation."},
    {"close", text_close, METH_NOARGS, "close($self)\n--\n\nClose it."},
    {0}};
static PyMethodDef of_tokenizer[] = {
    {"encode", tokenizer_encode, METH_VARARGS,
     "encode($self, text, special, plain)\n--\n\nThe ids of a text."},
    {"decode", tokenizer_decode, METH_VARARGS,
     "decode($self, ids, skip_special)\n--\n\nThe text of ids."},
    {"size", tokenizer_size, METH_NOARGS, "size($self)\n--\n\nOne more than the highest id."},
    {"id", tokenizer_id, METH_O, "id($self, token)\n--\n\nThe id of a spelling, or None."},
    {"token", tokenizer_token, METH_O, "token($self, id)\n--\n\nIts spelling, is it special?"},
    {"close", text_close, METH_NOARGS, "close($self)\n--\n\nClose it."},
    {0}};
static PyMethodDef of_template[] = {
    {"render", template_render, METH_O, "render($self, variables)\n--\n\nThe text for them."},
    {"close", text_close, METH_NOARGS, "close($self)\n--\n\nFree it."},
    {0}};

static PyTypeObject *text_type(const char *name, const char *about, PyMethodDef *methods) {
    PyType_Slot slots[] = {{Py_tp_dealloc, text_free},
                           {Py_tp_methods, methods},
                           {Py_tp_doc, (void *)(uintptr_t)about},
                           {0, NULL}};
    PyType_Spec spec = {name, sizeof(text_object), 0,
                        Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};
    return (PyTypeObject *)PyType_FromSpec(&spec);
}

bool llm_add(PyObject *module) {
    static PyMethodDef functions[] = {
        {"llm_open", llm_open, METH_VARARGS,
         "llm_open(path, device, context, chunk, cache_bits, adapters, /)\n--\n\nOpen a language "
         "model."},
        {"tokenizer_open", tokenizer_open, METH_O,
         "tokenizer_open(json, /)\n--\n\nA tokenizer of the text of a tokenizer.json."},
        {"template_new", template_new, METH_O, "template_new(text, /)\n--\n\nA chat template."},
        {0}};
    model_type = text_type("quern.CModel", "A language model, by llm_open().", of_model);
    tokenizer_type = text_type("quern.CTokenizer", "A tokenizer of the library's.", of_tokenizer);
    template_type = text_type("quern.CTemplate", "A template of the library's.", of_template);
    return model_type && tokenizer_type && template_type &&
           !PyModule_AddFunctions(module, functions);
}
