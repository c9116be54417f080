// Hazard: tcmalloc is part of the executable, which exports its `malloc`: no call goes through the
// dynamic linker. Counts and arguments: as random_events.
// native: Debian's archive of tcmalloc is for this machine
// needs: /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.a
// build: -pthread -I{here}/../../crates/probe/include /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.a -lstdc++ -lm
#include "random_events.c"
