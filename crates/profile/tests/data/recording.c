#include <stdlib.h>
#include <pthread.h>
#include <unistd.h>
#include <dlfcn.h>
static void *kept[64];
__attribute__((noinline)) static void *small(int i) { return malloc(8 + i % 60); }
__attribute__((noinline)) static void *large(int i) { return malloc(1000 * i); }
__attribute__((noinline)) static void *grow(void *p, int i) { return realloc(p, 100 * i); }
static void *other(void *arg) { for (int i = 0; i < 300; i++) { free(kept[i % 64]); kept[i % 64] = small(i); } return arg; }
int main(int argc, char **argv) {
  (void)argv;
  unsigned pause = argc > 1 ? 600000 : 30000;
  void (*mark)(const char *) = (void (*)(const char *))dlsym(RTLD_DEFAULT, "heapwise_mark");
  for (int i = 1; i <= 200; i++) { free(kept[i % 64]); kept[i % 64] = i % 5 ? small(i) : large(i); }
  usleep(pause);
  if (mark) mark("loaded");
  usleep(pause);
  void *p = 0; for (int i = 1; i < 40; i++) p = grow(p, i);
  for (int i = 0; i < 500; i++) free(small(i));
  pthread_t t; pthread_create(&t, 0, other, 0); pthread_join(t, 0);
  usleep(pause);
  if (mark) mark("a/b@50%..peak");
  usleep(pause);
  large(7);
  return 0;
}
