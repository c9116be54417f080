/* Allocates known amounts from named functions: the fixture every reader test counts against.
   leaf_a: 100 blocks of 64 B, all kept.  leaf_b: 50 blocks of 1000 B, 20 kept.
   big: one block of 3000000 B, kept.     worker (two threads): 10 blocks of 4096 B each, kept. */
#include <pthread.h>
#include <stdlib.h>

static void *keep[1024];
static int kept;

__attribute__((noinline)) static void *leaf_a(void) { return malloc(64); }
__attribute__((noinline)) static void *leaf_b(void) { return malloc(1000); }
__attribute__((noinline)) static void *big(void) { return malloc(3000000); }

__attribute__((noinline)) static void *worker(void *arg) {
    void **mine = arg;
    for (int i = 0; i < 10; i++) mine[i] = malloc(4096);
    return arg;
}

__attribute__((noinline)) static void middle(void) {
    for (int i = 0; i < 100; i++) keep[kept++] = leaf_a();
    for (int i = 0; i < 50; i++) {
        void *block = leaf_b();
        if (i % 5 < 2) keep[kept++] = block;
        else free(block);
    }
}

int main(void) {
    static void *blocks[2][10];
    middle();
    keep[kept++] = big();
    pthread_t threads[2];
    for (int i = 0; i < 2; i++) pthread_create(&threads[i], 0, worker, blocks[i]);
    for (int i = 0; i < 2; i++) pthread_join(threads[i], 0);
    return 0;
}
