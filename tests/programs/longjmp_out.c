// Hazard: longjmp drops frames that a memory of the last stack still holds.
// Counts: all of it; depth changes from jump to jump. Argument: jumps.
#include "witness.h"
#include <setjmp.h>

static jmp_buf landing;
static struct w_block kept;

static W_SITE void w_descend(int depth) {
    struct w_block block = w_malloc(32 + (size_t)depth);
    if (depth == 0) {
        kept = block;
        longjmp(landing, 1);
    }
    w_free(block);
    w_descend(depth - 1);
    __asm__ volatile("" ::: "memory");
}

int main(int argc, char **argv) {
    volatile uint64_t jumps = w_argument(argc, argv, 1, 5000);
    for (volatile uint64_t i = 0; i < jumps; i++) {
        if (setjmp(landing) == 0) w_descend((int)(i * 7 % 60));
        else if (i % 16) w_free(kept);
    }
    w_report("");
    return 0;
}
