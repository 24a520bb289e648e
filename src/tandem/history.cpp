#include "tandem/history.h"

#include "abi/probe.h"
#include "host/foreign.h"

namespace outrider::tandem {
namespace {

constexpr const char* kResetStage = "reset";
constexpr int kExercises = 3;

// nullptr when the runtime offers none, or one that is too short to be used.
const outrider_history_v1* table_of(const host::SessionCore& session) noexcept {
  const auto* table =
      static_cast<const outrider_history_v1*>(extension_of(session, OUTRIDER_EXT_HISTORY, 1));
  const bool usable = table != nullptr && table->struct_size >= sizeof(outrider_history_v1) &&
                      table->reset != nullptr;
  return usable ? table : nullptr;
}

}  // namespace

const void* extension_of(const host::SessionCore& session, uint64_t id,
                         uint32_t revision) noexcept {
  const frt_model_runtime_v1& rt = session.runtime();
  if (rt.struct_size < FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE || rt.query_extension == nullptr)
    return nullptr;
  const void* table = nullptr;
  const host::ForeignCall call =
      host::call_foreign([&] { return rt.query_extension(&rt, id, revision, &table); });
  return call.ok() ? table : nullptr;
}

Result<History> History::of(host::SessionCore& session) {
  History history;
  history.table_ = table_of(session);
  const int stage = session.find_stage(kResetStage);
  // A plan of nothing but a reset has no tick to run without it.
  if (stage >= 0 && session.order().size() > 1) history.reset_stage_ = stage;
  for (int i = 0; i < kExercises; ++i)
    if (const int code = history.reset(session); code != FRT_OK)
      return make_error(
          static_cast<Code>(code), "its history cannot be reset: %s",
          history.table_ != nullptr ? code_name(static_cast<Code>(code)) : session.error());
  return history;
}

int History::tick(host::SessionCore& session) const noexcept {
  if (reset_stage_ < 0) return session.tick();
  for (uint64_t stage = 0; stage < session.order().size(); ++stage)
    if (static_cast<int>(stage) != reset_stage_)
      if (const int code = session.run_stage(stage); code != FRT_OK) return code;
  return FRT_OK;
}

int History::reset(host::SessionCore& session) const noexcept {
  if (table_ != nullptr) {
    const host::ForeignCall call = host::call_foreign([&] { return table_->reset(table_->self); });
    return call.threw || call.code > 0 ? FRT_ERR_FAILED : call.code;
  }
  return reset_stage_ < 0 ? FRT_OK : session.run_stage(static_cast<uint64_t>(reset_stage_));
}

}  // namespace outrider::tandem
