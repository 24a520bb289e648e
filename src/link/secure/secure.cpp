#include "link/secure/secure.h"

#include <sodium.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "base/input_file.h"

namespace outrider::link {
namespace {

constexpr size_t kNonceBytes = 32, kPointBytes = crypto_scalarmult_BYTES;
constexpr size_t kProofBytes = crypto_auth_hmacsha512256_BYTES;
constexpr size_t kOverheadBytes = crypto_secretstream_xchacha20poly1305_ABYTES;
constexpr size_t kSealedBytes = kRecordBytes + kOverheadBytes;
constexpr size_t kLengthBytes = 4;  // u16 sealed bytes, u16 pad bytes behind them
static_assert(kSealedBytes <= UINT16_MAX);
constexpr unsigned char kGreeting[5] = {'O', 'U', 'T', 'S', 1};
constexpr unsigned kMostGridLog2 = 14;
constexpr size_t kLargeBytes = 4096;  // a piece of so many bytes is sealed where it lies

using Key = std::array<unsigned char, 32>;
using Stream = crypto_secretstream_xchacha20poly1305_state;

struct Offer {  // what each end says first
  unsigned char greeting[5], grid_log2, reserved[2];
  unsigned char nonce[kNonceBytes], point[kPointBytes];
};
static_assert(sizeof(Offer) == 72);
constexpr size_t kGreetingBytes = 8;

// Wiped when it goes.
template <class T>
struct Secret : T {
  ~Secret() { sodium_memzero(static_cast<T*>(this), sizeof(T)); }
};

Error refused(const char* what) {
  return make_error(Code::kFailed, "security: %s", what);
}

Result<void> exchange_error(Io io, const char* when) {
  if (io == Io::kLate)
    return make_error(Code::kNotReady, "security: no proof in time %s; does the peer use a key?",
                      when);
  return make_error(Code::kFailed, "security: the peer ended the connection %s (%s)", when,
                    io_name(io));
}

size_t pad_of(size_t bytes, size_t grid) {
  return (grid - bytes % grid) % grid;
}

// The hand shake over one stream: each part is filled up to the grid of who sends it.
struct Shake {
  Transport& transport;
  int64_t deadline_ns;
  size_t our_grid, peer_grid = 1;

  Shake(Transport& over, int64_t until_ns)
      : transport(over), deadline_ns(until_ns), our_grid(over.facts().pad_grid_bytes) {}

