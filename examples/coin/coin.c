/* Coin: a whole workload in C, to show what a program must do to be learnt by the loop.
 *
 * A bent coin is thrown 32 times; before each throw, every player calls heads or tails, and who is right most often
 * wins.  A model is one number: how often, of 1000 calls, it calls heads.  Training copies the calls that were right.
 */
#define _POSIX_C_SOURCE 200809L
#include <limits.h>

#include "plugin.h"

enum { THROWS = 32, PLAYERS_MAX = 3, GAMES_MAX = 100000, BLOCKS_MAX = 100000, BAD_BYTES_MAX = 1 << 20 };
enum { BENT = 800 };                       /* of 1000 throws, so many come down heads */
enum { HEADS_MIN = 20, HEADS_MAX = 980 };  /* no model is ever sure, so that self-play goes on trying both */

/* Randomness: whole numbers only, so that every machine makes the same blobs. */

static uint64_t seeded(const char *format, ...) {
    char text[4 * NAME_BYTES_MAX];
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    return hashed(text, strlen(text), HASH_START);
}

static int chance(uint64_t *state, int of_1000) {  /* splitmix64 */
    uint64_t x = *state += UINT64_C(0x9e3779b97f4a7c15);
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return (int)((x ^ x >> 31) % 1000) < of_1000;
}

static int model(const char *blob, const char *variant, int *generation) {  /* how often it calls heads */
    int heads = 0;
    char *lines = opened(blob, "model", variant);
    int read = lines ? sscanf(lines, "coin model %*s %d %d", generation, &heads) : 0;
    if (read != 2 || heads < HEADS_MIN || heads > HEADS_MAX) leave(REFUSED, "this model is damaged:", blob);
    free(lines);
    return heads;
}

/* How often a player of a match calls heads: a model's number, or "random", which never learns, half of the time. */
static int player(const char *job, const char *role, const char *variant) {
    char name[NAME_BYTES_MAX];
    int generation;
    const char *value = member(member(job, "params"), role);
    if (!value) {
        only_blob(job, role, name);
        return model(name, variant, &generation);
    }
    text(value, role, name);
    if (strcmp(name, "random")) leave(REFUSED, "coin has no player", name);
    return 500;
}

/* The game: coin[throw] and calls[player][throw] are H or T. */

static void throw_coins(uint64_t state, char coin[THROWS]) {
    for (int i = 0; i < THROWS; i++) coin[i] = chance(&state, BENT) ? 'H' : 'T';
}

static void call(uint64_t state, int heads, char calls[THROWS]) {
    for (int i = 0; i < THROWS; i++) calls[i] = chance(&state, heads) ? 'H' : 'T';
}

static double share(int players, int player, char calls[][THROWS], const char coin[THROWS]) {
    int right[PLAYERS_MAX] = {0}, best = 0, winners = 0;
    for (int p = 0; p < players; p++)
        for (int i = 0; i < THROWS; i++) right[p] += calls[p][i] == coin[i];
    for (int p = 0; p < players; p++) best = right[p] > best ? right[p] : best;
    for (int p = 0; p < players; p++) winners += right[p] == best;
    return right[player] == best ? 1.0 / winners : 0.0;
}

/* The stages. */

static int play(const char *job, const char *variant, int players) {
    char blob[NAME_BYTES_MAX], seed[NAME_BYTES_MAX];
    only_blob(job, "model", blob);
    text(member(job, "seed"), "seed", seed);
    int generation, heads = model(blob, variant, &generation);
    long total = number(member(job, "params"), "games", 1, GAMES_MAX), games = 0;
    size_t room = (size_t)total * (PLAYERS_MAX + 1) * (THROWS + 1) + 4 * NAME_BYTES_MAX;
    char *lines = malloc(room), *at = lines;
    if (!lines) leave(FAILED, "no memory", "");
    at += sprintf(at, "coin games %s %s %s\n", variant, blob, seed);
    while (games < total && !(told_to_stop && games)) {
        char calls[THROWS];
        throw_coins(seeded("%s %s %s %ld coin", variant, blob, seed, games), calls);
        at += sprintf(at, "%.*s", THROWS, calls);
        for (int p = 0; p < players; p++) {
            call(seeded("%s %s %s %ld player %d", variant, blob, seed, games, p), heads, calls);
            at += sprintf(at, " %.*s", THROWS, calls);
        }
        *at++ = '\n';
        progress(++games, total);
    }
    seal("games", lines, (size_t)(at - lines));
    result("{\"outputs\": [{\"kind\": \"games\", \"file\": \"games\", \"meta\": {\"games\": %ld}}]}", games);
    return games < total ? STOPPED : DONE;
}

/* Adds up the right calls of a batch; how many games it has, or 0, and adds nothing, if it is damaged. */
static long count(const char *blob, const char *variant, int players, long right[2]) {
    char *lines = opened(blob, "games", variant), *at = lines ? strchr(lines, '\n') : NULL;
    long games = 0, found[2] = {0, 0};
    for (; at && *++at; at += strcspn(at, "\n"), games++) {
        size_t wide = (size_t)(players + 1) * (THROWS + 1) - 1;
        if (strspn(at, "HT ") != wide || at[wide] != '\n') return 0;
        for (size_t i = THROWS + 1; i < wide; i++)
            if (at[i] != ' ' && at[i] == at[i % (THROWS + 1)]) found[at[i] == 'H']++;
    }
    free(lines);
    for (int side = 0; side < 2; side++) right[side] += found[side];
    return games;
}

