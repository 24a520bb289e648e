#include "text/sentencepiece.h"

#include <cstring>
#include <new>
#include <optional>

namespace outrider {
namespace {

enum class Wire : uint8_t { kVarint = 0, kFixed64 = 1, kBytes = 2, kFixed32 = 5 };

// One field of a message: its number, how it is stored, and its value.
struct Field {
  uint32_t number = 0;
  Wire wire = Wire::kVarint;
  uint64_t value = 0;                // varint, fixed
  std::span<const std::byte> bytes;  // a string or a message
};

// Walks over the fields of one message.
class Message {
 public:
  Message(std::span<const std::byte> all, std::span<const std::byte> mine, const std::string& name)
      : all_(all), left_(mine), name_(name) {}

  // False at the end, and after a fault.
  bool next(Field& field) {
    if (left_.empty() || failure_.code != Code::kOk) return false;
    const size_t start = at();
    uint64_t tag = 0;
    if (!varint(tag)) return fault(start, "a field's tag runs beyond its message");
    field.number = static_cast<uint32_t>(tag >> 3);
    if (tag >> 3 == 0 || tag >> 3 > 536870911) return fault(start, "a field with no legal number");
    field.wire = static_cast<Wire>(tag & 7);
    switch (field.wire) {
      case Wire::kVarint:
        if (!varint(field.value)) return fault(start, "a number runs beyond its message");
        return true;
      case Wire::kFixed64:
        return fixed(8, start, field.value);
      case Wire::kFixed32:
        return fixed(4, start, field.value);
      case Wire::kBytes: {
        uint64_t n = 0;
        if (!varint(n) || n > left_.size()) return fault(start, "a length beyond its message");
        field.bytes = left_.first(static_cast<size_t>(n));
        left_ = left_.subspan(static_cast<size_t>(n));
        return true;
      }
    }
    return fault(start, "a field of a kind that such files do not have");
  }

  bool fault(size_t at_byte, const char* what) {
    if (failure_.code == Code::kOk)
      failure_ = make_error(Code::kNotFound,
                            "%.250s: byte %zu: %s; no SentencePiece model, or "
                            "damaged",
                            name_.c_str(), at_byte, what);
    return false;
  }
  size_t at() const { return static_cast<size_t>(left_.data() - all_.data()); }
  const Error& failure() const { return failure_; }

 private:
  bool varint(uint64_t& out) {
    out = 0;
    for (uint32_t shift = 0; shift < 64 && !left_.empty(); shift += 7) {
      const auto byte = static_cast<uint64_t>(left_[0]);
      left_ = left_.subspan(1);
      if (shift == 63 && byte > 1) return false;
      out |= (byte & 0x7F) << shift;
      if ((byte & 0x80) == 0) return true;
    }
    return false;
  }
  bool fixed(size_t n, size_t start, uint64_t& out) {
    if (left_.size() < n) return fault(start, "a value runs beyond its message");
    out = 0;
    std::memcpy(&out, left_.data(), n);  // little endian, as the file
    left_ = left_.subspan(n);
    return true;
  }