  Result<void> put(const void* data, size_t n, const char* when) {
    static constexpr std::array<std::byte, size_t{1} << kMostGridLog2> kZeros{};
    const Piece pieces[] = {{static_cast<const std::byte*>(data), n},
                            std::span(kZeros).first(pad_of(n, our_grid))};
    const Moved moved = transport.send(pieces, deadline_ns);
    return moved.io == Io::kDone ? Result<void>() : exchange_error(moved.io, when);
  }
  Result<void> get(void* data, size_t n, const char* when) {
    OUTRIDER_TRY(take(data, n, when));
    return skip_pad(n, when);
  }
  Result<void> take(void* data, size_t n, const char* when) {
    auto* at = static_cast<std::byte*>(data);
    for (size_t have = 0; have < n;) {
      const Moved moved = transport.receive({at + have, n - have}, deadline_ns);
      have += moved.bytes;
      if (moved.io != Io::kDone) return exchange_error(moved.io, when);
    }
    return {};
  }
  Result<void> skip_pad(size_t n, const char* when) {
    std::array<std::byte, 512> nothing;
    for (size_t left = pad_of(n, peer_grid); left > 0;) {
      const size_t part = std::min(left, nothing.size());
      OUTRIDER_TRY(take(nothing.data(), part, when));
      left -= part;
    }
    return {};
  }
  // The peer's offer; `stranger` is what to say of one that has no such word.
  Result<void> get_offer(Offer& offer, const char* stranger, const char* when) {
    OUTRIDER_TRY(take(&offer, kGreetingBytes, when));
    if (std::memcmp(offer.greeting, kGreeting, sizeof kGreeting) != 0 ||
        offer.grid_log2 > kMostGridLog2)
      return refused(stranger);
    peer_grid = size_t{1} << offer.grid_log2;
    OUTRIDER_TRY(take(offer.nonce, sizeof offer - kGreetingBytes, when));
    return skip_pad(sizeof offer, when);
  }
};

void make_offer(Offer& offer, Key& secret, size_t grid) {
  std::memcpy(offer.greeting, kGreeting, sizeof kGreeting);
  offer.grid_log2 = static_cast<unsigned char>(std::countr_zero(grid));
  std::memset(offer.reserved, 0, sizeof offer.reserved);
  randombytes_buf(offer.nonce, sizeof offer.nonce);
  randombytes_buf(secret.data(), secret.size());
  crypto_scalarmult_base(offer.point, secret.data());
}

// HMAC over a role or purpose, then both offers.
void authenticate(const Key& key, std::string_view purpose, const Offer& device, const Offer& host,
                  unsigned char out[kProofBytes]) {
  crypto_auth_hmacsha512256_state state;
  crypto_auth_hmacsha512256_init(&state, key.data(), key.size());
  const auto add = [&](const void* data, size_t n) {
    crypto_auth_hmacsha512256_update(&state, static_cast<const unsigned char*>(data), n);
  };
  add(purpose.data(), purpose.size());
  add(&device, sizeof device);
  add(&host, sizeof host);
  crypto_auth_hmacsha512256_final(&state, out);
  sodium_memzero(&state, sizeof state);
}

bool proves(const Key& key, std::string_view role, const Offer& device, const Offer& host,
            const unsigned char proof[kProofBytes]) {
  unsigned char want[kProofBytes];
  authenticate(key, role, device, host, want);
  return sodium_memcmp(want, proof, sizeof want) == 0;  // constant time
}

constexpr std::string_view kHostRole = "outrider link host", kDeviceRole = "outrider link device";

// Keys of both directions from the shared key and the agreement.
bool stream_keys(const Key& key, const Key& secret, const Offer& device, const Offer& host,
                 bool as_device, Key& forth, Key& back) {
  Secret<Key> agreed, mixed;
  if (crypto_scalarmult(agreed.data(), secret.data(), as_device ? host.point : device.point) != 0)
    return false;
  crypto_auth_hmacsha512256_state state;
  crypto_auth_hmacsha512256_init(&state, key.data(), key.size());
  crypto_auth_hmacsha512256_update(&state, agreed.data(), agreed.size());
  crypto_auth_hmacsha512256_final(&state, mixed.data());
  sodium_memzero(&state, sizeof state);
  authenticate(mixed, "device to host", device, host, forth.data());
  authenticate(mixed, "host to device", device, host, back.data());
  return true;
}

// ---- the stream
// ----------------------------------------------------------------------------------

class SecureTransport final : public Transport {
 public:
  explicit SecureTransport(std::unique_ptr<Transport> inner)
      : inner_(std::move(inner)),
        facts_(inner_->facts()),
        grid_(facts_.pad_grid_bytes),
        out_(kLengthBytes + kSealedBytes + grid_),
        gather_(grid_ == 1 ? kRecordBytes : kRecordBytes - kOverheadBytes - kLengthBytes),
        in_(kLengthBytes + kSealedBytes),
        plain_(kRecordBytes) {
    facts_.encrypted = true;
    facts_.pad_grid_bytes = 1;  // records are filled up here
  }
  ~SecureTransport() override {
    sodium_memzero(&push_, sizeof push_);
    sodium_memzero(&pull_, sizeof pull_);
  }

  Result<void> begin(const Key& send_key, const Key& receive_key, Shake& shake) {
    unsigned char header[crypto_secretstream_xchacha20poly1305_HEADERBYTES];
    crypto_secretstream_xchacha20poly1305_init_push(&push_, header, send_key.data());
    OUTRIDER_TRY(shake.put(header, sizeof header, "when the stream began"));
    OUTRIDER_TRY(shake.get(header, sizeof header, "when the stream began"));
    if (crypto_secretstream_xchacha20poly1305_init_pull(&pull_, header, receive_key.data()) != 0)
      return refused("the peer's stream does not begin as one");
    return {};
  }

