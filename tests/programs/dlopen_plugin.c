// The module `dlopen_close` loads and unloads: allocates from its own code, counted by the caller.
// build: -shared -fPIC
#include <stdlib.h>

__attribute__((visibility("default"))) void *w_plugin_malloc(size_t size) {
    void *p = malloc(size);
    __asm__ volatile("" : "+r"(p)::"memory");
    return p;
}
