#include "cli/stored_config.h"

#include "base/input_file.h"
#include "gguf/gguf.h"
#include "models/pi_gguf.h"
#include "onnx/reader.h"
#include "policy/gguf_policy.h"

namespace outrider::cli {
namespace {

bool is_gguf(const std::string& path) {
  return read_file_begin(path, 4) == "GGUF";
}

std::unique_ptr<link::ModelSource> provider_of(Resolved resolved) {
  return std::make_unique<link::ProviderSource>(std::move(resolved.provider_path),
                                                std::move(resolved.json));
}

// A PI0 policy needs the vision file it was pushed with; a text model stands alone.
Result<std::unique_ptr<link::ModelSource>> weights_of(const store::Lease& lease, Wish own) {
  const store::EntryInfo& info = lease.info();
  auto file = GgufFile::open(lease.path().c_str());
  if (!file) return file.error();
  // A policy with both halves in one file stands alone too.
  const bool is_policy = is_pi_policy(file.value()) && !is_pi_vision(file.value());
  const std::string* vision = nullptr;
  for (const store::Lease& companion : lease.companions())
    if (companion.info().role == store::Role::kProjector) vision = &companion.path();
  if (is_policy && vision == nullptr)
    return make_error(Code::kInvalid,
                      "store: %.16s (%s) was pushed without its vision file; `outrider link push` "
                      "brings both",
                      info.sha256.c_str(), shown(info.name, 80).c_str());
  if (!is_policy || has_policy(file.value()))
    own.n_views.reset();  // --views of the host is for others
  if (is_policy) own.set.emplace_back("mmproj_path", *vision);
  auto resolved = resolve(lease.path(), own);
  if (!resolved) return resolved.error();
  return provider_of(std::move(resolved.value()));
}

// What the file is, its bytes say: the name it was pushed under is a label.
Result<std::unique_ptr<link::ModelSource>> graph_of(const store::Lease& lease, Wish own) {
  own.n_views.reset();  // --views of the host is for policies
  const store::EntryInfo& info = lease.info();
  auto model = onnx::read_model_file(lease.path());
  if (!model)
    return make_error(Code::kUnsupported,
                      "store: %.16s (%s) is no model file that this build runs; it runs GGUF "
                      "models and ONNX graphs (%.200s)",
                      info.sha256.c_str(), shown(info.name, 80).c_str(), model.error().text);
  auto resolved = resolve_onnx(lease.path(), own);
  if (!resolved) return resolved.error();
  return provider_of(std::move(resolved.value()));
}

}  // namespace

Result<std::unique_ptr<link::ModelSource>> source_of(const store::Lease& lease, const Wish& wish) {
  Wish own = wish;
  std::erase_if(own.set, [](const auto& entry) {
    return entry.first == "model_path" || entry.first == "mmproj_path";
  });
  return is_gguf(lease.path()) ? weights_of(lease, std::move(own))
                               : graph_of(lease, std::move(own));
}

}  // namespace outrider::cli
