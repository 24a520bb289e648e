// The three provider faces over toy arithmetic, with one fault at a time: for the contract suite's
// own tests. model_path is "mock", or "fault:NAME" for a rule to break.
#include <dlfcn.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "abi/builder.h"
#include "abi/guard.h"
#include "base/fnv.h"
#include "base/json.h"
#include "outrider/frt_v1.h"

namespace outrider::mock {
namespace {

enum Ref : uint32_t {
  kInfer = 37,
  kContext = 4,
  kAction = 91,
  kReset = 4,
  kPrefill = 91,
  kDecode = 113
};
constexpr int kVocab = 8, kEndToken = 7;

struct Mock {
  std::string family, fault;
  bool split = true;
  int64_t n_views = 0, height = 0, width = 0, steps = 0, dim = 0, max_tokens = 0;

  // Inputs by port, with "is set".
  std::vector<std::string> input;
  std::vector<bool> is_set;
  // Policy
  bool pending = false, ready = false;
  uint64_t context_hash = 0;
  std::vector<float> actions;
  // Text
  bool session = false, text_ready = false, token_ready = false, logits_ready = false,
       by_tokens = false;
  int64_t decoded = 0;
  uint64_t seed = 0;
  int32_t token = 0, eog = 0;
  std::string text;

  std::string error;
  int ticks = 0;

