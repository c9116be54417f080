// Hazard: a forked child whose first allocations are made by a thread that libc starts by itself,
// for a timer, while the thread that forked still has its parent's state. Prints how many children
// ended well. Argument: children.
// build: -pthread
#include "witness.h"
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static int rung;

static void ring(union sigval unused) {
    (void)unused;
    for (int i = 0; i < 2000; i++) free(malloc(100 + i));
    __atomic_fetch_add(&rung, 1, __ATOMIC_RELEASE);
}

static void child(void) {
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = ring};
    struct itimerspec soon = {{0, 1000000}, {0, 1000000}};
    timer_t timer;
    W_REQUIRE(timer_create(CLOCK_MONOTONIC, &event, &timer) == 0);
    W_REQUIRE(timer_settime(timer, 0, &soon, NULL) == 0);
    while (__atomic_load_n(&rung, __ATOMIC_ACQUIRE) < 3) sched_yield();
    for (int i = 0; i < 20000; i++) free(malloc(100 + i));
    _exit(0);
}

int main(int argc, char **argv) {
    uint64_t children = w_argument(argc, argv, 1, 10), ended = 0;
    for (int i = 0; i < 20000; i++) free(malloc(100 + i % 1000));
    for (uint64_t c = 0; c < children; c++) {
        pid_t pid = fork();
        W_REQUIRE(pid >= 0);
        if (pid == 0) child();
        int status = 0;
        W_REQUIRE(waitpid(pid, &status, 0) == pid);
        ended += status == 0;
    }
    w_say("", "ended", ended);
    return 0;
}
