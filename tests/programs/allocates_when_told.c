// Reads numbers from stdin, a line each: allocates so many blocks of 1000 bytes, keeps them, and
// prints `allocated N`.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((noinline)) static void w_allocate(int blocks) {
    for (int block = 0; block < blocks; block++) {
        char *memory = malloc(1000);
        if (memory != NULL) memset(memory, block, 1000);
    }
}

int main(void) {
    int blocks;
    while (scanf("%d", &blocks) == 1) {
        w_allocate(blocks);
        printf("allocated %d\n", blocks);
        fflush(stdout);
    }
    return 0;
}
