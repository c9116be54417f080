// Hazard: a program that forks after the probe was attached to it. Reads numbers from stdin, a line
// each: N allocates N blocks of 1000 bytes; -N forks a child that does so, frees every other one,
// and lives on. Both print `allocated N PID`.
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

__attribute__((noinline)) static void w_allocate(int blocks, int frees) {
    for (int block = 0; block < blocks; block++) {
        char *memory = malloc(1000);
        if (memory != NULL) memset(memory, block, 1000);
        if (frees && block % 2) free(memory);
    }
}

static void say(int blocks) {
    printf("allocated %d %d\n", blocks, (int)getpid());
    fflush(stdout);
}

int main(void) {
    int blocks;
    pid_t parent = getpid();
    while (scanf("%d", &blocks) == 1) {
        if (blocks >= 0) {
            w_allocate(blocks, 0);
            say(blocks);
        } else if (fork() == 0) {
            prctl(PR_SET_PDEATHSIG, SIGKILL);
            if (getppid() != parent) return 1;
            w_allocate(-blocks, 1);
            say(-blocks);
            for (;;) pause();
        }
    }
    return 0;
}
