/* A plain C program with its own signal handlers and an atexit marker that drives every error case
 * of the host. Says what went wrong on stderr; stdout must stay empty. fc31_child cases LIBDIR
 * every error case; exit status 0 when each was a code and a line fc31_child memory LIBDIR opens
 * under an address space that shrinks step by step fc31_child print LIBDIR            lets the
 * provider print: shows that the parent can see it */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "outrider/host.h"

static int failures;

static void on_signal(int number) {
  (void)number;
}

static void marker(void) {
  static const char text[] = "atexit ran\n";
  ssize_t ignored = write(2, text, sizeof text - 1);
  (void)ignored;
}

static void expect(int good, const char* what) {
  if (good) return;
  fprintf(stderr, "FAILED: %s\n", what);
  ++failures;
}

static const int kSignals[] = {SIGABRT, SIGSEGV, SIGFPE,  SIGILL, SIGBUS,
                               SIGTERM, SIGINT,  SIGPIPE, SIGUSR1};
enum { kNumSignals = sizeof kSignals / sizeof kSignals[0] };

static void install_handlers(void) {
  for (int i = 0; i < kNumSignals; ++i) signal(kSignals[i], on_signal);
}

static void check_handlers(void) {
  for (int i = 0; i < kNumSignals; ++i) {
    struct sigaction now;
    sigaction(kSignals[i], NULL, &now);
    expect(now.sa_handler == on_signal, "a signal handler was replaced");
  }
}

/* Opens; a failure must come with a negative code, a NULL session and a line. */
static outrider_session* try_open(const char* path, const char* config) {
  outrider_session* session = (outrider_session*)&failures;
  char reason[512];
  const int code = outrider_open(path, config, &session, reason, sizeof reason);
  expect(code <= 0, "a code above 0");
  expect((code == 0) == (session != NULL), "code and session disagree");
  expect((code == 0) == (reason[0] == '\0'), "code and reason disagree");
  return session;
}

static void request(outrider_session* s) {
  char out[256];
  uint64_t written;
  unsigned char pixels[72] = {0};
  frt_image_view view = {sizeof view, FRT_PIXEL_RGB8, pixels, sizeof pixels, 6, 4, 0, 0, 0};
  const float state[] = {1, 2};
  static const uint32_t kPorts[] = {0, 1, 2, 3, 6, 7, 1000, UINT32_MAX};
  for (size_t i = 0; i < sizeof kPorts / sizeof kPorts[0]; ++i) {
    outrider_set_input(s, kPorts[i], NULL, 0);
    outrider_set_input(s, kPorts[i], NULL, UINT64_MAX);
    outrider_set_input(s, kPorts[i], "abc", 3);
    outrider_get_output(s, kPorts[i], NULL, 0, NULL);
    outrider_get_output(s, kPorts[i], NULL, UINT64_MAX, &written);
    outrider_get_output(s, kPorts[i], out, 0, &written);
    outrider_run_stage(s, kPorts[i]);
    expect(outrider_session_error(s) != NULL, "session_error is NULL");
  }
  view.width = 0x7fffffff;
  outrider_set_input(s, 0, &view, sizeof view);
  view.width = 6;
  view.bytes = 1;
  outrider_set_input(s, 0, &view, sizeof view);
  view.bytes = sizeof pixels;
  view.data = NULL;
  outrider_set_input(s, 0, &view, sizeof view);
  view.data = pixels;
  outrider_set_input(s, 0, &view, sizeof view);
  outrider_set_input(s, 1, "go", 2);
  outrider_set_input(s, 2, state, sizeof state);
  for (int i = 0; i < 4; ++i) {
    expect(outrider_tick(s) <= 0, "a tick code above 0");
    outrider_step(s);
    outrider_get_output(s, 3, out, sizeof out, &written);
  }
}

