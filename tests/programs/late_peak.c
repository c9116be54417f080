// Holds little for half a second, then touches 48 MiB, prints the most bytes that it had in memory
// and ends at once: by exit, or by _exit when its argument says so.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static long peak_bytes(void) {
    char line[256];
    long kilobytes = 0;
    FILE *status = fopen("/proc/self/status", "r");
    while (status && fgets(line, sizeof line, status)) sscanf(line, "VmHWM: %ld kB", &kilobytes);
    if (status) fclose(status);
    return kilobytes * 1024;
}

static void touch(char *block, size_t bytes) {
    for (size_t at = 0; at < bytes; at += 4096) ((volatile char *)block)[at] = 1;
}

int main(int count, char **arguments) {
    char *small = malloc(1 << 20);
    touch(small, 1 << 20);
    usleep(500 * 1000);
    char *large = malloc(48 << 20);
    touch(large, 48 << 20);
    printf("%ld\n", peak_bytes());
    fflush(stdout);
    free(large);
    free(small);
    if (count > 1 && strcmp(arguments[1], "_exit") == 0) _exit(0);
    return 0;
}
