// Hazard: a script engine. Two threads each run a Lua state with coroutines and declare them
// (examples/lua).
// Counts: all of it: Lua allocates through us. Arguments: the script, threads.
// native: links Lua, which Debian has for one architecture at a time only
// needs: /usr/include/lua5.4/lua.h
// build: -I/usr/include/lua5.4 -I{here}/../../crates/probe/include -pthread -llua5.4
#include "witness.h"
#include <lualib.h>
#include <pthread.h>

#include "../../examples/lua/heapwise_lua.c"

enum { MAX_THREADS = 16 };
static const char *script;

// Lua's allocator. For a new block `old_size` is a kind, not a size.
static void *w_lua(void *unused, void *block, size_t old_size, size_t size) {
    (void)unused;
    struct w_block b = {block, block ? old_size : 0};
    if (block && size == 0) return w_free(b), NULL;
    if (size == 0) return NULL;
    w_realloc(&b, size);
    return b.size == size ? b.p : NULL;
}

// hold(bytes): memory of the host that is never freed.
static int hold(lua_State *L) {
    memset(w_malloc((size_t)luaL_checkinteger(L, 1)).p, 1, 1);
    return 0;
}

static void *run(void *unused) {
    lua_State *L = lua_newstate(w_lua, NULL);
    W_REQUIRE(L);
    luaL_openlibs(L);
    luaL_requiref(L, "heapwise", luaopen_heapwise, 0);
    lua_pop(L, 1);
    heapwise_lua_declare(L);
    lua_register(L, "hold", hold);
    W_REQUIRE(luaL_loadfile(L, script) == LUA_OK);
    lua_State *before = heapwise_lua_run(L);
    W_REQUIRE(before == NULL);
    int status = lua_pcall(L, 0, 0, 0);
    if (status != LUA_OK) w_write(2, lua_tostring(L, -1), strlen(lua_tostring(L, -1)));
    W_REQUIRE(status == LUA_OK);
    W_REQUIRE(heapwise_lua_run(NULL) == L);
    return unused; // the state stays: its memory is what the report is about
}

int main(int argc, char **argv) {
    W_REQUIRE(argc > 1);
    script = argv[1];
    uint64_t threads = w_argument(argc, argv, 2, 2);
    pthread_t ids[MAX_THREADS];
    W_REQUIRE(threads <= MAX_THREADS);
    for (uint64_t t = 0; t < threads; t++) W_REQUIRE(pthread_create(&ids[t], NULL, run, NULL) == 0);
    for (uint64_t t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    w_report("");
    return 0;
}
