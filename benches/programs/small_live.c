// 100 000 live blocks of 64 bytes and nothing else: what a live block costs in memory. Argument:
// blocks.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    long blocks = argc > 1 ? atol(argv[1]) : 100000, kept = 0;
    for (long i = 0; i < blocks; i++) {
        char *p = malloc(64);
        if (!p) abort();
        memset(p, 1, 64);
        kept += p[63];
    }
    printf("%ld blocks\n", kept);
    return 0;
}
