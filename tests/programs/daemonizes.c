// Hazard: a program that becomes a daemon: its first process ends at once, a child goes on without
// a parent.
// Counts: the daemon since the fork, as lines in FILE.account. The daemon writes FILE.ready after
// half of its blocks and goes on when there is FILE.stop. Arguments: FILE, and `scrub` to overwrite
// the environment.
#include "witness.h"
#include <fcntl.h>
#include <stdio.h>

enum { BLOCKS = 100 };

static void path_of(char *path, size_t size, const char *file, const char *ending) {
    W_REQUIRE(snprintf(path, size, "%s.%s", file, ending) < (int)size);
}

static void create(const char *file, const char *ending) {
    char path[4096];
    path_of(path, sizeof path, file, ending);
    int made = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    W_REQUIRE(made >= 0 && dup2(made, 1) == 1);
    close(made);
}

static void allocate(void) {
    for (int i = 0; i < BLOCKS; i++) {
        struct w_block block = w_malloc(1000 + i);
        if (i % 2) w_free(block);
    }
}

// Overwrites the environment where the kernel shows it, after copying it, as programs do that set
// their title.
static void scrub_environment(void) {
    for (char **entry = environ; *entry; entry++) {
        char *old = *entry;
        W_REQUIRE((*entry = strdup(old)));
        memset(old, 0, strlen(old));
    }
}

// As `daemon`, with such an environment. The first process ends when the daemon is ready.
static void become_daemon_untitled(const char *file) {
    scrub_environment();
    char ready[4096];
    path_of(ready, sizeof ready, file, "ready");
    pid_t child = fork();
    W_REQUIRE(child >= 0);
    if (child == 0) {
        int null = open("/dev/null", O_RDWR);
        W_REQUIRE(setsid() >= 0 && dup2(null, 0) == 0 && dup2(null, 1) == 1 && dup2(null, 2) == 2);
        return;
    }
    while (access(ready, F_OK) != 0) usleep(2000);
    exit(0);
}

int main(int argc, char **argv) {
    W_REQUIRE(argc >= 2);
    w_malloc(5000);
    if (argc > 2) become_daemon_untitled(argv[1]);
    else W_REQUIRE(daemon(1, 0) == 0);
    w_total = (struct w_account){0};
    allocate();
    create(argv[1], "ready");
    char stop[4096];
    path_of(stop, sizeof stop, argv[1], "stop");
    while (access(stop, F_OK) != 0) usleep(2000);
    allocate();
    create(argv[1], "account");
    w_report("");
    return 0;
}
