/* Model-runtime ABI v1: the binary contract between a host and anything that can be ticked.
 *
 * C11. Layouts are those of LP64 Linux and are frozen; every one is checked below at compile time.
 * Rules a reader must know (the full text: docs/reference/abi.md):
 *   - A consumer reads abi_version and struct_size first and accepts abi_version == 1 with
 *     struct_size >= 128; query_extension exists only when struct_size >= 136 and it is not NULL.
 *   - open returns 0 and one owned reference in *out, or a negative code and *out == NULL.
 *   - retain/release take `owner` and may be called from any thread; every other verb of one
 * instance is serialised by the host. Release the runtime before dlclose.
 *   - Strings, arrays and extension tables stay valid while a reference is held; last_error stays
 *     valid until the next verb on that instance.
 */
#ifndef OUTRIDER_FRT_V1_H_
#define OUTRIDER_FRT_V1_H_

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FRT_RUNTIME_ABI_VERSION 1u
#define FRT_MODEL_RUNTIME_ABI_VERSION 1u
#define FRT_GENERIC_STAGE_PLAN_ABI_VERSION 1u
#define FRT_EXT_GENERIC_STAGE_PLAN_V1 UINT64_C(0x1)
#define FRT_GENERIC_STAGE_NAME_MAX_BYTES 255u
#define FRT_MODEL_RUNTIME_V1_BASE_SIZE 128u
#define FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE 136u
#define FRT_GENERIC_STAGE_PLAN_EXT_V1_SIZE 40u
#define FRT_MODEL_RUNTIME_OPEN_SYMBOL "frt_model_runtime_open_v1"
#define FRT_RUNTIME_OPEN_SYMBOL "frt_runtime_open_v1"

/* Status codes of every verb, of run_opaque and of open. A peer may answer any other negative
 * number
 * (-127 is in use for "unclassified"): a host treats it as a failure. */
enum {
  FRT_OK = 0,
  FRT_ERR_INVALID = -1,     /* argument, order, configuration */
  FRT_ERR_NOT_FOUND = -2,   /* file, model, executor */
  FRT_ERR_UNSUPPORTED = -3, /* also every stub verb and an unknown extension */
  FRT_ERR_SHAPE = -4,
  FRT_ERR_STORAGE = -5, /* get_output storage too small; out of memory in open */
  FRT_ERR_BACKEND = -6,
  FRT_ERR_NOT_READY = -7,
  FRT_ERR_FAILED = -8
};

enum {
  FRT_MODALITY_TENSOR,
  FRT_MODALITY_IMAGE,
  FRT_MODALITY_TEXT,
  FRT_MODALITY_STATE,
  FRT_MODALITY_ACTION,
  FRT_MODALITY_AUDIO,
  FRT_MODALITY_DEPTH,
  FRT_MODALITY_FORCE
};
enum { FRT_DTYPE_U8, FRT_DTYPE_F32, FRT_DTYPE_F16, FRT_DTYPE_BF16, FRT_DTYPE_I32, FRT_DTYPE_I64 };
enum { FRT_LAYOUT_FLAT, FRT_LAYOUT_HWC, FRT_LAYOUT_NHWC, FRT_LAYOUT_CHW, FRT_LAYOUT_NCHW };
enum { FRT_PIXEL_RGB8, FRT_PIXEL_BGR8, FRT_PIXEL_RGBA8, FRT_PIXEL_BGRA8, FRT_PIXEL_GRAY8 };
enum { FRT_PORT_IN, FRT_PORT_OUT };
enum { FRT_UPDATE_SWAP, FRT_UPDATE_STAGED, FRT_UPDATE_SETUP };
enum { FRT_EXECUTOR_GRAPH, FRT_EXECUTOR_OPAQUE };
enum { FRT_BUFFER_INPUT = 1, FRT_BUFFER_OUTPUT = 2, FRT_BUFFER_STATE = 4, FRT_BUFFER_SCRATCH = 8 };
enum { FRT_REGION_SNAPSHOT = 1, FRT_REGION_RESTORE = 2 };

