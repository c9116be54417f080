// Hazard: a script engine inside a stripped executable that exports none of its symbols. See
// lua_threads.c.
// native: links Lua, which Debian has for one architecture at a time only
// needs: /usr/include/lua5.4/lua.h
// build: -I/usr/include/lua5.4 -pthread -s -l:liblua5.4.a -lm
#include "lua_threads.c"
