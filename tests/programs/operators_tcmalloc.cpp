// Hazard: tcmalloc and its C++ operators are part of the executable; exceptions pass through hooked
// operators. Counts and arguments: as cpp_operators.
// native: Debian's archive of tcmalloc is for this machine
// needs: /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.a
// build: -pthread /usr/lib/x86_64-linux-gnu/libtcmalloc_minimal.a -lm
#include "cpp_operators.cpp"