static void run_cases(const char* path, const char* other) {
  static const char* const kConfigs[] = {
      "",
      "{}",
      "null",
      "[]",
      "{\"model_family\":1}",
      "{\"model_family\":\"fake\",}",
      "\xff\xfe",
      "{\"model_family\":\"pi0\"}",
      "{\"model_family\":\"fake\",\"unknown\":1}",
      "{\"model_family\":\"fake\",\"open_code\":-2}",
      "{\"model_family\":\"fake\",\"open_code\":7}",
      "{\"model_family\":\"fake\",\"fault\":\"open_throws\"}",
      "{\"model_family\":\"fake\",\"fault\":\"open_null_out\"}",
      "{\"model_family\":\"fake\",\"fault\":\"plan_size\"}",
      "{\"model_family\":\"fake\",\"fault\":\"query_throws\"}",
      "{\"model_family\":\"fake\",\"fault\":\"null_release\"}",
      "{\"model_family\":\"fake\",\"fault\":\"many_ports\"}",
      "{\"model_family\":\"fake\",\"fault\":\"graph_plan\"}",
      "{\"model_family\":\"fake\",\"fault\":\"stage_utf8_name\"}",
      "{\"model_family\":\"fake\"}",
      "{\"model_family\":\"fake\",\"plan\":\"split\",\"fail_at\":2,\"fail_code\":-127}",
      "{\"model_family\":\"fake\",\"throw_at\":1}",
      "{\"model_family\":\"fake\",\"raw_throw_at\":1}",
      "{\"model_family\":\"fake\",\"last_error\":\"garbage\"}",
      "{\"model_family\":\"fake\",\"last_error\":\"null\",\"fail_at\":1}",
      "{\"model_family\":\"fake\",\"last_error\":\"long\",\"fail_at\":1}",
      "{\"model_family\":\"fake\",\"plan\":\"step\",\"null_verbs\":\"set_input,get_output\"}",
      "{\"model_family\":\"fake\",\"fault\":\"size_128\"}",
      "{\"model_family\":\"fake\",\"fault\":\"graph_plan_with_step\"}"};
  for (size_t i = 0; i < sizeof kConfigs / sizeof kConfigs[0]; ++i) {
    outrider_session* s = try_open(path, kConfigs[i]);
    if (s != NULL) request(s);
    outrider_close(s);
  }
  try_open(path, NULL);
  try_open(NULL, NULL);
  try_open("", "{}");
  try_open("/", "{}");
  try_open("/dev/zero", "{}");
  try_open(other, "{}");
  expect(outrider_open(path, "{}", NULL, NULL, 0) < 0, "open without out");
  expect(outrider_adopt(NULL, NULL, NULL, 0) < 0, "adopt without anything");
  request(NULL);
}

static uint64_t address_space_bytes(void) {
  unsigned long long pages = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == NULL || fscanf(file, "%llu", &pages) != 1) return 0;
  fclose(file);
  return pages * 4096ull;
}

/* From far too little room to enough: somewhere on the way every allocation fails once. */
static void run_memory(const char* path) {
  const char* config =
      "{\"model_family\":\"fake\",\"plan\":\"split\",\"image_height\":128,\"image_width\":128}";
  struct rlimit old;
  getrlimit(RLIMIT_AS, &old);
  int n_failed = 0, n_good = 0;
  for (uint64_t room = 0; room < (8ull << 20); room += 32 << 10) {
    const struct rlimit tight = {address_space_bytes() + room, old.rlim_max};
    setrlimit(RLIMIT_AS, &tight);
    outrider_session* s = try_open(path, config);
    setrlimit(RLIMIT_AS, &old);
    if (s != NULL)
      ++n_good;
    else
      ++n_failed;
    outrider_close(s);
  }
  expect(n_failed > 0, "no open failed: the limit did nothing");
  expect(n_good > 0, "no open succeeded");
  const struct rlimit tight = {address_space_bytes() + (64ull << 20), old.rlim_max};
  setrlimit(RLIMIT_AS, &tight);
  outrider_session* s = NULL;
  expect(
      outrider_open(path, "{\"model_family\":\"fake\",\"open_alloc_mb\":4096}", &s, NULL, 0) == -5,
      "4 GiB in 64 MiB of room is not -5");
  setrlimit(RLIMIT_AS, &old);
  s = try_open(path, "{\"model_family\":\"fake\",\"require_inputs\":0}");
  expect(s != NULL && outrider_tick(s) == 0, "no good session after the bad ones");
  outrider_close(s);
}

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  char fake[4096], other[4096];
  snprintf(fake, sizeof fake, "%s/provider_fake.so", argv[2]);
  snprintf(other, sizeof other, "%s/not_a_provider.so", argv[2]);
  atexit(marker);
  install_handlers();
  if (strcmp(argv[1], "cases") == 0) run_cases(fake, other);
  if (strcmp(argv[1], "memory") == 0) run_memory(fake);
  if (strcmp(argv[1], "print") == 0) {
    outrider_session* s = NULL;
    outrider_open(fake, "{\"model_family\":\"fake\",\"open_print\":1}", &s, NULL, 0);
    outrider_close(s);
  }
  check_handlers();
  return failures == 0 ? 0 : 1;
}
