/* Plug-in: the half of a workload that is no game: the job, blobs in and out, how to end.  Take it for your own.
 *
 * Every blob is a line of text or more, and then the hash of those lines: one flipped bit anywhere is found.
 */
#include <inttypes.h>
#include <signal.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DONE = 0, WRONG_USE = 64, REFUSED = 65, FAILED = 70, STOPPED = 75 };
enum { NAME_BYTES_MAX = 256, PATH_BYTES_MAX = 4096, FILE_BYTES_MAX = 64 << 20 };

static volatile sig_atomic_t told_to_stop;
static const char *folder_in, *folder_out;

static void on_term(int number) {
    (void)number;
    told_to_stop = 1;
}

/* The last line on stderr is the reason; if it names a blob, that is the culprit. */
static void leave(int code, const char *reason, const char *about) {
    fprintf(stderr, "%s%s%s\n", reason, *about ? " " : "", about);
    exit(code);
}

/* JSON: just enough to find a value by its name.  The node writes it, so it is well-formed. */

static const char *blank(const char *at) { return at + strspn(at, " \t\r\n,:"); }

static const char *past(const char *at) {  /* the end of the value that begins here */
    int depth = 0;
    do {
        if (*at == '"') {
            for (at++; *at && *at != '"'; at++) at += *at == '\\' && at[1];
            at += *at == '"';
        } else if (*at == '{' || *at == '[') depth++, at++;
        else if (*at == '}' || *at == ']') depth--, at++;
        else if (depth) at++;
        else at += strcspn(at, ",}] \t\r\n");
    } while (*at && depth > 0);
    return at;
}

static const char *member(const char *object, const char *name) {  /* where its value begins, or NULL */
    if (!object || *object != '{') return NULL;
    for (const char *at = blank(object + 1); *at == '"';) {
        const char *value = blank(past(at));
        size_t size = strlen(name);
        if (!strncmp(at + 1, name, size) && at[1 + size] == '"') return value;
        at = blank(past(value));
    }
    return NULL;
}

/* The job. */

static void text(const char *value, const char *name, char into[NAME_BYTES_MAX]) {  /* a string, or a number's digits */
    if (!value) leave(REFUSED, "the job lacks", name);
    const char *end = past(value);
    if (*value == '"') value++, end--;
    size_t size = (size_t)(end - value);
    if (size >= NAME_BYTES_MAX || strcspn(value, " /\\") < size) leave(REFUSED, "the job has an odd value for", name);
    memcpy(into, value, size);
    into[size] = 0;
}

static long number(const char *object, const char *name, long least, long most) {
    char digits[NAME_BYTES_MAX], *end;
    text(member(object, name), name, digits);
    long value = strtol(digits, &end, 10);
    if (*end || end == digits || value < least || value > most) leave(REFUSED, "out of bounds:", name);
    return value;
}

/* The blob ids of a role, one after the other: give NULL first, then what came back. */
static const char *next_blob(const char *job, const char *role, const char *before, char into[NAME_BYTES_MAX]) {
    const char *list = member(member(job, "inputs"), role);
    const char *at = before ? blank(past(before)) : list ? blank(list + 1) : NULL;
    if (!at || *at != '"') return NULL;
    text(at, role, into);
    return at;
}

static void only_blob(const char *job, const char *role, char into[NAME_BYTES_MAX]) {
    if (!next_blob(job, role, NULL, into)) leave(REFUSED, "the job lacks a", role);
}

/* Files and blobs. */

static const uint64_t HASH_START = UINT64_C(0xcbf29ce484222325);

static uint64_t hashed(const char *data, size_t size, uint64_t hash) {  /* FNV-1a */
    for (size_t i = 0; i < size; i++) hash = (hash ^ (unsigned char)data[i]) * UINT64_C(0x100000001b3);
    return hash;
}

static char *slurp(const char *path) {
    FILE *file = fopen(path, "rb");
    if (!file) leave(FAILED, "cannot open", path);
    size_t size = 0, room = 1 << 16;
    char *data = malloc(room + 1);
    while (data && (size += fread(data + size, 1, room - size, file)) == room && room < (size_t)FILE_BYTES_MAX)
        data = realloc(data, (room *= 2) + 1);
    if (!data || ferror(file)) leave(FAILED, "cannot read", path);
    fclose(file);
    data[size] = 0;
    return data;
}

/* The lines of a blob without its hash, or NULL if a bit of it is wrong or it is none of *kind* and *variant*. */
static char *opened(const char *blob, const char *kind, const char *variant) {
    char path[PATH_BYTES_MAX], head[2 * NAME_BYTES_MAX], seal[32];
    snprintf(path, sizeof path, "%s/%s", folder_in, blob);
    char *data = slurp(path);
    size_t size = strlen(data);
    snprintf(head, sizeof head, "coin %s %s ", kind, variant);
    if (size < 17 || strncmp(data, head, strlen(head))) return NULL;
    snprintf(seal, sizeof seal, "%016" PRIx64 "\n", hashed(data, size - 17, HASH_START));
    if (strcmp(data + size - 17, seal)) return NULL;
    data[size - 17] = 0;
    return data;
}

static FILE *create(const char *name) {
    char path[PATH_BYTES_MAX];
    snprintf(path, sizeof path, "%s/%s", folder_out, name);
    FILE *file = fopen(path, "wb");
    if (!file) leave(FAILED, "cannot write", path);
    return file;
}

static void finish(FILE *file) {
    if (fflush(file) || ferror(file) || fclose(file)) leave(FAILED, "cannot write", "");
}

static void seal(const char *name, const char *lines, size_t size) {
    FILE *file = create(name);
    fwrite(lines, 1, size, file);
    fprintf(file, "%016" PRIx64 "\n", hashed(lines, size, HASH_START));
    finish(file);
}

static void result(const char *format, ...) {
    FILE *file = create("result.json");
    va_list values;
    va_start(values, format);
    vfprintf(file, format, values);
    va_end(values);
    finish(file);
}

static void progress(long done, long total) {
    printf("{\"done\": %.4f}\n", (double)done / (double)total);
    fflush(stdout);
}
