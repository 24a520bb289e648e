// Canonical identity text and its fingerprint.
// Source: model-runtime ABI v1, section 9; the vectors of that section are in tests/abi.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace outrider::abi {

struct Descriptors;

using IdentityPairs = std::vector<std::pair<std::string, std::string>>;

// FNV-1a 64 over the bytes. A guard against mistakes, no security digest.
uint64_t fingerprint(const void* data, size_t n_bytes) noexcept;

// Header, producer pairs, graphs, regions, ports, legacy stages, generic stages; every line ends
// with a newline. Nothing is ever cut.
std::string identity_text(const IdentityPairs& pairs, const Descriptors& descriptors);

}  // namespace outrider::abi
