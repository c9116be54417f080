// Hazard: threads change different settings of the probe at the same time; each change must take
// effect.
// Counts: changes of the mode that were not in force when heapwise_mode was called. Argument:
// rounds; or `commands`: a letter of standard input each changes the index (i) or prints the mode
// (m).
// Usage: control_races ROUNDS|commands
// build: -pthread
#include "witness.h"
#include <pthread.h>

#include "../../crates/probe/include/heapwise.h"

static int stop;

static void *change_index(void *unused) {
    for (int i = 0; !__atomic_load_n(&stop, __ATOMIC_RELAXED); i++) heapwise_set_index(1 + i % 2);
    return unused;
}

static int obey(void) {
    for (char letter; read(0, &letter, 1) == 1;) {
        if (letter == 'i') heapwise_set_index(HEAPWISE_INDEX_HASH);
        w_say("", "mode", heapwise_mode());
    }
    return 0;
}

int main(int argc, char **argv) {
    W_REQUIRE(argc == 2 && hw_present());
    if (!strcmp(argv[1], "commands")) return obey();
    uint64_t rounds = w_argument(argc, argv, 1, 100000), lost = 0;
    pthread_t thread;
    W_REQUIRE(pthread_create(&thread, NULL, change_index, NULL) == 0);
    for (uint64_t i = 0; i < rounds; i++) {
        int mode = i % 2 ? HEAPWISE_EXACT : HEAPWISE_OFF;
        heapwise_set_mode(mode, 0);
        lost += heapwise_mode() != mode;
    }
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
    pthread_join(thread, NULL);
    w_say("", "lost", lost);
    return 0;
}
