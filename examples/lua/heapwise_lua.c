/* heapwise for Lua 5.4 and 5.5: a script controls its recording and puts labels around calls.
 *
 * As a module:
 *     gcc -O2 -shared -fPIC -I/usr/include/lua5.4 -IINCLUDE heapwise_lua.c -o heapwise.so
 *     heapwise run --exact -- lua5.4 -e 'require "heapwise".start()' script.lua
 *
 * Lines of Lua need none of this: the probe finds them (docs/LUA.md). Where it does not know the
 * Lua, the program declares its frames: `require "heapwise".attach()` in a script, or in an engine
 * compile this in, call luaopen_heapwise and heapwise_lua_declare once per state, and surround each
 * call of Lua:
 *     lua_State *before = heapwise_lua_run(L);  lua_pcall(L, …);  heapwise_lua_run(before);
 *
 * The probe calls `frames_of` only for allocations that it records, from inside the allocator.
 * Lua's debug interface neither allocates nor raises errors in the calls made here; but it reads
 * the state's stack, which must not be read while that is the block being resized. So Lua's
 * allocator is wrapped, too. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <lauxlib.h>
#include <lua.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#define HEAPWISE_GS_PREFIXED
#include "heapwise_gs.h"

/* Functions without a name that get one each; few, because a loaded module's room for
 * initial-exec is small. */
enum { UNNAMED_FRAMES = 16 };

/* initial-exec: any other model may call malloc on a thread's first access, from inside malloc. */
#define HEAPWISE_LUA_THREAD static __thread __attribute__((tls_model("initial-exec")))

/* The state this thread runs now; NULL: none. */
HEAPWISE_LUA_THREAD lua_State *running;
/* The probe reads names after `frames_of` has returned. */
HEAPWISE_LUA_THREAD char unnamed[UNNAMED_FRAMES][24];
/* The block that Lua resizes now. */
HEAPWISE_LUA_THREAD struct {
    void *block;
    size_t size;
} resized;

/* Whether the stack that `call` lies in is being resized. A CallInfo begins with its function's
 * place in the stack; Lua from 5.4.5 on makes that an offset meanwhile, and no stack is larger
 * than 16 MB. */
static int is_stack_moving(const lua_Debug *call) {
    uintptr_t place;
    memcpy(&place, call->i_ci, sizeof place);
    return place <= 16 << 20 || place - (uintptr_t)resized.block < resized.size;
}

/* The Lua functions of a state, innermost first. C functions are left out: the native frames show
 * them. */
static int frames_of(void *state, struct heapwise_frame *frames, int max) {
    lua_State *L = (lua_State *)state;
    lua_Debug call;
    int count = 0, unnamed_count = 0;
    if (!lua_getstack(L, 0, &call) || is_stack_moving(&call)) return 0;
    for (int level = 0; count < max && lua_getstack(L, level, &call); level++) {
        lua_getinfo(L, "nSl", &call);
        if (call.currentline < 0) continue;
        const char *name = call.name;
        if (strcmp(call.what, "main") == 0) name = "(main chunk)";
        if (!name && unnamed_count < UNNAMED_FRAMES) {
            snprintf(unnamed[unnamed_count], sizeof unnamed[0], "function:%d", call.linedefined);
            name = unnamed[unnamed_count++];
        }
        /* A source that begins otherwise is the program text itself. */
        int is_named = call.source[0] == '@' || call.source[0] == '=';
        const char *file = is_named ? call.source + 1 : "[string]";
        frames[count++] = (struct heapwise_frame){name ? name : "function", file, call.currentline};
    }
    return count;
}

/* The calling thread runs `L` from now on; returns what it ran before, to be given back. */
lua_State *heapwise_lua_run(lua_State *L) {
    lua_State *before = running;
    running = L;
    hw_script_switch(L);
    return before;
}

/* The allocator that the program gives to its states; its data stays what it was, engines find
 * themselves by it. */
static lua_Alloc allocate;

static void *watched_alloc(void *data, void *block, size_t old_size, size_t size) {
    if (block && size) resized.block = block, resized.size = old_size;
    void *result = allocate(data, block, old_size, size);
    resized.block = NULL, resized.size = 0;
    return result;
}