  // A record is sealed once. While it is not sent whole its bytes do not count as taken: the caller
  // comes back with the same ones, which are then skipped.
  Moved send(std::span<const Piece> pieces, int64_t deadline_ns) noexcept override {
    Moved moved;
    size_t piece = 0, offset = 0;
    for (;;) {
      if (sealed_ > 0) {
        const Piece rest = std::span(out_).subspan(out_at_, out_end_ - out_at_);
        const Moved sent = inner_->send({&rest, 1}, deadline_ns);
        out_at_ += sent.bytes;
        if (sent.io != Io::kDone) return {sent.io, moved.bytes};
        skip(pieces, piece, offset, sealed_);
        moved.bytes += sealed_;
        sealed_ = 0;
      }
      if (!seal(pieces, piece, offset)) return moved;
    }
  }

  Moved receive(std::span<std::byte> into, int64_t deadline_ns) noexcept override {
    while (plain_at_ == plain_end_) {
      if (broken_) return {Io::kBroken, 0};
      if (pad_left_ > 0) {
        const Moved got =
            inner_->receive(std::span(in_).first(std::min(pad_left_, in_.size())), deadline_ns);
        pad_left_ -= got.bytes;
        if (got.io != Io::kDone) return {got.io, 0};
        continue;
      }
      const size_t want = in_n_ < kLengthBytes ? kLengthBytes : kLengthBytes + record_bytes();
      if (in_n_ < want) {
        const Moved got = inner_->receive(std::span(in_).subspan(in_n_, want - in_n_), deadline_ns);
        in_n_ += got.bytes;
        if (got.io != Io::kDone) return got.bytes > 0 ? Moved{got.io, 0} : got;
        if (in_n_ == kLengthBytes && !length_is_sound()) broken_ = true;
        continue;
      }
      open_record();
    }
    const size_t n = std::min(into.size(), plain_end_ - plain_at_);
    std::memcpy(into.data(), plain_.data() + plain_at_, n);
    plain_at_ += n;
    return {Io::kDone, n};
  }

  void shut() noexcept override { inner_->shut(); }
  const TransportFacts& facts() const noexcept override { return facts_; }
  size_t unsent_bytes() const noexcept override { return inner_->unsent_bytes(); }
  uint64_t copied_bytes() const noexcept override {
    return gathered_bytes_ + inner_->copied_bytes();
  }
  void set_urgency(Urgency urgency) noexcept override { inner_->set_urgency(urgency); }

 private:
  static void skip(std::span<const Piece> pieces, size_t& piece, size_t& offset,
                   size_t n) noexcept {
    while (n > 0 && piece < pieces.size()) {
      const size_t part = std::min(n, pieces[piece].size() - offset);
      n -= part;
      offset += part;
      if (offset == pieces[piece].size()) ++piece, offset = 0;
    }
  }

  // What the next record holds: of a large piece as it lies there, of small ones gathered. Without
  // a grid a record may be short, so that what stands before a large piece is not filled up from
  // it.
  Piece next_plain(std::span<const Piece> pieces, size_t piece, size_t offset) noexcept {
    const bool any_length = grid_ == 1;
    size_t n = 0;
    for (; piece < pieces.size() && n < gather_.size(); ++piece, offset = 0) {
      const Piece rest = pieces[piece].subspan(offset);
      const bool large = rest.size() >= (any_length ? kLargeBytes : gather_.size());
      if (large && n == 0) return rest.first(std::min(rest.size(), gather_.size()));
      if (large && any_length) break;
      const size_t part = std::min(gather_.size() - n, rest.size());
      if (part > 0) std::memcpy(gather_.data() + n, rest.data(), part);
      n += part;
    }
    gathered_bytes_ += n;
    return std::span(gather_).first(n);
  }

