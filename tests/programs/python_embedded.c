// native: loads a library of this machine
// Loads libpython (argv[1]) long after the start, out of the global scope, and uses it twice from
// initialization to finalization: on this thread, on another one, and in a second interpreter. Each
// place allocates COUNT objects in line 5 of its function.
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define SCRIPT(name)                                                                               \
    "def " name "():\n"                                                                            \
    "  global kept\n"                                                                              \
    "  kept = [None] * 20000\n"                                                                    \
    "  for number in range(20000):\n"                                                              \
    "    kept[number] = bytes(100)\n"                                                              \
    name "()\n"

static void *library;

static void *find(const char *name)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fprintf(stderr, "%s\n", dlerror());
        exit(2);
    }
    return symbol;
}

static void run(const char *source)
{
    int (*run_string)(const char *, void *) = find("PyRun_SimpleStringFlags");
    if (run_string(source, NULL) != 0)
        exit(3);
}

static void *on_thread(void *unused)
{
    int (*ensure)(void) = find("PyGILState_Ensure");
    void (*release)(int) = find("PyGILState_Release");
    int state = ensure();
    run(SCRIPT("on_thread"));
    release(state);
    return unused;
}

static void use_once(void)
{
    void (*initialize)(int) = find("Py_InitializeEx");
    int (*finalize)(void) = find("Py_FinalizeEx");
    void *(*save)(void) = find("PyEval_SaveThread");
    void (*restore)(void *) = find("PyEval_RestoreThread");
    void *(*new_interpreter)(void) = find("Py_NewInterpreter");
    void (*end_interpreter)(void *) = find("Py_EndInterpreter");
    void *(*swap)(void *) = find("PyThreadState_Swap");

    initialize(0);
    run(SCRIPT("hold"));

    void *own = save();
    pthread_t thread;
    if (pthread_create(&thread, NULL, on_thread, NULL) != 0 || pthread_join(thread, NULL) != 0)
        exit(4);
    restore(own);

    void *second = new_interpreter();
    run(SCRIPT("in_second"));
    end_interpreter(second);
    swap(own);
    if (finalize() != 0)
        exit(5);
}

int main(int argc, char **argv)
{
    library = argc > 1 ? dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) : NULL;
    if (!library) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    use_once();
    use_once();
    return 0;
}
