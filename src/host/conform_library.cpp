// The shared object itself, and how open treats its arguments. ABI text 1 and 16.
#include <dlfcn.h>

#include <cstring>

#include "host/conform_bench.h"
#include "host/conform_elf.h"

namespace outrider::host::conformance {
namespace {

void loads(Bench& b, Verdict& v) {
  if (b.open_fn() != nullptr) return;
  void* handle = nullptr;
  std::string why;
  b.load(b.path(), &handle, &why);
  b.unload(handle);
  v.fail("%.600s: %.300s", b.path().c_str(), why.c_str());
}

std::optional<ElfFacts> facts_of(Bench& b, Verdict& v) {
  auto facts = read_elf(b.path().c_str());
  if (facts) return std::move(facts.value());
  if (facts.code() == Code::kNotFound)
    v.skip("%.600s: found by the loader under another path", b.path().c_str());
  else
    v.fail("%s", facts.error().text);
  return std::nullopt;
}

void exports_one_symbol(Bench& b, Verdict& v) {
  const auto facts = facts_of(b, v);
  if (!facts) return;
  bool found = false;
  for (const auto& name : facts->exports) {
    if (name == FRT_MODEL_RUNTIME_OPEN_SYMBOL)
      found = true;
    else
      v.fail("exports %.120s (%zu symbols in all); only " FRT_MODEL_RUNTIME_OPEN_SYMBOL
             " may be visible: use a version script",
             name.c_str(), facts->exports.size());
  }
  if (!found) v.fail("does not export " FRT_MODEL_RUNTIME_OPEN_SYMBOL);
  if (facts->version_nodes.size() > 1)
    v.fail("%zu absolute symbols, first %.120s; one version node is allowed",
           facts->version_nodes.size(), facts->version_nodes[0].c_str());
}

void version_node(Bench& b, Verdict& v) {
  const auto facts = facts_of(b, v);
  if (!facts) return;
  if (facts->version_nodes.empty()) return v.advise("no version node");
  constexpr const char* kPrefix = "FLASHRT_LLAMA_CPP_PROVIDER_";
  if (facts->version_nodes[0].rfind(kPrefix, 0) != 0)
    v.advise("version node %.120s; a FlashRT export audit accepts only %s...",
             facts->version_nodes[0].c_str(), kPrefix);
}

void run_path(Bench& b, Verdict& v) {
  const auto facts = facts_of(b, v);
  if (facts && !facts->run_path.empty() && facts->run_path != "$ORIGIN")
    v.advise("run path %.200s; an installed provider has $ORIGIN or none", facts->run_path.c_str());
}

void open_refuses_null_out(Bench& b, Verdict& v) {
  const int code =
      b.foreign(ProviderCall::kOpen, [&] { return b.open_fn()(b.config().c_str(), nullptr); });
  if (code != FRT_ERR_INVALID) v.fail("open(config, NULL) answered %d, must be -1", code);
}

// `what` must be refused with *out cleared. Gives back what came out anyhow.
void expect_refused(Bench& b, Verdict& v, const char* what, const char* config, int wanted) {
  const auto opened = b.try_open(config);
  if (opened.code == 0) {
    v.fail("%s was accepted", what);
    if (opened.runtime != nullptr) Instance(&b, opened.runtime).release();
    return;
  }
  if (wanted != 0 && opened.code != wanted)
    v.fail("%s answered %d, must be %d", what, opened.code, wanted);
  if (!opened.touched)
    v.fail("%s answered %d and left *out as it was; it must be NULL", what, opened.code);
  if (opened.runtime != nullptr) v.fail("%s answered %d beside a runtime", what, opened.code);
  if (opened.code > 0) v.advise("%s answered %d; failures are negative", what, opened.code);
}

void open_refuses_null_config(Bench& b, Verdict& v) {
  expect_refused(b, v, "open(NULL, &out)", nullptr, FRT_ERR_INVALID);
}

void open_refuses_no_object(Bench& b, Verdict& v) {
  for (const char* text : {"", " ", "{", "nonsense", "[]", "7", "\"text\"", "null"})
    expect_refused(b, v, text[0] == 0 ? "an empty configuration" : text, text, 0);
}

void opens(Bench& b, Verdict& v) {
  b.main = b.open(v);
}

constexpr Check kChecks[] = {
    {"library: loads and has the factory symbol", Check::kNothing, loads},
    {"library: exports nothing but the factory", Check::kNothing, exports_one_symbol},
    {"library: version node suits the peers' audit", Check::kNothing, version_node},
    {"library: run path is $ORIGIN or empty", Check::kNothing, run_path},
    {"open: refuses a NULL out", Check::kLibrary, open_refuses_null_out},
    {"open: refuses a NULL configuration and clears out", Check::kLibrary,
     open_refuses_null_config},
    {"open: refuses what is no JSON object", Check::kLibrary, open_refuses_no_object},
    {"open: accepts the given configuration", Check::kLibrary, opens},
};

}  // namespace

std::span<const Check> library_checks() {
  return kChecks;
}

}  // namespace outrider::host::conformance
