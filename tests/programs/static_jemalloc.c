// Hazard: jemalloc is part of the executable, which exports its `malloc`: no call goes through the
// dynamic linker. Counts and arguments: as random_events.
// native: Debian's archive of jemalloc is for this machine
// needs: /usr/lib/x86_64-linux-gnu/libjemalloc.a
// build: -pthread -I{here}/../../crates/probe/include /usr/lib/x86_64-linux-gnu/libjemalloc.a -lstdc++ -lm
#include "random_events.c"