typedef struct frt_ctx_s* frt_ctx;
typedef struct frt_buffer_s* frt_buffer;
typedef struct frt_graph_s* frt_graph;
typedef struct frt_plan_s* frt_plan;
typedef struct frt_event_s* frt_event;
typedef uint64_t frt_shape_key;

typedef struct frt_runtime_stream_desc {
  const char* name;
  int stream_id;
  int priority; /* 0 normal, more negative is more urgent */
  void* native_handle;
} frt_runtime_stream_desc;

typedef struct frt_runtime_graph_desc {
  const char* name;
  frt_graph handle;
  frt_shape_key default_key;
  const frt_shape_key* keys;
  uint64_t n_keys;
  int stream_id;
} frt_runtime_graph_desc;

typedef struct frt_runtime_buffer_desc {
  const char* name;
  frt_buffer handle;
  uint64_t bytes;
  uint32_t role;
  uint32_t reserved;
} frt_runtime_buffer_desc;

typedef struct frt_runtime_region_desc {
  const char* name;
  frt_buffer buffer;
  uint64_t offset;
  uint64_t bytes;
  uint32_t flags;
  uint32_t reserved;
} frt_runtime_region_desc;

typedef struct frt_runtime_export_v1 {
  uint32_t abi_version;
  uint32_t struct_size;
  frt_ctx ctx; /* NULL: metadata only */
  const frt_runtime_stream_desc* streams;
  uint64_t n_streams;
  const frt_runtime_graph_desc* graphs;
  uint64_t n_graphs;
  const frt_runtime_buffer_desc* buffers;
  uint64_t n_buffers;
  const frt_runtime_region_desc* capsule_regions;
  uint64_t n_capsule_regions;
  uint64_t fingerprint;
  const char* identity;
  const char* manifest_json;
  void* owner;
  void (*retain)(void* owner);
  void (*release)(void* owner);
} frt_runtime_export_v1;

typedef struct frt_image_view {
  uint32_t struct_size;
  uint32_t pixel_format;
  const void* data;
  uint64_t bytes;
  int32_t width;
  int32_t height;
  int32_t stride_bytes; /* 0: tightly packed */
  uint32_t reserved;
  uint64_t timestamp_ns;
} frt_image_view;

typedef struct frt_runtime_port_desc {
  const char* name;
  uint32_t modality;
  uint32_t dtype;
  uint32_t layout;
  uint32_t direction;
  uint32_t update;
  uint32_t required;
  const int64_t* shape; /* -1: variable */
  uint32_t rank;
  uint32_t cadence_hint_hz;
  frt_buffer buffer;
  uint64_t offset;
  uint64_t bytes;
} frt_runtime_port_desc;

typedef struct frt_runtime_stage_desc {
  uint32_t graph;
  uint32_t n_after;
  const uint32_t* after;
} frt_runtime_stage_desc;

typedef struct frt_generic_stage_desc_v1 { /* stride 32 for ever */
  const char* name;
  uint32_t executor_kind;
  uint32_t executor_ref;
  uint32_t n_after;
  uint32_t reserved;
  const uint32_t* after;
} frt_generic_stage_desc_v1;

typedef struct frt_generic_stage_plan_ext_v1 {
  uint32_t abi_version;
  uint32_t struct_size;
  const frt_generic_stage_desc_v1* stages;
  uint64_t n_stages;
  void* stage_self;
  int (*run_opaque)(void* stage_self, uint32_t executor_ref);
} frt_generic_stage_plan_ext_v1;

typedef struct frt_model_runtime_verbs { /* may never grow */
  uint32_t struct_size;
  uint32_t reserved;
  int (*set_input)(void* self, uint32_t port, const void* data, uint64_t bytes, int stream);
  int (*get_output)(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written,
                    int stream);
  int (*prepare)(void* self, uint32_t graph, uint64_t key);
  int (*step)(void* self);
  const char* (*last_error)(void* self);
} frt_model_runtime_verbs;

typedef struct frt_model_runtime_v1 frt_model_runtime_v1;
struct frt_model_runtime_v1 {
  uint32_t abi_version;
  uint32_t struct_size;
  const frt_runtime_export_v1* exp;
  const frt_runtime_port_desc* ports;
  uint64_t n_ports;
  const frt_runtime_stage_desc* stages;
  uint64_t n_stages;
  void* self;
  frt_model_runtime_verbs verbs;
  void* owner;
  void (*retain)(void* owner);
  void (*release)(void* owner);
  int (*query_extension)(const frt_model_runtime_v1* runtime, uint64_t id, uint32_t min_version,
                         const void** out);
};

