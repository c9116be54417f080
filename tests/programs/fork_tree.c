// Hazard: a bounded fork bomb; every process forks BREADTH children down to DEPTH, all at once.
// Counts: each process its own blocks since its birth, as `node.`; the root also as "", and the
// number of processes as `processes`. Arguments: depth, breadth.
#include "witness.h"
#include <sys/wait.h>

static uint64_t breadth;

static uint64_t power_sum(uint64_t depth) {
    uint64_t sum = 1, level = 1;
    while (depth--) level *= breadth, sum += level;
    return sum;
}

static void grow(uint64_t depth) {
    w_total = (struct w_account){0};
    for (int i = 0; i < 200; i++) {
        struct w_block block = w_malloc(64 + depth * 16);
        if (i & 1) w_free(block);
    }
    for (uint64_t b = 0; depth && b < breadth; b++) {
        pid_t pid = fork();
        W_REQUIRE(pid >= 0);
        if (pid == 0) {
            grow(depth - 1);
            w_report("node.");
            exit(0);
        }
    }
    int status = 0;
    while (wait(&status) > 0) W_REQUIRE(status == 0);
}

int main(int argc, char **argv) {
    uint64_t depth = w_argument(argc, argv, 1, 3);
    breadth = w_argument(argc, argv, 2, 3);
    W_REQUIRE(power_sum(depth) <= 2000);
    grow(depth);
    w_report("");
    w_say("", "processes", power_sum(depth));
    return 0;
}
