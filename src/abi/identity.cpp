#include "abi/identity.h"

#include <cstring>

#include "abi/object.h"
#include "base/fnv.h"

namespace outrider::abi {
namespace {

// Appends one record: the parts with ':' between them, then a newline.
class Line {
 public:
  Line(std::string* out, const char* kind) : out_(out) { *out_ += kind; }
  Line& text(const char* value) {
    *out_ += ':';
    *out_ += value;
    return *this;
  }
  template <class Int>
  Line& number(Int value) {
    return text(std::to_string(value).c_str());
  }
  template <class Int>
  Line& list(const Int* values, size_t n) {
    *out_ += ':';
    for (size_t i = 0; i < n; ++i) {
      if (i > 0) *out_ += ',';
      *out_ += std::to_string(values[i]);
    }
    return *this;
  }
  void end() { *out_ += '\n'; }

 private:
  std::string* out_;
};

// Position of the port's buffer in the buffers array, or -1.
int64_t buffer_index(const Descriptors& d, frt_buffer buffer) {
  if (buffer == nullptr) return -1;
  for (size_t i = 0; i < d.buffers.size(); ++i)
    if (d.buffers[i].handle == buffer) return static_cast<int64_t>(i);
  return -1;
}

void append_port(std::string* out, const Descriptors& d, size_t index) {
  const frt_runtime_port_desc& p = d.ports[index];
  Line(out, "port")
      .number(index)
      .text(p.name)
      .number(p.modality)
      .number(p.dtype)
      .number(p.layout)
      .number(p.direction)
      .number(p.update)
      .number(p.required)
      .list(p.shape, p.rank)
      .number(buffer_index(d, p.buffer))
      .number(p.offset)
      .number(p.bytes)
      .end();
}

}  // namespace

uint64_t fingerprint(const void* data, size_t n_bytes) noexcept {
  return n_bytes == 0 ? kFnv1a64Start : fnv1a64({static_cast<const char*>(data), n_bytes});
}

std::string identity_text(const IdentityPairs& pairs, const Descriptors& d) {
  std::string out = "frt-runtime-identity-v1\n";
  for (const auto& [key, value] : pairs) {
    out += key;
    out += '=';
    out += value;
    out += '\n';
  }
  for (const auto& g : d.graphs) Line(&out, "graph").text(g.name).number(g.stream_id).end();
  for (size_t i = 0; i < d.regions.size(); ++i) {
    const auto& r = d.regions[i];
    Line(&out, "region")
        .number(i)
        .text(r.name)
        .number(r.offset)
        .number(r.bytes)
        .number(r.flags)
        .end();
  }
  for (size_t i = 0; i < d.ports.size(); ++i) append_port(&out, d, i);
  for (size_t i = 0; i < d.stages.size(); ++i) {
    const auto& s = d.stages[i];
    Line(&out, "stage").number(i).number(s.graph).list(s.after, s.n_after).end();
  }
  for (size_t i = 0; i < d.generic_stages.size(); ++i) {
    const auto& s = d.generic_stages[i];
    Line(&out, "gstage-v1")
        .number(i)
        .number(std::strlen(s.name))
        .text(s.name)
        .number(s.executor_kind)
        .number(s.executor_ref)
        .number(s.n_after)
        .list(s.after, s.n_after)
        .end();
  }
  return out;
}

}  // namespace outrider::abi
