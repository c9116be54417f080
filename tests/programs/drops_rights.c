// Hazard: a program that gives up its user's rights after its start. Arguments: a user id.
// Counts: all of it.
#include "witness.h"
#include <unistd.h>

static void allocate(void) {
    for (int i = 0; i < 100; i++) {
        struct w_block block = w_malloc(1000);
        if (i % 2) w_free(block);
    }
}

int main(int argc, char **argv) {
    W_REQUIRE(argc == 2);
    uid_t user = (uid_t)atoi(argv[1]);
    allocate();
    W_REQUIRE(setresuid(user, user, user) == 0);
    allocate();
    w_report("");
    return 0;
}
