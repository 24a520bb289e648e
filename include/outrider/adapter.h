/* The adapter: everything a driving stack supplies so that a policy can run behind a link while a
 * small model stands by. One struct of function pointers. Every pointer may be NULL: the stock
 * behaviour that its comment names is used then, so an adapter sets only what it does differently.
 *
 * A hook returns 0 (or the number its comment names), or a negative code of frt_v1.h. A failure,
 * a C++ exception included, is told once and becomes the safe default that the comment names; it
 * never ends the process. `self` is the struct's own pointer. Text goes into out[0 .. out_bytes),
 * ends with NUL, and FRT_ERR_STORAGE says that it does not fit: nothing beyond out_bytes is
 * written.
 *
 * [setup] may allocate and block; [any] is cheap and asked again and again; [hot] is asked inside
 * a tick: no heap, no lock, no system call. */
#ifndef OUTRIDER_ADAPTER_H_
#define OUTRIDER_ADAPTER_H_
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define OUTRIDER_API __attribute__((visibility("default")))
#else
#define OUTRIDER_API
#endif

/* Compared for equality: an adapter of another version counts as none. */
#define OUTRIDER_ADAPTER_VERSION 1u
/* The one symbol of an adapter in a shared object: const outrider_adapter_v1* (void). */
#define OUTRIDER_ADAPTER_SYMBOL "outrider_adapter"

/* What a message says; every other value counts as OUTRIDER_UNKNOWN. */
#define OUTRIDER_NO 0u
#define OUTRIDER_YES 1u
#define OUTRIDER_UNKNOWN 2u

/* From messages that the loop reads anyway: nobody polls for this. */
typedef struct outrider_engagement_v1 {
  uint32_t struct_size; /* sizeof(outrider_engagement_v1) */
  uint8_t fresh;        /* YES: every needed message was seen, is alive and valid */
  uint8_t enabled, active;
  uint8_t lateral_active, longitudinal_active; /* the car is being moved by the system */
  uint8_t aol_enabled;                         /* always-on lateral steers */
  uint8_t aol_armed;                           /* ... is switched on, perhaps paused */
  uint8_t aol_capable;                         /* this car can run it */
  uint8_t turn_signal, lane_change;
  uint8_t standstill;
  uint8_t reserved;
} outrider_engagement_v1;

typedef struct outrider_camera_v1 {
  uint32_t struct_size;
  uint32_t camera_width, camera_height, model_width, model_height; /* pixels */
} outrider_camera_v1;

/* What the model process needs to know of the driving model. */
typedef struct outrider_model_face_v1 {
  uint32_t struct_size;
  uint32_t desire_len;  /* 8 */
  uint64_t frame_bytes; /* of one camera frame */
  double lateral_smooth_s, longitudinal_smooth_s;
} outrider_model_face_v1;

/* Names of the parameters; "" is none. */
typedef struct outrider_adapter_keys {
  const char *mode, *parked, *progress, *spec, *pointers, *charge_phone;
  const char *big_model, *catalog; /* both "": the pinned default model, no choice */
  const char *shutdown, *reboot, *uninstall;
} outrider_adapter_keys;

/* Moves a program's output of n_bytes at *data, before the program is first linked, into memory
 * that the link can send from. 0: moved. Else nothing changed. */
typedef int (*outrider_move_output_fn)(void* context, void** data, uint64_t n_bytes);

