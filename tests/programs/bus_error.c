// Hazard: a SIGBUS of the program's own: by an access behind the end of a mapped file, sent, or
// handled.
// Usage: bus_error fault|raise|handled
#include "witness.h"
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/resource.h>

static sigjmp_buf after;

static void handler(int signal) {
    (void)signal;
    siglongjmp(after, 1);
}

int main(int argc, char **argv) {
    W_REQUIRE(argc == 2);
    struct rlimit none = {0, 0};
    setrlimit(RLIMIT_CORE, &none);
    FILE *file = tmpfile();
    W_REQUIRE(file);
    volatile char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(file), 0);
    W_REQUIRE(page != MAP_FAILED);
    for (int i = 0; i < 1000; i++) w_malloc(100);
    if (!strcmp(argv[1], "raise")) raise(SIGBUS);
    if (!strcmp(argv[1], "handled")) signal(SIGBUS, handler);
    if (sigsetjmp(after, 1) == 0) return page[0];
    w_report("");
    return 0;
}
