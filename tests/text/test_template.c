/* test_template.c - chat templates: what Jinja makes of them (tools/compare/chats.py wrote the
 * cases), errors with their lines, bounds, damaged templates. */
#include "test.h"

#include "quern_text.h"
#include "text/template/template.h"

static qn_ctx *open_context(void) {
    return qn_open(&QN_OPTIONS(.device = "ref"));
}

/* The text, or NULL with the error in the context; the template is freed with the context's. */
static bool renders(qn_ctx *qn, const char *text, const char *values, const char *want) {
    qn_template *t = qn_template_new(qn, text, strlen(text));
    const char *got = t ? qn_template_render(t, values, strlen(values), NULL) : NULL;
    bool same = want ? got && strcmp(got, want) == 0 : !got;
    if (!same) printf("%s\n got: %s %s\n", text, got ? got : "NULL", qn_error(qn));
    qn_template_free(t);
    return same;
}

static char *next_field(char **at) {
    char *begin = *at, *end = begin + strcspn(begin, " \n");
    size_t n = 0;
    *at = end + (*end != 0);
    *end = 0;
    if (strcmp(begin, "!") == 0) return NULL;
    for (char *c = begin; c + 1 < end; c += 2) {
        char two[3] = {c[0], c[1], 0};
        begin[n++] = (char)strtoul(two, NULL, 16);
    }
    begin[n] = 0;
    return begin;
}

static char *read_cases(void) {
    FILE *f = fopen("tests/text/cases/templates.hex", "rb");
    char *text = calloc(1, 4 << 20);
    size_t n = f ? fread(text, 1, (4 << 20) - 1, f) : 0;
    if (f) fclose(f);
    CHECK(n > 0);
    return text;
}

static void renders_what_jinja_does(void) {
    qn_ctx *qn = open_context();
    char *all = read_cases(), *at = all;
    int cases = 0, errors = 0;
    while (*at) {
        const char *text = next_field(&at), *values = next_field(&at), *want = next_field(&at);
        CHECK(renders(qn, text, values, want));
        if (!want) {
            CHECK(strstr(qn_error(qn), "template: line "));
            errors++;
        }
        qn_clear_error(qn);
        cases++;
    }
    CHECK(cases > 70 && errors > 15);
    free(all);
    qn_close(qn);
}

static void errors_say_the_line(void) {
    static const struct {
        const char *text, *error;
        qn_code code;
    } bad[] = {
        {"a\nb\n{{ x | magic }}", "line 3: the filter \"magic\" is not known", QN_EARG},
        {"\n{% if x is magic %}{% endif %}", "line 2: the test \"magic\"", QN_EARG},
        {"{{ 1 }}\n{{ raise_exception('no ' ~ 2) }}", "line 2: no 2", QN_EARG},
        {"\n\n{% include 'x' %}", "line 3: a statement that is not known: \"include\"", QN_EFORMAT},
        {"{% for x in y %}", "the template ends without \"else\"", QN_EFORMAT},
        {"{{ {'b': 1, 'a': 2}|tojson(sort_keys=true) }}", "tojson with separators", QN_EARG},
        {"{{ 9223372036854775807 }}", "a number too large", QN_EFORMAT},
        {"{{ 999999999999999999 * 99 }}", "beyond 2^63", QN_EARG}};
    qn_ctx *qn = open_context();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK(renders(qn, bad[i].text, "{}", NULL));
        CHECK_INT(qn_error_code(qn), bad[i].code);
        if (!strstr(qn_error(qn), bad[i].error)) printf("%s\n", qn_error(qn));
        CHECK(strstr(qn_error(qn), bad[i].error));
        qn_clear_error(qn);
    }
    CHECK(renders(qn, "x", "[1]", NULL));
    CHECK_INT(qn_error_code(qn), QN_EFORMAT);
    qn_close(qn);
}