  std::span<const std::byte> all_, left_;
  const std::string& name_;
  Error failure_;
};

// What the trainer and the normaliser leave behind. Defaults are the format's own.
struct Rules {
  uint64_t model_type = 1;  // 1 unigram, 2 BPE, 3 word, 4 character
  bool blank_behind = false, squeeze = true, escape = true, dummy_prefix = true;
  std::string normalizer;
  bool rewrites = false;
  int64_t unk = 0, bos = 1, eos = 2, pad = -1;
};

class Reader {
 public:
  Reader(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  Result<SpmVocab> read() {
    Message model(bytes_, bytes_, name_);
    for (Field field; model.next(field);) {
      if (field.number > 3) continue;  // self tests and what later versions added
      if (field.wire != Wire::kBytes) {
        model.fault(model.at(), "pieces and rules are messages");
        break;
      }
      OUTRIDER_TRY(field.number == 1   ? piece(field.bytes)
                   : field.number == 2 ? trainer(field.bytes)
                                       : normalizer(field.bytes));
    }
    if (model.failure().code != Code::kOk) return model.failure();
    OUTRIDER_TRY(check());
    return std::move(vocab_);
  }

 private:
  Result<void> piece(std::span<const std::byte> bytes) {
    if (vocab_.pieces.size() >= kMaxSentencePieces)
      return make_error(Code::kNotFound, "%.300s: more than %zu pieces", name_.c_str(),
                        kMaxSentencePieces);
    Piece out;
    Message message(bytes_, bytes, name_);
    for (Field field; message.next(field);) {
      if (field.number == 1 && field.wire == Wire::kBytes) {
        out.text.assign(reinterpret_cast<const char*>(field.bytes.data()), field.bytes.size());
      } else if (field.number == 2 && field.wire == Wire::kFixed32) {
        const auto bits = static_cast<uint32_t>(field.value);
        std::memcpy(&out.score, &bits, sizeof bits);
      } else if (field.number == 3 && field.wire == Wire::kVarint) {
        if (field.value < 1 || field.value > 6)
          return make_error(Code::kNotFound, "%.300s: piece %zu has type %llu, known 1..6",
                            name_.c_str(), vocab_.pieces.size(),
                            static_cast<unsigned long long>(field.value));
        out.type = static_cast<PieceType>(field.value);
      }
    }
    if (message.failure().code != Code::kOk) return message.failure();
    vocab_.pieces.push_back(std::move(out));
    return {};
  }

  Result<void> trainer(std::span<const std::byte> bytes) {
    Message message(bytes_, bytes, name_);
    for (Field field; message.next(field);) {
      if (field.wire != Wire::kVarint) continue;
      const auto id = static_cast<int64_t>(static_cast<int32_t>(field.value));
      switch (field.number) {
        case 3:
          rules_.model_type = field.value;
          break;
        case 24:
          rules_.blank_behind = field.value != 0;
          break;
        case 40:
          rules_.unk = id;
          break;
        case 41:
          rules_.bos = id;
          break;
        case 42:
          rules_.eos = id;
          break;
        case 43:
          rules_.pad = id;
          break;
        default:
          break;
      }
    }
    return as_result(message);
  }

  Result<void> normalizer(std::span<const std::byte> bytes) {
    Message message(bytes_, bytes, name_);
    for (Field field; message.next(field);) {
      if (field.number == 1 && field.wire == Wire::kBytes)
        rules_.normalizer.assign(reinterpret_cast<const char*>(field.bytes.data()),
                                 std::min<size_t>(field.bytes.size(), 40));
      if (field.number == 2 && field.wire == Wire::kBytes) rules_.rewrites = !field.bytes.empty();
      if (field.wire != Wire::kVarint) continue;
      if (field.number == 3) rules_.dummy_prefix = field.value != 0;
      if (field.number == 4) rules_.squeeze = field.value != 0;
      if (field.number == 5) rules_.escape = field.value != 0;
    }
    return as_result(message);
  }

  static Result<void> as_result(const Message& message) {
    if (message.failure().code != Code::kOk) return message.failure();
    return {};
  }

  Error unsupported(const char* what) const {
    return make_error(Code::kUnsupported,
                      "%.250s: %s; this build reads BPE models that leave the text as it is, like "
                      "PaliGemma's",
                      name_.c_str(), what);
  }

  // -1 means "none"; anything else must be a piece.
  Result<void> take_id(const char* key, int64_t id, int32_t& out) const {
    if (id < -1 || id >= static_cast<int64_t>(vocab_.pieces.size()))
      return make_error(Code::kNotFound, "%.300s: %s is %lld, there are %zu pieces", name_.c_str(),
                        key, static_cast<long long>(id), vocab_.pieces.size());
    out = static_cast<int32_t>(id);
    return {};
  }

  Result<void> check() {
    if (vocab_.pieces.empty())
      return make_error(Code::kNotFound, "%.300s: no pieces; no SentencePiece model",
                        name_.c_str());
    if (rules_.model_type != 2) return unsupported("its model is not of type BPE");
    if (rules_.rewrites) {
      char what[80];
      std::snprintf(what, sizeof what, "its normaliser \"%.40s\" rewrites text",
                    plain(rules_.normalizer).c_str());
      return unsupported(what);
    }
    if (rules_.squeeze) return unsupported("it squeezes blanks (remove_extra_whitespaces)");
    if (rules_.blank_behind)
      return unsupported("it puts blanks behind words (treat_whitespace_as_suffix)");
    if (!rules_.escape) return unsupported("it does not escape blanks (escape_whitespaces)");
    OUTRIDER_TRY(take_id("unk_id", rules_.unk, vocab_.unk));
    OUTRIDER_TRY(take_id("bos_id", rules_.bos, vocab_.bos));
    OUTRIDER_TRY(take_id("eos_id", rules_.eos, vocab_.eos));
    OUTRIDER_TRY(take_id("pad_id", rules_.pad, vocab_.pad));
    vocab_.add_bos = vocab_.bos >= 0;
    vocab_.add_space_prefix = rules_.dummy_prefix;
    return {};
  }

  static std::string plain(std::string text) {
    for (char& c : text) c = c >= ' ' && c < 127 ? c : '?';
    return text;
  }

  std::span<const std::byte> bytes_;
  const std::string& name_;
  SpmVocab vocab_;
  Rules rules_;
};

}  // namespace

Result<SpmVocab> read_sentencepiece(std::span<const std::byte> bytes, const std::string& name) {
  if (bytes.size() > kMaxSentencePieceBytes)
    return make_error(Code::kNotFound, "%.300s: %zu bytes, allowed %zu", name.c_str(), bytes.size(),
                      kMaxSentencePieceBytes);
  try {
    return Reader(bytes, name).read();
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "%.300s: no memory for the vocabulary", name.c_str());
  }
}

Result<SpmTokenizer> SpmTokenizer::from_sentencepiece(std::span<const std::byte> bytes,
                                                      const std::string& name) {
  auto vocab = read_sentencepiece(bytes, name);
  if (!vocab) return vocab.error();
  try {
    auto tokenizer = from_vocab(std::move(vocab.value()));
    if (tokenizer) return tokenizer;
    const Error& cause = tokenizer.error();
    return make_error(cause.code, "%.200s: %s", name.c_str(), cause.text);
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "%.300s: no memory for the vocabulary", name.c_str());
  }
}

}  // namespace outrider
