#include "gguf/writer.h"

#include <algorithm>

#include "base/assert.h"
#include "gguf/types.h"

namespace outrider {
namespace {

constexpr uint64_t kAlignment = gguf::kDefaultAlignment;
constexpr size_t kBufferBytes = size_t{1} << 20;

uint64_t padded(uint64_t n) {
  return (n + kAlignment - 1) / kAlignment * kAlignment;
}

template <class T>
void put(std::vector<std::byte>& out, const T& value) {
  const auto* p = reinterpret_cast<const std::byte*>(&value);
  out.insert(out.end(), p, p + sizeof value);
}

void put_string(std::vector<std::byte>& out, std::string_view text) {
  put(out, uint64_t{text.size()});
  const auto bytes = std::as_bytes(std::span(text));
  out.insert(out.end(), bytes.begin(), bytes.end());
}

}  // namespace

// Buffers what goes into the file, and keeps the first failure.
class GgufWriter::Output {
 public:
  explicit Output(OutputFile& file) : file_(file) { buffer_.reserve(kBufferBytes); }
  Output(const Output&) = delete;
  Output& operator=(const Output&) = delete;

  bool failed() const { return !result_; }

  void append(std::span<const std::byte> bytes) {
    if (buffer_.size() + bytes.size() > kBufferBytes) flush();
    if (bytes.size() >= kBufferBytes) return write_out(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }

  void pad(uint64_t n_written) {
    static constexpr std::byte kZeros[kAlignment] = {};
    append({kZeros, size_t(padded(n_written) - n_written)});
  }

  Result<void> finish() {
    flush();
    OUTRIDER_TRY(result_);
    return file_.finish();
  }

 private:
  void flush() {
    write_out(buffer_);
    buffer_.clear();
  }
  void write_out(std::span<const std::byte> bytes) {
    if (result_) result_ = file_.write(bytes);
  }

  OutputFile& file_;
  std::vector<std::byte> buffer_;
  Result<void> result_;
};

int64_t GgufWriter::Tensor::n_rows() const {
  int64_t n = 1;
  for (size_t i = 1; i < ne.size(); ++i) n *= ne[i];
  return n;
}

uint64_t GgufWriter::Tensor::n_bytes() const {
  return uint64_t(n_rows()) * row_bytes(dtype, ne[0]);
}

void GgufWriter::add_key(std::string_view key, uint32_t type) {
  OUTRIDER_ASSERT(!key.empty() && key.size() <= gguf::kMaxKeyBytes);
  put_string(metadata_, key);
  put(metadata_, type);
  ++n_keys_;
}

void GgufWriter::add_u32(std::string_view key, uint32_t value) {
  add_key(key, uint32_t(GgufType::kU32));
  put(metadata_, value);
}

void GgufWriter::add_f32(std::string_view key, float value) {
  add_key(key, uint32_t(GgufType::kF32));
  put(metadata_, value);
}

void GgufWriter::add_bool(std::string_view key, bool value) {
  add_key(key, uint32_t(GgufType::kBool));
  put(metadata_, uint8_t(value));
}

void GgufWriter::add_string(std::string_view key, std::string_view value) {
  add_key(key, uint32_t(GgufType::kString));
  put_string(metadata_, value);
}

void GgufWriter::add_strings(std::string_view key, std::span<const std::string> values) {
  add_key(key, uint32_t(GgufType::kArray));
  put(metadata_, uint32_t(GgufType::kString));
  put(metadata_, uint64_t{values.size()});
  for (const std::string& value : values) put_string(metadata_, value);
}

void GgufWriter::add_f32s(std::string_view key, std::span<const float> values) {
  add_key(key, uint32_t(GgufType::kArray));
  put(metadata_, uint32_t(GgufType::kF32));
  put(metadata_, uint64_t{values.size()});
  for (const float value : values) put(metadata_, value);
}

void GgufWriter::add_i32s(std::string_view key, std::span<const int32_t> values) {
  add_key(key, uint32_t(GgufType::kArray));
  put(metadata_, uint32_t(GgufType::kI32));
  put(metadata_, uint64_t{values.size()});
  for (const int32_t value : values) put(metadata_, value);
}

void GgufWriter::add_tensor(std::string_view name, DType dtype, std::span<const int64_t> ne,
                            RowSource rows, int64_t period) {
  OUTRIDER_ASSERT(!name.empty() && name.size() <= gguf::kMaxTensorNameBytes);
  OUTRIDER_ASSERT(ne.size() >= 1 && ne.size() <= 4);
  for (const int64_t n : ne) OUTRIDER_ASSERT(n > 0);
  OUTRIDER_ASSERT(ne[0] % dtype_info(dtype).block_values == 0);
  OUTRIDER_ASSERT(period >= 0);
  tensors_.push_back({std::string(name), dtype, {ne.begin(), ne.end()}, std::move(rows), period});
}

// Everything before the data: header, metadata, tensor table, filler up to the alignment.
std::vector<std::byte> GgufWriter::head() const {
  std::vector<std::byte> out;
  for (const char c : {'G', 'G', 'U', 'F'}) put(out, c);
  put(out, uint32_t{3});
  put(out, uint64_t{tensors_.size()});
  put(out, n_keys_);
  out.insert(out.end(), metadata_.begin(), metadata_.end());
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    put_string(out, tensor.name);
    put(out, uint32_t(tensor.ne.size()));
    for (const int64_t n : tensor.ne) put(out, uint64_t(n));
    put(out, gguf::id_of(tensor.dtype));
    put(out, offset);
    offset += padded(tensor.n_bytes());
  }
  out.resize(size_t(padded(out.size())));
  return out;
}

void GgufWriter::stream(const Tensor& tensor, Output& out) {
  const int64_t n_rows = tensor.n_rows();
  const int64_t n_kept = std::clamp<int64_t>(tensor.period, 1, n_rows);
  const size_t each = row_bytes(tensor.dtype, tensor.ne[0]);
  std::vector<float> values(size_t(tensor.ne[0]));
  std::vector<std::byte> kept(size_t(n_kept) * each);
  const auto encode = [&](int64_t row, std::byte* to) {
    tensor.rows(row, values);
    quantize_row(tensor.dtype, values.data(), to, tensor.ne[0]);
  };
  if (tensor.period == 0) {
    for (int64_t row = 0; row < n_rows && !out.failed(); ++row) {
      encode(row, kept.data());
      out.append(kept);
    }
  } else {
    for (int64_t row = 0; row < n_kept; ++row) encode(row, kept.data() + size_t(row) * each);
    for (int64_t row = 0; row < n_rows && !out.failed(); row += n_kept)
      out.append(std::span(kept).first(size_t(std::min(n_kept, n_rows - row)) * each));
  }
  out.pad(tensor.n_bytes());
}

Result<OutputFile> GgufWriter::stage(const char* path) const {
  auto file = OutputFile::open(path);
  if (!file) return file.error();
  Output out(file.value());
  out.append(head());
  for (const Tensor& tensor : tensors_) {
    if (out.failed()) break;
    stream(tensor, out);
  }
  OUTRIDER_TRY(out.finish());
  return file;
}

Result<void> GgufWriter::write(const char* path) const {
  auto file = stage(path);
  if (!file) return file.error();
  return file.value().commit();
}

}  // namespace outrider
