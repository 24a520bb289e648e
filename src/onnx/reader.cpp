#include "onnx/reader.h"

#include <cstdarg>
#include <cstdio>
#include <filesystem>
#include <new>

#include "base/printable.h"
#include "onnx/check.h"
#include "onnx/functions.h"
#include "onnx/proto.h"

namespace outrider::onnx {
namespace {

// The versions of the container that this reader was written for; later ones add element types,
// which are refused where they are used.
constexpr int64_t kMinIr = 1, kMaxIr = 11;

// A message of two bytes becomes one of hundreds in memory: what all of them may take is bounded by
// what real files need, 16 times their bytes. Beyond it the parse ends as if memory had.
constexpr size_t kArenaFloorBytes = size_t{64} << 20, kArenaTimesFile = 16;
thread_local size_t arena_budget_bytes = 0;

void* take_block(size_t n_bytes) {
  if (n_bytes > arena_budget_bytes) throw std::bad_alloc();
  arena_budget_bytes -= n_bytes;
  if (void* block = std::malloc(n_bytes)) return block;
  throw std::bad_alloc();
}
void free_block(void* block, size_t) {
  std::free(block);
}

google::protobuf::ArenaOptions bounded_arena(size_t file_bytes) {
  arena_budget_bytes = std::max(kArenaFloorBytes, kArenaTimesFile * file_bytes);
  google::protobuf::ArenaOptions options;
  options.block_alloc = take_block;
  options.block_dealloc = free_block;
  return options;
}

Result<void> read_opsets(const ::onnx::ModelProto& proto, Model& model, const ProtoContext& c) {
  bool found = false;
  for (const auto& entry : proto.opset_import()) {
    if (!entry.domain().empty() && entry.domain() != "ai.onnx") {
      model.other_domains.emplace_back(entry.domain(), entry.version());
      continue;
    }
    if (found && entry.version() != model.opset)
      return c.damaged("the standard's opset is given twice, %lld and %lld",
                       static_cast<long long>(model.opset),
                       static_cast<long long>(entry.version()));
    model.opset = entry.version();
    found = true;
  }
  if (!found) return c.damaged("no opset of the standard domain is named");
  if (model.opset < kMinOpset || model.opset > kMaxOpset)
    return make_error(Code::kUnsupported,
                      "%s: opset %lld, this build runs %lld to %lld; export again",
                      short_path(c.file).c_str(), static_cast<long long>(model.opset),
                      static_cast<long long>(kMinOpset), static_cast<long long>(kMaxOpset));
  return {};
}

Result<Model> read_checked(std::span<const std::byte> bytes, const std::string& name,
                           const ReadOptions& options) {
  ProtoContext context;
  context.file = name;
  context.folder = options.folder;
  if (bytes.size() > kMaxFileBytes)
    return context.damaged(
        "%zu bytes, at most %zu are read; larger models keep their weights in "
        "external data",
        bytes.size(), kMaxFileBytes);
  google::protobuf::Arena arena(bounded_arena(bytes.size()));
  auto& proto = *google::protobuf::Arena::CreateMessage<::onnx::ModelProto>(&arena);
  if (bytes.empty() || !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return context.damaged("no ONNX model: cut off, damaged or of another kind");
  if (!proto.has_graph()) return context.damaged("no graph in it: no ONNX model");
  Model model;
  model.file = name;
  model.ir_version = proto.ir_version();
  model.producer = proto.producer_name();
  for (auto& entry : *proto.mutable_metadata_props())
    model.metadata.emplace_back(std::move(*entry.mutable_key()), std::move(*entry.mutable_value()));
  if (model.ir_version < kMinIr || model.ir_version > kMaxIr)
    return make_error(Code::kUnsupported, "%s: IR version %lld, this build reads %lld to %lld",
                      short_path(name).c_str(), static_cast<long long>(model.ir_version),
                      static_cast<long long>(kMinIr), static_cast<long long>(kMaxIr));
  OUTRIDER_TRY(read_opsets(proto, model, context));
  auto graph = take_graph(*proto.mutable_graph(), 0, context);
  if (!graph) return graph.error();
  model.graph = std::move(graph.value());
  auto functions = take_functions(proto, model.opset, context);
  if (!functions) return functions.error();
  OUTRIDER_TRY(inline_functions(model.graph, functions.value(), name));
  model.n_parameters = context.n_parameters;
  for (const auto& file : context.external) model.external_files.push_back(file.first);
  OUTRIDER_TRY(check_and_sort(model.graph, name));
  return model;
}

}  // namespace

Error ProtoContext::damaged(const char* format, ...) const {
  char text[400];
  va_list args;
  va_start(args, format);
  std::vsnprintf(text, sizeof text, format, args);
  va_end(args);
  return make_error(Code::kNotFound, "%s: %s", short_path(file).c_str(), text);
}

Result<Model> read_model(std::span<const std::byte> bytes, const std::string& name,
                         const ReadOptions& options) {
  try {
    return read_checked(bytes, name, options);
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "%s: no memory to read its %zu bytes",
                      short_path(name).c_str(), bytes.size());
  }
}

Result<Model> read_model_file(const std::string& path) {
  auto file = MappedFile::open(path.c_str());
  if (!file) return file.error();
  const std::filesystem::path whole(path);
  const std::string folder = whole.has_parent_path() ? whole.parent_path().string() : ".";
  return read_model(file.value().bytes(), path, {folder});
}

Result<Tensor> read_tensor(std::span<const std::byte> bytes, const std::string& name) {
  ProtoContext context;
  context.file = name;
  ::onnx::TensorProto proto;
  if (bytes.size() > kMaxFileBytes ||
      !proto.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    return context.damaged("no tensor: cut off, damaged or of another kind");
  return take_tensor(proto, "tensor", context);
}

}  // namespace outrider::onnx
