// Hazard: threads allocate and free in thread_local destructors and in pthread key destructors,
// after the profiler's own per-thread state may be gone.
// Counts: all of it. Argument: threads.
// build: -pthread
#include "witness.h"
#include <pthread.h>

static pthread_key_t key;

struct Keeper {
    w_block block = w_malloc(300);
    ~Keeper() {
        w_free(block);
        w_malloc(17);
        w_free(w_malloc(1700));
    }
};

static thread_local Keeper keeper;

// Runs PTHREAD_DESTRUCTOR_ITERATIONS times: it leaves a value behind for the next round each time.
static void last_words(void *value) {
    uintptr_t round = reinterpret_cast<uintptr_t>(value);
    w_free(w_malloc(40 * round));
    w_malloc(8 * round);
    pthread_setspecific(key, reinterpret_cast<void *>(round + 1));
}

static void *live_and_die(void *unused) {
    pthread_setspecific(key, reinterpret_cast<void *>(uintptr_t{1}));
    W_REQUIRE(keeper.block.p);
    for (int i = 0; i < 20; i++) w_free(w_malloc(64));
    return unused;
}

int main(int argc, char **argv) {
    uint64_t threads = w_argument(argc, argv, 1, 200);
    W_REQUIRE(pthread_key_create(&key, last_words) == 0);
    for (uint64_t t = 0; t < threads; t++) {
        pthread_t id;
        W_REQUIRE(pthread_create(&id, nullptr, live_and_die, nullptr) == 0);
        pthread_join(id, nullptr);
    }
    w_report("");
    return 0;
}
