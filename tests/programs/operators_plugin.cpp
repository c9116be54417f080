// The first plugin of `plugin_operators`: has an `operator new` and `operator delete` of its own.
// build: -shared -fPIC -nodefaultlibs -lc
#include <cstddef>
#include <cstdlib>
#include <new>

extern "C" unsigned own_operator_calls;
unsigned own_operator_calls = 0;

void *operator new(std::size_t size) {
    own_operator_calls++;
    return std::malloc(size);
}

void operator delete(void *block) noexcept {
    own_operator_calls++;
    std::free(block);
}

void operator delete(void *block, std::size_t) noexcept { operator delete(block); }

extern "C" void *w_plugin_new(std::size_t size) {
    void *block = ::operator new(size);
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}

extern "C" void w_plugin_delete(void *block) {
    ::operator delete(block);
    __asm__ volatile("" ::: "memory");
}
