// Hazard: a forked child whose first event meets signals whose handler allocates, or whose first
// event is a realloc that fails. Over an allocator that allows it (bump_malloc.so); glibc's would
// break by itself.
// Counts: children that ended well. Arguments: the first event, children.
// Usage: fork_signal malloc|free|realloc|failed_realloc CHILDREN
// build: {out}/bump_malloc.so -Wl,-rpath,$ORIGIN
#include "witness.h"
#include <signal.h>
#include <sys/time.h>
#include <sys/wait.h>

static volatile int handled;

static void handler(int unused) {
    (void)unused;
    free(malloc(100));
    handled++;
}

static void child(const char *what, void *block) {
    // Begins at once and lasts longer than the first event; the handler's own events come in
    // between.
    struct itimerval soon = {{0, 20}, {0, 20}}, never = {{0, 0}, {0, 0}};
    int fails = !strcmp(what, "failed_realloc");
    if (!fails) W_REQUIRE(setitimer(ITIMER_REAL, &soon, NULL) == 0);
    if (!strcmp(what, "malloc")) malloc(1000);
    if (!strcmp(what, "free")) free(block);
    if (!strcmp(what, "realloc")) block = realloc(block, 3000);
    if (fails) W_REQUIRE(realloc(block, (size_t)1 << 46) == NULL);
    for (int i = 0; i < 2000; i++) free(malloc(100 + i % 1000));
    if (!fails) {
        while (handled < 3) free(malloc(10));
        setitimer(ITIMER_REAL, &never, NULL);
    }
    _exit(0);
}

int main(int argc, char **argv) {
    W_REQUIRE(argc > 1);
    uint64_t children = w_argument(argc, argv, 2, 50), ended = 0;
    W_REQUIRE(signal(SIGALRM, handler) != SIG_ERR);
    for (int i = 0; i < 2000; i++) free(malloc(100 + i % 1000));
    for (uint64_t c = 0; c < children; c++) {
        void *block = malloc(2000);
        pid_t pid = fork();
        W_REQUIRE(pid >= 0);
        if (pid == 0) child(argv[1], block);
        int status = 0;
        W_REQUIRE(waitpid(pid, &status, 0) == pid);
        ended += status == 0;
        free(block);
    }
    w_say("", "ended", ended);
    return 0;
}
