/* page.c - what pages are made of: escaped text, a head with the style, texts that open. */
#include "view/view.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <unistd.h>

static const char style[] =
    ":root{color-scheme:light dark;--bg:#fff;--fg:#1b2430;--soft:#5a6675;--edge:#c5cdd8;"
    "--box:#f4f6f9;--op:#e6effb;--given:#e3f4e8;--result:#fdebd3;--fold:#eceff3;--kernel:#ece6fb;"
    "--mark:#1d62c9}"
    "@media(prefers-color-scheme:dark){:root{--bg:#12161c;--fg:#e3e8ef;--soft:#98a4b3;"
    "--edge:#3a4452;--box:#1b212a;--op:#1c3350;--given:#1b3d2a;--result:#4d3517;--fold:#2a313b;"
    "--kernel:#352a5c;--mark:#7db4ff}}"
    "body{background:var(--bg);color:var(--fg);font:15px/1.5 system-ui,sans-serif;margin:2em auto;"
    "max-width:1100px;padding:0 1em}h1{font-size:1.5em}h2{font-size:1.15em;margin:2em 0 .4em;"
    "border-bottom:1px solid var(--edge)}p,figcaption{color:var(--soft);margin:.3em 0}"
    "table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    "td,th{padding:.15em .8em .15em 0;text-align:right;border-bottom:1px solid var(--edge)}"
    "td:first-child,th:first-child,td.t,th.t{text-align:left}code,pre,td.t{font-family:ui-"
    "monospace,"
    "monospace;font-size:12px}pre{background:var(--box);padding:.7em;overflow:auto;max-height:32em;"
    "border-radius:5px}summary{cursor:pointer}details details{margin-left:1.2em}"
    ".scroll{overflow:auto;max-height:80vh;border:1px solid var(--edge);border-radius:5px}"
    "svg{display:block;margin:auto}.fit{max-width:100%;height:auto}svg "
    "text{fill:var(--fg);font:11px ui-monospace,monospace;"
    "text-anchor:middle}svg .l1,svg .l2{fill:var(--soft)}svg .axis{fill:var(--soft)}"
    "svg rect{fill:var(--op);stroke:var(--edge)}.given rect{fill:var(--given)}"
    ".result rect{fill:var(--result)}.fold rect{fill:var(--fold);stroke-dasharray:4}"
    ".kernel rect{fill:var(--kernel)}.line,.grid{fill:none;stroke:var(--edge)}"
    ".roof{fill:none;stroke:var(--mark);stroke-width:2}.point{fill:var(--mark)}";

size_t view_letters(const char *text) {
    size_t n = 0;
    for (; *text; text++) n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

void view_text(str *out, const char *text) {
    for (const char *s = text; *s;) {
        int n = text_character(s);
        const char *as = *s == '&'   ? "&amp;"
                         : *s == '<' ? "&lt;"
                         : *s == '>' ? "&gt;"
                         : *s == '"' ? "&quot;"
                                     : NULL;
        bool control = (unsigned char)*s < 0x20 && *s != '\n' && *s != '\t';
        if (as)
            str_add(out, as);
        else if (!n || control || *s == 0x7f)
            str_add(out, "?");
        else
            str_addn(out, s, (size_t)n);
        s += n ? n : 1;
    }
}

void view_head(str *out, const char *title) {
    str_add(out, "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
                 "<meta name=\"viewport\" content=\"width=device-width\">"
                 "<link rel=\"icon\" href=\"data:,\"><title>");
    view_text(out, title);
    str_addf(out, "</title>\n<style>%s</style></head>\n<body>\n<h1>", style);
    view_text(out, title);
    str_add(out, "</h1>\n");
}

void view_foot(str *out) {
    str_addf(out, "<p>Written by Quern %s.</p>\n</body></html>\n", qn_version());
}

void view_fold(str *out, const char *title, const char *text) {
    size_t n = strlen(text), most = n;
    while (most > VIEW_TEXT && (most = VIEW_TEXT) && ((unsigned char)text[most] & 0xc0) == 0x80)
        most--;
    str_addf(out, "<details><summary>%s</summary><pre>", title);
    for (size_t at = 0;
         at < most;) { /* in pieces that end with a line, so that they end somewhere */
        char piece[1024];
        size_t some = most - at < sizeof piece - 1 ? most - at : sizeof piece - 1;
        while (at + some < most && some > 1 && ((unsigned char)text[at + some] & 0xc0) == 0x80)
            some--;
        memcpy(piece, text + at, some);
        piece[some] = 0;
        view_text(out, piece);
        at += some;
    }
    if (most < n) str_addf(out, "\n... and %zu bytes more", n - most);
    str_add(out, "</pre></details>\n");
}

const char *view_number(double value, char out[32]) {
    static const char *const unit[] = {"", " k", " M", " G", " T", " P"};
    int u = 0;
    for (; fabs(value) >= 999.5 && u < 5; u++) value /= 1000;
    snprintf(out, 32, "%.3g%s", value, unit[u]);
    return out;
}

void view_save(qn_ctx *qn, const char *call, const char *path, const str *text) {
    char real[FOLDER_PATH], folder[FOLDER_PATH];
    const char *name, *why = "there is no such folder";
    int at = file_resolve(path, real) ? file_folder(real, folder, &name) : -1;
    file_content content = {text->s, text->len};
    bool done = at >= 0 && folder_replace(at, name, FILE_OVER_FILE, 0666, content, &why);
    int because = errno;
    if (at >= 0) close(at);
    if (!done) raise_error(qn, QN_EIO, "%s: %.200s: %s: %s", call, path, why, strerror(because));
}
