// What jemalloc's profiler keeps of single threads and single blocks: names and counts of threads,
// the last blocks, the log of freed ones, sums of size classes, and the print of everything.
// Usage: jemalloc_threads threads|recent|log|sizes|print [LETTERS]
// build: -fno-optimize-sibling-calls -pthread
#include "witness.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>

__attribute__((weak)) int mallctl(const char *, void *, size_t *, void *, size_t);
__attribute__((weak)) void malloc_stats_print(void (*)(void *, const char *), void *, const char *);

static const char *letters;

static int name_thread(const char *name) { return mallctl("thread.prof.name", NULL, NULL, &name, sizeof name); }

static int dump(void) {
    const char *none = NULL;
    return mallctl("prof.dump", NULL, NULL, &none, sizeof none);
}

static struct w_block handed_over[16];
static pthread_barrier_t allocated, dumped;

// Allocates sixteen blocks, of which the main thread frees eight.
W_SITE void *producer(void *nothing) {
    w_say("", "named", name_thread("producer"));
    for (int i = 0; i < 16; i++) handed_over[i] = w_malloc(1000);
    pthread_barrier_wait(&allocated);
    pthread_barrier_wait(&dumped);
    return nothing;
}

static void threads(void) {
    pthread_t thread;
    pthread_barrier_init(&allocated, NULL, 2);
    pthread_barrier_init(&dumped, NULL, 2);
    pthread_setname_np(pthread_self(), "system_name");
    w_malloc(3000);
    pthread_create(&thread, NULL, producer, NULL);
    pthread_barrier_wait(&allocated);
    for (int i = 0; i < 8; i++) w_free(handed_over[i]);
    w_say("", "dumped", dump());
    pthread_barrier_wait(&dumped);
    pthread_join(thread, NULL);
}

static void write_out(void *file, const char *text) { fputs(text, file); }

static void recent(void) {
    static char room[4096];
    FILE *file = fopen("recent.json", "w");
    setvbuf(file, room, _IOFBF, sizeof room);
    struct w_block first = w_malloc(100);
    w_malloc(200);
    struct w_block third = w_malloc(300);
    w_malloc(400);
    w_free(first);
    w_free(third);
    struct {
        void (*write)(void *, const char *);
        void *opaque;
    } packet = {write_out, file};
    w_say("", "recent", mallctl("experimental.prof_recent.alloc_dump", NULL, NULL, &packet, sizeof packet));
    fclose(file);
}

static void log_freed(void) {
    const char *name = "log.json";
    struct w_block before = w_malloc(50);
    w_say("", "started", mallctl("prof.log_start", NULL, NULL, &name, sizeof name));
    w_say("", "started_twice", mallctl("prof.log_start", NULL, NULL, &name, sizeof name));
    struct w_block freed = w_malloc(60);
    w_malloc(70);
    w_free(freed);
    w_free(before);
    w_say("", "stopped", mallctl("prof.log_stop", NULL, NULL, NULL, 0));
    w_say("", "stopped_twice", mallctl("prof.log_stop", NULL, NULL, NULL, 0));
}

static void tell_class(const char *name, const char *what) {
    struct {
        uint64_t bytes, blocks;
    } sums = {0, 0};
    size_t len = sizeof sums;
    w_say(what, "_result", mallctl(name, &sums, &len, NULL, 0));
    w_say(what, "_bytes", sums.bytes);
    w_say(what, "_blocks", sums.blocks);
}

// 100 and 110 are of the class of 112 bytes (number 7), 20000 of that of 20 KiB (the second large
// one).
static void sizes(void) {
    struct w_block freed = w_malloc(100);
    w_malloc(110);
    w_malloc(20000);
    w_free(freed);
    tell_class("prof.stats.bins.7.live", "small_live");
    tell_class("prof.stats.bins.7.accum", "small_ever");
    tell_class("prof.stats.lextents.1.live", "large_live");
}

static void print(void) { malloc_stats_print(NULL, NULL, letters); }

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*run)(void);
    } chapters[] = {{"threads", threads}, {"recent", recent}, {"log", log_freed}, {"sizes", sizes}, {"print", print}};
    letters = argc > 2 ? argv[2] : NULL;
    for (size_t i = 0; i < sizeof chapters / sizeof *chapters; i++)
        if (argc > 1 && strcmp(argv[1], chapters[i].name) == 0) chapters[i].run();
    w_say("", "pid", getpid());
    return 0;
}
