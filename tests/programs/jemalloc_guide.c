// The programs of jemalloc's guide in one: what its users do by option and by mallctl, over any
// allocator.
// Usage: jemalloc_guide PART, a name of the table in `main`.
// build: -fno-optimize-sibling-calls -pthread
#include "witness.h"

#include <malloc.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/wait.h>
#include <time.h>

// Weak: the program runs without the probe and without jemalloc.
__attribute__((weak)) int mallctl(const char *, void *, size_t *, void *, size_t);
__attribute__((weak)) int mallctlnametomib(const char *, size_t *, size_t *);
__attribute__((weak)) int mallctlbymib(const size_t *, size_t, void *, size_t *, void *, size_t);
__attribute__((weak)) size_t nallocx(size_t, int);
__attribute__((weak)) size_t sallocx(const void *, int);
__attribute__((weak)) void heapwise_set_mode(int mode, uint64_t sample_bytes);

W_SITE void do_something(size_t i) { w_malloc(i * 1024); }
W_SITE void do_something_else(size_t i) { w_malloc(i * 4096); }

static int set_bool(const char *name, bool value) { return mallctl(name, NULL, NULL, &value, sizeof value); }

static int dump(const char *name) { return mallctl("prof.dump", NULL, NULL, &name, sizeof name); }

static void leak(void) {
    for (size_t i = 0; i < 80; i++) do_something(i);
    for (size_t i = 0; i < 40; i++) do_something_else(i);
}

// Grows to 8 MiB by steps of 64 KiB and keeps everything.
static void grow(void) {
    for (int i = 0; i < 128; i++) w_malloc(64 * 1024);
}

// Recorded only while switched on.
static void switched(void) {
    for (size_t i = 0; i < 80; i++) do_something(i);
    w_say("", "switched_on", set_bool("prof.active", true));
    for (size_t i = 0; i < 40; i++) do_something_else(i);
    w_say("", "switched_off", set_bool("prof.active", false));
    for (size_t i = 0; i < 80; i++) do_something(i);
    w_say("", "dumped", dump(NULL));
}

// Recorded for 20 ms in 40.
static void timed(void) {
    uint64_t while_on = 0;
    for (int round = 0; round < 3; round++) {
        bool on = round % 2 == 0;
        set_bool("prof.active", on);
        struct timespec start, now;
        clock_gettime(CLOCK_MONOTONIC, &start);
        do {
            if (on) do_something_else(1), while_on += 4096;
            else do_something(1);
            usleep(500);
            clock_gettime(CLOCK_MONOTONIC, &now);
        } while ((now.tv_sec - start.tv_sec) * 1000000000L + now.tv_nsec - start.tv_nsec < 20000000L);
    }
    set_bool("prof.active", false);
    w_say("", "while_on", while_on);
    w_say("", "dumped", dump(NULL));
}

// Another distance half-way, by a way that jemalloc has not.
static void two_rates(void) {
    for (int i = 0; i < 1000; i++) w_malloc(4096);
    heapwise_set_mode(1, 65536);
    for (int i = 0; i < 1000; i++) w_malloc(4096);
    w_say("", "dumped", dump(NULL));
}

static void manual(void) {
    leak();
    w_say("", "automatic_name", dump(NULL));
    w_say("", "given_name", dump("given.heap"));
    w_say("", "no_directory", dump("/nonexistent/given.heap"));
}

// One thread is passed over, then everything before a reset.
static void reset(void) {
    for (size_t i = 0; i < 80; i++) do_something_else(i);
    w_say("", "reset", mallctl("prof.reset", NULL, NULL, NULL, 0));
    w_say("", "thread_off", set_bool("thread.prof.active", false));
    for (size_t i = 0; i < 80; i++) do_something_else(i);
    w_say("", "thread_on", set_bool("thread.prof.active", true));
    for (size_t i = 0; i < 80; i++) do_something(i);
    w_say("", "dumped", dump(NULL));
}

