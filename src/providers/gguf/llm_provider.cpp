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

abi::PortRow row_of(const LlmPort& port) {
  abi::PortRow row = {port.name,
                      FRT_MODALITY_TENSOR,
                      FRT_DTYPE_I32,
                      FRT_LAYOUT_FLAT,
                      port.is_input ? FRT_PORT_IN : FRT_PORT_OUT,
                      0,
                      {-1}};
  switch (port.role) {
    case LlmRole::kImages:
      row.modality = FRT_MODALITY_IMAGE;
      row.dtype = FRT_DTYPE_U8;
      row.layout = FRT_LAYOUT_NHWC;
      row.required = 1;
      row.shape = {-1, -1, -1, 3};
      break;
    case LlmRole::kPrompt:
    case LlmRole::kText:
      row.modality = FRT_MODALITY_TEXT;
      row.dtype = FRT_DTYPE_U8;
      row.required = port.role == LlmRole::kPrompt ? 1 : 0;
      break;
    case LlmRole::kNextToken:
    case LlmRole::kIsEog:
      row.shape = {1};
      break;
    case LlmRole::kLogits:
      row.dtype = FRT_DTYPE_F32;
      break;
    case LlmRole::kTokens:
      break;
  }
  return row;
}

void add_plan(abi::MetadataBuilder& b, bool staged) {
  if (!staged) return b.stage("infer", LlmFace::kInferRef);
  const uint32_t after_reset[] = {0}, after_prefill[] = {1};
  b.stage("reset", LlmFace::kResetRef);
  b.stage("prefill", LlmFace::kPrefillRef, after_reset);
  b.stage("decode", LlmFace::kDecodeRef, after_prefill);
}

void describe(abi::MetadataBuilder& b, Published& published) {
  b.identities(published.face->identity());
  b.manifest(published.description);
  for (const LlmPort& port : published.face->ports()) b.port(row_of(port));
  add_plan(b, published.face->staged());
  b.runner(Verbs::run_stage, &published);
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
  describe(builder, *published);
  const abi::ExtensionTable extensions[] = {{OUTRIDER_EXT_STATUS, 1, &published->status},
                                            {OUTRIDER_EXT_CANCEL, 1, &published->cancel}};
  return abi::publish(builder, std::move(published), Verbs::kTable, extensions);
}

}  // namespace outrider