/* Types of the two factory symbols. *out is cleared before anything else is looked at. */
typedef int (*frt_model_runtime_open_v1_fn)(const char* config_json, frt_model_runtime_v1** out);
typedef int (*frt_runtime_open_v1_fn)(const char* config_json, frt_runtime_export_v1** out);

/* ---- producers --------------------------------------------------------------------------------
 */

typedef struct frt_runtime_builder_s* frt_runtime_builder;
typedef void (*frt_owner_fn)(void* owner);

/* Every add/set returns 0 or -1; names and arrays are copied, handles are borrowed. */
frt_runtime_builder frt_runtime_builder_create(frt_ctx ctx);
frt_runtime_builder frt_model_runtime_builder_create_metadata(void);
int frt_runtime_builder_add_stream(frt_runtime_builder b, const char* name, int stream_id,
                                   int priority, void* native_handle);
int frt_runtime_builder_add_graph(frt_runtime_builder b, const char* name, frt_graph graph,
                                  uint64_t default_key, const uint64_t* keys, uint64_t n_keys,
                                  int stream_id);
int frt_runtime_builder_add_buffer(frt_runtime_builder b, const char* name, frt_buffer buffer,
                                   uint64_t bytes, uint32_t role);
int frt_runtime_builder_add_region(frt_runtime_builder b, const char* name, frt_buffer buffer,
                                   uint64_t offset, uint64_t bytes, uint32_t flags);
int frt_runtime_builder_add_identity(frt_runtime_builder b, const char* key, const char* value);
int frt_runtime_builder_set_manifest(frt_runtime_builder b, const char* json);
int frt_runtime_builder_add_port(frt_runtime_builder b, const char* name, uint32_t modality,
                                 uint32_t dtype, uint32_t layout, uint32_t direction,
                                 uint32_t update, uint32_t required, const int64_t* shape,
                                 uint32_t rank, uint32_t cadence_hint_hz, frt_buffer buffer,
                                 uint64_t offset, uint64_t bytes);
int frt_runtime_builder_add_stage(frt_runtime_builder b, uint32_t graph, const uint32_t* after,
                                  uint32_t n_after);
int frt_runtime_builder_add_generic_stage(frt_runtime_builder b, const char* name, uint32_t kind,
                                          uint32_t ref, const uint32_t* after, uint32_t n_after);
int frt_runtime_builder_set_generic_stage_runner(frt_runtime_builder b, void* stage_self,
                                                 int (*run_opaque)(void* stage_self, uint32_t ref));
/* A metadata builder gives NULL here and is freed: the way to discard one. */
frt_runtime_export_v1* frt_runtime_builder_finish(frt_runtime_builder b, void* owner,
                                                  frt_owner_fn retain_owner,
                                                  frt_owner_fn release_owner);
/* NULL on a broken contract; the builder is then kept. Success consumes the builder. */
frt_model_runtime_v1* frt_runtime_builder_finish_model(frt_runtime_builder b,
                                                       const frt_model_runtime_verbs* verbs,
                                                       void* verbs_self, void* owner,
                                                       frt_owner_fn retain_owner,
                                                       frt_owner_fn release_owner);
uint64_t frt_runtime_fingerprint(const void* data, size_t len);
frt_model_runtime_v1* frt_model_runtime_wrap(const frt_runtime_export_v1* exp,
                                             const frt_runtime_port_desc* ports, uint64_t n_ports,
                                             const frt_runtime_stage_desc* stages,
                                             uint64_t n_stages,
                                             const frt_model_runtime_verbs* verbs, void* self,
                                             void* wrapper_owner, frt_owner_fn wrapper_release);
frt_model_runtime_v1* frt_model_runtime_override_verbs(const frt_model_runtime_v1* base,
                                                       const frt_model_runtime_verbs* verbs,
                                                       void* self, void* owner,
                                                       frt_owner_fn retain_owner,
                                                       frt_owner_fn release_owner);

