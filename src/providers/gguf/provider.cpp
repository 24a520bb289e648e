#include "providers/gguf/provider.h"

#include <cstring>

#include "abi/guard.h"
#include "abi/provider.h"
#include "outrider/ext/cancel.h"
#include "outrider/ext/taps.h"

namespace outrider {
namespace {

// Owns everything the ABI object refers to; freed by the last release.
struct Published {
  std::unique_ptr<PiFace> face;
  std::string description;
  outrider_taps_v1 taps{};
  outrider_status_v1 status{};
  outrider_cancel_v1 cancel{};
};

PiFace& face_of(void* self) {
  return *static_cast<Published*>(self)->face;
}

using Verbs = abi::ModelVerbs<face_of>;

// ---- taps extension -----------------------------------------------------------------------------

int taps_enable(void* self, int on) {
  return abi::guard([&]() -> int {
    face_of(self).engine().enable_taps(on != 0);
    return FRT_OK;
  });
}
uint64_t taps_count(void* self) {
  const TapRecorder* taps = face_of(self).engine().taps();
  return taps == nullptr ? 0 : taps->taps().size();
}
const char* taps_name(void* self, uint64_t index) {
  const TapRecorder* taps = face_of(self).engine().taps();
  if (taps == nullptr || index >= taps->taps().size()) return nullptr;
  return std::next(taps->taps().begin(), static_cast<int64_t>(index))->first.c_str();
}
int taps_read(void* self, const char* name, float* out, uint64_t capacity, uint64_t* n_values,
              int64_t shape[4], uint32_t* rank) {
  if (name == nullptr || n_values == nullptr || shape == nullptr || rank == nullptr)
    return FRT_ERR_INVALID;
  return abi::guard([&]() -> int {
    const TapRecorder* taps = face_of(self).engine().taps();
    if (taps == nullptr || taps->taps().empty()) return FRT_ERR_NOT_READY;
    const auto found = taps->taps().find(name);
    if (found == taps->taps().end()) return FRT_ERR_NOT_FOUND;
    const Tap& tap = found->second;
    *n_values = tap.values.size();
    *rank = tap.rank;
    std::copy(tap.shape.begin(), tap.shape.end(), shape);
    if (out == nullptr || capacity < tap.values.size()) return FRT_ERR_STORAGE;
    std::copy(tap.values.begin(), tap.values.end(), out);
    return FRT_OK;
  });
}

// ---- status extension ---------------------------------------------------------------------------

uint64_t status_read(void* self, outrider_counter_v1* out, uint64_t capacity) {
  const PiCounters& c = face_of(self).engine().counters();
  const abi::Counter rows[] = {{"runs", &c.runs},
                               {"failed_runs", &c.failed_runs},
                               {"refused_inputs", &c.refused_inputs},
                               {"nonfinite_outputs", &c.nonfinite_outputs},
                               {"padded_states", &c.padded_states},
                               {"resized_views", &c.resized_views},
                               {"computed_views", &c.computed_views},
                               {"reused_views", &c.reused_views},
                               {"reused_prefixes", &c.reused_prefixes},
                               {"warm_ups", &c.warm_ups},
                               {"ns_images", &c.ns_images},
                               {"ns_context", &c.ns_context},
                               {"ns_action", &c.ns_action},
                               {"prefix_tokens", &c.prefix_tokens},
                               {"masked_views", &c.masked_views},
                               {"outside_states", &c.outside_states},
                               {"cut_prompts", &c.cut_prompts},
                               {"default_prompts", &c.default_prompts},
                               {"guided_runs", &c.guided_runs},
                               {"cancelled_runs", &c.cancelled_runs},
                               {"black_views", &c.black_views},
                               {"answer_tokens", &c.answer_tokens},
                               {"undecodable_answers", &c.undecodable_answers}};
  return abi::read_counters(rows, out, capacity);
}
const char* status_describe(void* self) {
  return static_cast<Published*>(self)->description.c_str();
}

void cancel_set(void* self, int on) {
  face_of(self).engine().cancel(on != 0);
}

// ---- descriptors --------------------------------------------------------------------------------

void describe(abi::MetadataBuilder& b, Published& published) {
  b.identities(published.face->identity());
  b.manifest(published.description);
  for (const PiFace::Port& port : published.face->ports())
    b.port({port.name, port.modality, port.dtype, port.layout, port.direction, port.required,
            port.shape});
  const uint32_t after_context[] = {0};
  b.stage("context", PiFace::kContextRef);
  b.stage("action", PiFace::kActionRef, after_context);
  b.runner(Verbs::run_stage, &published);
}

}  // namespace

Result<frt_model_runtime_v1*> publish_pi_face(std::unique_ptr<PiFace> face) {
  auto published = std::make_unique<Published>();
  published->face = std::move(face);
  published->description = published->face->describe();
  published->taps = {
      1, sizeof(outrider_taps_v1), published.get(), taps_enable, taps_count, taps_name, taps_read};
  published->status = {1, sizeof(outrider_status_v1), published.get(), status_read,
                       status_describe};
  published->cancel = {1, sizeof(outrider_cancel_v1), published.get(), cancel_set};
  abi::MetadataBuilder builder;
  describe(builder, *published);
  const abi::ExtensionTable extensions[] = {{OUTRIDER_EXT_TAPS, 1, &published->taps},
                                            {OUTRIDER_EXT_STATUS, 1, &published->status},
                                            {OUTRIDER_EXT_CANCEL, 1, &published->cancel}};
  return abi::publish(builder, std::move(published), Verbs::kTable, extensions);
}

}  // namespace outrider
