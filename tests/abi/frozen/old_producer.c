#define _DEFAULT_SOURCE
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "frozen_v1.h"

_Static_assert(sizeof(frozen_runtime) == 128, "the baseline prefix");
_Static_assert(sizeof(frozen_export) == 128, "the export");
_Static_assert(sizeof(frozen_port) == 72, "a port");
_Static_assert(sizeof(frozen_verbs) == 48, "the verbs");

static float staged, result;
static int ready, live;

static int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int stream) {
  (void)self, (void)stream;
  if (port != 0 || bytes != sizeof staged) return -1;
  memcpy(&staged, data, sizeof staged);
  ready = 0;
  return 0;
}
static int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                      int stream) {
  (void)self, (void)stream;
  if (port != 1 || !written) return -1;
  *written = sizeof result;
  if (capacity < sizeof result) return -5;
  if (!ready) return -7;
  memcpy(out, &result, sizeof result);
  return 0;
}
static int step(void* self) {
  (void)self;
  result = 2 * staged;
  ready = 1;
  return 0;
}
static const char* last_error(void* self) {
  (void)self;
  return "old producer";
}
static void retain(void* owner) {
  (void)owner;
  ++live;
}
static void release(void* owner) {
  (void)owner;
  --live;
}

static const int64_t one[] = {1};
static const frozen_port ports[] = {{"in", 0, 1, 0, 0, 1, 1, one, 1, 0, 0, 0, 0},
                                    {"out", 0, 1, 0, 1, 1, 0, one, 1, 0, 0, 0, 0}};
static const frozen_export export_record = {
    1, 128, 0,      0,      0, 0, 0, 0, 0, 0, 0, 0xb3265011ccdfba03ULL, "frt-runtime-identity-v1\n",
    0, 0,   retain, release};

frozen_runtime* frozen_producer_open(void) {
  const long page = sysconf(_SC_PAGESIZE);
  char* pages =
      mmap(0, 2 * (size_t)page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  frozen_runtime* r;
  if (pages == MAP_FAILED || mprotect(pages + page, (size_t)page, PROT_NONE) != 0) return 0;
  r = (frozen_runtime*)(pages + page - sizeof *r);
  r->abi_version = 1;
  r->struct_size = sizeof *r;
  r->exp = &export_record;
  r->ports = ports;
  r->n_ports = 2;
  r->verbs.struct_size = sizeof r->verbs;
  r->verbs.set_input = set_input;
  r->verbs.get_output = get_output;
  r->verbs.step = step; /* prepare stays NULL: a producer made by hand may leave verbs out */
  r->verbs.last_error = last_error;
  r->retain = retain;
  r->release = release;
  live = 1;
  ready = 0;
  return r;
}

int frozen_producer_live(void) {
  return live;
}
