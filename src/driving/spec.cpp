#include "driving/spec.h"

#include <algorithm>
#include <array>

#include "base/printable.h"
#include "base/utf8.h"
#include "driving/slices.h"

namespace outrider::driving {
namespace {

template <class List>
auto find_in(const List& list, std::string_view name) -> decltype(list.data()) {
  const auto at = std::ranges::find_if(list, [&](const auto& entry) { return entry.name == name; });
  return at == list.end() ? nullptr : &*at;
}

std::string dims_text(const std::vector<int64_t>& dims) {
  std::string text = "(";
  for (size_t i = 0; i < dims.size() && i < 8; ++i)
    text += (i > 0 ? ", " : "") + std::to_string(dims[i]);
  return text + (dims.size() > 8 ? ", ...)" : ")");
}

// Product of dims [first, end), or -1 beyond what one port may have.
int64_t product(const std::vector<int64_t>& dims, size_t first = 0) {
  int64_t n = 1;
  for (size_t i = first; i < dims.size(); ++i)
    if (dims[i] < 0 || __builtin_mul_overflow(n, dims[i], &n) ||
        n > kMaxPortBytes / static_cast<int64_t>(sizeof(float)))
      return -1;
  return n;
}

bool is_name(const std::string& name) {
  return !name.empty() && name.size() <= 96 &&
         std::ranges::all_of(name, [](char c) { return c > ' ' && c <= '~'; });
}

Error bad_input(const char* name, const std::vector<int64_t>& dims, const char* wanted) {
  return make_error(Code::kNotFound, "driving: input %s is %s, allowed is %s", name,
                    dims_text(dims).c_str(), wanted);
}

class Reader {
 public:
  Reader(const GraphFacts& facts, Spec& spec) : facts_(facts), s_(spec) {}

  Result<void> run() {
    s_.layout = find_in(facts_.inputs, "new_img") ? Layout::kStateful : Layout::kQueued;
    OUTRIDER_TRY(check_ports());
    OUTRIDER_TRY(s_.layout == Layout::kQueued ? queued() : stateful());
    OUTRIDER_TRY(scalar("traffic_convention", s_.n_traffic));
    OUTRIDER_TRY(scalar("action_t", s_.n_action));
    OUTRIDER_TRY(output());
    OUTRIDER_TRY(metadata());
    return limits();
  }

 private:
  Result<const NamedShape*> need(const char* name) const {
    if (const NamedShape* port = s_.find_input(name)) return port;
    return make_error(Code::kNotFound,
                      "driving: the graph has no input \"%s\", which a %s driving graph needs; "
                      "driving \"off\" opens it as a plain graph",
                      name, s_.layout == Layout::kQueued ? "queued" : "stateful");
  }

  // Every port: a name once, and a size that a product of its dimensions can have.
  Result<void> check_ports() const {
    for (const auto* list : {&s_.inputs, &s_.outputs}) {
      if (list->size() > kMaxPorts)
        return make_error(Code::kShape, "driving: %zu ports, allowed %zu", list->size(), kMaxPorts);
      for (const NamedShape& port : *list)
        if (!is_name(port.name))
          return make_error(Code::kNotFound,
                            "driving: the port name \"%s\", allowed are 1..96 printable letters",
                            printable(port.name).c_str());
        else if (find_in(*list, port.name) != &port)
          return make_error(Code::kNotFound, "driving: port \"%s\" occurs twice",
                            printable(port.name).c_str());
        else if (product(port.dims) < 0)
          return make_error(Code::kShape, "driving: port %s is %s, allowed are %lld bytes as f32",
                            printable(port.name).c_str(), dims_text(port.dims).c_str(),
                            static_cast<long long>(kMaxPortBytes));
    }
    return {};
  }

  Result<void> queued() {
    const auto img = need("img");
    if (!img) return img.error();
    const auto& d = img.value()->dims;
    if (d.size() != 4 || d[0] != 1 || d[1] < kPlanes || d[1] % kPlanes != 0 || d[2] < 1 || d[3] < 1)
      return bad_input("img", d, "(1, 6n, H, W)");
    s_.n_frames = d[1] / kPlanes;
    s_.height = d[2];
    s_.width = d[3];
    const auto wide = need("big_img");
    if (!wide) return wide.error();
    if (wide.value()->dims != d)
      return bad_input("big_img", wide.value()->dims, ("that of img, " + dims_text(d)).c_str());
    const auto features = need("features_buffer");
    if (!features) return features.error();
    const auto& f = features.value()->dims;
    if (f.size() < 3 || f[0] != 1 || f[1] < 1 || product(f, 2) < 1)
      return bad_input("features_buffer", f, "(1, n, ...)");
    s_.n_feature_rows = f[1];
    s_.feature_floats = product(f, 2);
    const auto desire = need("desire_pulse");
    if (!desire) return desire.error();
    const auto& p = desire.value()->dims;
    if (p.size() != 3 || p[0] != 1 || p[1] < 1 || p[2] < 1)
      return bad_input("desire_pulse", p, "(1, n, m)");
    s_.n_desire_rows = p[1];
    s_.n_desire = p[2];
    return {};
  }

  Result<void> stateful() {
    const auto img = need("new_img");
    if (!img) return img.error();
    const auto& d = img.value()->dims;
    if (d.size() != 4 || d[0] != kViews || d[1] != kPlanes || d[2] < 1 || d[3] < 1)
      return bad_input("new_img", d, "(2, 6, H, W)");
    s_.height = d[2];
    s_.width = d[3];
    return scalar("desire", s_.n_desire);
  }

  Result<void> scalar(const char* name, int64_t& n) {
    const auto port = need(name);
    if (!port) return port.error();
    n = product(port.value()->dims);
    if (n < 1) return bad_input(name, port.value()->dims, "one value or more");
    return {};
  }

