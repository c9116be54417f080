"""Runs Lua inside of Python: lines of both are in one stack. Argument: a Lua script."""

import ctypes
import sys

LUA = ctypes.CDLL("liblua5.4.so.0")
LUA.luaL_newstate.restype = ctypes.c_void_p


def run(path):
    state = ctypes.c_void_p(LUA.luaL_newstate())
    LUA.luaL_openlibs(state)
    assert LUA.luaL_loadfilex(state, path.encode(), None) == 0
    assert LUA.lua_pcallk(state, 0, 0, 0, ctypes.c_ssize_t(0), None) == 0  # the call


run(sys.argv[1])
