"""Allocates in many places, and prints the stack of each allocation as the interpreter sees it.

Each call of `check` allocates a block of `SIZE` bytes, which comes from `malloc`, and an object of
`OBJECT` bytes, which comes from the interpreter's own allocator. A line `stack COUNT FRAME;FRAME;…`
of the output is a stack, the outermost frame first, and how often `check` was called from it.
"""
import asyncio
import collections
import ctypes
import functools
import sys
import threading

SIZE = 1 << 16
OBJECT = 433
DATA = OBJECT - sys.getsizeof(b"")
calls = collections.Counter()


def name(code):
    return getattr(code, "co_qualname", code.co_name)


def check(*_):
    frames = []
    frame = sys._getframe(1)
    while frame:
        frames.append("%s (%s:%d)" % (name(frame.f_code), frame.f_code.co_filename, frame.f_lineno))
        frame = frame.f_back
    frames.reverse()
    calls[";".join(frames)] += 1
    bytearray(SIZE)  # the line of the block
    bytes(DATA)  # the line of the object
    return 1


def recursive(depth):
    return recursive(depth - 1) if depth else check()


def leaf():
    return check()


def same_frame_from_other_lines():
    leaf(); leaf()
    leaf()
    leaf()


def leaf_with_arguments(*arguments, **named):
    return check()


def calls_that_allocate(arguments, named):
    leaf_with_arguments(*arguments, **named); leaf_with_arguments(*arguments, **named)
    leaf_with_arguments(*arguments, **named)


def same_frames_with_other_lines(depth, path):
    # Every path has the same frames at the same addresses, and the same native stack.
    if depth == 0:
        return check()
    if path & 1:
        return same_frames_with_other_lines(depth - 1, path >> 1)
    return same_frames_with_other_lines(depth - 1, path >> 1)


def one_caller(depth):
    return one_caller(depth - 1) if depth else leaf()


def other_caller(depth):
    return other_caller(depth - 1) if depth else leaf()


def same_frames_of_other_functions():
    for number in range(8):
        (one_caller if number & 1 else other_caller)(number >> 1)


def endless():
    while True:
        check()
        yield


def resumes(running):
    next(running); next(running)
    next(running)


def resumes_too(running):
    next(running)


def same_generator_from_other_callers():
    running = endless()
    resumes(running)
    resumes_too(running)
    resumes(running)
    for running in endless(), endless():
        next(running)
        resumes_too(running)


class Object:
    def method(self):
        return [check() for _ in (1, 2)][0]

    def __repr__(self):
        check()
        return "Object"

    def __eq__(self, other):
        return bool(check())

    def __getattr__(self, attribute):
        return check()

    def __del__(self):
        check()

    @property
    def value(self):
        return check()


def generator():
    yield check()
    yield from inner_generator()


def inner_generator():
    yield check()
    yield check()


def resumed_at_other_depths():
    running = generator()
    next(running)
    recursive_next(running, 3)
    recursive_next(running, 1)


def recursive_next(running, depth):
    return recursive_next(running, depth - 1) if depth else next(running)


async def coroutine():
    await inner_coroutine()
    await asyncio.gather(inner_coroutine(), inner_coroutine())


async def inner_coroutine():
    check()
    await asyncio.sleep(0)
    check()


def in_threads():
    threads = [threading.Thread(target=recursive, args=(depth,)) for depth in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def code_at_reused_addresses(rounds):
    for number in range(rounds):
        lines = "\n" * (number % 7)
        source = lines + "def made%d():\n\n   check()\nmade%d()" % (number % 5, number % 5)
        exec(compile(source, "<made%d>" % (number % 3), "exec"), {"check": check})


def élan_Ω():
    check()


def without_the_lock():
    # The callback runs under the lock again, called by C code that released it.
    callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)(check)
    array = (ctypes.c_int * 4)(4, 3, 2, 1)
    libc = ctypes.CDLL(None)
    libc.qsort(array, 4, ctypes.sizeof(ctypes.c_int), callback)


def greenlets():
    try:
        import greenlet
    except ImportError:
        return

    def switched():
        check()
        main.switch()
        recursive(3)

    main = greenlet.getcurrent()
    other = greenlet.greenlet(switched)
    other.switch()
    check()
    other.switch()


def main(rounds):
    for _ in range(rounds):
        for depth in (0, 5, 60):
            recursive(depth)
        same_frame_from_other_lines()
        same_frames_of_other_functions()
        same_generator_from_other_callers()
        for path in range(32):
            same_frames_with_other_lines(5, path)
        calls_that_allocate([1, 2], {"key": 1})
        item = Object()
        item.method(), repr(item), str([item]), item == 1, item.missing, item.value
        [item].index(3)
        del item
        sorted([2, 1], key=lambda value: check() and value)
        functools.reduce(lambda left, right: check(), [1, 2, 3])
        list(map(leaf_with_arguments, (1, 2)))
        for _ in generator():
            pass
        list(generator())
        next(generator())
        resumed_at_other_depths()
        élan_Ω()
        without_the_lock()
        greenlets()
        exec(compile("\n\ncheck()\n", "<made>", "exec"))
    code_at_reused_addresses(20 * rounds)
    for _ in range(max(1, rounds // 10)):
        asyncio.run(coroutine())
        in_threads()


if __name__ == "__main__":
    main(int(sys.argv[1]))
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for stack, count in calls.items():
            out.write("stack %d %s\n" % (count, stack))