  // The next record from (piece, offset) on, which stay where they are. False: nothing is left.
  bool seal(std::span<const Piece> pieces, size_t piece, size_t offset) noexcept {
    const Piece plain = next_plain(pieces, piece, offset);
    const size_t n = plain.size();
    if (n == 0) return false;
    const size_t length = n + kOverheadBytes, pad = pad_of(kLengthBytes + length, grid_);
    const auto word = static_cast<uint32_t>(length | pad << 16);
    std::memcpy(out_.data(), &word, sizeof word);
    auto* out = reinterpret_cast<unsigned char*>(out_.data());
    crypto_secretstream_xchacha20poly1305_push(
        &push_, out + kLengthBytes, nullptr, reinterpret_cast<const unsigned char*>(plain.data()),
        n, out, kLengthBytes, crypto_secretstream_xchacha20poly1305_TAG_MESSAGE);
    std::memset(out + kLengthBytes + length, 0, pad);
    out_at_ = 0;
    out_end_ = kLengthBytes + length + pad;
    sealed_ = n;
    return true;
  }

  uint32_t record_word() const noexcept {
    uint32_t word;
    std::memcpy(&word, in_.data(), sizeof word);
    return word;
  }
  uint32_t record_bytes() const noexcept { return record_word() & 0xFFFF; }
  bool length_is_sound() const noexcept {
    return record_bytes() > kOverheadBytes && record_bytes() <= kSealedBytes;
  }
  void open_record() noexcept {
    unsigned long long n = 0;
    unsigned char tag = 0;
    const auto* in = reinterpret_cast<const unsigned char*>(in_.data());
    if (crypto_secretstream_xchacha20poly1305_pull(
            &pull_, reinterpret_cast<unsigned char*>(plain_.data()), &n, &tag, in + kLengthBytes,
            record_bytes(), in, kLengthBytes) != 0) {
      broken_ = true;
      return;
    }
    plain_at_ = 0;
    plain_end_ = n;
    pad_left_ = record_word() >> 16;
    in_n_ = 0;
  }

