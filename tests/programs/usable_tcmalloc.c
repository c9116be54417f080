// Hazard: as usable_sizes, and tcmalloc is part of the executable. Counts and argument: the same.
// native: Debian's archive of tcmalloc is for this machine
// needs: /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.a
// build: -pthread /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.a -lstdc++ -lm
#include "usable_sizes.c"
