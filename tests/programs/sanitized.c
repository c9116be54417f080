// Hazard: an AddressSanitizer build brings an allocator of its own and refuses to be preceded.
// Counts: all of it, for itself; a profiler must give a clear message, or correct numbers.
// build: -fsanitize=address
#include "witness.h"

int main(void) {
    for (int i = 0; i < 1000; i++) w_free(w_malloc(95));
    w_report("");
    return 0;
}
