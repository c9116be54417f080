// Hazard: code without unwind information whose frame pointer leads to a return address in code
// that cannot be read.
// Counts: blocks allocated from such code. Argument: blocks.
// native: machine code of x86-64
// build: -ldl
#include "witness.h"
#include <dlfcn.h>
#include <sys/mman.h>

// void *generated(void *frame, void *(*function)(size_t), size_t size)
static const unsigned char code[] = {
    0x55,             // push %rbp
    0x48, 0x89, 0xfd, // mov %rdi, %rbp
    0x48, 0x89, 0xd7, // mov %rdx, %rdi
    0xff, 0xd6,       // call *%rsi
    0x5d,             // pop %rbp
    0xc3,             // ret
};
typedef void *generated(void *, void *(*)(size_t), size_t);

static W_SITE void *w_allocate(size_t size) {
    void *p = malloc(size);
    __asm__ volatile("" : "+r"(p)::"memory");
    return p;
}

int main(int argc, char **argv) {
    uint64_t blocks = w_argument(argc, argv, 1, 100);
    generated *run = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    W_REQUIRE(run != MAP_FAILED);
    memcpy((void *)run, code, sizeof code);
    void *plugin = dlopen("$ORIGIN/dlopen_plugin.so", RTLD_NOW);
    W_REQUIRE(plugin);
    uintptr_t unreadable = (uintptr_t)dlsym(plugin, "w_plugin_malloc");
    W_REQUIRE(mprotect((void *)(unreadable & -4096UL), 4096, PROT_NONE) == 0);
    // What a frame pointer points to: the next frame pointer, and a return address.
    uintptr_t frame[2] = {0, unreadable + 16};
    for (uint64_t i = 0; i < blocks; i++) {
        struct w_block block = w_counted(run(frame, w_allocate, 100), 100);
        if (i % 2) w_free(block);
    }
    W_REQUIRE(mprotect((void *)(unreadable & -4096UL), 4096, PROT_READ | PROT_EXEC) == 0);
    w_report("");
    return 0;
}
