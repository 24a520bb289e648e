/* Loads a provider, stages zeroed inputs, ticks it and shows what came out.
 *
 *   example_tick PROVIDER.so CONFIG_JSON [TICKS]
 *
 * Plain C against include/outrider/ and liboutrider_host. Exit status: 0 good, 1 refused, 2 usage.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "outrider/host.h"

/* Elements of a port; a variable dimension counts as `variable`. */
static size_t n_elements(const frt_runtime_port_desc* port, size_t variable) {
  size_t n = 1;
  for (uint32_t i = 0; i < port->rank; ++i)
    n *= port->shape[i] > 0 ? (size_t)port->shape[i] : variable;
  return n;
}

static size_t dtype_bytes(uint32_t dtype) {
  static const size_t kBytes[] = {1, 4, 2, 2, 4, 8};
  return dtype < sizeof kBytes / sizeof kBytes[0] ? kBytes[dtype] : 1;
}

/* One black view per declared camera: shape is {views, height, width, channels}. */
static int stage_images(outrider_session* s, uint32_t index, const frt_runtime_port_desc* port) {
  if (port->rank != 4 || port->shape[0] < 1 || port->shape[1] < 1 || port->shape[2] < 1)
    return FRT_ERR_SHAPE;
  const size_t n_views = (size_t)port->shape[0];
  const size_t view_bytes = (size_t)port->shape[1] * (size_t)port->shape[2] * 3;
  unsigned char* pixels = calloc(n_views, view_bytes);
  frt_image_view* views = calloc(n_views, sizeof *views);
  int code = FRT_ERR_STORAGE;
  if (pixels != NULL && views != NULL) {
    for (size_t i = 0; i < n_views; ++i) {
      views[i].struct_size = sizeof views[i];
      views[i].pixel_format = FRT_PIXEL_RGB8;
      views[i].data = pixels + i * view_bytes;
      views[i].bytes = view_bytes;
      views[i].height = (int32_t)port->shape[1];
      views[i].width = (int32_t)port->shape[2];
    }
    code = outrider_set_input(s, index, views, n_views * sizeof *views); /* copies */
  }
  free(views);
  free(pixels);
  return code;
}

static int stage_port(outrider_session* s, uint32_t index) {
  const frt_runtime_port_desc* port = outrider_port(s, index);
  if (port->direction != FRT_PORT_IN || !port->required) return FRT_OK;
  if (port->modality == FRT_MODALITY_IMAGE) return stage_images(s, index, port);
  if (port->modality == FRT_MODALITY_TEXT)
    return outrider_set_input(s, index, "pick up the cup", 15);
  const size_t n_bytes = n_elements(port, 8) * dtype_bytes(port->dtype);
  void* zeros = calloc(1, n_bytes);
  if (zeros == NULL) return FRT_ERR_STORAGE;
  const int code = outrider_set_input(s, index, zeros, n_bytes);
  free(zeros);
  return code;
}

static int show_actions(outrider_session* s, uint32_t index) {
  const frt_runtime_port_desc* port = outrider_port(s, index);
  if (port->direction != FRT_PORT_OUT || port->modality != FRT_MODALITY_ACTION ||
      port->dtype != FRT_DTYPE_F32)
    return FRT_OK;
  const size_t capacity = n_elements(port, 1) * sizeof(float);
  float* values = calloc(1, capacity);
  uint64_t written = 0;
  if (values == NULL) return FRT_ERR_STORAGE;
  const int code = outrider_get_output(s, index, values, capacity, &written);
  if (code == FRT_OK) {
    printf("%s:", port->name);
    for (size_t i = 0; i < written / sizeof(float) && i < 8; ++i) printf(" %g", (double)values[i]);
    printf(" (%llu bytes)\n", (unsigned long long)written);
  }
  free(values);
  return code;
}

static int run(outrider_session* s, long n_ticks) {
  int code = FRT_OK;
  for (uint32_t i = 0; code == FRT_OK && i < outrider_n_ports(s); ++i) code = stage_port(s, i);
  for (long tick = 0; code == FRT_OK && tick < n_ticks; ++tick) {
    code = outrider_tick(s);
    for (uint64_t stage = 0; code == FRT_OK && stage < outrider_n_stages(s); ++stage)
      printf("tick %ld %s %.3f ms\n", tick, outrider_stage_name(s, stage),
             (double)outrider_stage_ns(s, stage) * 1e-6);
  }
  for (uint32_t i = 0; code == FRT_OK && i < outrider_n_ports(s); ++i) code = show_actions(s, i);
  return code;
}

int main(int argc, char** argv) {
  if (argc < 3) {
    fprintf(stderr, "usage: %s PROVIDER.so CONFIG_JSON [TICKS]\n", argv[0]);
    return 2;
  }
  char reason[512];
  outrider_session* session = NULL;
  if (outrider_open(argv[1], argv[2], &session, reason, sizeof reason) != FRT_OK) {
    fprintf(stderr, "%s\n", reason);
    return 1;
  }
  const int code = run(session, argc > 3 ? strtol(argv[3], NULL, 10) : 1);
  if (code != FRT_OK) fprintf(stderr, "code %d: %s\n", code, outrider_session_error(session));
  outrider_close(session);
  return code == FRT_OK ? 0 : 1;
}