// Sizes, ways and errnos.
static void strict(void) {
    bool flag = true;
    size_t len = sizeof flag, wide = 0, wide_len = sizeof wide;
    w_say("", "read_bool", mallctl("opt.prof", &flag, &len, NULL, 0));
    w_say("", "prof", flag);
    w_say("", "bool_as_word", mallctl("opt.prof", &wide, &wide_len, NULL, 0));
    w_say("", "copied", (long)wide_len);
    w_say("", "write_readonly", mallctl("opt.prof", NULL, NULL, &flag, sizeof flag));
    len = sizeof flag;
    w_say("", "read_writeonly", mallctl("prof.dump", &flag, &len, NULL, 0));
    w_say("", "unknown", mallctl("prof.nonsense", NULL, NULL, NULL, 0));
    w_say("", "active_as_word", mallctl("prof.active", NULL, NULL, &wide, sizeof wide));
    size_t mib[4], depth = 4, allocated = 0, size = sizeof allocated;
    w_say("", "to_mib", mallctlnametomib("stats.allocated", mib, &depth));
    w_say("", "depth", (long)depth);
    w_say("", "by_mib", mallctlbymib(mib, depth, &allocated, &size, NULL, 0));
    struct w_block block = w_malloc(32 << 20);
    uint64_t epoch = 1;
    mallctl("epoch", NULL, NULL, &epoch, sizeof epoch);
    size_t after = 0;
    mallctl("stats.allocated", &after, &size, NULL, 0);
    w_say("", "grown_by_the_block", after - allocated >= 32 << 20 && after - allocated < 33 << 20);
    w_free(block);
}

// Names that are about jemalloc as an allocator.
static void foreign(void) {
    static const char *const names[] = {"arenas.dirty_decay_ms", "arena.0.purge", "thread.arena", "thread.allocatedp",
                                        "thread.deallocatedp", "thread.tcache.flush", "opt.narenas", "stats.arenas.0.pactive",
                                        "stats.background_thread.num_threads"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) w_say("", names[i], mallctl(names[i], NULL, NULL, NULL, 0));
}

static uint64_t number(const char *name, size_t size) {
    uint64_t value = 0;
    size_t got = size;
    return mallctl(name, &value, &got, NULL, 0) == 0 && got == size ? value : INT64_MAX;
}

static void *allocate_and_free(void *unused) {
    uint64_t allocated = number("thread.allocated", 8), freed = number("thread.deallocated", 8);
    struct w_block kept = w_malloc(5000);
    w_free(w_malloc(70000));
    w_say("", "other.allocated", number("thread.allocated", 8) - allocated);
    w_say("", "other.deallocated", number("thread.deallocated", 8) - freed);
    w_free(kept);
    return unused;
}

// Names and functions about blocks and threads, which have a meaning over any allocator.
static void blocks(void) {
    uint64_t allocated = number("thread.allocated", 8), freed = number("thread.deallocated", 8);
    struct w_block block = w_malloc(1000);
    pthread_t thread;
    pthread_create(&thread, NULL, allocate_and_free, NULL);
    pthread_join(thread, NULL);
    w_free(block);
    // pthread_create may allocate, too, but nothing as large as the other thread's blocks.
    uint64_t own = number("thread.allocated", 8) - allocated;
    w_say("", "own.allocated", own >= 1000 && own < 5000);
    w_say("", "own.deallocated", number("thread.deallocated", 8) - freed);
    w_say("", "thread.allocated", mallctl("thread.allocated", NULL, NULL, NULL, 0));
    uint64_t zero = 0;
    w_say("", "written", mallctl("thread.allocated", NULL, NULL, &zero, sizeof zero));
    int wrong = 0;
    for (size_t size = 1; size < 30000; size = size * 5 / 4 + 1) {
        void *live = malloc(size);
        wrong += sallocx(live, 0) != malloc_usable_size(live) || nallocx(size, 0) != malloc_usable_size(live);
        free(live);
    }
    w_say("", "wrong_sizes", wrong);
    w_say("", "narenas", number("arenas.narenas", 4) - 1 < 1000);
    w_say("", "page", number("arenas.page", 8) == (uint64_t)sysconf(_SC_PAGESIZE));
    w_say("", "quantum", number("arenas.quantum", 8));
    w_say("", "nbins", number("arenas.nbins", 4));
    w_say("", "nlextents", number("arenas.nlextents", 4));
    w_say("", "bin", number("arenas.bin.35.size", 8));
    w_say("", "lextent", number("arenas.lextent.0.size", 8));
    w_say("", "no_bin", mallctl("arenas.bin.40.size", NULL, NULL, NULL, 0));
}

