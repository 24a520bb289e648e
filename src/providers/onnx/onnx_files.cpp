#include "providers/onnx/onnx_files.h"

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <filesystem>
#include <map>
#include <mutex>

#include "base/printable.h"
#include "base/sha256.h"
#include "kernels/cpu_ops.h"
#include "onnx/reader.h"

namespace outrider {
namespace {

// Only touched during open.
struct Shared {
  std::mutex mutex;
  std::map<std::string, std::weak_ptr<const OnnxFile>> files;
};
Shared& shared() {
  static Shared all;
  return all;
}

std::string key_of(const FileId& id, const OnnxOpenConfig& config) {
  char text[160];
  std::snprintf(text, sizeof text,
                "%" PRIx64 ":%" PRIx64 ":%" PRIu64 ":%" PRId64 ":%" PRId64 ":%d:", id.device,
                id.inode, id.size_bytes, id.mtime_ns, id.ctime_ns,
                static_cast<int>(onnx_precision(config)));
  return text + config.dims;
}

// A misspelt dimension would leave the real one without a size, or change nothing: both are told.
Result<void> check_names(const std::map<std::string, int64_t>& dims, const onnx::Model& model) {
  for (const auto& entry : dims) {
    std::string known;
    bool found = false;
    for (const onnx::Declared& input : model.graph.inputs)
      for (size_t i = 0; i < input.dims.size(); ++i) {
        if (input.dims[i].size >= 0) continue;
        const std::string& own = input.dims[i].name;
        const std::string name = own.empty() ? input.name + "." + std::to_string(i) : own;
        found = found || name == entry.first;
        if (known.find(name) == std::string::npos) known += (known.empty() ? "" : ", ") + name;
      }
    if (!found)
      return make_error(Code::kInvalid, "config: dims names \"%s\", the model has %s",
                        printable(entry.first).c_str(),
                        known.empty() ? "no open dimension" : printable(known, 200).c_str());
  }
  return {};
}

Result<std::shared_ptr<const OnnxFile>> load(const MappedFile& mapped,
                                             const OnnxOpenConfig& config) {
  const std::string folder = std::filesystem::path(config.model_path).parent_path().string();
  auto model = onnx::read_model(mapped.bytes(), config.model_path, {folder.empty() ? "." : folder});
  if (!model) return model.error();
  auto dims = parse_dims(config.dims);
  if (!dims) return dims.error();
  OUTRIDER_TRY(check_names(dims.value(), model.value()));
  auto file = std::make_shared<OnnxFile>();
  auto digest = sha256_hex(mapped.bytes());
  if (!digest) return digest.error();
  file->sha256 = digest.value();
  file->n_bytes = mapped.bytes().size();
  std::string digests;
  for (const std::string& path : model.value().external_files) {
    auto external = MappedFile::open(path.c_str());
    if (!external) return external.error();
    auto one = sha256_hex(external.value().bytes());
    if (!one) return one.error();
    digests += one.value();
  }
  if (!digests.empty()) {
    auto all = sha256_hex(std::as_bytes(std::span(digests)));
    if (!all) return all.error();
    file->external_sha256 = all.value();
  }
  file->opset = model.value().opset;
  file->n_parameters = model.value().n_parameters;
  file->producer = printable(model.value().producer);
  file->facts.metadata = std::move(model.value().metadata);
  auto ops = make_cpu_ops({.n_threads = 1});
  if (!ops) return ops.error();
  onnx::PlanOptions options;
  options.dims = dims.value();
  options.precision = onnx_precision(config);
  auto plan = onnx::Plan::make(std::move(model.value()), options, *ops.value());
  if (!plan) return plan.error();
  file->plan = plan.value();
  file->facts.inputs = shapes_of(file->plan->inputs());
  file->facts.outputs = shapes_of(file->plan->outputs());
  return std::shared_ptr<const OnnxFile>(std::move(file));
}

}  // namespace

IdentityPairs file_identity(const OnnxOpenConfig& config, const OnnxFile& file) {
  IdentityPairs pairs = {
      {"provider", "outrider"},
      {"model_family", "onnx"},
      {"model_path", config.model_path},
      {"weights_sha256", file.sha256},
  };
  if (!file.external_sha256.empty()) pairs.emplace_back("external_sha256", file.external_sha256);
  pairs.emplace_back("backend", config.backend);
  return pairs;
}

std::vector<driving::NamedShape> shapes_of(std::span<const onnx::Port> ports) {
  std::vector<driving::NamedShape> shapes;
  for (const onnx::Port& port : ports) {
    const auto dims = port.type.shape.dims();
    shapes.push_back({port.name, {dims.begin(), dims.end()}});
  }
  return shapes;
}

Result<std::shared_ptr<const OnnxFile>> open_onnx_file(const OnnxOpenConfig& config) {
  auto mapped = MappedFile::open(config.model_path.c_str());
  if (!mapped) return mapped.error();
  Shared& all = shared();
  const std::lock_guard lock(all.mutex);
  std::erase_if(all.files, [](const auto& entry) { return entry.second.expired(); });
  const std::string key = key_of(mapped.value().id(), config);
  const auto known = all.files.find(key);
  if (known != all.files.end())
    if (auto file = known->second.lock(); file && file->external_sha256.empty()) return file;
  auto made = load(mapped.value(), config);
  if (made) all.files[key] = made.value();
  return made;
}

}  // namespace outrider
