/* product.h - products by vectors of one width: included by product.c for each, with LANES their
 * length, ROWS the rows of a tile, TARGET the instructions and OF(name) a function's name. A tile
 * has three vectors a row, whose sums stay in registers. */

typedef double OF(vector) __attribute__((vector_size(LANES * sizeof(double)), aligned(8)));
enum { OF(ROWS) = ROWS, OF(COLUMNS) = 3 * LANES };

/* c -= a b, of packed panels: rows of c are `step` apart. */
TARGET static void OF(tile)(double *c, int64_t step, const double *a, const double *b,
                            int64_t depth) {
    OF(vector) sum[ROWS][3] = {{{0}}};
    for (int64_t k = 0; k < depth; k++, a += ROWS, b += 3 * LANES) {
        const OF(vector) *row = (const OF(vector) *)b;
        OF(vector) b0 = row[0], b1 = row[1], b2 = row[2];
        UNROLLED
        for (int i = 0; i < ROWS; i++) {
            OF(vector) v = a[i] - (OF(vector)){0};
            sum[i][0] = MULTIPLY_ADD(v, b0, sum[i][0]);
            sum[i][1] = MULTIPLY_ADD(v, b1, sum[i][1]);
            sum[i][2] = MULTIPLY_ADD(v, b2, sum[i][2]);
        }
    }
    UNROLLED
    for (int i = 0; i < ROWS; i++) {
        OF(vector) *row = (OF(vector) *)(c + i * step);
        for (int j = 0; j < 3; j++) row[j] -= sum[i][j];
    }
}

/* Of a tile at an edge, `rows` by `columns` count. */
static void OF(edge)(block c, const double *a, const double *b, extents e) {
    double out[ROWS * 3 * LANES] = {0};
    OF(tile)(out, 3 * LANES, a, b, e.k);
    for (int64_t i = 0; i < e.m; i++)
        for (int64_t j = 0; j < e.n; j++) c.at[i * c.step + j] += out[i * 3 * LANES + j];
}

/* b's rows, each as long as a tile is wide. */
static void OF(pack_columns)(view b, int64_t depth, int64_t columns, double *to) {
    for (int64_t k = 0; k < depth && b.row == 1; k++, to += 3 * LANES)
        for (int64_t j = 0; j < 3 * LANES; j++) to[j] = j < columns ? b.at[k + j * b.column] : 0;
    for (int64_t k = 0; k < depth && b.row != 1; k++, to += 3 * LANES) {
        const double *from = b.at + k * b.row;
        if (b.column == 1 && columns == 3 * LANES) {
            memcpy(to, from, sizeof *to * 3 * LANES);
            continue;
        }
        for (int64_t j = 0; j < 3 * LANES; j++) to[j] = j < columns ? from[j * b.column] : 0;
    }
}

/* a's columns, ROWS by ROWS of them. */
static void OF(pack_rows)(view a, int64_t rows, int64_t depth, double *to) {
    for (int64_t i = 0; i < rows; i += ROWS)
        for (int64_t k = 0; k < depth; k++, to += ROWS)
            for (int64_t u = 0; u < ROWS; u++)
                to[u] = i + u < rows ? a.at[(i + u) * a.row + k * a.column] : 0;
}

static void OF(subtract)(block c, view a, view b, extents e) {
    double rows[HEIGHT * DEPTH], columns[DEPTH * 3 * LANES];
    for (int64_t k = 0; k < e.k; k += DEPTH)
        for (int64_t i = 0; i < e.m; i += HEIGHT) {
            int64_t depth = e.k - k < DEPTH ? e.k - k : DEPTH;
            int64_t height = e.m - i < HEIGHT ? e.m - i : HEIGHT;
            OF(pack_rows)(view_at(a, i, k), height, depth, rows);
            for (int64_t j = 0; j < e.n; j += 3 * LANES) {
                int64_t width = e.n - j < 3 * LANES ? e.n - j : 3 * LANES;
                OF(pack_columns)(view_at(b, k, j), depth, width, columns);
                for (int64_t u = 0; u < height; u += ROWS) {
                    int64_t left = height - u < ROWS ? height - u : ROWS;
                    block at = block_at(c, i + u, j);
                    if (left == ROWS && width == 3 * LANES)
                        OF(tile)(at.at, c.step, rows + u * depth, columns, depth);
                    else
                        OF(edge)(at, rows + u * depth, columns, (extents){left, width, depth});
                }
            }
        }
}

#ifdef ALONG_ROWS
/* to += v from */
TARGET static void OF(add_scaled)(double *to, const double *from, double v, int64_t n) {
    OF(vector) all = v - (OF(vector)){0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        OF(vector) *out = (OF(vector) *)(to + i);
        *out = MULTIPLY_ADD(all, *(const OF(vector) *)(from + i), *out);
    }
    for (; i < n; i++) to[i] += v * from[i];
}