  bool is(const char* name) const { return fault == name; }
  bool policy() const { return family == "pi0"; }
  int base() const { return family == "mllm" ? 1 : 0; }
  int fail(int code, const std::string& why) {
    error = is("no_error_text") ? "" : why;
    return code;
  }
};

Mock* g_shared = nullptr;  // fault "shared_state": one memory for all instances
Mock& of(void* self) {
  auto* m = static_cast<Mock*>(self);
  return m->is("shared_state") && g_shared != nullptr ? *g_shared : *m;
}

int port_count(const Mock& m) {
  if (m.policy()) return 4;
  return m.base() + (m.split ? (m.family == "llm" ? 6 : 5) : 2);
}
bool is_input(const Mock& m, uint32_t port) {
  if (m.policy()) return port < 3;
  if (port == uint32_t(m.base()) || (m.base() == 1 && port == 0)) return true;
  return m.family == "llm" && m.split && port == 5;
}

int take_images(Mock& m, const void* data, uint64_t bytes, bool fixed, std::string* out) {
  if (bytes % sizeof(frt_image_view) != 0) return m.fail(-1, "images: not a whole number of views");
  const auto* views = static_cast<const frt_image_view*>(data);
  const uint64_t n = bytes / sizeof(frt_image_view);
  if (fixed && n != uint64_t(m.n_views) && !m.is("any_view_count"))
    return m.fail(-1, "images: count");
  for (uint64_t i = 0; i < n; ++i) {
    const auto& w = views[i];
    static constexpr int kChannels[] = {3, 3, 4, 4, 1};
    if (w.struct_size < 48 || w.data == nullptr || w.width <= 0 || w.height <= 0 ||
        w.pixel_format > 4 || w.stride_bytes < 0)
      return m.fail(-1, "images: bad view");
    if (fixed && (w.height != m.height || w.width != m.width) && !m.is("any_view_size"))
      return m.fail(-1, "images: size");
    const int64_t channels = kChannels[w.pixel_format], row = int64_t(w.width) * channels;
    int64_t stride = w.stride_bytes == 0 ? row : w.stride_bytes;
    if (stride < row) return m.fail(-1, "images: stride");
    if (w.bytes < uint64_t((w.height - 1) * stride + row)) {
      if (!m.is("short_view")) return m.fail(-1, "images: bytes");
      continue;
    }
    if (m.is("ignores_stride")) stride = row;
    for (int64_t y = 0; y < w.height; ++y)
      for (int64_t x = 0; x < w.width; ++x)
        for (int c = 0; c < 3; ++c) {
          const bool swap = (w.pixel_format == 1 || w.pixel_format == 3) && !m.is("ignores_bgr");
          const int from = channels == 1 ? 0 : swap ? 2 - c : c;
          *out += static_cast<const char*>(w.data)[y * stride + x * channels + from];
        }
  }
  return 0;
}

int take(Mock& m, uint32_t port, const void* data, uint64_t bytes) {
  std::string value;
  const bool image = m.policy() ? port == 0 : (m.base() == 1 && port == 0);
  if (image) {
    if (const int code = take_images(m, data, bytes, m.policy(), &value); code != 0) return code;
  } else if (bytes > 0) {
    value.assign(static_cast<const char*>(data), bytes);
  }
  if (m.policy() && port == 1 && bytes == 0 && !m.is("empty_prompt"))
    return m.fail(-1, "prompt: empty");
  if (m.policy() && port == 2 && !m.is("torn_state")) {
    if (bytes == 0 || bytes % 4 != 0) return m.fail(-1, "state: not whole floats");
    for (uint64_t i = 0; i < bytes / 4; ++i) {
      float f;
      std::memcpy(&f, value.data() + 4 * i, 4);
      if (!std::isfinite(f) && !m.is("nan_state")) return m.fail(-1, "state: not finite");
    }
  }
  if (!m.policy() && port == 5 && bytes % 4 != 0) return m.fail(-1, "tokens: not whole");
  if (!m.policy() && port != 0 + unsigned(m.base()) && port == 5) m.by_tokens = true;
  if (!m.policy() && port == uint32_t(m.base())) m.by_tokens = m.is("tokens_stick") && m.by_tokens;
  m.input[port] = value;
  m.is_set[port] = true;
  return 0;
}

int set_input(void* self, uint32_t port, const void* data, uint64_t bytes, int) {
  return abi::guard([&] {
    Mock& m = of(self);
    if (m.is("throws") && port > 90) throw 1;
    const bool known = port < m.input.size() && is_input(m, port);
    if (!known) {
      if (m.is("any_port")) return 0;
      if (m.policy() && !m.is("keeps_chunk")) m.pending = m.ready = false;
      return m.fail(-1, "port " + std::to_string(port) + " is no input");
    }
    if (!m.is("keeps_context")) m.pending = false;
    if (!m.is("keeps_outputs")) m.ready = m.text_ready = m.token_ready = m.logits_ready = false;
    if (!m.policy()) m.session = m.session && m.is("keeps_session");
    if (!m.is("keeps_old_value")) m.is_set[port] = false;
    const int code = take(m, port, data, bytes);
    if (code == 0) m.error.clear();
    return code;
  });
}

uint64_t hash_inputs(const Mock& m) {
  uint64_t h = kFnv1a64Start;
  for (const auto& value : m.input) h = fnv1a64(value, h);
  if (m.is("random")) h += uint64_t(m.ticks);
  return h;
}

int missing(Mock& m) {
  if (m.is("needs_nothing")) return -1;
  const int n = m.policy() ? 3 : m.base() + 1;
  for (int i = 0; i < n; ++i) {
    const bool stands_in = !m.policy() && i == m.base() && m.by_tokens && m.is_set[5];
    if (!m.is_set[size_t(i)] && !stands_in) return i;
  }
  return -1;
}

int policy_run(Mock& m, uint32_t ref, bool whole) {
  static const char* kNames[] = {"images", "prompt", "state"};
  if (whole || ref == kContext) {
    ++m.ticks;
    m.ready = false;
    if (const int port = missing(m); port >= 0)
      return m.fail(-1, std::string("port ") + kNames[port] + " was never staged");
    if (m.input[2].size() / 4 > size_t(m.dim) && !m.is("wide_state"))
      return m.fail(-4, "state: too wide");
    m.context_hash = hash_inputs(m) + (whole && m.is("step_differs"));
    m.pending = true;
  }
  if (whole || ref == kAction) {
    if (!m.pending && !m.is("action_alone")) return m.fail(-7, "no pending context");
    m.pending = m.is("context_twice");
    m.actions.assign(size_t(m.steps * m.dim), 0);
    for (size_t i = 0; i < m.actions.size(); ++i)
      m.actions[i] = float((m.context_hash >> (i % 40)) & 0xff) / 256;
    if (m.is("nan_actions")) m.actions[1] = std::nanf("");
    m.ready = true;
  }
  return 0;
}

int decode(Mock& m) {
  if (!m.session && !m.is("decode_alone")) return m.fail(-1, "decode: no session");
  if (m.eog) return m.fail(-1, "decode: the text has ended");
  if (m.decoded >= m.max_tokens && !m.is("no_budget")) {
    m.token_ready = m.logits_ready = m.is("tokens_stay");
    return m.fail(-1, m.is("budget_text") ? "enough" : "decode: max_tokens used up");
  }
  m.token = int32_t((m.seed >> (3 * (m.decoded % 20))) % (m.is("no_budget") ? kEndToken : kVocab));
  ++m.decoded;
  m.eog = m.token == kEndToken;
  if (!m.eog) m.text += char('a' + m.token);
  m.text_ready = m.token_ready = true;
  m.logits_ready = !m.eog;
  return 0;
}

int text_run(Mock& m, uint32_t ref, bool whole) {
  if (whole || ref == kReset || ref == kPrefill) {
    m.session = m.token_ready = m.logits_ready = m.text_ready = false;
    m.text.clear(), m.decoded = 0, m.eog = 0;
  }
  if (whole || ref == kPrefill) {
    ++m.ticks;
    if (missing(m) >= 0)
      return m.fail(
          -1, missing(m) == m.base() ? "prompt was never staged" : "images were never staged");
    m.seed = m.by_tokens ? fnv1a64(m.input[5]) : fnv1a64(m.input[size_t(m.base())]);
    if (m.is("random")) m.seed += uint64_t(m.ticks);
    m.session = m.logits_ready = m.text_ready = true;
    if (m.is("prefill_text")) m.text = "x";
  }
  if (ref == kDecode && !whole) return decode(m);
  if (!whole) return 0;
  while (!m.eog && m.decoded < m.max_tokens) decode(m);
  m.session = m.token_ready = m.logits_ready = m.is("step_leaves_logits");
  if (m.is("step_differs")) m.text += "!";
  return 0;
}

int run_opaque(void* self, uint32_t ref) {
  return abi::guard([&] {
    Mock& m = of(self);
    const bool whole = !m.split;
    const bool known = whole ? ref == kInfer : ref == 4 || ref == 91 || (ref == 113 && !m.policy());
    if (!known)
      return m.fail(m.is("bad_ref_code") ? -1 : -2, "unknown executor " + std::to_string(ref));
    const int code = m.policy() ? policy_run(m, ref, whole) : text_run(m, ref, whole);
    if (code == 0) m.error.clear();
    return code;
  });
}

int step(void* self) {
  return abi::guard([&] {
    return of(self).policy() ? policy_run(of(self), 0, true) : text_run(of(self), 0, true);
  });
}

int give(Mock& m, const void* data, uint64_t n, void* out, uint64_t capacity, uint64_t* written) {
  if (capacity < n || (out == nullptr && n > 0)) {
    *written = m.is("no_needed_size") ? 0 : n;
    if (m.is("overruns") && out != nullptr && capacity > 0) std::memcpy(out, data, capacity + 1);
    return m.fail(m.is("small_room_code") ? -1 : -5, "too little room");
  }
  if (n > 0) std::memcpy(out, data, n);
  if (m.is("writes_past") && capacity > n) static_cast<char*>(out)[n] = 0;
  *written = m.is("wrong_written") ? n - 1 : n;
  return 0;
}

int get_output(void* self, uint32_t port, void* out, uint64_t capacity, uint64_t* written, int) {
  return abi::guard([&] {
    Mock& m = of(self);
    if (written == nullptr) return m.fail(m.is("written_null") ? -5 : -1, "written is NULL");
    if (port >= m.input.size() || is_input(m, port))
      return m.fail(m.is("reads_input") ? -2 : -1, "no output");
    if (m.policy()) {
      const uint64_t n = uint64_t(m.steps * m.dim) * 4;
      if (!m.ready && capacity >= n)
        return m.fail(m.is("ready_code") ? -8 : -7, "actions: not ready");
      return give(m, m.actions.data(), n, out, capacity, written);
    }
    const bool ready[] = {m.text_ready, m.token_ready, m.logits_ready, m.token_ready};
    const uint32_t which = port - uint32_t(m.base()) - 1;
    if (!ready[which]) return m.fail(-7, "not ready");
    float logits[kVocab] = {};
    logits[(m.seed >> (3 * (m.decoded % 20))) % kVocab] = 1;
    if (which == 0) return give(m, m.text.data(), m.text.size(), out, capacity, written);
    if (which == 1) return give(m, &m.token, 4, out, capacity, written);
    if (which == 2) return give(m, logits, sizeof logits, out, capacity, written);
    return give(m, &m.eog, 4, out, capacity, written);
  });
}

int prepare(void* self, uint32_t, uint64_t) {
  return of(self).is("prepare_ok") ? 0 : -3;
}
const char* last_error(void* self) {
  return of(self).is("null_error") ? nullptr : of(self).error.c_str();
}

void end(void* owner) {
  auto* m = static_cast<Mock*>(owner);
  if (g_shared == m) g_shared = nullptr;
  if (!m->is("leaks")) delete m;
}

// ---- configuration -----------------------------------------------------------------------------

std::vector<std::string> keys_of(const std::string& family) {
  std::vector<std::string> keys = {"model_family", "model_path", "backend"};
  if (family != "llm") keys.push_back("mmproj_path");
  for (const char* k :
       {"n_views", "image_height", "image_width", "image_channels", "action_steps", "action_dim"})
    if (family == "pi0") keys.push_back(k);
  for (const char* k : {"n_ctx", "n_threads", "temp", "top_k", "top_p", "seed", "max_tokens"})
    if (family != "pi0") keys.push_back(k);
  return keys;
}

int parse(const char* text, Mock* m) {
  auto json = Json::parse(text, Json::Dialect::kFlatOpen);
  std::string cut = text;
  if (!json && cut.find("fault:trailing") != std::string::npos) {  // reads the first object only
    cut.resize(cut.find('}') + 1);
    json = Json::parse(cut, Json::Dialect::kFlatOpen);
  }
  if (!json) return cut.find("fault:wrong_code") != std::string::npos ? -2 : -1;
  const Json& j = json.value();
  const Json* path = j.find("model_path");
  if (path != nullptr && path->is_string() && path->text().rfind("fault:", 0) == 0)
    m->fault = path->text().substr(6);
  if (m->is("everything")) return -1;
  if (j.find("model_family") == nullptr || !j.find("model_family")->is_string()) return -1;
  m->family = j.find("model_family")->text();
  if (m->family.empty()) return -1;
  if (m->family != "pi0" && m->family != "llm" && m->family != "mllm") return -3;
  const auto keys = keys_of(m->family);
  const std::set<std::string> known(keys.begin(), keys.end());
  for (const auto& member : j.members()) {
    if (!known.contains(member.name)) {
      if (!m->is("unknown_key")) return -1;
      continue;
    }
    const bool text_key = member.name.find("path") != std::string::npos ||
                          member.name == "backend" || member.name == "model_family";
    if (text_key != member.value.is_string() && !m->is("any_type")) return -1;
    if (text_key && member.value.text().empty()) return -1;
    const double low = member.name == "n_threads" || member.name == "top_k" ||
                               member.name == "temp" || member.name == "top_p"
                           ? -2147483648.0
                       : m->family == "pi0" ? 1
                                            : 0;
    const double high = member.name == "n_views" ? 3 : low < 0 ? 2147483647.0 : 4294967295.0;
    const bool real = member.name == "temp" || member.name == "top_p";
    if (!text_key && !m->is("any_range") &&
        ((!real && !member.value.is_integer()) || member.value.number() < low ||
         member.value.number() > high))
      return -1;
  }
  for (const auto& key : keys)
    if (j.find(key) == nullptr && !(m->is("missing_key") && key == "backend")) return -1;
  if (j.find("backend") != nullptr && j.find("backend")->text() != "cpu") return -3;
  if (j.find("model_path")->text() != "mock" && m->fault.empty()) return -2;
  const auto number = [&](const char* key) { return j.find(key) ? j.find(key)->integer() : 0; };
  m->n_views = number("n_views"), m->height = number("image_height"),
  m->width = number("image_width");
  m->steps = number("action_steps"), m->dim = number("action_dim");
  m->max_tokens = number("max_tokens") == 0 ? 512 : number("max_tokens");
  m->split = !m->is("unsplit");
  return 0;
}

// ---- the record --------------------------------------------------------------------------------

void add_ports(frt_runtime_builder b, const Mock& m) {
  const auto add = [&](const char* name, uint32_t modality, uint32_t dtype, uint32_t layout,
                       uint32_t dir, uint32_t required, std::vector<int64_t> shape) {
    frt_runtime_builder_add_port(b, name, modality, dtype, layout, dir, FRT_UPDATE_STAGED, required,
                                 shape.data(), uint32_t(shape.size()), 0, nullptr, 0, 0);
  };
  if (m.policy()) {
    add("images", 1, 0, 2, 0, 1, {m.n_views, m.height, m.width, 3});
    add("prompt", 2, 0, 0, 0, 1, {-1});
    add(m.is("port_name") ? "joints" : "state", 3, 1, 0, 0, 1, {-1});
    add("actions", 4, 1, 0, 1, 0, {m.steps, m.dim});
    return;
  }
  if (m.base() == 1) add("images", 1, 0, 2, 0, 1, {-1, -1, -1, 3});
  add("prompt", 2, 0, 0, 0, 1, {-1});
  add("text", 2, 0, 0, 1, 0, {-1});
  if (!m.split) return;
  add("next_token", 0, 4, 0, 1, 0, {1});
  add("logits", 0, 1, 0, 1, 0, {-1});
  add("is_eog", 0, 4, 0, 1, 0, {1});
  if (m.family == "llm") add("tokens", 0, 4, 0, 0, 0, {-1});
}

void add_plan(frt_runtime_builder b, Mock* m) {
  const uint32_t after[] = {0, 1};
  const auto add = [&](const char* name, uint32_t ref, const uint32_t* list) {
    frt_runtime_builder_add_generic_stage(b, name, 1, ref, list, list != nullptr);
  };
  if (!m->split) {
    add("infer", kInfer, nullptr);
  } else if (m->policy()) {
    add("context", kContext, nullptr), add("action", kAction, m->is("no_edges") ? nullptr : after);
  } else {
    add("reset", kReset, nullptr), add("prefill", kPrefill, after),
        add("decode", kDecode, after + 1);
  }
  frt_runtime_builder_set_generic_stage_runner(b, m, run_opaque);
}

void add_identity(frt_runtime_builder b, const Mock& m) {
  const std::string digest(64, m.is("digest") ? 'G' : 'a');
  const auto pair = [&](const char* k, const std::string& v) {
    frt_runtime_builder_add_identity(b, k, v.c_str());
  };
  pair("provider", "mock");
  if (!m.is("no_family_pair")) pair("model_family", m.family);
  pair("model_path", "mock");
  if (m.family != "llm") pair("mmproj_path", "mock");
  pair("weights_sha256", digest);
  pair("backend", "cpu");
  for (const char* k : {"n_ctx", "n_threads", "temp", "top_k", "top_p", "seed", "max_tokens"})
    if (!m.policy()) pair(k, "0");
  pair("stage_plan", "x");
}

int bad_query(const frt_model_runtime_v1*, uint64_t, uint32_t, const void**) {
  return -3;
}

// Faults that no builder would let through are made in the finished record.
void tamper(const Mock& m, frt_model_runtime_v1* r) {
  auto* exp = const_cast<frt_runtime_export_v1*>(r->exp);
  if (m.is("fingerprint")) exp->fingerprint ^= 1;
  if (m.is("identity")) exp->identity = "frt-runtime-identity-v1\n";
  if (m.is("size_128")) r->struct_size = 128;
  if (m.is("empty_array")) exp->graphs = reinterpret_cast<const frt_runtime_graph_desc*>(exp);
  if (m.is("modality")) const_cast<frt_runtime_port_desc*>(r->ports)[0].modality = 77;
  if (m.is("bad_query")) r->query_extension = bad_query;
  if (m.is("leaks_a_reference")) r->retain(r->owner);
  if (m.is("null_prepare")) r->verbs.prepare = nullptr;
  if (m.is("raw_throw")) r->verbs.step = [](void*) -> int { throw 1; };
  if (m.is("stays_loaded")) {
    Dl_info info{};
    dladdr(reinterpret_cast<void*>(&bad_query), &info);
    dlopen(info.dli_fname, RTLD_NOW);
  }
}

int open(const char* config, frt_model_runtime_v1** out) {
  if (out == nullptr) return -1;
  const bool keeps_out = config != nullptr && std::strstr(config, "fault:out_kept") != nullptr;
  if (!keeps_out) *out = nullptr;
  if (config == nullptr) return -1;
  auto m = std::make_unique<Mock>();
  if (const int code = parse(config, m.get()); code != 0) return code;
  m->input.resize(size_t(port_count(*m)));
  m->is_set.resize(m->input.size());
  frt_runtime_builder b = frt_model_runtime_builder_create_metadata();
  add_identity(b, *m), add_ports(b, *m), add_plan(b, m.get());
  const frt_model_runtime_verbs verbs{sizeof verbs, 0,    set_input, get_output,
                                      prepare,      step, last_error};
  auto* r = frt_runtime_builder_finish_model(b, &verbs, m.get(), m.get(), nullptr, end);
  if (r == nullptr) return frt_runtime_builder_finish(b, nullptr, nullptr, nullptr), -8;
  tamper(*m, r);
  if (g_shared == nullptr && m->is("shared_state")) g_shared = m.get();
  m.release();
  *out = r;
  return 0;
}

}  // namespace
}  // namespace outrider::mock

extern "C" __attribute__((visibility("default"))) int frt_model_runtime_open_v1(
    const char* config, frt_model_runtime_v1** out) {
  return outrider::abi::guard([&] { return outrider::mock::open(config, out); });
}
