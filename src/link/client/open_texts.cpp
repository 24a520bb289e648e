#include "link/client/open_texts.h"

#include <cinttypes>

#include "base/fnv.h"

namespace outrider::link {

using wire::Cause;
using wire::Got;
using wire::WhichText;

namespace {

const char* name_of(WhichText which) {
  return which == WhichText::kIdentity ? "identity" : "manifest";
}

bool refuse(LinkError& why, Cause cause, const char* format, WhichText which, uint64_t found,
            uint64_t allowed) {
  char text[Error::kTextBytes];
  std::snprintf(text, sizeof text, format, name_of(which), found, allowed);
  why = link_error(cause, text);
  return false;
}

// One message of the text; empty when `why` was set.
bool next_piece(Connection& connection, uint64_t request_id, wire::OpenText& piece,
                int64_t deadline_ns, LinkError& why) {
  wire::Incoming in;
  const Got got = connection.wait(request_id, in, nullptr, nullptr, deadline_ns);
  if (got == Got::kLate)
    why = link_error(Cause::kDeadline,
                     "identity and manifest of the host's model did not come in time (connect_ms "
                     "may be too short)");
  else if (got == Got::kLost)
    why = link_error(wire::cause_of(in.io), "the connection ended while the model was described");
  else if (got == Got::kCorrupted)
    why = link_error(Cause::kCorrupted, "a part of the model's description was damaged");
  else if (got != Got::kMessage || in.header.type != wire::type_of<wire::OpenText>())
    why = link_error(Cause::kProtocol, "OPEN_REPLY announced OPEN_TEXT, something else came");
  else if (auto read = wire::decode(in.body, piece); !read)
    why = link_error(Cause::kProtocol, read.error().text);
  else
    return true;
  return false;
}

bool complete(Connection& connection, uint64_t request_id, WhichText which, std::string& text,
              uint32_t whole_bytes, int64_t deadline_ns, LinkError& why) {
  if (text.size() > whole_bytes)
    return refuse(why, Cause::kProtocol,
                  "OPEN_REPLY.%s has %" PRIu64 " bytes, announced are %" PRIu64, which, text.size(),
                  whole_bytes);
  while (text.size() < whole_bytes) {
    wire::OpenText piece;
    if (!next_piece(connection, request_id, piece, deadline_ns, why)) return false;
    if (piece.which != static_cast<uint8_t>(which) || piece.at_bytes != text.size())
      return refuse(why, Cause::kProtocol,
                    "OPEN_TEXT is not the next piece of the %s: it begins at %" PRIu64
                    ", wanted is %" PRIu64,
                    which, piece.at_bytes, text.size());
    const uint64_t end = text.size() + piece.text.view().size();
    if (piece.text.view().empty() || end > whole_bytes)
      return refuse(why, Cause::kProtocol,
                    "OPEN_TEXT of the %s ends at %" PRIu64 ", at most %" PRIu64
                    " bytes and no empty piece are allowed",
                    which, end, whole_bytes);
    text += piece.text.view();
  }
  return true;
}

// An older host cuts what is too long without a word.
bool is_whole(const wire::OpenReply& reply, LinkError& why) {
  const bool identity_cut = reply.identity.view().size() == wire::kTextPieceBytes &&
                            fnv1a64(reply.identity.view()) != reply.fingerprint;
  if (!identity_cut && reply.manifest.view().size() != wire::kTextPieceBytes) return true;
  return refuse(why, Cause::kProtocol,
                "the host is older and cuts the model's %s at %" PRIu64
                " bytes, from wire version %" PRIu64 " on it travels whole; update the host",
                identity_cut ? WhichText::kIdentity : WhichText::kManifest, wire::kTextPieceBytes,
                wire::kLongTextVersion);
}

}  // namespace

bool receive_texts(Connection& connection, uint64_t request_id, wire::OpenReply& reply,
                   int64_t deadline_ns, LinkError& why) {
  if (connection.channel().version() < wire::kLongTextVersion) return is_whole(reply, why);
  return complete(connection, request_id, WhichText::kIdentity, reply.identity.text,
                  reply.identity_bytes, deadline_ns, why) &&
         complete(connection, request_id, WhichText::kManifest, reply.manifest.text,
                  reply.manifest_bytes, deadline_ns, why);
}

}  // namespace outrider::link
