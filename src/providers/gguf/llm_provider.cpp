#include "providers/gguf/llm_provider.h"

#include "abi/provider.h"
#include "outrider/ext/cancel.h"

namespace outrider {
namespace {

// Owns everything the ABI object refers to; freed by the last release.
struct Published {
  std::unique_ptr<LlmFace> face;
  std::string description;
  outrider_status_v1 status{};
  outrider_cancel_v1 cancel{};
};

LlmFace& face_of(void* self) {
  return *static_cast<Published*>(self)->face;
}

using Verbs = abi::ModelVerbs<face_of>;

// ---- extensions ---------------------------------------------------------------------------------

uint64_t status_read(void* self, outrider_counter_v1* out, uint64_t capacity) {
  const LlmCounters& c = face_of(self).session().counters();
  const abi::Counter rows[] = {{"runs", &c.runs},
                               {"failed_runs", &c.failed_runs},
                               {"refused_inputs", &c.refused_inputs},
                               {"nonfinite_outputs", &c.nonfinite_outputs},
                               {"cancelled_runs", &c.cancelled_runs},
                               {"prompt_tokens", &c.prompt_tokens},
                               {"reused_tokens", &c.reused_tokens},
                               {"evaluated_tokens", &c.evaluated_tokens},
                               {"sampled_tokens", &c.sampled_tokens},
                               {"eog_ends", &c.eog_ends},
                               {"length_ends", &c.length_ends},
                               {"doubled_bos", &c.doubled_bos},
                               {"dropped_characters", &c.dropped_characters},
                               {"warm_ups", &c.warm_ups},
                               {"ns_prefill", &c.ns_prefill},
                               {"ns_decode", &c.ns_decode},
                               {"resized_pictures", &c.resized_pictures},
                               {"encoded_frames", &c.encoded_frames},
                               {"picture_tokens", &c.picture_tokens},
                               {"fused_pictures", &c.fused_pictures},
                               {"ns_pictures", &c.ns_pictures}};
  const bool sees = face_of(self).session().open_config().sees();
  constexpr size_t kOfPictures = 5;  // the last rows
  return abi::read_counters(std::span(rows).first(std::size(rows) - (sees ? 0 : kOfPictures)), out,
                            capacity);
}
const char* status_describe(void* self) {
  return static_cast<Published*>(self)->description.c_str();
}
void cancel_set(void* self, int on) {
  face_of(self).session().cancel(on != 0);
}

// ---- descriptors --------------------------------------------------------------------------------

struct Shape {
  uint32_t modality, dtype, layout, required;
  std::vector<int64_t> sizes;
};

Shape shape_of(LlmRole role) {
  const auto tensor = [](uint32_t dtype, int64_t n) {
    return Shape{FRT_MODALITY_TENSOR, dtype, FRT_LAYOUT_FLAT, 0, {n}};
  };
  switch (role) {
    case LlmRole::kImages:
      return {FRT_MODALITY_IMAGE, FRT_DTYPE_U8, FRT_LAYOUT_NHWC, 1, {-1, -1, -1, 3}};
    case LlmRole::kPrompt:
      return {FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, 1, {-1}};
    case LlmRole::kText:
      return {FRT_MODALITY_TEXT, FRT_DTYPE_U8, FRT_LAYOUT_FLAT, 0, {-1}};
    case LlmRole::kNextToken:
    case LlmRole::kIsEog:
      return tensor(FRT_DTYPE_I32, 1);
    case LlmRole::kLogits:
      return tensor(FRT_DTYPE_F32, -1);
    case LlmRole::kTokens:
      break;
  }
  return tensor(FRT_DTYPE_I32, -1);
}

bool add_plan(frt_runtime_builder b, bool staged) {
  const auto add = [b](const char* name, uint32_t ref, const uint32_t* after) {
    return frt_runtime_builder_add_generic_stage(b, name, FRT_EXECUTOR_OPAQUE, ref, after,
                                                 after == nullptr ? 0 : 1) == 0;
  };
  if (!staged) return add("infer", LlmFace::kInferRef, nullptr);
  const uint32_t after_reset[] = {0}, after_prefill[] = {1};
  return add("reset", LlmFace::kResetRef, nullptr) &&
         add("prefill", LlmFace::kPrefillRef, after_reset) &&
         add("decode", LlmFace::kDecodeRef, after_prefill);
}

bool describe(frt_runtime_builder b, Published& published) {
  const bool staged = published.face->staged();
  bool ok = b != nullptr;
  for (const auto& [key, value] : published.face->identity())
    ok = ok && frt_runtime_builder_add_identity(b, key.c_str(), value.c_str()) == 0;
  ok = ok && frt_runtime_builder_set_manifest(b, published.description.c_str()) == 0;
  for (const LlmPort& port : published.face->ports()) {
    const Shape shape = shape_of(port.role);
    ok = ok && frt_runtime_builder_add_port(b, port.name, shape.modality, shape.dtype, shape.layout,
                                            port.is_input ? FRT_PORT_IN : FRT_PORT_OUT,
                                            FRT_UPDATE_STAGED, shape.required, shape.sizes.data(),
                                            static_cast<uint32_t>(shape.sizes.size()), 0, nullptr,
                                            0, 0) == 0;
  }
  return ok && add_plan(b, staged) &&
         frt_runtime_builder_set_generic_stage_runner(b, &published, Verbs::run_stage) == 0;
}

}  // namespace

Result<frt_model_runtime_v1*> publish_llm_face(std::unique_ptr<LlmFace> face) {
  auto published = std::make_unique<Published>();
  published->face = std::move(face);
  published->description = published->face->session().describe();
  published->status = {1, sizeof(outrider_status_v1), published.get(), status_read,
                       status_describe};
  published->cancel = {1, sizeof(outrider_cancel_v1), published.get(), cancel_set};
  abi::MetadataBuilder builder;
  if (!describe(builder.get(), *published))
    return make_error(Code::kNoMemory, "open: the runtime description was refused: %s",
                      abi::builder_error(builder.get()));
  const abi::ExtensionTable extensions[] = {{OUTRIDER_EXT_STATUS, 1, &published->status},
                                            {OUTRIDER_EXT_CANCEL, 1, &published->cancel}};
  return abi::publish(builder, std::move(published), Verbs::kTable, extensions);
}

}  // namespace outrider
