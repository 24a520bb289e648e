#include "models/pi_weights_key.h"

#include <array>
#include <span>

#include "base/block_sum.h"
#include "base/sha256.h"

namespace outrider {
namespace {

// Sums of all parts, one after the other, in one digest.
class Keys {
 public:
  void add(const std::vector<float>& values) { put(0, values.size(), 1, bytes_of(values)); }
  void add(const Matrix& m) {
    const size_t n =
        m.data == nullptr ? 0 : row_bytes(m.dtype, m.n_in) * static_cast<size_t>(m.n_out);
    put(1 + static_cast<uint64_t>(m.dtype), static_cast<uint64_t>(m.n_out),
        static_cast<uint64_t>(m.n_in), {static_cast<const std::byte*>(m.data), n});
  }
  void add(const LinearRef& linear) {
    add(linear.w);
    add(linear.bias);
  }
  void add(const NormRef& norm) {
    add(norm.weight);
    add(norm.bias);
  }
  void add(const GemmaNormRef& norm) {
    add(norm.scale);
    add(norm.dense);
  }
  void add(const GemmaLayerRef& layer) {
    add(layer.norm1);
    add(layer.norm2);
    for (const Matrix* m :
         {&layer.q, &layer.k, &layer.v, &layer.o, &layer.gate, &layer.up, &layer.down})
      add(*m);
  }
  void add(const VisionLayerRef& layer) {
    add(layer.ln1);
    add(layer.ln2);
    for (const LinearRef* l : {&layer.q, &layer.k, &layer.v, &layer.out, &layer.fc1, &layer.fc2})
      add(*l);
  }
  Result<std::string> hex() const { return sha_.hex(); }

 private:
  static std::span<const std::byte> bytes_of(const std::vector<float>& values) {
    return std::as_bytes(std::span(values));
  }
  void put(uint64_t kind, uint64_t a, uint64_t b, std::span<const std::byte> bytes) {
    const std::array<uint64_t, 4> facts = {kind, a, b, block_sum(bytes)};
    sha_.add(std::as_bytes(std::span(facts)));
  }
  Sha256 sha_;
};

}  // namespace

Result<std::string> pi_weights_key(const PiWeights& w) {
  Keys keys;
  for (const LinearRef* l : {&w.patch, &w.projector, &w.action_in, &w.action_out, &w.state,
                             &w.action_time_in, &w.action_time_out, &w.time_in, &w.time_out})
    keys.add(*l);
  keys.add(w.position);
  keys.add(w.post_ln);
  keys.add(w.embed);
  keys.add(w.expert_norm);
  if (w.config.is_fast()) keys.add(w.backbone_norm);
  if (w.config.own_head) keys.add(w.head);
  for (const VisionLayerRef& layer : w.vision) keys.add(layer);
  for (const auto* layers : {&w.backbone, &w.expert})
    for (const GemmaLayerRef& layer : *layers) keys.add(layer);
  return keys.hex();
}

}  // namespace outrider