/* Wants are Python's: list(range(..)). */
static void ranges_are_pythons(void) {
    static const char big[] = "{\"big\": 9223372036854775807, \"step\": 4611686018427387904}";
    static const struct {
        const char *text, *want;
    } rows[] = {
        {"{{ range(5)|list }} {{ range(2, 9, 3)|list }} {{ range(9, 1, -3)|list }}",
         "[0, 1, 2, 3, 4] [2, 5, 8] [9, 6, 3]"},
        {"{{ range(0)|list }} {{ range(3, 3)|list }} {{ range(1, 5, -1)|list }}", "[] [] []"},
        {"{{ range(-big, big, step)|list }}",
         "[-9223372036854775807, -4611686018427387903, 1, 4611686018427387905]"},
        {"{{ range(big, -big, -big)|list }}", "[9223372036854775807, 0]"},
        {"{{ range(big - 2, big)|list }}", "[9223372036854775805, 9223372036854775806]"},
        {"{{ range(8)[2:7:2] }} {{ range(4)[::-1] }} {{ range(4)[-1] }} {{ range(2)[5] is defined "
         "}}",
         "[2, 4, 6] [3, 2, 1, 0] 3 False"},
        {"{{ range(3) + range(2) }} {{ range(3) == [0, 1, 2] }} {{ 2 in range(3) }} {{ 3 in "
         "range(3) "
         "}}",
         "[0, 1, 2, 0, 1] True True False"},
        {"{{ range(4)|reverse|list }} {{ range(3)|tojson }} {{ [range(3)]|map(attribute='1')|list "
         "}}",
         "[3, 2, 1, 0] [0, 1, 2] [1]"},
        {"{% for i in range(3) %}{{ loop.previtem }}{{ i }}{{ loop.nextitem }};{% endfor %}",
         "01;012;12;"},
        {"{% for i in range(1000000) if i > 999998 %}{{ i }}{% endfor %}", "999999"}};
    qn_ctx *qn = open_context();
    for (size_t i = 0; i < COUNT_OF(rows); i++) CHECK(renders(qn, rows[i].text, big, rows[i].want));
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

/* Memory of at most 1 MiB at a time. */
static void *little(void *user, size_t size, size_t align) {
    (void)user;
    return size > 1 << 20 ? NULL : aligned_alloc(align, (size + align - 1) / align * align);
}
static void little_free(void *user, void *p, size_t size) {
    (void)user, (void)size;
    free(p);
}

/* It has a million numbers; counted they are, and too many are refused as if they were kept. */
static void a_range_needs_no_memory(void) {
    qn_ctx *qn = qn_open(&QN_OPTIONS(.device = "ref", .alloc = little, .free = little_free));
    CHECK(renders(qn, "{{ range(1000000)|last }} {{ range(1000000)|length }}", "{}",
                  "999999 1000000"));
    CHECK(renders(qn, "{{ range(99999999)|last }}", "{}", NULL));
    CHECK(strstr(qn_error(qn), "more than 268435456 bytes of values and text"));
    qn_clear_error(qn);
    CHECK(renders(qn, "{% for i in range(30) %}{{ range(900000)|last }}{% endfor %}", "{}", NULL));
    CHECK(strstr(qn_error(qn), "more than"));
    qn_close(qn);
}

/* Loops in loops, texts that double, macros that call themselves, deep nesting: all end soon. */
static void hostile_templates_end(void) {
    static const char *const bad[] = {
        "{% for i in range(99999999999) %}{% endfor %}",
        "{% for i in range(9999) %}{% for j in range(9999) %}{% endfor %}{% endfor %}",
        "{% set ns = namespace(s='ab') %}{% for i in range(60) %}{% set ns.s = ns.s ~ ns.s %}"
        "{% endfor %}",
        "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
        "{% set l = range(3000)|list %}{% for i in l %}{% for j in l %}{{ i in l }}{% endfor %}"
        "{% endfor %}",
        "{% for i in range(100) %}{{ 'x' * 100000 }}{% for j in range(99) %}{{ 'y' * 100000 }}"
        "{% endfor %}{% endfor %}",
        "{{ range(2000000)|sort|join(range(100000)|join('xxxxxxxxxx')) }}",
        "{% set ns = namespace() %}{% set ns.a = ns %}{{ ns }}",
        "{% set a = namespace(x=[]) %}{% set b = namespace(x=[]) %}{% for i in range(9999) %}"
        "{% set a.x = [a.x] %}{% set b.x = [b.x] %}{% endfor %}{{ a.x == b.x }}",
        "{% set s = 'x' * 100000 %}{{ (s ~ 'y').strip('z' * 90000 ~ 'x') }}",
        "{% set a = 'x' * 1000000 ~ 'y' %}{% set b = 'x' * 1000000 ~ 'z' %}"
        "{% for i in range(9999) %}{% if a == b %}{% endif %}{% endfor %}",
        "{% set a = 'x' * 1000000 ~ 'y' %}{% set b = 'x' * 1000000 ~ 'z' %}"
        "{% for i in range(9999) %}{% if a < b or a.endswith(b) %}{% endif %}{% endfor %}",
        "{% set a = 'x' * 1000000 ~ 'y' %}{% set b = 'x' * 1000000 %}"
        "{% for i in range(9999) %}{% if a.startswith(b) %}{% endif %}{% endfor %}"};
    qn_ctx *qn = open_context();
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        CHECK(renders(qn, bad[i], "{}", NULL));
        CHECK_INT(qn_error_code(qn), QN_EARG);
        qn_clear_error(qn);
        CHECK(qn->heap.bytes < 1 << 24);
    }
    static const char *const units[] = {"(", "[", "{% if 1 %}", "-", "not ", "{{ {'a': ", "1 if "};
    char text[40000];
    for (size_t u = 0; u < COUNT_OF(units); u++) {
        text[0] = 0;
        if (units[u][0] != '{') strcpy(text, "{{ ");
        for (int i = 0; i < 3000; i++) strcat(text, units[u]);
        CHECK(renders(qn, text, "{}", NULL));
        CHECK_INT(qn_error_code(qn), QN_EFORMAT);
        qn_clear_error(qn);
    }
    qn_close(qn);
}

