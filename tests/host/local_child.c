/* Loads the shared host RTLD_LOCAL, as Python's ctypes does, and prints what a failed open says.
 *   local_child LIBHOST PROVIDER CONFIG */
#include <dlfcn.h>
#include <stdio.h>

#include "outrider/host.h"

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  void* host = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (host == NULL) return 3;
  int (*open_session)(const char*, const char*, outrider_session**, char*, uint64_t);
  *(void**)&open_session = dlsym(host, "outrider_open");
  char reason[512] = "";
  outrider_session* session = NULL;
  const int code = open_session(argv[2], argv[3], &session, reason, sizeof reason);
  printf("%d %s\n", code, reason);
  return 0;
}