typedef struct outrider_adapter_v1 {
  uint32_t version;     /* OUTRIDER_ADAPTER_VERSION */
  uint32_t struct_size; /* sizeof(outrider_adapter_v1) */
  void* self;
  const outrider_adapter_keys* keys; /* NULL: the stock names */

  /* ---- status side: manager, user interface ---------------------------------------------- */
  /* [any] Folder of the parameters, one file each. Asked anew every time. Stock: PARAMS_ROOT, else
   * /data/params where that is, else ~/.comma<PREFIX>/params; below it <PREFIX> or "d". Failure:
   * no parameters, so the link is off. */
  int (*params_dir)(void* self, char* out, size_t out_bytes);
  /* [any] One value. FRT_ERR_NOT_FOUND: unset or unknown. Stock: the file. Failure: unset. */
  int (*get)(void* self, const char* key, char* out, size_t out_bytes, size_t* written);
  /* [any] 1: a native accelerator is fitted, the link stays off; 0: none. Stock: 0. Failure: 1. */
  int (*accelerator_present)(void* self);
  /* [any] Stock: 1928 x 1208 to 512 x 256. Failure: no link. */
  int (*camera)(void* self, outrider_camera_v1* out);
  /* [any] Path of the warp made for this geometry and runtime; FRT_ERR_NOT_FOUND: none that fits.
   * Stock: none. Failure: none. */
  int (*warp_path)(void* self, const outrider_camera_v1* camera, char* out, size_t out_bytes);

  /* ---- worker side: the provisioning run, parked ------------------------------------------ */
  /* [setup] block != 0: on the disk before it returns. Stock: the file, replaced whole. Failure:
   * handed to the caller. */
  int (*put)(void* self, const char* key, const char* value, size_t n_bytes, int block);
  int (*remove)(void* self, const char* key);
  /* [any] Models go into a folder "outrider" below it and nowhere else. Stock:
   * /var/lib/outrider/models. Failure: nothing is downloaded. */
  int (*model_root)(void* self, char* out, size_t out_bytes);

  /* ---- model side: the process that ticks -------------------------------------------------- */
  /* [setup] Stock: desire_len 8, no smoothing, the frame size of camera(). Failure: no link. */
  int (*model_face)(void* self, outrider_model_face_v1* out);
  /* [hot] 1: somebody is in control, do not swap; 0: nobody. Stock: outrider_stock_in_control().
   * Failure, and every other number: 1. */
  int (*in_control)(void* self, const outrider_engagement_v1* now);
  /* [hot] Filtered share of dropped frames, 0 to 1. Stock: 0. Failure: 1, so the lead hands back.
   */
  int (*frame_drop_ratio)(void* self, double* out);
  /* [setup] OPTIONAL. The small model's own warp for runtimes that cannot load the stock one; *out
   * stays NULL: the stock one is used. Says nothing of a failure itself: the one line is ours.
   * Failure: the small model is kept. */
  int (*model_warp)(void* self, void** out);
  /* [setup] OPTIONAL. Asked once a load, before the warm-up; *move stays NULL: no move. Failure: no
   * move. */
  int (*coherent_warp)(void* self, outrider_move_output_fn* move, void** context);
  /* [hot] The small model's history back to what its warm-up leaves, in place. Stock: nothing to
   * reset. Failure: the standby may not be trusted, the link goes. */
  int (*history_reset)(void* self);
  /* [any] One structured line; `fields` is a JSON object. Stock: the log. Failure: the line is
   * lost. */
  int (*event)(void* self, const char* name, const char* fields);

  /* ---- power -------------------------------------------------------------------------------- */
  /* [any] 1: the far end is being asked; 0: nothing to ask. Never waits. Stock: the request file of
   * the owner daemon. Failure: 0. */
  int (*request_shutdown)(void* self, const char* reason);
  /* [any] 1: still being asked. Stock: the same file. Failure: 0. */
  int (*shutdown_pending)(void* self);

  /* ---- what others are told ------------------------------------------------------------------ */
  /* [any] Files only, no link I/O: asked five times a second. Stock: the state and reason of the
   * owner's record. Failure: none. */
  int (*status)(void* self, char* out, size_t out_bytes);
  int (*reason)(void* self, char* out, size_t out_bytes);
} outrider_adapter_v1;

/* [setup] All NULL, version and size set. */
OUTRIDER_API void outrider_adapter_init(outrider_adapter_v1* adapter);

/* [hot] The stock rule: 1 when somebody is, or may be, in control. NULL counts as in control. */
OUTRIDER_API int outrider_stock_in_control(const outrider_engagement_v1* now);

/* One line a check: what, 1 passed or 0 failed, and why. Valid during the call. */
typedef void (*outrider_adapter_line_fn)(void* user, const char* check, int passed,
                                         const char* detail);
/* [setup] Compares an adapter with this contract. Calls every hook that reads, with good and with
 * hostile arguments; writes no parameter, asks for no shutdown, resets nothing. Returns the number
 * of failed checks; `line` may be NULL. */
OUTRIDER_API int outrider_adapter_conform(const outrider_adapter_v1* adapter, outrider_adapter_line_fn line,
                             void* user);

#ifdef __cplusplus
}
#endif
#endif
