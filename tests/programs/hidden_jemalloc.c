// Hazard: as static_jemalloc, and the executable exports none of jemalloc's functions.
// Counts and arguments: as random_events.
// native: Debian's archive of jemalloc is for this machine
// needs: /usr/lib/x86_64-linux-gnu/libjemalloc.a
// build: -pthread -I{here}/../../crates/probe/include /usr/lib/x86_64-linux-gnu/libjemalloc.a -lstdc++ -lm -Wl,--exclude-libs,ALL
#include "random_events.c"
