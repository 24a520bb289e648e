// Models of known bytes, and the whole way of one into a store.
#pragma once
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>

#include "base/sha256.h"
#include "link/store/store.h"
#include "link/store/upload.h"

namespace outrider::store {

// The little chunks make many boundaries.
inline Limits small_limits() {
  Limits limits;
  limits.chunk_bytes = 1024;
  limits.sync_bytes = 2048;
  limits.reserve_bytes = 4096;
  return limits;
}

struct Model {
  std::string bytes;
  EntryInfo info;
};

inline Model make_model(size_t n_bytes, uint64_t seed, Role role = Role::kModel) {
  Model model;
  std::mt19937_64 rng(seed);
  for (size_t i = 0; i < n_bytes; ++i) model.bytes += static_cast<char>(rng());
  model.info.sha256 = sha256_hex(std::as_bytes(std::span(model.bytes))).value();
  model.info.n_bytes = n_bytes;
  model.info.name = std::string(role_name(role)) + std::to_string(seed);
  model.info.role = role;
  return model;
}

inline std::span<const std::byte> bytes_of(const std::string& text, size_t from = 0,
                                           size_t n = std::string::npos) {
  return std::as_bytes(std::span(text)).subspan(from, std::min(n, text.size() - from));
}

// From upload.next_offset() up to `end`, in pieces.
inline Result<void> send(Upload& upload, const std::string& bytes, size_t end,
                         size_t piece_bytes = 700) {
  for (size_t at = upload.next_offset(); at < end;) {
    const size_t n = std::min(piece_bytes, end - at);
    OUTRIDER_TRY(upload.write(at, bytes_of(bytes, at, n)));
    at += n;
  }
  return {};
}

inline Result<void> push(Store& store, const Model& model, size_t piece_bytes = 700) {
  auto upload = store.begin_upload(model.info);
  if (!upload) return upload.error();
  if (upload.value().published()) return {};
  OUTRIDER_TRY(send(upload.value(), model.bytes, model.bytes.size(), piece_bytes));
  return upload.value().finish();
}

inline std::string text_of(const Result<void>& result) {
  return result ? "ok" : std::string(result.error().message());
}
template <class T>
std::string text_of(const Result<T>& result) {
  return result ? "ok" : std::string(result.error().message());
}

}  // namespace outrider::store

#define EXPECT_GOOD(expr) EXPECT_EQ(::outrider::store::text_of(expr), "ok")
#define ASSERT_GOOD(expr) ASSERT_EQ(::outrider::store::text_of(expr), "ok")
