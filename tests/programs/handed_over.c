// Hazard: one thread allocates blocks that another thread frees.
// Counts: all blocks, and the live blocks of each thread, by its name. Argument: blocks.
// build: -pthread
#include "witness.h"
#include <pthread.h>

enum { MOST = 1 << 20 };
static struct w_block made[MOST];
static uint64_t count, consumed_bytes;

static void *produce(void *unused) {
    pthread_setname_np(pthread_self(), "producer");
    for (uint64_t i = 0; i < count; i++) made[i] = w_malloc(24 + i % 100);
    return unused;
}

static void *consume(void *unused) {
    pthread_setname_np(pthread_self(), "consumer");
    for (uint64_t i = 0; i < count; i++)
        if (i % 3) consumed_bytes += made[i].size, w_free(made[i]);
    w_malloc(777);
    return unused;
}

int main(int argc, char **argv) {
    count = w_argument(argc, argv, 1, 100000);
    W_REQUIRE(count <= MOST);
    void *(*work[])(void *) = {produce, consume};
    for (int i = 0; i < 2; i++) {
        pthread_t id;
        W_REQUIRE(pthread_create(&id, NULL, work[i], NULL) == 0);
        pthread_join(id, NULL);
    }
    w_report("");
    w_say("producer.", "inuse_bytes", w_total.alloc_bytes - 777 - consumed_bytes);
    w_say("consumer.", "inuse_bytes", 777);
    return 0;
}