static int export(const char *job, const char *variant, int players) {
    static char bad[BAD_BYTES_MAX];
    char blob[NAME_BYTES_MAX], lines[2 * NAME_BYTES_MAX], *end = bad;
    long games = 0, right[2] = {0, 0};
    for (const char *at = NULL; (at = next_blob(job, "batches", at, blob));) {
        long found = count(blob, variant, players, right);
        games += found;
        if (!found && end - bad > BAD_BYTES_MAX - NAME_BYTES_MAX - 8) leave(REFUSED, "too many bad batches:", blob);
        if (!found) end += sprintf(end, "%s\"%s\"", end > bad ? ", " : "", blob);
    }
    if (!games) leave(REFUSED, "no batch has a game in it:", bad);
    int size = snprintf(lines, sizeof lines, "coin samples %s %ld %ld\n", variant, right[1], right[0]);
    seal("samples", lines, (size_t)size);
    progress(1, 1);
    result("{\"outputs\": [{\"kind\": \"samples\", \"file\": \"samples\","
           " \"meta\": {\"samples\": %ld, \"games\": %ld}}], \"refused\": [%s]}", right[0] + right[1], games, bad);
    return DONE;
}

static int train(const char *job, const char *variant) {
    char blob[NAME_BYTES_MAX], lines[2 * NAME_BYTES_MAX];
    int generation = 0, heads = 500;  /* generation 0 knows nothing */
    if (next_blob(job, "samples", NULL, blob)) {
        long right[2] = {0, 0};
        char *known = opened(blob, "samples", variant);
        if (!known || sscanf(known, "coin samples %*s %ld %ld", &right[1], &right[0]) != 2 || right[0] + right[1] < 1)
            leave(REFUSED, "these samples are damaged:", blob);
        heads = (int)(1000 * right[1] / (right[0] + right[1]));
        heads = heads < HEADS_MIN ? HEADS_MIN : heads > HEADS_MAX ? HEADS_MAX : heads;
        if (next_blob(job, "parent", NULL, blob)) model(blob, variant, &generation);
        generation++;
    }
    int size = snprintf(lines, sizeof lines, "coin model %s %d %d\n", variant, generation, heads);
    seal("model", lines, (size_t)size);
    progress(1, 1);
    result("{\"outputs\": [{\"kind\": \"model\", \"file\": \"model\", \"meta\": {\"generation\": %d}}],"
           " \"metrics\": {\"heads\": %d}}", generation, heads);
    return DONE;
}

/* A block is 32 throws of its own, played from every seat.  A seat's luck knows the block and the seat, not who sits
 * there: so two models that change places change their scores. */
static int match(const char *job, const char *variant, int players) {
    char coin[THROWS], calls[PLAYERS_MAX][THROWS];
    int candidate = player(job, "candidate", variant), champion = player(job, "champion", variant);
    long first = number(member(job, "params"), "first", 0, LONG_MAX / 2);
    long total = number(member(job, "params"), "count", 1, BLOCKS_MAX), blocks = 0;
    FILE *file = create("result.json");
    fprintf(file, "{\"blocks\": [");
    for (; blocks < total && !(told_to_stop && blocks); progress(++blocks, total)) {
        long block = first + blocks;
        throw_coins(seeded("%s block %ld", variant, block), coin);
        fprintf(file, "%s{\"number\": %ld, \"scores\": [", blocks ? ", " : "", block);
        for (int seat = 0; seat < players; seat++) {
            for (int p = 0; p < players; p++)
                call(seeded("%s block %ld seat %d", variant, block, p), p == seat ? candidate : champion, calls[p]);
            fprintf(file, "%s%.6f", seat ? ", " : "", share(players, seat, calls, coin));
        }
        fprintf(file, "]}");
    }
    fprintf(file, "]}");
    finish(file);
    return blocks < total ? STOPPED : DONE;
}

static int run(const char *job) {
    char stage[NAME_BYTES_MAX], variant[NAME_BYTES_MAX], blob[NAME_BYTES_MAX];
    int generation;
    text(member(job, "stage"), "stage", stage);
    text(member(job, "variant"), "variant", variant);
    int players = !strcmp(variant, "coin_2p") ? 2 : !strcmp(variant, "coin_3p") ? 3 : 0;
    if (!players) leave(REFUSED, "coin does not play", variant);
    if (!strcmp(stage, "play")) return play(job, variant, players);
    if (!strcmp(stage, "export")) return export(job, variant, players);
    if (!strcmp(stage, "train")) return train(job, variant);
    if (!strcmp(stage, "match")) return match(job, variant, players);
    if (strcmp(stage, "verify")) leave(REFUSED, "coin has no stage", stage);
    only_blob(job, "model", blob);
    model(blob, variant, &generation);
    result("{}");
    return DONE;
}

int main(int words_count, char **words) {
    struct sigaction stop = {.sa_handler = on_term, .sa_flags = SA_RESTART};
    sigaction(SIGTERM, &stop, NULL);
    if (words_count == 2 && !strcmp(words[1], "variants")) {
        puts("{\"version\": \"1\", \"variants\": ["
             "{\"name\": \"coin_2p\", \"players\": 2, \"actions\": 2, \"cpu_seconds_per_game\": 1e-5,"
             " \"baselines\": [\"random\"]},"
             " {\"name\": \"coin_3p\", \"players\": 3, \"actions\": 2, \"cpu_seconds_per_game\": 1e-5,"
             " \"baselines\": [\"random\"]}]}");
        return DONE;
    }
    if (words_count != 8 || strcmp(words[1], "run"))  /* the options come in this order */
        leave(WRONG_USE, "usage: coin variants | coin run --job FILE --in DIR --out DIR", "");
    folder_in = words[5];
    folder_out = words[7];
    return run(slurp(words[3]));
}
