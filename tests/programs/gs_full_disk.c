// Hazard: the disk fills up while the program has itself recorded (heapwise_gs.h): a report of the
// recording would be stale.
// Counts: live bytes, compared with every report that there is, to the byte; `reports` and
// `refused` of them. The working directory is on a small disk.
#include "witness.h"
#include "../../crates/probe/include/heapwise_gs.h"

enum { ROUNDS = 200, BLOCKS = 20000, MORE = 5 };

// Bytes of one round, whose sizes the recording cannot pack well. The blocks stay.
static long long allocate(uint64_t *seed) {
    long long bytes = 0;
    for (int i = 0; i < BLOCKS; i++) {
        size_t size = 1 + w_random(seed) % 1000;
        W_REQUIRE(w_malloc(size).p);
        bytes += (long long)size;
    }
    return bytes;
}

static long long total(char *report) {
    const char *at = strstr(report, "\"total_size\":");
    long long bytes = at ? atoll(at + strlen("\"total_size\":")) : -1;
    free(report);
    return bytes;
}

int main(void) {
    uint64_t seed = 7, reports = 0, refused = 0;
    long long live = 0;
    W_REQUIRE(set_enable_mem_profiler(HEAPWISE_GS_LOG_RECORD));
    for (int round = 0; round < ROUNDS && !refused; round++) {
        live += allocate(&seed);
        char *report = get_mem_report();
        if (report) {
            W_REQUIRE(total(report) == live);
            reports++;
        } else if (strstr(get_mem_profiler_error(), "disk is full")) {
            refused++;
        } else { // on a busy machine: the recorder was not given the time
            W_REQUIRE(strstr(get_mem_profiler_error(), "does not keep up"));
        }
    }
    // Blocks are not recorded any more: no later report is right either.
    for (int more = 0; more < MORE; more++) {
        allocate(&seed);
        W_REQUIRE(!get_mem_report() && strstr(get_mem_profiler_error(), "disk is full"));
        refused++;
    }
    // A mode that needs no disk works again.
    W_REQUIRE(set_enable_mem_profiler(HEAPWISE_GS_MEM_RECORD));
    w_say("", "reports", reports);
    w_say("", "refused", refused);
    return 0;
}
