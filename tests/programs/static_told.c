// Hazard: a running program without a dynamic linker. Input and output as of allocates_when_told.
// build: -static
#include "allocates_when_told.c"
