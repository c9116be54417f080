// Built twice with different FRAMEs: at the same addresses, other code and other unwind
// information.
typedef long (*hook_t)(void *context, void *body);

__attribute__((noinline)) static long inner(hook_t hook, void *context, void *body) {
    volatile char frame[FRAME];
    frame[0] = 1;
    return hook(context, body) + frame[0];
}

long plugin_run(hook_t hook, void *context, void *body) { return inner(hook, context, body) + 1; }
