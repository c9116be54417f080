// Hazard: jemalloc and its C++ operators are part of the executable; exceptions pass through hooked
// operators. Counts and arguments: as cpp_operators.
// native: Debian's archive of jemalloc is for this machine
// needs: /usr/lib/x86_64-linux-gnu/libjemalloc.a
// build: -pthread /usr/lib/x86_64-linux-gnu/libjemalloc.a -lm
#include "cpp_operators.cpp"
