#include "abi/provider.h"

#include <dlfcn.h>

#include <cstdio>
#include <new>
#include <string>

#include "base/env.h"

namespace outrider::abi {
namespace {

std::string names_of(std::span<const Family> families) {
  std::string names;
  for (const Family& family : families)
    names += (names.empty() ? "\"" : " and \"") + std::string(family.name) + "\"";
  return names;
}

Result<frt_model_runtime_v1*> open_family(const char* config_json,
                                          std::span<const Family> families) {
  if (config_json == nullptr)
    return make_error(Code::kInvalid, "config: NULL, wanted a JSON object");
  auto json = Json::parse(config_json, Json::Dialect::kFlatOpen);
  if (!json) return json.error();
  const Json* name = json.value().find("model_family");
  if (name == nullptr || !name->is_string() || name->text().empty())
    return make_error(
        Code::kInvalid,
        "config: key \"model_family\" is missing, empty or no string; this provider has %s",
        names_of(families).c_str());
  for (const Family& family : families)
    if (name->text() == family.name) return family.open(json.value());
  return make_error(Code::kUnsupported, "config: model_family is \"%.80s\", this provider has %s",
                    name->text().c_str(), names_of(families).c_str());
}

int refuse(const Error& error) noexcept {
  using Sink = void (*)(const char*);
  if (auto* sink = reinterpret_cast<Sink>(dlsym(RTLD_DEFAULT, "outrider_open_reason_sink")))
    sink(error.text);
  if (env_open_errors_to_stderr())
    std::fprintf(stderr, "outrider: open failed (%d): %s\n", to_abi(error.code), error.text);
  return to_abi(error.code);
}

}  // namespace

int open_provider(const char* config_json, frt_model_runtime_v1** out,
                  std::span<const Family> families) noexcept {
  if (out == nullptr) return FRT_ERR_INVALID;
  *out = nullptr;
  try {
    auto opened = open_family(config_json, families);
    if (!opened) return refuse(opened.error());
    *out = opened.value();
    return FRT_OK;
  } catch (const std::bad_alloc&) {
    return refuse(make_error(Code::kNoMemory, "open: out of memory"));
  } catch (...) {
    return refuse(make_error(Code::kFailed, "open: an unexpected exception"));
  }
}

void MetadataBuilder::identity(const char* key, const std::string& value) {
  ok_ = ok_ && frt_runtime_builder_add_identity(handle_, key, value.c_str()) == 0;
}

void MetadataBuilder::manifest(const std::string& json) {
  ok_ = ok_ && frt_runtime_builder_set_manifest(handle_, json.c_str()) == 0;
}

void MetadataBuilder::port(const PortRow& row) {
  ok_ = ok_ && frt_runtime_builder_add_port(
                   handle_, row.name.c_str(), row.modality, row.dtype, row.layout, row.direction,
                   FRT_UPDATE_STAGED, row.required, row.shape.data(),
                   static_cast<uint32_t>(row.shape.size()), 0, nullptr, 0, 0) == 0;
}

void MetadataBuilder::port_like(const frt_runtime_port_desc& other) {
  ok_ = ok_ &&
        frt_runtime_builder_add_port(handle_, other.name, other.modality, other.dtype, other.layout,
                                     other.direction, other.update, other.required, other.shape,
                                     other.rank, other.cadence_hint_hz, nullptr, 0, 0) == 0;
}

void MetadataBuilder::stage(const char* name, uint32_t executor_ref,
                            std::span<const uint32_t> after) {
  ok_ = ok_ && frt_runtime_builder_add_generic_stage(handle_, name, FRT_EXECUTOR_OPAQUE,
                                                     executor_ref, after.data(),
                                                     static_cast<uint32_t>(after.size())) == 0;
}

void MetadataBuilder::runner(int (*run_stage)(void* self, uint32_t executor_ref), void* self) {
  ok_ = ok_ && frt_runtime_builder_set_generic_stage_runner(handle_, self, run_stage) == 0;
}

Error MetadataBuilder::refusal(Code code, const char* who) const {
  if (handle_ == nullptr) return make_error(Code::kNoMemory, "%s: out of memory", who);
  return make_error(code, "%s: %s", who, builder_error(handle_));
}

uint64_t read_counters(std::span<const Counter> rows, outrider_counter_v1* out,
                       uint64_t capacity) noexcept {
  for (size_t i = 0; out != nullptr && i < rows.size() && i < capacity; ++i)
    out[i] = {rows[i].name, rows[i].value->load(std::memory_order_relaxed)};
  return rows.size();
}

}  // namespace outrider::abi