TARGET static double OF(dot)(const double *a, const double *b, int64_t n) {
    OF(vector) sum[4] = {{0}};
    double rest = 0;
    int64_t i = 0;
    for (; i + 4 * LANES <= n; i += 4 * LANES) UNROLLED
    for (int k = 0; k < 4; k++)
        sum[k] = MULTIPLY_ADD(*(const OF(vector) *)(a + i + k * LANES),
                              *(const OF(vector) *)(b + i + k * LANES), sum[k]);
    for (; i < n; i++) rest += a[i] * b[i];
    sum[0] += sum[1] + (sum[2] + sum[3]);
    for (int k = 0; k < LANES; k++) rest += sum[0][k];
    return rest;
}

/* x, y = cosine x - sine y, sine x + cosine y */
TARGET static void OF(rotate)(double *x, double *y, int64_t n, double cosine, double sine) {
    OF(vector) c = cosine - (OF(vector)){0}, s = sine - (OF(vector)){0};
    int64_t i = 0;
    for (; i + LANES <= n; i += LANES) {
        OF(vector) *at = (OF(vector) *)(x + i), *to = (OF(vector) *)(y + i), u = *at, v = *to;
        *at = c * u - s * v;
        *to = MULTIPLY_ADD(s, u, c * v);
    }
    for (; i < n; i++) {
        double u = x[i], v = y[i];
        x[i] = cosine * u - sine * v;
        y[i] = sine * u + cosine * v;
    }
}

/* y = a x, four rows at a time. */
TARGET static void OF(apply)(block a, int64_t m, int64_t n, const double *x, double *y) {
    int64_t i = 0;
    for (; i + 4 <= m; i += 4) {
        OF(vector) sum[4] = {{0}};
        double rest[4] = {0};
        const double *row = a.at + i * a.step;
        int64_t k = 0;
        for (; k + LANES <= n; k += LANES) {
            OF(vector) v = *(const OF(vector) *)(x + k);
            UNROLLED
            for (int u = 0; u < 4; u++)
                sum[u] = MULTIPLY_ADD(*(const OF(vector) *)(row + u * a.step + k), v, sum[u]);
        }
        for (; k < n; k++)
            for (int u = 0; u < 4; u++) rest[u] += row[u * a.step + k] * x[k];
        for (int u = 0; u < 4; u++) {
            for (int l = 0; l < LANES; l++) rest[u] += sum[u][l];
            y[i + u] = rest[u];
        }
    }
    for (; i < m; i++) y[i] = OF(dot)(a.at + i * a.step, x, n);
}

/* y += a' x */
TARGET static void OF(apply_turned)(block a, int64_t m, int64_t n, const double *x, double *y) {
    int64_t i = 0;
    for (; i + 4 <= m; i += 4) {
        const double *row = a.at + i * a.step;
        OF(vector) v[4];
        UNROLLED
        for (int u = 0; u < 4; u++) v[u] = x[i + u] - (OF(vector)){0};
        int64_t k = 0;
        for (; k + LANES <= n; k += LANES) {
            OF(vector) *out = (OF(vector) *)(y + k), sum = *out;
            UNROLLED
            for (int u = 0; u < 4; u++)
                sum = MULTIPLY_ADD(v[u], *(const OF(vector) *)(row + u * a.step + k), sum);
            *out = sum;
        }
        for (; k < n; k++)
            for (int u = 0; u < 4; u++) y[k] += x[i + u] * row[u * a.step + k];
    }
    for (; i < m; i++) OF(add_scaled)(y, a.at + i * a.step, x[i], n);
}

/* What is carried from a row to its neighbour stays in registers. */
TARGET static void OF(turn)(double *strip, const turn_wave *wave, int waves) {
    enum { PARTS = TURN_STRIP / LANES };
    for (int w = 0; w < waves; w++, wave++) {
        double *at = strip + wave->first * TURN_STRIP;
        int64_t step = wave->step * TURN_STRIP;
        OF(vector) carried[PARTS];
        UNROLLED
        for (int u = 0; u < PARTS; u++) carried[u] = ((OF(vector) *)at)[u];
        for (int64_t i = 0; i < wave->count; i++, at += step) {
            OF(vector) c = wave->turn[2 * i] - (OF(vector)){0};
            OF(vector) s = wave->turn[2 * i + 1] - (OF(vector)){0};
            OF(vector) *to = (OF(vector) *)at, *next = (OF(vector) *)(at + step);
            UNROLLED
            for (int u = 0; u < PARTS; u++) {
                OF(vector) v = next[u], part = c * v;
                to[u] = MULTIPLY_ADD(s, v, c * carried[u]);
                carried[u] = MULTIPLY_ADD(-s, carried[u], part);
            }
        }
        UNROLLED
        for (int u = 0; u < PARTS; u++) ((OF(vector) *)at)[u] = carried[u];
    }
}
#undef ALONG_ROWS
#endif

#undef LANES
#undef ROWS
#undef TARGET
#undef OF
#undef MULTIPLY_ADD
