// Hazard: two versions of a script engine in one process. Counts: nothing; the script knows what it
// keeps. Argument: the script, which each of them runs once.
#include "witness.h"
#include <dlfcn.h>

typedef struct lua_State lua_State;
static const char *script;

static void run(const char *library) {
    void *lua = dlopen(library, RTLD_NOW | RTLD_LOCAL);
    W_REQUIRE(lua);
    lua_State *(*new_state)(void);
    void (*open_libraries)(lua_State *);
    int (*load)(lua_State *, const char *, const char *);
    int (*call)(lua_State *, int, int, int, intptr_t, void *);
    *(void **)&new_state = dlsym(lua, "luaL_newstate");
    *(void **)&open_libraries = dlsym(lua, "luaL_openlibs");
    *(void **)&load = dlsym(lua, "luaL_loadfilex");
    *(void **)&call = dlsym(lua, "lua_pcallk");
    W_REQUIRE(new_state && open_libraries && load && call);
    lua_State *L = new_state();
    W_REQUIRE(L);
    open_libraries(L);
    W_REQUIRE(load(L, script, NULL) == 0 && call(L, 0, 0, 0, 0, NULL) == 0);
}

int main(int argc, char **argv) {
    W_REQUIRE(argc > 1);
    script = argv[1];
    run("liblua5.3.so.0");
    run("liblua5.4.so.0");
    w_report("");
    return 0;
}
