// Hazard: the program has itself recorded, in two log modes one after the other, and reads the
// recordings (heapwise_gs.h).
// Counts: live bytes of a plateau of 300 ms and of what stays, each compared with the recording, to
// the byte.
#include "witness.h"
#include "../../crates/probe/include/heapwise_gs.h"

enum { BLOCKS = 500, PLATEAU_MS = 300 };
static char *kept[BLOCKS], *passing[BLOCKS];
static int kept_line, passing_line;
static const long long KEPT = 100LL * BLOCKS, PASSING = 3000LL * BLOCKS;

static void climb(void) {
    for (int i = 0; i < BLOCKS; i++) kept[i] = malloc(100), kept_line = __LINE__;
    for (int i = 0; i < BLOCKS; i++) passing[i] = malloc(3000), passing_line = __LINE__;
}

static void drop(char **blocks) {
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]), blocks[i] = NULL;
}

static long long number_after(const char *text, const char *what) {
    const char *at = text ? strstr(text, what) : NULL;
    return at ? atoll(at + strlen(what)) : -1;
}

// Bytes of this file's `line` in a report, whose columns are padded; -1 when it is not there.
static long long held(const char *report, int line) {
    for (const char *at = strstr(report, "gs_log.c "); at; at = strstr(at + 1, "gs_log.c ")) {
        int found;
        long long size;
        if (sscanf(at, "gs_log.c line:%d size:%lld", &found, &size) == 2 && found == line) return size;
    }
    return -1;
}

static void expect(char *report, long long in_kept, long long in_passing) {
    W_REQUIRE(report);
    W_REQUIRE(held(report, kept_line) == in_kept && held(report, passing_line) == in_passing);
    W_REQUIRE(number_after(report, "\"total_size\":") >= in_kept + in_passing);
    free(report);
    w_say("", "checked", (uint64_t)(in_kept + in_passing));
}

// The middle of the longest run of steps that hold the plateau.
static uint64_t plateau_ms(const char *steps) {
    uint64_t first = 0, last = 0, found = 0;
    for (const char *at = strchr(steps + 1, '['); at; at = strchr(at + 1, '[')) {
        char *end;
        uint64_t ms = strtoull(at + 1, &end, 10);
        if (strtoll(end + 1, NULL, 10) < KEPT + PASSING) continue;
        if (!found++) first = ms;
        last = ms;
    }
    W_REQUIRE(found >= PLATEAU_MS / 100);
    return first + (last - first) / 2;
}

static void one_mode(int type) {
    W_REQUIRE(!set_enable_mem_profiler(9) && strstr(get_mem_profiler_error(), "1 to 5"));
    W_REQUIRE(!set_mem_profiler_log_size("large") && get_mem_profiler_error()[0]);
    W_REQUIRE(set_mem_profiler_log_size("16M") && strcmp(get_mem_profiler_log_size(), "16M") == 0);
    W_REQUIRE(set_enable_mem_profiler(type) && !get_mem_profiler_error()[0]);
    set_mem_profiler_log_number(3);
    W_REQUIRE(get_mem_profiler_log_number() == 3);
    climb();
    nanosleep(&(struct timespec){0, PLATEAU_MS * 1000000L}, NULL);
    expect(get_mem_report(), KEPT, PASSING); // while it is being recorded: up to this moment
    drop(passing);
    expect(get_mem_report(), KEPT, 0);
    W_REQUIRE(set_enable_mem_profiler(HEAPWISE_GS_CLOSED));
    drop(kept);
    W_REQUIRE(start_mem_log_profiler(2));
    char *steps = get_all_time_size();
    W_REQUIRE(steps);
    expect(get_mem_report_with_time(plateau_ms(steps)), KEPT, PASSING);
    free(steps);
}

int main(void) {
    one_mode(HEAPWISE_GS_LOG_RECORD);
    one_mode(HEAPWISE_GS_LOG_FAST);
    return 0;
}