  std::unique_ptr<Transport> inner_;
  TransportFacts facts_;
  const size_t grid_;
  Stream push_, pull_;
  std::vector<std::byte> out_, gather_, in_, plain_;
  std::atomic<uint64_t> gathered_bytes_{0};
  size_t out_at_ = 0, out_end_ = 0, sealed_ = 0;
  size_t in_n_ = 0, plain_at_ = 0, plain_end_ = 0, pad_left_ = 0;
  bool broken_ = false;
};

Result<std::unique_ptr<Transport>> begin_stream(std::unique_ptr<Transport> inner, const Key& key,
                                                const Key& secret, const Offer& device,
                                                const Offer& host, bool as_device, Shake& shake) {
  Secret<Key> forth, back;
  if (!stream_keys(key, secret, device, host, as_device, forth, back))
    return refused("the peer's ephemeral key is none");
  auto secure = std::make_unique<SecureTransport>(std::move(inner));
  OUTRIDER_TRY(as_device ? secure->begin(forth, back, shake) : secure->begin(back, forth, shake));
  return std::unique_ptr<Transport>(std::move(secure));
}

// What a grid may be, so that whole records fit.
Result<void> check_grid(const Transport& inner) {
  const uint32_t grid = inner.facts().pad_grid_bytes;
  if (std::has_single_bit(grid) && grid <= size_t{1} << kMostGridLog2) return {};
  return make_error(Code::kUnsupported,
                    "security: a grid of %u bytes on %s; allowed are powers of two up to %u", grid,
                    kind_name(inner.facts().kind), 1u << kMostGridLog2);
}

}  // namespace

Result<std::unique_ptr<Transport>> secure_as_device(std::unique_ptr<Transport> inner,
                                                    const SharedKey& key, int64_t deadline_ns) {
  if (sodium_init() < 0) return refused("libsodium does not start");
  OUTRIDER_TRY(check_grid(*inner));
  Shake shake(*inner, deadline_ns);
  Offer mine, theirs;
  Secret<Key> secret;
  make_offer(mine, secret, shake.our_grid);
  unsigned char proof[kProofBytes];
  OUTRIDER_TRY(shake.put(&mine, sizeof mine, "before its proof"));
  OUTRIDER_TRY(shake.get_offer(
      theirs, "the host does not speak with a key, but this device has one (key_file)",
      "before its proof"));
  OUTRIDER_TRY(shake.get(proof, sizeof proof, "before its proof"));
  if (!proves(key.bytes, kHostRole, mine, theirs, proof))
    return refused("the host has another key");
  authenticate(key.bytes, kDeviceRole, mine, theirs, proof);
  OUTRIDER_TRY(shake.put(proof, sizeof proof, "during our proof"));
  return begin_stream(std::move(inner), key.bytes, secret, mine, theirs, true, shake);
}

Result<std::unique_ptr<Transport>> secure_as_host(std::unique_ptr<Transport> inner,
                                                  const SharedKey& key, int64_t deadline_ns) {
  if (sodium_init() < 0) return refused("libsodium does not start");
  OUTRIDER_TRY(check_grid(*inner));
  Shake shake(*inner, deadline_ns);
  Offer mine, theirs;
  Secret<Key> secret;
  make_offer(mine, secret, shake.our_grid);
  unsigned char proof[kProofBytes];
  OUTRIDER_TRY(shake.get_offer(
      theirs, "the device does not speak with a key, but this host has one (key_file)",
      "at its first word"));
  authenticate(key.bytes, kHostRole, theirs, mine, proof);
  OUTRIDER_TRY(shake.put(&mine, sizeof mine, "during our proof"));
  OUTRIDER_TRY(shake.put(proof, sizeof proof, "during our proof"));
  OUTRIDER_TRY(shake.get(proof, sizeof proof, "before its proof"));
  if (!proves(key.bytes, kDeviceRole, theirs, mine, proof))
    return refused("the device has another key");
  return begin_stream(std::move(inner), key.bytes, secret, theirs, mine, false, shake);
}

namespace {

// What a placeholder or a wiped file holds: one byte again and again, line ends apart. Anybody has
// that key.
bool repeats_one_byte(std::span<const unsigned char> bytes) {
  while (!bytes.empty() && (bytes.back() == '\n' || bytes.back() == '\r'))
    bytes = bytes.first(bytes.size() - 1);
  return std::all_of(bytes.begin(), bytes.end(),
                     [&](unsigned char byte) { return byte == bytes.front(); });
}

}  // namespace

Result<SharedKey> read_key_file(const std::string& path) {
  const InputFile file = InputFile::try_open(path.c_str());
  if (!file.is_open() && file.error_number() != 0)
    return make_error(Code::kNotFound, "cannot open key file \"%.300s\": %s", path.c_str(),
                      file.cause().c_str());
  std::array<unsigned char, kMostKeyBytes + 1> bytes;
  const ssize_t n = file.is_open() ? ::read(file.fd(), bytes.data(), bytes.size()) : -1;
  if (n < 0)
    return make_error(Code::kInvalid, "key file \"%.300s\": no regular file that can be read (%s)",
                      path.c_str(), file.is_open() ? strerror(errno) : file.cause().c_str());
  const struct stat& info = file.info();
  if ((info.st_mode & 077) != 0 || (info.st_uid != ::geteuid() && ::geteuid() != 0))
    return make_error(Code::kInvalid,
                      "key file \"%.300s\": mode %03o, others may read or write it; chmod 600 it",
                      path.c_str(), info.st_mode & 0777);
  if (static_cast<size_t>(n) < kLeastKeyBytes || static_cast<size_t>(n) > kMostKeyBytes)
    return make_error(
        Code::kInvalid,
        "key file \"%.300s\": %zd bytes, allowed are %zu to %zu; make one with head -c 32 "
        "/dev/urandom",
        path.c_str(), n, kLeastKeyBytes, kMostKeyBytes);
  if (repeats_one_byte({bytes.data(), static_cast<size_t>(n)}))
    return make_error(Code::kInvalid,
                      "key file \"%.300s\": %zd times the same byte, allowed are bytes that nobody "
                      "guesses; make one with head -c 32 /dev/urandom",
                      path.c_str(), n);
  if (sodium_init() < 0) return refused("libsodium does not start");
  SharedKey key;
  crypto_generichash(key.bytes.data(), key.bytes.size(), bytes.data(), static_cast<size_t>(n),
                     nullptr, 0);
  sodium_memzero(bytes.data(), bytes.size());
  return key;
}

}  // namespace outrider::link
