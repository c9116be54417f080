// Hazard: signal handlers allocate, at any instruction of the profiler's own code too. Over an
// allocator that allows it (bump_malloc.so); glibc's would deadlock by itself.
// Counts: all of it, plus `signals` handled. Arguments: mode, signals.
//   timer: a 50 µs interval timer; storm: another thread sends as fast as it can;
//   self: raise() before every malloc.
// build: -pthread {out}/bump_malloc.so -Wl,-rpath,$ORIGIN
#include "witness.h"
#include <pthread.h>
#include <signal.h>
#include <sys/time.h>

static uint64_t handled, wanted;
static pthread_t victim;

static void handler(int signal) {
    (void)signal;
    int saved = errno;
    struct w_block block = w_malloc(50);
    w_realloc(&block, 90);
    if (w_get(&handled) % 8) w_free(block);
    w_add(&handled, 1);
    errno = saved;
}

static void *storm(void *unused) {
    while (w_get(&handled) < wanted) pthread_kill(victim, SIGALRM);
    return unused;
}

static void start_timer(long microseconds) {
    struct itimerval every = {{0, microseconds}, {0, microseconds}};
    W_REQUIRE(setitimer(ITIMER_REAL, &every, NULL) == 0);
}

int main(int argc, char **argv) {
    const char *mode = argc > 1 ? argv[1] : "timer";
    wanted = w_argument(argc, argv, 2, 5000);
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    W_REQUIRE(sigaction(SIGALRM, &action, NULL) == 0);

    pthread_t sender;
    victim = pthread_self();
    int storming = strcmp(mode, "storm") == 0, raising = strcmp(mode, "self") == 0;
    if (storming) W_REQUIRE(pthread_create(&sender, NULL, storm, NULL) == 0);
    else if (!raising) start_timer(50);

    uint64_t seed = 3;
    while (w_get(&handled) < wanted) {
        if (raising) raise(SIGALRM);
        w_free(w_malloc(1 + w_random(&seed) % 200));
    }
    if (storming) pthread_join(sender, NULL);
    else if (!raising) start_timer(0);

    sigset_t all; // a last signal may be pending: the account is printed when nothing can change it
    sigfillset(&all);
    sigprocmask(SIG_BLOCK, &all, NULL);
    w_report("");
    w_say("", "signals", handled);
    _exit(0);
}
