// A secure channel over any Transport: both ends prove that they have the same key, then everything
// is encrypted and authenticated. A Transport itself.
//
//   device                                       host
//   "OUTS" 1, nonce, ephemeral key        ->
//                                         <-     "OUTS" 1, nonce, ephemeral key, proof
//   proof                                 ->
//   stream header, records                <->    stream header, records
//
// Proof: HMAC-SHA-512-256 with the shared key over all that was said, with the role in front, so
// that no answer can be played back or turned around. Stream keys come from the shared key and a
// fresh X25519 agreement: who learns the key later reads nothing of the past. Records: u16 length,
// u16 pad, then XChaCha20-Poly1305 (libsodium's secretstream) of at most kRecordBytes, then pad
// zeros; a record that was changed, dropped, doubled or moved ends the stream (Io::kBroken),
// nothing of it is delivered. On a medium with a grid (USB) each part of the hand shake and each
// record is filled up to it; an offer says the grid of its sender. Such a stream has no grid
// itself.
#pragma once
#include <array>
#include <string>

#include "link/transport/transport.h"

namespace outrider::link {

inline constexpr size_t kRecordBytes = 16 << 10;
inline constexpr size_t kLeastKeyBytes = 32, kMostKeyBytes = 4096;

struct SharedKey {
  std::array<unsigned char, 32> bytes{};
};

// [setup] A file of 32 to 4096 bytes, not all the same, that only its owner may read (head -c 32
// /dev/urandom > F; chmod 600 F). Errors: kNotFound (cannot open), kInvalid with what to do. The
// text names the file, never its content.
Result<SharedKey> read_key_file(const std::string& path);

// [setup] Device and host side. Errors: kFailed (security: no proof, wrong proof, plain peer),
// kNotReady (deadline).
Result<std::unique_ptr<Transport>> secure_as_device(std::unique_ptr<Transport> inner,
                                                    const SharedKey& key, int64_t deadline_ns);
Result<std::unique_ptr<Transport>> secure_as_host(std::unique_ptr<Transport> inner,
                                                  const SharedKey& key, int64_t deadline_ns);

}  // namespace outrider::link
