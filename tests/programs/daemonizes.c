// Hazard: a program that becomes a daemon: its first process ends at once, a child goes on without a parent.
// Counts: the daemon since the fork, as lines in FILE.account. The daemon writes FILE.ready after half of its blocks and
// goes on when there is FILE.stop. Arguments: FILE.
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

int main(int argc, char **argv) {
    W_REQUIRE(argc == 2);
    w_malloc(5000);
    W_REQUIRE(daemon(1, 0) == 0);
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
