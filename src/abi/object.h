// What a finished runtime is made of: copied descriptors, one counter, the published structs.
#pragma once
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "abi/builder.h"
#include "abi/identity.h"
#include "outrider/frt_v1.h"

namespace outrider::abi {

// Descriptor arrays whose names, shapes and lists are copies kept here. Movable; the addresses that
// the descriptors carry stay the same.
struct Descriptors {
  std::vector<frt_runtime_stream_desc> streams;
  std::vector<frt_runtime_graph_desc> graphs;
  std::vector<frt_runtime_buffer_desc> buffers;
  std::vector<frt_runtime_region_desc> regions;
  std::vector<frt_runtime_port_desc> ports;
  std::vector<frt_runtime_stage_desc> stages;
  std::vector<frt_generic_stage_desc_v1> generic_stages;
  std::vector<std::unique_ptr<unsigned char[]>> blocks;

  // Copies n elements and returns the copy; NULL for none. May throw std::bad_alloc.
  template <class T>
  const T* keep(const T* values, uint64_t n) {
    static_assert(std::is_trivially_copyable_v<T> && alignof(T) <= alignof(std::max_align_t));
    if (n == 0) return nullptr;
    if (n > PTRDIFF_MAX / sizeof(T)) throw std::bad_alloc();
    blocks.push_back(std::make_unique<unsigned char[]>(n * sizeof(T)));
    std::memcpy(blocks.back().get(), values, n * sizeof(T));
    return reinterpret_cast<const T*>(blocks.back().get());
  }
  const char* keep(const char* text) { return keep(text, std::strlen(text) + 1); }
};

template <class T>
const T* data_or_null(const std::vector<T>& values) {
  return values.empty() ? nullptr : values.data();
}

// The one object behind a model or an export. `owner` of every published struct points here.
struct Object {
  frt_model_runtime_v1 model{};
  frt_runtime_export_v1 exp{};
  frt_generic_stage_plan_ext_v1 plan{};  // n_stages == 0: no plan
  std::atomic<uint64_t> references{1};

  Descriptors descriptors;
  std::string identity, manifest;
  std::vector<ExtensionTable> extensions;

  void* user_owner = nullptr;
  frt_owner_fn release_user = nullptr;
  void* base_owner = nullptr;  // what wrap and override keep alive
  frt_owner_fn release_base = nullptr;

  // Override only.
  const frt_model_runtime_v1* base = nullptr;
  frt_model_runtime_verbs user_verbs{};
  void* user_self = nullptr;
};

// Published as retain and release. The last release calls the user's callback, then gives up the
// base, then frees the memory. Any thread.
void retain_object(void* owner) noexcept;
void release_object(void* owner) noexcept;

// Published as query_extension of a runtime that was built here.
int query_own_extension(const frt_model_runtime_v1* runtime, uint64_t id, uint32_t min_version,
                        const void** out) noexcept;

// Replaces NULL verbs by stubs that answer -3.
void fill_stubs(frt_model_runtime_verbs* verbs);

// Writes the fixed fields of object->model: versions, owner, retain, release.
void publish_model(Object* object);

// Calls a user's owner callback; false when it threw.
bool call_owner(frt_owner_fn fn, void* owner) noexcept;

}  // namespace outrider::abi
