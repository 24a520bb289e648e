// What a provider publishes: structs, export, ports, identity, plan, extensions. ABI text 4 to
// 11, 21.
#include <cinttypes>
#include <cstring>
#include <set>

#include "abi/probe.h"
#include "base/fnv.h"
#include "host/conform_bench.h"

namespace outrider::host::conformance {
namespace {

void sizes(Bench& b, Verdict& v) {
  const auto& r = *b.main->get();
  if (r.struct_size < FRT_MODEL_RUNTIME_V1_QUERY_EXTENSION_SIZE)
    v.fail("struct_size %u; a provider publishes the tail: 136", r.struct_size);
  else if (r.query_extension == nullptr)
    v.fail("query_extension is NULL");
  if (r.verbs.struct_size < sizeof r.verbs)
    v.fail("verbs.struct_size %u, must be 48", r.verbs.struct_size);
}

// From here on the main instance may be called.
void adoptable(Bench& b, Verdict& v) {
  auto facts = abi::check_provider(b.main->get());
  if (!facts) return v.fail("%s", facts.error().text);
  b.sound = true;
}

void verbs_not_null(Bench& b, Verdict& v) {
  const auto& verbs = b.main->get()->verbs;
  const std::pair<const char*, bool> rows[] = {{"set_input", verbs.set_input != nullptr},
                                               {"get_output", verbs.get_output != nullptr},
                                               {"prepare", verbs.prepare != nullptr},
                                               {"step", verbs.step != nullptr},
                                               {"last_error", verbs.last_error != nullptr}};
  for (const auto& [name, is_set] : rows)
    if (!is_set)
      v.advise("verbs.%s is NULL; a host must cope, but a stub that answers -3 is safer", name);
}

void port_values(Bench& b, Verdict& v) {
  std::set<std::string_view> names;
  for (uint32_t i = 0; i < b.main->ports().size(); ++i) {
    const auto& p = b.main->ports()[i];
    if (p.modality > FRT_MODALITY_FORCE || p.dtype > FRT_DTYPE_I64 || p.layout > FRT_LAYOUT_NCHW)
      v.fail("port %u (%.96s): modality %u, dtype %u, layout %u; known are up to 7, 5, 4", i,
             p.name, p.modality, p.dtype, p.layout);
    for (uint32_t d = 0; d < p.rank; ++d)
      if (p.shape[d] < -1)
        v.fail("port %u (%.96s): dimension %u is %" PRId64 "; -1 means variable", i, p.name, d,
               p.shape[d]);
    if (p.required > 1)
      v.advise("port %u (%.96s): required %u, known are 0 and 1", i, p.name, p.required);
    if (std::strlen(p.name) > abi::kMaxIdentityNameBytes)
      v.advise("port %u: a name of %zu bytes; peers cut identity lines above 96", i,
               std::strlen(p.name));
    if (!names.insert(p.name).second) v.advise("port %u: the name %.96s is used twice", i, p.name);
  }
}

void fingerprint_is_of_identity(Bench& b, Verdict& v) {
  const auto& exp = *b.main->get()->exp;
  const uint64_t want = fnv1a64(exp.identity);
  if (exp.fingerprint != want)
    v.fail("fingerprint %016" PRIx64 ", FNV-1a of the identity text is %016" PRIx64,
           exp.fingerprint, want);
}

std::string port_line(const frt_runtime_port_desc& p, size_t index) {
  std::string line = "port:" + std::to_string(index) + ":" + p.name;
  for (uint32_t field : {p.modality, p.dtype, p.layout, p.direction, p.update, p.required})
    line += ":" + std::to_string(field);
  line += ":";
  for (uint32_t d = 0; d < p.rank; ++d) line += (d ? "," : "") + std::to_string(p.shape[d]);
  return line + ":-1:0:0";
}

std::string stage_line(const frt_generic_stage_desc_v1& s, size_t index) {
  std::string line = "gstage-v1:" + std::to_string(index) + ":" +
                     std::to_string(std::strlen(s.name)) + ":" + s.name;
  for (uint32_t field : {s.executor_kind, s.executor_ref, s.n_after})
    line += ":" + std::to_string(field);
  line += ":";
  for (uint32_t i = 0; i < s.n_after; ++i) line += (i ? "," : "") + std::to_string(s.after[i]);
  return line;
}

struct Identity {
  bool terminated = false;
  std::vector<std::string_view> lines;
};

Identity split(std::string_view text) {
  Identity id;
  while (!text.empty()) {
    const size_t end = text.find('\n');
    id.lines.push_back(text.substr(0, end));
    id.terminated = end != std::string_view::npos;
    text.remove_prefix(id.terminated ? end + 1 : text.size());
  }
  return id;
}

// The tail of the identity must be exactly what the descriptors say; what is before it are pairs.
void identity_matches_descriptors(Bench& b, Verdict& v) {
  std::vector<std::string> want;
  for (size_t i = 0; i < b.main->ports().size(); ++i)
    want.push_back(port_line(b.main->ports()[i], i));
  for (size_t i = 0; i < b.main->stages().size(); ++i)
    want.push_back(stage_line(b.main->stages()[i], i));
  const Identity id = split(b.main->get()->exp->identity);
  if (!id.terminated) return v.fail("the identity does not end in a newline");
  if (id.lines[0] != "frt-runtime-identity-v1")
    return v.fail("identity header is %.80s", std::string(id.lines[0]).c_str());
  if (id.lines.size() < 1 + want.size())
    return v.fail("identity has %zu lines, %zu ports and stages need one each", id.lines.size(),
                  want.size());
  const size_t tail = id.lines.size() - want.size();
  for (size_t i = 1; i < tail; ++i)
    if (id.lines[i].find('=') == std::string_view::npos)
      return v.fail("identity line %zu is no key=value pair: %.200s", i + 1,
                    std::string(id.lines[i]).c_str());
  for (size_t i = 0; i < want.size(); ++i)
    if (id.lines[tail + i] != want[i])
      return v.fail("identity line %zu is %.200s, the descriptor says %.200s", tail + i + 1,
                    std::string(id.lines[tail + i]).c_str(), want[i].c_str());
}

// Required producer pairs by family, in order. Digests may be absent, others may follow (text 15).
void identity_pairs(Bench& b, Verdict& v) {
  std::vector<std::string> want = {"provider", "model_family", "model_path"};
  if (b.family() != "llm") want.push_back("mmproj_path");
  want.push_back("weights_sha256");
  if (b.family() != "llm") want.push_back("mmproj_sha256");
  want.push_back("backend");
  if (b.is_text())
    for (const char* key : {"n_ctx", "n_threads", "temp", "top_k", "top_p", "seed", "max_tokens"})
      want.push_back(key);
  want.push_back("stage_plan");
  if (!b.is_policy() && !b.is_text())
    return v.skip("family %.40s has no fixed list", b.family().c_str());
  if (!b.text_key("policy_dir").empty()) return v.skip("a policy_dir chooses its own pairs");
  const Identity id = split(b.main->get()->exp->identity);
  size_t next = 0;
  for (const auto& line : id.lines) {
    const size_t cut = line.find('=');
    if (cut == std::string_view::npos) continue;
    for (size_t k = next; k < want.size(); ++k) {
      if (line.substr(0, cut) != want[k]) continue;
      for (; next < k; ++next)
        if (want[next].find("sha256") == std::string::npos)
          v.fail("identity pair %s is missing or out of order", want[next].c_str());
      ++next;
      const bool digest = want[k].find("sha256") != std::string::npos;
      const std::string_view value = line.substr(cut + 1);
      if (digest && (value.size() != 64 ||
                     value.find_first_not_of("0123456789abcdef") != std::string_view::npos))
        v.fail("identity %s is no lower-case SHA-256: %.80s", want[k].c_str(),
               std::string(value).c_str());
      break;
    }
  }
  for (; next < want.size(); ++next)
    v.fail("identity pair %s is missing or out of order", want[next].c_str());
}

void query_rules(Bench& b, Verdict& v) {
  const auto expect = [&](const char* what, uint64_t id, uint32_t version, int wanted) {
    const void* out = &v;
    const int code = b.main->query(id, version, &out);
    if (code != wanted) v.fail("query_extension: %s answered %d, must be %d", what, code, wanted);
    if (out != nullptr) v.fail("query_extension: %s did not clear *out", what);
  };
  const auto* r = b.main->get();
  if (r->query_extension == nullptr) return v.skip("query_extension is NULL");
  expect("version 0", FRT_EXT_GENERIC_STAGE_PLAN_V1, 0, FRT_ERR_INVALID);
  expect("an unknown id", UINT64_C(0x4F55FFFFFFFFFFFF), 1, FRT_ERR_UNSUPPORTED);
  expect("an unknown id", UINT64_MAX, 1, FRT_ERR_UNSUPPORTED);
  expect("id 0", 0, 1, FRT_ERR_UNSUPPORTED);
  expect("a version that does not exist", FRT_EXT_GENERIC_STAGE_PLAN_V1, UINT32_MAX,
         FRT_ERR_UNSUPPORTED);
  const void* out = &v;
  int code = b.foreign(ProviderCall::kQueryExtension,
                       [&] { return r->query_extension(nullptr, 1, 1, &out); });
  if (code != FRT_ERR_INVALID || out != nullptr)
    v.fail("query_extension: a NULL runtime answered %d%s", code,
           out ? " and did not clear *out" : "");
  code = b.main->query(FRT_EXT_GENERIC_STAGE_PLAN_V1, 1, nullptr);
  if (code != FRT_ERR_INVALID) v.fail("query_extension: a NULL out answered %d, must be -1", code);
}

void plan_is_stable(Bench& b, Verdict& v) {
  if (b.main->plan() == nullptr) return v.skip("no generic stage plan");
  for (int i = 0; i < 3; ++i) {
    const void* out = nullptr;
    const int code = b.main->query(FRT_EXT_GENERIC_STAGE_PLAN_V1, 1, &out);
    if (code != 0 || out != b.main->plan())
      return v.fail("query %d of the plan answered %d with another address", i + 2, code);
  }
}

void refs_are_not_indices(Bench& b, Verdict& v) {
  if (b.main->plan() == nullptr) return v.skip("no generic stage plan");
  for (size_t i = 0; i < b.main->stages().size(); ++i)
    if (b.main->stages()[i].executor_ref == i)
      v.advise(
          "stage %zu (%s): executor_ref equals its index; hosts that pass the index go unnoticed",
          i, b.main->stages()[i].name);
}

constexpr Check kChecks[] = {
    {"record: struct sizes and published tail", Check::kOpen, sizes},
    {"record: can be adopted as a provider", Check::kOpen, adoptable},
    {"record: no verb is NULL", Check::kOpen, verbs_not_null},
    {"record: port values are known ones", Check::kSound, port_values},
    {"identity: fingerprint is the hash of the text", Check::kSound, fingerprint_is_of_identity},
    {"identity: port and stage lines match the descriptors", Check::kSound,
     identity_matches_descriptors},
    {"identity: producer pairs of the family in order", Check::kSound, identity_pairs},
    {"extension: query_extension follows its rules", Check::kSound, query_rules},
    {"extension: the plan stays at one address", Check::kSound, plan_is_stable},
    {"plan: executor references cannot be guessed", Check::kSound, refs_are_not_indices},
};

}  // namespace

std::span<const Check> record_checks() {
  return kChecks;
}

}  // namespace outrider::host::conformance