/* Lists and dicts are compared by what they hold, namespaces, loops and macros by being one. */
static void what_is_the_same(void) {
    qn_ctx *qn = open_context();
    CHECK(renders(qn,
                  "{% set a = namespace() %}{% set a.x = a %}{% set b = namespace() %}"
                  "{% set b.x = b %}{{ a == b }} {{ a == a }} {{ a != b }} {{ a.x == a }}",
                  "{}", "False True True True"));
    CHECK(renders(qn, "{{ namespace(n=1) == namespace(n=1) }} {{ {'a': [1]} == {'a': [1.0]} }}",
                  "{}", "False True"));
    CHECK(renders(qn,
                  "{% macro m() %}{% endmacro %}{% macro k() %}{% endmacro %}"
                  "{{ m == m }} {{ m == k }}",
                  "{}", "True False"));
    CHECK_STR(qn_error(qn), "");
    qn_close(qn);
}

static void try_template(qn_ctx *qn, const char *text, size_t n, const char *values) {
    char *copy = malloc(n ? n : 1);
    memcpy(copy, text, n);
    qn_template *t = qn_template_new(qn, copy, n);
    free(copy);
    if (t) qn_template_render(t, values, strlen(values), NULL);
    CHECK(qn_error_code(qn) != QN_EINTERNAL && qn_error_code(qn) != QN_ENOMEM);
    qn_clear_error(qn);
    qn_template_free(t);
}

static void prefixes_and_damage_do_no_harm(void) {
    static const char *const words[] = {"{{",     "}}", "{%", "%}", "-",    "|",        "(",
                                        "]",      "'",  "in", "is", "loop", "messages", "ns",
                                        "[::-1]", "~",  "{",  ":",  "99",   "#}"};
    qn_ctx *qn = open_context();
    char *all = read_cases(), *at = all;
    uint32_t seed = 3;
    for (int i = 0; *at; i++) {
        char *text = next_field(&at);
        const char *values = next_field(&at);
        size_t n = strlen(text);
        next_field(&at);
        if (n > 600 ? i % 20 == 3 : i % 3 == 0)
            for (size_t k = 0; k < n; k++) try_template(qn, text, k, values);
        for (int round = 0; n > 8 && round < 10; round++) {
            seed = seed * 1664525 + 1013904223;
            const char *word = words[(seed >> 10) % COUNT_OF(words)];
            size_t place = (seed >> 16) % (n - strlen(word) + 1), length = strlen(word);
            char was[16];
            memcpy(was, text + place, length);
            memcpy(text + place, word, length);
            try_template(qn, text, n, values);
            if (round % 3) memcpy(text + place, was, length);
        }
    }
    free(all);
    qn_close(qn);
}

static void out_of_memory_is_an_error_anywhere(void) {
    static const char text[] = "{% for m in messages %}{{ m.role|upper ~ '!' }}{% endfor %}";
    static const char values[] = "{\"messages\":[{\"role\":\"user\"},{\"role\":\"you\"}]}";
    qn_ctx *qn = open_context();
    bool made = false;
    for (uint64_t i = 1; !made && i < 100; i++) {
        qn->heap.fail_at = qn->heap.requests + i;
        qn_template *t = qn_template_new(qn, text, strlen(text));
        const char *got = t ? qn_template_render(t, values, strlen(values), NULL) : NULL;
        made = got && strcmp(got, "USER!YOU!") == 0;
        qn->heap.fail_at = 0;
        if (!made) CHECK_INT(qn_error_code(qn), QN_ENOMEM);
        qn_clear_error(qn);
        qn_template_free(t);
    }
    CHECK(made);
    qn_close(qn);
}

int main(int argc, char **argv) {
    test_begin(argc, argv);
    RUN(renders_what_jinja_does);
    RUN(errors_say_the_line);
    RUN(ranges_are_pythons);
    RUN(a_range_needs_no_memory);
    RUN(hostile_templates_end);
    RUN(what_is_the_same);
    RUN(prefixes_and_damage_do_no_harm);
    RUN(out_of_memory_is_an_error_anywhere);
    return test_end();
}
