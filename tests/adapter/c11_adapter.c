/* An adapter in C11, as a driving stack writes it: own names, own rule, own model root. */
#include <string.h>

#include "outrider/adapter.h"
#include "outrider/frt_v1.h"

static const outrider_adapter_keys kKeys = {"JetlinkMode",
                                            "IsOffroad",
                                            "JetlinkProgress",
                                            "JetlinkSpec",
                                            "JetlinkPointers",
                                            "JetlinkChargePhone",
                                            "",
                                            "",
                                            "DoShutdown",
                                            "DoReboot",
                                            "DoUninstall"};

static int in_control(void* self, const outrider_engagement_v1* now) {
  (void)self;
  return outrider_stock_in_control(now);
}

static int model_root(void* self, char* out, size_t out_bytes) {
  static const char kRoot[] = "/data/models";
  (void)self;
  if (out_bytes < sizeof kRoot) return FRT_ERR_STORAGE;
  memcpy(out, kRoot, sizeof kRoot);
  return 0;
}

static int reset(void* self) {
  (void)self;
  return 0;
}

static int warp(void* self, void** out) {
  (void)self;
  *out = 0;
  return 0;
}

static int mover(void* self, outrider_move_output_fn* move, void** context) {
  (void)self;
  *move = 0;
  *context = 0;
  return 0;
}

void c11_adapter(outrider_adapter_v1* out) {
  outrider_adapter_init(out);
  out->keys = &kKeys;
  out->in_control = in_control;
  out->model_root = model_root;
  out->history_reset = reset;
  out->model_warp = warp;
  out->coherent_warp = mover;
}
