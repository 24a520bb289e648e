// A model file with one thing changed: for files that contradict themselves.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "gguf/gguf.h"
#include "gguf/writer.h"

namespace outrider::test {

struct GgufEdit {
  std::string key = {};                // taken out, or
  std::optional<uint32_t> value = {};  // given this value (added where it is absent), or
  std::string text = {};               // this one
  std::string tensor = {};             // taken out, or
  bool longer = false;                 // given one row more
};

namespace detail {

template <class T>
std::vector<T> elements(const GgufValue& value) {
  std::vector<T> out(value.payload.size() / sizeof(T));
  std::memcpy(out.data(), value.payload.data(), out.size() * sizeof(T));
  return out;
}

inline void copy_key(GgufWriter& out, const GgufFile& file, const std::string& key,
                     const GgufValue& value) {
  if (value.type == GgufType::kString) return out.add_string(key, file.string(key).value());
  if (value.type == GgufType::kBool) return out.add_bool(key, file.boolean(key).value());
  if (value.type == GgufType::kF32)
    return out.add_f32(key, static_cast<float>(file.real(key).value()));
  if (value.type != GgufType::kArray)
    return out.add_u32(key, static_cast<uint32_t>(file.unsigned_integer(key).value()));
  if (value.element == GgufType::kF32) return out.add_f32s(key, elements<float>(value));
  if (value.element == GgufType::kI32) return out.add_i32s(key, elements<int32_t>(value));
  std::vector<std::string> texts;
  const auto views = file.strings(key);
  for (const std::string_view text : views.value()) texts.emplace_back(text);
  out.add_strings(key, texts);
}

}  // namespace detail

// Tensors keep their type; rows beyond the end repeat the last one.
inline void edit_gguf(const std::string& from, const std::string& to, const GgufEdit& edit) {
  auto opened = GgufFile::open(from.c_str());
  ASSERT_TRUE(opened) << opened.error().text;
  const GgufFile& file = opened.value();
  GgufWriter out;
  for (const auto& [key, value] : file.metadata())
    if (key != edit.key) detail::copy_key(out, file, std::string(key), value);
  if (edit.value) out.add_u32(edit.key, *edit.value);
  if (!edit.text.empty()) out.add_string(edit.key, edit.text);
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.name == edit.tensor && !edit.longer) continue;
    std::vector<int64_t> ne(tensor.ne, tensor.ne + tensor.n_dims);
    if (tensor.name == edit.tensor) ++ne.back();
    const int64_t rows = tensor.n_values() / tensor.ne[0];
    out.add_tensor(tensor.name, tensor.dtype, ne, [&, rows](int64_t row, std::span<float> values) {
      const size_t n = values.size(), bytes = row_bytes(tensor.dtype, tensor.ne[0]);
      if (n == static_cast<size_t>(tensor.ne[0]))
        dequantize_row(tensor.dtype,
                       tensor.data + static_cast<size_t>(std::min(row, rows - 1)) * bytes,
                       values.data(), tensor.ne[0]);
      else
        std::fill(values.begin(), values.end(), 0.5f);  // a vector that became longer
    });
  }
  const auto written = out.write(to.c_str());
  ASSERT_TRUE(written) << written.error().text;
}

}  // namespace outrider::test
