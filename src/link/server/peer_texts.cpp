// Identity and manifest of a runtime, on their way to a device: see OPEN_REPLY and OPEN_TEXT.
#include <cinttypes>

#include "link/server/peer.h"

namespace outrider::link {
namespace {

struct Texts {
  std::string_view identity, manifest;
};
Texts texts_of(const Runtime& runtime) {
  const frt_runtime_export_v1* exp = runtime.face().exp;
  if (exp == nullptr) return {};
  const auto view = [](const char* text) {
    return text == nullptr ? std::string_view() : std::string_view(text);
  };
  return {view(exp->identity), view(exp->manifest_json)};
}

}  // namespace

// Whether this device can be told what the runtime is.
Result<void> Peer::check_texts(const Runtime& runtime) const {
  const bool whole = channel_.version() >= wire::kLongTextVersion;
  const uint64_t allowed = whole ? wire::kMaxTextBytes : wire::kTextPieceBytes;
  const Texts texts = texts_of(runtime);
  const bool identity = texts.identity.size() > allowed;
  if (!identity && texts.manifest.size() <= allowed) return {};
  return make_error(Code::kUnsupported,
                    "the %s of the model has %zu bytes, at most %" PRIu64 " travel%s",
                    identity ? "identity" : "manifest",
                    identity ? texts.identity.size() : texts.manifest.size(), allowed,
                    whole ? "; run it on the device itself"
                          : " to a device of wire version 2 or older; update the device");
}

// What did not fit in OPEN_REPLY.
bool Peer::send_texts(uint64_t request_id) {
  const Texts texts = texts_of(*lease_.instance->runtime);
  const auto send_rest = [&](wire::WhichText which, std::string_view text) {
    wire::OpenText piece;
    piece.which = static_cast<uint8_t>(which);
    for (size_t at = wire::kTextPieceBytes; at < text.size(); at += wire::kTextPieceBytes) {
      piece.at_bytes = static_cast<uint32_t>(at);
      piece.text.assign(text.substr(at));
      if (!answer(piece, request_id)) return false;
    }
    return true;
  };
  return send_rest(wire::WhichText::kIdentity, texts.identity) &&
         send_rest(wire::WhichText::kManifest, texts.manifest);
}

void Peer::describe_texts(wire::OpenReply& reply) const {
  const frt_runtime_export_v1* exp = lease_.instance->runtime->face().exp;
  if (exp == nullptr) return;
  const Texts texts = texts_of(*lease_.instance->runtime);
  reply.fingerprint = exp->fingerprint;
  reply.identity.assign(texts.identity);
  reply.identity_bytes = static_cast<uint32_t>(texts.identity.size());
  reply.has_manifest = exp->manifest_json != nullptr;
  reply.manifest.assign(texts.manifest);
  reply.manifest_bytes = static_cast<uint32_t>(texts.manifest.size());
}

}  // namespace outrider::link
