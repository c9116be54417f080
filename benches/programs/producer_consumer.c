// Producers allocate messages, consumers free them: every block dies in another thread than it was
// born in. Batches of 256 keep the queue's lock out of the picture. Arguments: scale, threads.
// build: -pthread
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BATCH = 256, QUEUE = 64, MAX_THREADS = 64 };

struct message {
    uint32_t size;
    unsigned char payload[];
};
struct batch {
    struct message *messages[BATCH];
};

static struct batch *queue[QUEUE];
static int head, waiting, batches_each;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t filled = PTHREAD_COND_INITIALIZER, drained = PTHREAD_COND_INITIALIZER;

static void put(struct batch *batch) {
    pthread_mutex_lock(&lock);
    while (waiting == QUEUE) pthread_cond_wait(&drained, &lock);
    queue[(head + waiting++) % QUEUE] = batch;
    pthread_cond_signal(&filled);
    pthread_mutex_unlock(&lock);
}

static struct batch *take(void) {
    pthread_mutex_lock(&lock);
    while (waiting == 0) pthread_cond_wait(&filled, &lock);
    struct batch *batch = queue[head];
    head = (head + 1) % QUEUE;
    waiting--;
    pthread_cond_signal(&drained);
    pthread_mutex_unlock(&lock);
    return batch;
}

static __attribute__((noinline)) struct message *compose(uint64_t *state) {
    *state = *state * 6364136223846793005ULL + 1442695040888963407ULL;
    uint32_t size = 8 + (uint32_t)(*state >> 33) % 256;
    struct message *m = malloc(sizeof *m + size);
    if (!m) abort();
    m->size = size;
    memset(m->payload, (int)size, size);
    return m;
}

static void *produce(void *index) {
    uint64_t state = (uintptr_t)index + 1;
    for (int b = 0; b < batches_each; b++) {
        struct batch *batch = malloc(sizeof *batch);
        if (!batch) abort();
        for (int i = 0; i < BATCH; i++) batch->messages[i] = compose(&state);
        put(batch);
    }
    return NULL;
}

static void *consume(void *sum) {
    for (int b = 0; b < batches_each; b++) {
        struct batch *batch = take();
        for (int i = 0; i < BATCH; i++) {
            *(uint64_t *)sum += batch->messages[i]->payload[0];
            free(batch->messages[i]);
        }
        free(batch);
    }
    return sum;
}

int main(int argc, char **argv) {
    int scale = argc > 1 ? atoi(argv[1]) : 30, threads = argc > 2 ? atoi(argv[2]) : 2;
    int pairs = threads / 2 < 1 ? 1 : threads / 2 > MAX_THREADS ? MAX_THREADS : threads / 2;
    batches_each = scale * 1000 / pairs;
    pthread_t producers[MAX_THREADS], consumers[MAX_THREADS];
    uint64_t sums[MAX_THREADS] = {0}, sum = 0;
    for (uintptr_t i = 0; i < (uintptr_t)pairs; i++) {
        if (pthread_create(&producers[i], NULL, produce, (void *)i)) abort();
        if (pthread_create(&consumers[i], NULL, consume, &sums[i])) abort();
    }
    for (int i = 0; i < pairs; i++) {
        pthread_join(producers[i], NULL);
        pthread_join(consumers[i], NULL);
        sum += sums[i];
    }
    printf("checksum %llu\n", (unsigned long long)sum);
    return 0;
}