#ifdef __cplusplus
}
#define FRT_STATIC_ASSERT(cond) static_assert(cond, #cond)
#else
#define FRT_STATIC_ASSERT(cond) _Static_assert(cond, #cond)
#endif

/* clang-format off */
#define FRT_AT(type, field, offset) FRT_STATIC_ASSERT(offsetof(type, field) == offset)
FRT_STATIC_ASSERT(sizeof(void*) == 8);

FRT_STATIC_ASSERT(sizeof(frt_runtime_stream_desc) == 24);
FRT_AT(frt_runtime_stream_desc, name, 0);
FRT_AT(frt_runtime_stream_desc, stream_id, 8);
FRT_AT(frt_runtime_stream_desc, priority, 12);
FRT_AT(frt_runtime_stream_desc, native_handle, 16);

FRT_STATIC_ASSERT(sizeof(frt_runtime_graph_desc) == 48);
FRT_AT(frt_runtime_graph_desc, name, 0);
FRT_AT(frt_runtime_graph_desc, handle, 8);
FRT_AT(frt_runtime_graph_desc, default_key, 16);
FRT_AT(frt_runtime_graph_desc, keys, 24);
FRT_AT(frt_runtime_graph_desc, n_keys, 32);
FRT_AT(frt_runtime_graph_desc, stream_id, 40);

FRT_STATIC_ASSERT(sizeof(frt_runtime_buffer_desc) == 32);
FRT_AT(frt_runtime_buffer_desc, name, 0);
FRT_AT(frt_runtime_buffer_desc, handle, 8);
FRT_AT(frt_runtime_buffer_desc, bytes, 16);
FRT_AT(frt_runtime_buffer_desc, role, 24);
FRT_AT(frt_runtime_buffer_desc, reserved, 28);

FRT_STATIC_ASSERT(sizeof(frt_runtime_region_desc) == 40);
FRT_AT(frt_runtime_region_desc, name, 0);
FRT_AT(frt_runtime_region_desc, buffer, 8);
FRT_AT(frt_runtime_region_desc, offset, 16);
FRT_AT(frt_runtime_region_desc, bytes, 24);
FRT_AT(frt_runtime_region_desc, flags, 32);
FRT_AT(frt_runtime_region_desc, reserved, 36);

FRT_STATIC_ASSERT(sizeof(frt_runtime_export_v1) == 128);
FRT_AT(frt_runtime_export_v1, abi_version, 0);
FRT_AT(frt_runtime_export_v1, struct_size, 4);
FRT_AT(frt_runtime_export_v1, ctx, 8);
FRT_AT(frt_runtime_export_v1, streams, 16);
FRT_AT(frt_runtime_export_v1, n_streams, 24);
FRT_AT(frt_runtime_export_v1, graphs, 32);
FRT_AT(frt_runtime_export_v1, n_graphs, 40);
FRT_AT(frt_runtime_export_v1, buffers, 48);
FRT_AT(frt_runtime_export_v1, n_buffers, 56);
FRT_AT(frt_runtime_export_v1, capsule_regions, 64);
FRT_AT(frt_runtime_export_v1, n_capsule_regions, 72);
FRT_AT(frt_runtime_export_v1, fingerprint, 80);
FRT_AT(frt_runtime_export_v1, identity, 88);
FRT_AT(frt_runtime_export_v1, manifest_json, 96);
FRT_AT(frt_runtime_export_v1, owner, 104);
FRT_AT(frt_runtime_export_v1, retain, 112);
FRT_AT(frt_runtime_export_v1, release, 120);

FRT_STATIC_ASSERT(sizeof(frt_image_view) == 48);
FRT_AT(frt_image_view, struct_size, 0);
FRT_AT(frt_image_view, pixel_format, 4);
FRT_AT(frt_image_view, data, 8);
FRT_AT(frt_image_view, bytes, 16);
FRT_AT(frt_image_view, width, 24);
FRT_AT(frt_image_view, height, 28);
FRT_AT(frt_image_view, stride_bytes, 32);
FRT_AT(frt_image_view, reserved, 36);
FRT_AT(frt_image_view, timestamp_ns, 40);

