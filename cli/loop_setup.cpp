#include "cli/loop_setup.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/npy.h"
#include "cli/output.h"
#include "cli/request.h"
#include "cli/session.h"

namespace outrider::cli {
namespace {

Result<std::vector<float>> numbers_of(const std::string& text) {
  if (!text.ends_with(".npy")) return parse_csv(text);
  auto array = read_npy(text);
  if (!array) return array.error();
  if (array.value().type != "f4")
    return make_error(Code::kInvalid, "--safe: %s holds %s, wanted f4", text.c_str(),
                      array.value().type.c_str());
  std::vector<float> values(array.value().n_values());
  std::memcpy(values.data(), array.value().bytes.data(), values.size() * sizeof(float));
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      return make_error(Code::kInvalid, "--safe: value %zu of %s is not finite", i, text.c_str());
  return values;
}

}  // namespace

Result<std::vector<std::byte>> safe_action(const std::string& text, const loop::Payload& outputs) {
  std::vector<std::byte> payload(outputs.bytes);
  if (text == "zero") return payload;
  auto numbers = numbers_of(text);
  if (!numbers) return numbers.error();
  const loop::Slot& main = outputs.slots.front();
  if (!main.is_f32())
    return make_error(Code::kInvalid,
                      "--safe: output %.80s is %s; numbers are for f32 outputs, use zero",
                      main.name.c_str(), port_dtype_name(main.dtype));
  const size_t n = main.bytes / sizeof(float);
  std::vector<float> values = std::move(numbers.value());
  if (values.size() == 1) values.assign(n, values[0]);
  if (values.size() != n)
    return make_error(Code::kShape,
                      "--safe: %zu numbers, output %.80s %s has %zu; give all, or one for all",
                      values.size(), main.name.c_str(), shape_text(main.shape).c_str(), n);
  std::memcpy(payload.data() + main.offset, values.data(), main.bytes);
  return payload;
}

Result<bool> take_engaged(const std::string& who, bool made_up, const Session& session,
                          loop::PayloadWish& wish) {
  if (who.empty()) return !made_up;
  if (who != "yes" && who != "no" && who != "observed")
    return make_error(Code::kInvalid, "--engaged is \"%.80s\", allowed are yes, no, observed",
                      who.c_str());
  if (session.find("engaged") == nullptr)
    return make_error(Code::kInvalid,
                      "--engaged: this runtime has no input engaged; only a tandem asks whether "
                      "somebody acts on its output");
  if (std::ranges::count(wish.inputs, "engaged") > 0)
    return make_error(Code::kInvalid, "--engaged and --port engaged: leave one of them out");
  if (who == "observed") wish.inputs.emplace_back("engaged");
  return who == "yes";
}

std::vector<std::byte> sample_observation(const loop::Payload& inputs) {
  std::vector<std::byte> payload(inputs.bytes);
  for (const loop::Slot& slot : inputs.slots) {
    std::byte* to = payload.data() + slot.offset;
    if (slot.modality == FRT_MODALITY_IMAGE) {
      for (uint64_t i = 0; i < slot.bytes; ++i)
        to[i] = static_cast<std::byte>(i * 2654435761u >> 24);
    } else if (slot.is_f32()) {
      for (uint64_t i = 0; i < slot.bytes / sizeof(float); ++i) {
        const float value = static_cast<float>(static_cast<int>(i * 37 % 101) - 50) * 0.02f;
        std::memcpy(to + i * sizeof value, &value, sizeof value);
      }
    }
  }
  return payload;
}

std::string payload_text(const loop::Payload& payload) {
  std::string text = std::to_string(payload.bytes) + " bytes:";
  for (const loop::Slot& slot : payload.slots)
    text += fmt::format("{} {} {} {}", &slot == payload.slots.data() ? "" : ",", slot.name,
                        port_dtype_name(slot.dtype), shape_text(slot.shape));
  return text;
}

}  // namespace outrider::cli
