"""Threads that allocate with and without the interpreter's lock until the process ends.

Daemon threads go on while the interpreter is finalized; exceptions, generators and short-lived code
objects run meanwhile.
"""
import ctypes
import os
import sys
import threading
import time
import zlib

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p
libc.free.argtypes = [ctypes.c_void_p]


def outside_the_interpreter():
    while True:
        libc.free(libc.malloc(5000))


def without_the_lock():
    data = os.urandom(20000)
    while True:
        zlib.compress(data, 1)


def code_comes_and_goes():
    number = 0
    while True:
        number += 1
        scope = {}
        source = "def made%d(x):\n  return [y for y in range(x)]\nresult = made%d(50)"
        exec(source % (number % 9, number % 9), scope)
        try:
            scope["absent"]
        except KeyError:
            pass


def generators():
    def nested(depth):
        if depth:
            yield from nested(depth - 1)
        yield str(depth) * 100

    while True:
        "".join(nested(20))


for target in (outside_the_interpreter, without_the_lock, code_comes_and_goes, generators):
    threading.Thread(target=target, daemon=True).start()
time.sleep(float(sys.argv[1]))
