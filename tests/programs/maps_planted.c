// Hazard: a process that maps a file of its own in the name of a segment. Creates DIR/PID-1.seg,
// maps it, prints `mapped` and waits for the end of its input. Arguments: DIR.
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>

int main(int argc, char **argv) {
    char path[4096], line[16];
    if (argc != 2) return 1;
    snprintf(path, sizeof path, "%s/%d-1.seg", argv[1], (int)getpid());
    int file = open(path, O_RDWR | O_CREAT | O_EXCL, 0600);
    if (file < 0 || ftruncate(file, 1 << 20) != 0) return 2;
    void *memory = mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory == MAP_FAILED) return 3;
    puts("mapped");
    fflush(stdout);
    while (fgets(line, sizeof line, stdin) != NULL) {}
    return 0;
}
