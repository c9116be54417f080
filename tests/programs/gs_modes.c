// Hazard: the program switches the profiler itself, and reads its own report (heapwise_gs.h).
// Counts: bytes held by its two sites and in all, each compared with the report, to the byte, in
// every mode. Argument: `absent` when it runs without the probe.
#include "witness.h"
#include "../../crates/probe/include/heapwise_gs.h"

enum { BLOCKS = 1000 };
static char *small[BLOCKS], *large[BLOCKS], *unseen[BLOCKS];
static int small_line, large_line;

static void make_small(void) {
    for (int i = 0; i < BLOCKS; i++) small[i] = malloc(40), small_line = __LINE__;
}

static void make_large(void) {
    for (int i = 0; i < BLOCKS; i++) large[i] = malloc(1000 + (size_t)i), large_line = __LINE__;
}

static void make_unseen(void) {
    for (int i = 0; i < BLOCKS; i++) unseen[i] = malloc(70);
}

static void drop(char **blocks) {
    for (int i = 0; i < BLOCKS; i++) free(blocks[i]), blocks[i] = NULL;
}

// Bytes of this file's `line` in a report, whose columns are padded; -1 when it is not there.
static long long held(const char *report, int line) {
    for (const char *at = strstr(report, "gs_modes.c "); at; at = strstr(at + 1, "gs_modes.c ")) {
        int found;
        long long size;
        if (sscanf(at, "gs_modes.c line:%d size:%lld", &found, &size) == 2 && found == line) return size;
    }
    return -1;
}

static long long total(const char *report) {
    const char *at = strstr(report, "\"total_size\":");
    return at ? atoll(at + strlen("\"total_size\":")) : -1;
}

static void expect(long long in_small, long long in_large) {
    char *report = get_mem_report();
    W_REQUIRE(report);
    W_REQUIRE(held(report, small_line) == in_small);
    W_REQUIRE(held(report, large_line) == in_large);
    // Nothing else: neither the probe's memory, nor that of the report, nor earlier blocks.
    W_REQUIRE(total(report) == in_small + in_large);
    free(report);
    w_say("", "checked", (uint64_t)(in_small + in_large));
}

static void one_mode(int type) {
    const long long all_small = 40LL * BLOCKS, all_large = 1000LL * BLOCKS + BLOCKS * (BLOCKS - 1LL) / 2;
    make_unseen();
    W_REQUIRE(set_enable_mem_profiler(type));
    W_REQUIRE(hw_index() == (type == HEAPWISE_GS_MEM_FAST ? HEAPWISE_INDEX_SHADOW : HEAPWISE_INDEX_HASH));
    make_small(), make_large();
    expect(all_small, all_large);
    drop(unseen); // from before: counted apart, never as less than nothing
    drop(small);
    expect(0, all_large);
    W_REQUIRE(set_enable_mem_profiler(HEAPWISE_GS_CLOSED));
    make_unseen(), drop(unseen);
    // Recorded blocks are tracked until they are freed, also when nothing new is recorded.
    drop(large);
    expect(0, 0);
}

static int without_the_probe(void) {
    W_REQUIRE(!set_enable_mem_profiler(HEAPWISE_GS_MEM_RECORD) && !get_mem_report());
    W_REQUIRE(!start_mem_log_profiler(0) && !get_all_time_size() && !get_mem_report_with_time(0));
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "absent") == 0) return without_the_probe();
    W_REQUIRE(!set_enable_mem_profiler(0) && !set_enable_mem_profiler(6));
    one_mode(HEAPWISE_GS_MEM_RECORD);
    one_mode(HEAPWISE_GS_MEM_FAST);
    one_mode(HEAPWISE_GS_MEM_RECORD);
    return 0;
}
