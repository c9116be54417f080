// Hazard: a daemon closes every descriptor it did not open and reuses the numbers for its own
// files.
// Counts: all of it, plus `file_bytes`: its file holds exactly what it wrote.
#include "witness.h"
#include <fcntl.h>
#include <stdio.h>

int main(void) {
    for (int i = 0; i < 1000; i++) w_malloc(60);
    closefrom(3);
    int files[64];
    for (int i = 0; i < 64; i++) {
        files[i] = open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
        W_REQUIRE(files[i] >= 3);
    }
    for (int i = 0; i < 5000; i++) {
        struct w_block block = w_malloc(61);
        if (i % 2) w_free(block);
        if (i % 100 == 0) w_write(files[i / 100], "mine", 4);
    }
    uint64_t bytes = 0;
    for (int i = 0; i < 64; i++) {
        off_t end = lseek(files[i], 0, SEEK_END);
        W_REQUIRE(end == (i < 50 ? 4 : 0));
        bytes += (uint64_t)end;
    }
    w_report("");
    w_say("", "file_bytes", bytes);
    return 0;
}
