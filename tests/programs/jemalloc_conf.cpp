// A C++ program that carries its options: the string jemalloc reads from `malloc_conf`. It leaks a
// block when it has an argument.
// build: -rdynamic
#include <cstdio>
#include <cstdlib>
#include <stdexcept>

extern "C" {
const char *malloc_conf = "prof:true,lg_prof_sample:0,prof_final:true,prof_leak_error:true,prof_prefix:carried";
}

static void *volatile leaked;

int main(int argc, char **) {
    try {
        throw std::runtime_error("brings in libstdc++");
    } catch (const std::exception &error) {
        std::printf("%s\n", error.what());
    }
    if (argc > 1) leaked = std::malloc(1000);
    return 0;
}
