// Hazard: plugins with different `operator new` in a program that has none: the loader gives each
// plugin the operator of its own scope, and the first plugin may be gone when the second one is
// loaded.
// Counts: blocks of both plugins. Argument: `keep` or `close` the first plugin before the second is
// loaded.
// build: -ldl
#include "witness.h"
#include <dlfcn.h>

typedef void *new_function(size_t);
typedef void delete_function(void *);

static void *function(void *plugin, const char *name) {
    void *found = dlsym(plugin, name);
    W_REQUIRE(found);
    return found;
}

static W_SITE void w_use(new_function *make, delete_function *end) {
    for (int i = 0; i < 10; i++) {
        struct w_block block = w_counted(make(40), 40);
        W_REQUIRE(block.p);
        if (i % 2) {
            w_count_free(40);
            end(block.p);
        }
    }
}

static void use(void *plugin) {
    w_use((new_function *)function(plugin, "w_plugin_new"),
          (delete_function *)function(plugin, "w_plugin_delete"));
}

int main(int argc, char **argv) {
    int close = argc > 1 && strcmp(argv[1], "close") == 0;
    void *first = dlopen("$ORIGIN/operators_plugin.so", RTLD_NOW);
    W_REQUIRE(first);
    const unsigned *own = (const unsigned *)function(first, "own_operator_calls");
    use(first);
    w_say("", "first_calls", *own);
    if (close) W_REQUIRE(dlclose(first) == 0 && !dlopen("$ORIGIN/operators_plugin.so", RTLD_NOW | RTLD_NOLOAD));
    void *second = dlopen("$ORIGIN/runtime_plugin.so", RTLD_NOW);
    W_REQUIRE(second);
    use(second);
    if (!close) w_say("", "second_calls_of_first", *own - 15);
    W_REQUIRE(dlclose(second) == 0);
    w_report("");
    return 0;
}
