#include "tandem/history.h"

#include "abi/probe.h"
#include "host/foreign.h"

namespace outrider::tandem {

const outrider_history_v1* history_of(const host::SessionCore& session) noexcept {
  const frt_model_runtime_v1& rt = session.runtime();
  if (rt.struct_size < FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE || rt.query_extension == nullptr)
    return nullptr;
  const void* table = nullptr;
  const host::ForeignCall call =
      host::call_foreign([&] { return rt.query_extension(&rt, OUTRIDER_EXT_HISTORY, 1, &table); });
  const auto* history = static_cast<const outrider_history_v1*>(table);
  if (!call.ok() || history == nullptr || history->struct_size < sizeof(outrider_history_v1) ||
      history->reset == nullptr)
    return nullptr;
  return history;
}

}  // namespace outrider::tandem