static void watch_allocator(lua_State *L) {
    void *data;
    lua_Alloc own = lua_getallocf(L, &data);
    if (own == watched_alloc) return;
    if (allocate && allocate != own) luaL_error(L, "heapwise: the states of this program have different allocators");
    allocate = own;
    lua_setallocf(L, watched_alloc, data);
}

/* coroutine.resume, with the coroutine declared while it runs; the original is the upvalue. */
static int resume(lua_State *L) {
    lua_State *coroutine = lua_tothread(L, 1);
    luaL_argcheck(L, coroutine, 1, "coroutine expected");
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_insert(L, 1);
    lua_State *before = heapwise_lua_run(coroutine);
    int status = lua_pcall(L, lua_gettop(L) - 1, LUA_MULTRET, 0);
    heapwise_lua_run(before);
    return status == LUA_OK ? lua_gettop(L) : lua_error(L);
}

/* What coroutine.wrap returns; upvalues: the original coroutine.resume, the coroutine. */
static int resume_wrapped(lua_State *L) {
    lua_State *coroutine = lua_tothread(L, lua_upvalueindex(2));
    lua_pushvalue(L, lua_upvalueindex(2));
    lua_insert(L, 1);
    int count = resume(L);
    if (lua_toboolean(L, -count)) return count - 1;
    int status = lua_status(coroutine);
    if (status != LUA_OK && status != LUA_YIELD) lua_resetthread(coroutine);
    if (lua_type(L, -1) == LUA_TSTRING) {
        luaL_where(L, 1);
        lua_insert(L, -2);
        lua_concat(L, 2);
    }
    return lua_error(L);
}

static int wrap(lua_State *L) {
    luaL_checktype(L, 1, LUA_TFUNCTION);
    lua_pushvalue(L, lua_upvalueindex(1));
    lua_State *coroutine = lua_newthread(L);
    lua_pushvalue(L, 1);
    lua_xmove(L, coroutine, 1);
    lua_pushcclosure(L, resume_wrapped, 2);
    return 1;
}

/* A state closes its modules before it frees its last blocks, and the probe keeps the provider:
 * this code stays. */
static void stay_loaded(void) {
    Dl_info own;
    if (dladdr((void *)stay_loaded, &own)) dlopen(own.dli_fname, RTLD_NOW | RTLD_NODELETE);
}

/* The frames and coroutines of this state are declared from now on. A resumed coroutine then takes
 * two of the C calls that Lua allows inside each other. */
void heapwise_lua_declare(lua_State *L) {
    stay_loaded();
    watch_allocator(L);
    hw_script_provider(frames_of);
    if (lua_getglobal(L, "coroutine") == LUA_TTABLE) {
        lua_getfield(L, -1, "resume");
        lua_pushvalue(L, -1);
        lua_pushcclosure(L, resume, 1);
        lua_setfield(L, -3, "resume");
        lua_pushcclosure(L, wrap, 1);
        lua_setfield(L, -2, "wrap");
    }
    lua_pop(L, 1);
}

/* heapwise.attach(): declares the frames of this state, which the calling thread runs, and no
 * other, to its end. For interpreters, not for engines that move states between threads. */
static int attach(lua_State *L) {
    heapwise_lua_declare(L);
    lua_rawgeti(L, LUA_REGISTRYINDEX, LUA_RIDX_MAINTHREAD);
    heapwise_lua_run(lua_tothread(L, -1));
    return 0;
}

static int mark(lua_State *L) {
    hw_mark(luaL_checkstring(L, 1));
    return 0;
}

/* A call that fails returns nil, or false, and the reason. */

static int done(lua_State *L, const char *reason) {
    lua_pushboolean(L, reason == NULL);
    if (!reason) return 1;
    lua_pushstring(L, reason);
    return 2;
}

static const char *absence(void) { return hw_present() ? NULL : "the probe is not in this process"; }

/* heapwise.start([bytes]): records every block, or one in so many bytes on average. */
static int start(lua_State *L) {
    lua_Integer bytes = luaL_optinteger(L, 1, 0);
    luaL_argcheck(L, bytes >= 0, 1, "a distance is not negative");
    hw_start((uint64_t)bytes);
    return done(L, absence());
}