static void forked(void) {
    leak();
    pid_t child = fork();
    if (child == 0) {
        for (int i = 0; i < 32; i++) w_malloc(128 * 1024);
        exit(0);
    }
    int status = 1;
    waitpid(child, &status, 0);
    w_say("", "child", status);
    w_say("", "child_pid", child);
}

static void *busy(void *stop) {
    while (!__atomic_load_n((int *)stop, __ATOMIC_RELAXED)) w_free(w_malloc(4096));
    w_malloc(1000);
    return NULL;
}

// 64 threads allocate and end while the process does.
static void threads(void) {
    static int stop;
    pthread_t all[64];
    for (int i = 0; i < 64; i++) pthread_create(&all[i], NULL, busy, &stop);
    leak();
    usleep(100000);
    __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
}

static pthread_barrier_t together;

static void *leave(void *nothing) {
    pthread_barrier_wait(&together);
    exit(0);
    return nothing;
}

// 64 threads end the process at the same moment; the dump takes a while.
static void exits(void) {
    pthread_t thread;
    pthread_barrier_init(&together, NULL, 64);
    for (size_t i = 0; i < 20000; i++) w_malloc(i);
    w_say("", "pid", getpid());
    w_report("");
    for (int i = 0; i < 64; i++) pthread_create(&thread, NULL, leave, NULL);
    pause();
}

// `main` returns while another thread is in `exit`: in a handler of the program, or in its
// destructor.
static enum { NOT_RACING, IN_HANDLER, IN_DESTRUCTOR } racing;
static pthread_barrier_t exiting;

static void let_main_return(unsigned where) {
    if (where != (unsigned)racing) return;
    racing = NOT_RACING;
    pthread_barrier_wait(&exiting);
    usleep(20000);
}

static void in_handler(void) { let_main_return(IN_HANDLER); }
__attribute__((destructor)) static void in_destructor(void) { let_main_return(IN_DESTRUCTOR); }

static void *call_exit(void *nothing) {
    exit(0);
    return nothing;
}

static void race(int where) {
    pthread_t thread;
    pthread_barrier_init(&exiting, NULL, 2);
    for (size_t i = 0; i < 20000; i++) w_malloc(i);
    w_say("", "pid", getpid());
    w_report("");
    racing = where;
    atexit(in_handler);
    pthread_create(&thread, NULL, call_exit, NULL);
    pthread_barrier_wait(&exiting);
}

static void race_handler(void) { race(IN_HANDLER); }
static void race_destructor(void) { race(IN_DESTRUCTOR); }

int main(int argc, char **argv) {
    const struct {
        const char *name;
        void (*run)(void);
    } chapters[] = {
        {"timed", timed},     {"two_rates", two_rates},       {"leak", leak},
        {"grow", grow},       {"switched", switched},         {"dump", manual},
        {"reset", reset},     {"strict", strict},             {"foreign", foreign},
        {"blocks", blocks},   {"fork", forked},               {"threads", threads},
        {"exits", exits},     {"race_handler", race_handler}, {"race_destructor", race_destructor},
    };
    for (size_t i = 0; i < sizeof chapters / sizeof *chapters; i++)
        if (argc > 1 && strcmp(argv[1], chapters[i].name) == 0) chapters[i].run();
    w_say("", "pid", getpid());
    w_report("");
    printf("goodbye");
    return 0;
}
