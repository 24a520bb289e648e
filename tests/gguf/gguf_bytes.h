// Builds GGUF files byte by byte, good and damaged. Independent of the writer under test.
#pragma once
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gguf/gguf.h"

namespace outrider::test {

class GgufBytes {
 public:
  struct Tensor {
    std::string name;
    std::vector<uint64_t> ne;
    uint32_t type = 0;
    uint64_t offset = 0;
  };

  uint32_t version = 3;
  uint64_t alignment = 32;  // used for the layout only; the key is added by hand
  std::vector<Tensor> tensors;
  size_t data_bytes = 0;                            // behind the aligned end of the table
  int64_t claimed_tensors = -1, claimed_keys = -1;  // -1: the truth
  std::vector<size_t> entry_begin;  // filled by build: where each metadata and tensor entry starts
  size_t table_end = 0, data_begin = 0;

  template <class T>
  static void put(std::string& out, T value) {
    out.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  static void put_string(std::string& out, std::string_view text) {
    put(out, uint64_t{text.size()});
    out += text;
  }

  // One metadata entry: key, type, raw value bytes.
  GgufBytes& key(std::string_view name, uint32_t type, std::string_view value) {
    std::string entry;
    put_string(entry, name);
    put(entry, type);
    entry += value;
    keys_.push_back(entry);
    return *this;
  }
  template <class T>
  GgufBytes& scalar(std::string_view name, uint32_t type, T value) {
    std::string raw;
    put(raw, value);
    return key(name, type, raw);
  }
  GgufBytes& u32(std::string_view name, uint32_t value) { return scalar(name, 4, value); }
  GgufBytes& text(std::string_view name, std::string_view value) {
    std::string raw;
    put_string(raw, value);
    return key(name, 8, raw);
  }
  template <class T>
  GgufBytes& array(std::string_view name, uint32_t element, const std::vector<T>& values) {
    std::string raw;
    put(raw, element);
    put(raw, uint64_t{values.size()});
    for (const T& v : values) put(raw, v);
    return key(name, 9, raw);
  }
  GgufBytes& strings(std::string_view name, const std::vector<std::string>& values) {
    std::string raw;
    put(raw, uint32_t{8});
    put(raw, uint64_t{values.size()});
    for (const auto& v : values) put_string(raw, v);
    return key(name, 9, raw);
  }
  GgufBytes& tensor(std::string name, std::vector<uint64_t> ne, uint32_t type, uint64_t offset) {
    tensors.push_back({std::move(name), std::move(ne), type, offset});
    return *this;
  }

  std::string build() {
    std::string out = "GGUF";
    put(out, version);
    put(out, claimed_tensors < 0 ? uint64_t{tensors.size()} : uint64_t(claimed_tensors));
    put(out, claimed_keys < 0 ? uint64_t{keys_.size()} : uint64_t(claimed_keys));
    entry_begin.clear();
    for (const auto& k : keys_) {
      entry_begin.push_back(out.size());
      out += k;
    }
    for (const auto& t : tensors) {
      entry_begin.push_back(out.size());
      put_string(out, t.name);
      put(out, uint32_t(t.ne.size()));
      for (uint64_t n : t.ne) put(out, n);
      put(out, t.type);
      put(out, t.offset);
    }
    table_end = out.size();
    data_begin = (table_end + alignment - 1) / alignment * alignment;
    out.resize(data_begin);
    for (size_t i = 0; i < data_bytes; ++i) out.push_back(char(i * 7 + 1));
    return out;
  }

 private:
  std::vector<std::string> keys_;
};

inline Result<GgufFile> parse(std::string_view bytes) {
  return GgufFile::parse(std::as_bytes(std::span(bytes)), "test.gguf");
}

// Metadata of several kinds and three tensors of different types, 208 bytes of data.
inline GgufBytes good_file() {
  GgufBytes b;
  b.text("general.architecture", "pi0").u32("pi0.block_count", 4);
  b.strings("tokens", {"<pad>", "", "\xE2\x96\x81go"});
  b.array<float>("scores", 6, {0.0f, -1.5f, 3.0f});
  b.tensor("norm.weight", {6}, 0, 0);             // 24 bytes
  b.tensor("blk.0.w", {32, 2}, 8, 32);            // 68 bytes
  b.tensor("head.weight", {4, 3, 2, 2}, 1, 128);  // 96 bytes, ends at 224
  b.data_bytes = 224;
  return b;
}

}  // namespace outrider::test