FRT_STATIC_ASSERT(sizeof(frt_runtime_port_desc) == 72);
FRT_AT(frt_runtime_port_desc, name, 0);
FRT_AT(frt_runtime_port_desc, modality, 8);
FRT_AT(frt_runtime_port_desc, dtype, 12);
FRT_AT(frt_runtime_port_desc, layout, 16);
FRT_AT(frt_runtime_port_desc, direction, 20);
FRT_AT(frt_runtime_port_desc, update, 24);
FRT_AT(frt_runtime_port_desc, required, 28);
FRT_AT(frt_runtime_port_desc, shape, 32);
FRT_AT(frt_runtime_port_desc, rank, 40);
FRT_AT(frt_runtime_port_desc, cadence_hint_hz, 44);
FRT_AT(frt_runtime_port_desc, buffer, 48);
FRT_AT(frt_runtime_port_desc, offset, 56);
FRT_AT(frt_runtime_port_desc, bytes, 64);

FRT_STATIC_ASSERT(sizeof(frt_runtime_stage_desc) == 16);
FRT_AT(frt_runtime_stage_desc, graph, 0);
FRT_AT(frt_runtime_stage_desc, n_after, 4);
FRT_AT(frt_runtime_stage_desc, after, 8);

FRT_STATIC_ASSERT(sizeof(frt_generic_stage_desc_v1) == 32);
FRT_AT(frt_generic_stage_desc_v1, name, 0);
FRT_AT(frt_generic_stage_desc_v1, executor_kind, 8);
FRT_AT(frt_generic_stage_desc_v1, executor_ref, 12);
FRT_AT(frt_generic_stage_desc_v1, n_after, 16);
FRT_AT(frt_generic_stage_desc_v1, reserved, 20);
FRT_AT(frt_generic_stage_desc_v1, after, 24);

FRT_STATIC_ASSERT(sizeof(frt_generic_stage_plan_ext_v1) == FRT_GENERIC_STAGE_PLAN_EXT_V1_SIZE);
FRT_AT(frt_generic_stage_plan_ext_v1, abi_version, 0);
FRT_AT(frt_generic_stage_plan_ext_v1, struct_size, 4);
FRT_AT(frt_generic_stage_plan_ext_v1, stages, 8);
FRT_AT(frt_generic_stage_plan_ext_v1, n_stages, 16);
FRT_AT(frt_generic_stage_plan_ext_v1, stage_self, 24);
FRT_AT(frt_generic_stage_plan_ext_v1, run_opaque, 32);

FRT_STATIC_ASSERT(sizeof(frt_model_runtime_verbs) == 48);
FRT_AT(frt_model_runtime_verbs, struct_size, 0);
FRT_AT(frt_model_runtime_verbs, reserved, 4);
FRT_AT(frt_model_runtime_verbs, set_input, 8);
FRT_AT(frt_model_runtime_verbs, get_output, 16);
FRT_AT(frt_model_runtime_verbs, prepare, 24);
FRT_AT(frt_model_runtime_verbs, step, 32);
FRT_AT(frt_model_runtime_verbs, last_error, 40);

FRT_STATIC_ASSERT(sizeof(frt_model_runtime_v1) == FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE);
FRT_AT(frt_model_runtime_v1, abi_version, 0);
FRT_AT(frt_model_runtime_v1, struct_size, 4);
FRT_AT(frt_model_runtime_v1, exp, 8);
FRT_AT(frt_model_runtime_v1, ports, 16);
FRT_AT(frt_model_runtime_v1, n_ports, 24);
FRT_AT(frt_model_runtime_v1, stages, 32);
FRT_AT(frt_model_runtime_v1, n_stages, 40);
FRT_AT(frt_model_runtime_v1, self, 48);
FRT_AT(frt_model_runtime_v1, verbs, 56);
FRT_AT(frt_model_runtime_v1, owner, 104);
FRT_AT(frt_model_runtime_v1, retain, 112);
FRT_AT(frt_model_runtime_v1, release, 120);
FRT_AT(frt_model_runtime_v1, query_extension, FRT_MODEL_RUNTIME_V1_BASE_SIZE);
#undef FRT_AT
/* clang-format on */

#endif /* OUTRIDER_FRT_V1_H_ */
