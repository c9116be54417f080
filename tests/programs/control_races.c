// Hazard: threads change different settings of the probe at the same time; each change must take effect.
// Counts: changes of the mode that were not in force when heapwise_mode was asked. Argument: rounds; 0: none, until
// standard input ends.
// Usage: control_races ROUNDS
// build: -pthread
#include "witness.h"
#include <pthread.h>

#include "../../crates/probe/include/heapwise.h"

static int stop;

static void *change_index(void *unused) {
    for (int i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) heapwise_set_index(1 + i % 2);
    return unused;
}

int main(int argc, char **argv) {
    uint64_t rounds = w_argument(argc, argv, 1, 100000), lost = 0;
    pthread_t thread;
    W_REQUIRE(hw_present() && pthread_create(&thread, NULL, change_index, NULL) == 0);
    for (uint64_t i = 0; i < rounds; i++) {
        int mode = i % 2 ? HEAPWISE_EXACT : HEAPWISE_OFF;
        heapwise_set_mode(mode, 0);
        lost += heapwise_mode() != mode;
    }
    char byte;
    if (!rounds) W_REQUIRE(read(0, &byte, 1) == 0);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    w_say("", "lost", lost);
    return 0;
}