  Result<void> output() {
    const NamedShape* port = s_.find_output("outputs");
    if (port == nullptr)
      return make_error(Code::kNotFound, "driving: the graph has no output \"outputs\"");
    s_.n_outputs = product(port->dims);
    if (s_.n_outputs < 1)
      return make_error(Code::kNotFound,
                        "driving: output outputs is %s, allowed is a value or more",
                        dims_text(port->dims).c_str());
    return {};
  }

  Result<const std::string*> entry(const char* key) const {
    const std::string* found = nullptr;
    for (const auto& [name, value] : facts_.metadata) {
      if (name != key) continue;
      if (found != nullptr)
        return make_error(Code::kNotFound, "driving: metadata \"%s\" is given twice", key);
      found = &value;
    }
    return found;
  }

  Result<void> metadata() {
    const auto checkpoint = entry(kCheckpointKey);
    if (!checkpoint) return checkpoint.error();
    if (checkpoint.value() != nullptr) {
      constexpr size_t kMost = 256;
      if (checkpoint.value()->size() > kMost)
        return make_error(Code::kNotFound, "driving: metadata %s has %zu bytes, allowed %zu",
                          kCheckpointKey, checkpoint.value()->size(), kMost);
      if (!utf8_valid(*checkpoint.value()))
        return make_error(Code::kNotFound, "driving: metadata %s is no UTF-8 text", kCheckpointKey);
      s_.has_checkpoint = true;
      s_.checkpoint = *checkpoint.value();
    }
    const auto text = entry(kSlicesKey);
    if (!text) return text.error();
    if (text.value() == nullptr)
      return make_error(
          Code::kNotFound,
          "driving: the model has no metadata \"%s\", so no head can be found; export "
          "it with its metadata, or open it with driving \"off\"",
          kSlicesKey);
    auto raw = decode_slices(*text.value());
    if (!raw) return raw.error();
    for (const auto& [name, slice] : raw.value()) OUTRIDER_TRY(add_slice(name, slice));
    return {};
  }

  // The hidden range is what Python makes of it; any other must lie inside as it was written.
  Result<void> add_slice(const std::string& name, const RawSlice& slice) {
    const auto range = resolve_slice(slice, s_.n_outputs);
    if (!range)
      return make_error(Code::kNotFound, "driving: slice %s: %s", name.c_str(), range.error().text);
    const auto outside = [&](const std::optional<int64_t>& at) {
      return at && (*at > s_.n_outputs || *at < -s_.n_outputs);
    };
    const bool hidden = name == "hidden_state";
    if (!hidden && (outside(slice.start) || outside(slice.stop) || range.value().size() < 1))
      return make_error(Code::kNotFound,
                        "driving: slice %s is [%s, %s), allowed is a part of [0, %lld) that is not "
                        "empty",
                        name.c_str(), slice.start ? std::to_string(*slice.start).c_str() : "",
                        slice.stop ? std::to_string(*slice.stop).c_str() : "",
                        static_cast<long long>(s_.n_outputs));
    if (hidden) s_.hidden = range.value();
    s_.slices.push_back({name, range.value()});
    return {};
  }

  Result<void> limits() const {
    if (s_.layout == Layout::kQueued && s_.hidden.size() > 0 &&
        s_.hidden.size() != s_.feature_floats)
      return make_error(
          Code::kShape, "driving: hidden_state has %lld values, a row of features_buffer has %lld",
          static_cast<long long>(s_.hidden.size()), static_cast<long long>(s_.feature_floats));
    // Rows of a queue are below kMaxFrameSkip times a port's, so these products cannot overflow.
    int64_t bytes = s_.frames_bytes();
    if (s_.layout == Layout::kQueued)
      bytes = kViews * s_.image_ring_rows() * s_.view_bytes() +
              2 * s_.feature_ring_rows() * s_.feature_floats +
              2 * s_.desire_ring_rows() * s_.n_desire;
    if (bytes > kMaxHistoryBytes)
      return make_error(Code::kShape, "driving: the queues would take %lld bytes, allowed %lld",
                        static_cast<long long>(bytes), static_cast<long long>(kMaxHistoryBytes));
    return {};
  }

  const GraphFacts& facts_;
  Spec& s_;
};

}  // namespace

const NamedShape* Spec::find_input(std::string_view name) const {
  return find_in(inputs, name);
}
const NamedShape* Spec::find_output(std::string_view name) const {
  return find_in(outputs, name);
}
const Range* Spec::find_slice(std::string_view name) const {
  const NamedRange* found = find_in(slices, name);
  return found == nullptr ? nullptr : &found->range;
}

bool looks_like_driving(const GraphFacts& facts) {
  const bool images =
      find_in(facts.inputs, "new_img") != nullptr ||
      (find_in(facts.inputs, "img") != nullptr && find_in(facts.inputs, "big_img") != nullptr);
  return images && find_in(facts.outputs, "outputs") != nullptr &&
         std::ranges::any_of(facts.metadata, [](const auto& e) { return e.first == kSlicesKey; });
}

Result<Spec> read_spec(const GraphFacts& facts, int64_t frame_skip) {
  if (frame_skip < 1 || frame_skip > kMaxFrameSkip)
    return make_error(Code::kInvalid, "driving: frame_skip is %lld, allowed is 1..%lld",
                      static_cast<long long>(frame_skip), static_cast<long long>(kMaxFrameSkip));
  Spec spec;
  spec.frame_skip = frame_skip;
  spec.inputs = facts.inputs;
  spec.outputs = facts.outputs;
  OUTRIDER_TRY(Reader(facts, spec).run());
  return spec;
}

}  // namespace outrider::driving
