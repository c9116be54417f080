// Known amounts under tcmalloc's sampler; writes its sampled and its growth profile.
#include <gperftools/malloc_extension.h>

#include <cstdio>
#include <cstdlib>
#include <string>

static void *keep[2048];

__attribute__((noinline)) static void *small() { return malloc(64); }
__attribute__((noinline)) static void *large() { return malloc(100000); }

static void write(const char *path, const std::string &text) {
    FILE *out = fopen(path, "w");
    fwrite(text.data(), 1, text.size(), out);
    fclose(out);
}

int main() {
    // The sampler's first gap is far longer than asked for; blocks freed at once end it.
    for (int i = 0; i < 2000; i++) free(large());
    // 100 blocks of 100000 B and 1900 of 64 B are kept.
    for (int i = 0; i < 2000; i++) keep[i] = i % 20 ? small() : large();
    std::string heap, growth;
    MallocExtension::instance()->GetHeapSample(&heap);
    MallocExtension::instance()->GetHeapGrowthStacks(&growth);
    write("tcmalloc-sample.heap", heap);
    write("tcmalloc-growth.heap", growth);
    return 0;
}
