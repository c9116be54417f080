// Only maps, touches and unmaps memory, 64 mappings at a time, and prints the processor time of
// that in microseconds. Arguments: bytes of a mapping, number of mappings.
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>

#define HELD 64

static long microseconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) * 1000000L + usage.ru_utime.tv_usec + usage.ru_stime.tv_usec;
}

int main(int count, char **arguments) {
    size_t bytes = count > 1 ? strtoul(arguments[1], NULL, 10) : 256 << 10;
    long mappings = count > 2 ? atol(arguments[2]) : 4096;
    char *held[HELD] = {0};
    long start = microseconds();
    for (long i = 0; i < mappings; i++) {
        char **slot = &held[i % HELD];
        if (*slot) munmap(*slot, bytes);
        *slot = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (*slot == MAP_FAILED) return 1;
        for (size_t at = 0; at < bytes; at += 4096) ((volatile char *)*slot)[at] = 1;
    }
    printf("%ld\n", microseconds() - start);
    return 0;
}
