// The second plugin of `plugin_operators`: brings the C++ runtime and uses its operators.
// build: -shared -fPIC
#include <cstddef>
#include <new>

extern "C" void *w_plugin_new(std::size_t size) {
    void *block = ::operator new(size);
    __asm__ volatile("" : "+r"(block)::"memory");
    return block;
}

extern "C" void w_plugin_delete(void *block) {
    ::operator delete(block);
    __asm__ volatile("" ::: "memory");
}
