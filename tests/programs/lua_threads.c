// Hazard: a script engine without glue. Each thread runs a Lua state of its own, with coroutines.
// Counts: nothing; the script knows what it keeps. Arguments: the script, threads, 1 to call the
// script outside of every protected call.
// native: links Lua, which Debian has for one architecture at a time only
// needs: /usr/include/lua5.4/lua.h
// build: -I/usr/include/lua5.4 -pthread -llua5.4
#include "witness.h"
#include <lauxlib.h>
#include <lualib.h>
#include <pthread.h>

enum { MAX_THREADS = 16 };
static const char *script;
static int is_unprotected;

static void *run(void *unused) {
    lua_State *L = luaL_newstate();
    W_REQUIRE(L);
    luaL_openlibs(L);
    W_REQUIRE(luaL_loadfile(L, script) == LUA_OK);
    if (is_unprotected) {
        lua_call(L, 0, 0);
        return unused;
    }
    int status = lua_pcall(L, 0, 0, 0);
    if (status != LUA_OK) w_write(2, lua_tostring(L, -1), strlen(lua_tostring(L, -1)));
    W_REQUIRE(status == LUA_OK);
    return unused; // the state stays: its memory is what the report is about
}

int main(int argc, char **argv) {
    W_REQUIRE(argc > 1);
    script = argv[1];
    uint64_t threads = w_argument(argc, argv, 2, 2);
    is_unprotected = w_argument(argc, argv, 3, 0) == 1;
    pthread_t ids[MAX_THREADS];
    W_REQUIRE(threads <= MAX_THREADS);
    for (uint64_t t = 0; t < threads; t++) W_REQUIRE(pthread_create(&ids[t], NULL, run, NULL) == 0);
    for (uint64_t t = 0; t < threads; t++) pthread_join(ids[t], NULL);
    w_report("");
    return 0;
}