static int stop(lua_State *L) {
    hw_stop();
    return done(L, absence());
}

static int reset(lua_State *L) {
    hw_reset();
    return done(L, absence());
}

/* heapwise.dump(path): writes a heap dump that heapwise and jeprof read. */
static int dump(lua_State *L) {
    const char *path = luaL_checkstring(L, 1);
    if (absence()) return done(L, absence());
    int error = hw_dump(path);
    /* As jemalloc, the probe returns EFAULT when the file cannot be written. */
    const char *reason = error == EFAULT ? "the file cannot be written" : strerror(error);
    return done(L, error ? reason : NULL);
}

/* heapwise.label(name, function, …): calls the function; what it allocates is under a frame
 * `[name]`. */
static int label(lua_State *L) {
    hw_label_push(luaL_checkstring(L, 1));
    int status = lua_pcall(L, lua_gettop(L) - 2, LUA_MULTRET, 0);
    hw_label_pop();
    return status == LUA_OK ? lua_gettop(L) - 1 : lua_error(L);
}

/* The gs driver's functions. */

static int result(lua_State *L, bool is_done) {
    lua_pushboolean(L, is_done);
    if (is_done) return 1;
    lua_pushstring(L, heapwise_gs_error());
    return 2;
}

/* A report as JSON, which came from the heap. */
static int report(lua_State *L, char *json) {
    if (!json) {
        lua_pushnil(L);
        lua_pushstring(L, heapwise_gs_error());
        return 2;
    }
    lua_pushstring(L, json);
    free(json);
    return 1;
}

static int set_enable_mem_profiler(lua_State *L) {
    return result(L, heapwise_gs_set_enable_mem_profiler((int)luaL_optinteger(L, 1, HEAPWISE_GS_MEM_RECORD)));
}

static int get_mem_report(lua_State *L) { return report(L, heapwise_gs_get_mem_report()); }

static int get_mem_report_with_time(lua_State *L) {
    lua_Integer ms = luaL_checkinteger(L, 1);
    luaL_argcheck(L, ms >= 0, 1, "a time is not negative");
    return report(L, heapwise_gs_get_mem_report_with_time((uint64_t)ms));
}

static int get_all_time_size(lua_State *L) { return report(L, heapwise_gs_get_all_time_size()); }

static int start_mem_log_profiler(lua_State *L) {
    return result(L, heapwise_gs_start_mem_log_profiler((int)luaL_optinteger(L, 1, 0)));
}

static int get_mem_profiler_log_number(lua_State *L) {
    lua_pushinteger(L, heapwise_gs_get_mem_profiler_log_number());
    return 1;
}

static int set_mem_profiler_log_number(lua_State *L) {
    heapwise_gs_set_mem_profiler_log_number((int)luaL_checkinteger(L, 1));
    return 0;
}

static int get_mem_profiler_log_size(lua_State *L) {
    lua_pushstring(L, heapwise_gs_get_mem_profiler_log_size());
    return 1;
}

static int set_mem_profiler_log_size(lua_State *L) {
    return result(L, heapwise_gs_set_mem_profiler_log_size(luaL_checkstring(L, 1)));
}

int luaopen_heapwise(lua_State *L) {
    static const luaL_Reg functions[] = {{"attach", attach},
                                         {"mark", mark},
                                         {"start", start},
                                         {"stop", stop},
                                         {"reset", reset},
                                         {"dump", dump},
                                         {"label", label},
                                         {"report", get_mem_report},
                                         {"set_enable_mem_profiler", set_enable_mem_profiler},
                                         {"get_mem_report", get_mem_report},
                                         {"get_mem_report_with_time", get_mem_report_with_time},
                                         {"get_all_time_size", get_all_time_size},
                                         {"start_mem_log_profiler", start_mem_log_profiler},
                                         {"get_mem_profiler_log_number", get_mem_profiler_log_number},
                                         {"set_mem_profiler_log_number", set_mem_profiler_log_number},
                                         {"get_mem_profiler_log_size", get_mem_profiler_log_size},
                                         {"set_mem_profiler_log_size", set_mem_profiler_log_size},
                                         {NULL, NULL}};
    luaL_newlib(L, functions);
    return 1;
}
