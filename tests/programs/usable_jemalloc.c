// Hazard: as usable_sizes, and jemalloc is part of the executable. Counts and argument: the same.
// native: Debian's archive of jemalloc is for this machine
// needs: /usr/lib/x86_64-linux-gnu/libjemalloc.a
// build: -pthread /usr/lib/x86_64-linux-gnu/libjemalloc.a -lstdc++ -lm
#include "usable_sizes.c"
