#include "cli/npy.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/assert.h"
#include "base/mapped_file.h"
#include "base/output_file.h"

namespace outrider::cli {
namespace {

constexpr std::string_view kMagic("\x93NUMPY", 6);
constexpr size_t kMaxHeaderBytes = 1 << 16;
constexpr size_t kMaxRank = 32;

// The header is a Python literal of fixed form: {'descr': '<f4', 'fortran_order': False, 'shape':
// (2, 3), }
class HeaderReader {
 public:
  HeaderReader(std::string_view text, const char* name) : text_(text), name_(name) {}

  Result<void> read(NpyArray& out) {
    bool has_type = false, has_order = false, has_shape = false;
    OUTRIDER_TRY(expect('{'));
    while (!accept('}')) {
      std::string key;
      OUTRIDER_TRY(read_string(key));
      OUTRIDER_TRY(expect(':'));
      bool* seen = key == "descr"           ? &has_type
                   : key == "fortran_order" ? &has_order
                   : key == "shape"         ? &has_shape
                                            : nullptr;
      if (seen == nullptr || *seen) return bad("a key that is unknown or repeated");
      *seen = true;
      if (seen == &has_type) OUTRIDER_TRY(read_type(out));
      if (seen == &has_order) OUTRIDER_TRY(read_order());
      if (seen == &has_shape) OUTRIDER_TRY(read_shape(out));
      if (!accept(',')) {
        OUTRIDER_TRY(expect('}'));
        break;
      }
    }
    skip();
    if (at_ != text_.size()) return bad("text after the header");
    if (!has_type || !has_order || !has_shape) return bad("no descr, fortran_order or shape");
    return {};
  }

 private:
  Error bad(const char* what) const {
    return make_error(Code::kNotFound, "%s: npy header, byte %zu: %s", name_, at_, what);
  }
  void skip() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }
  bool accept(char c) {
    skip();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  Result<void> expect(char c) {
    if (accept(c)) return {};
    return make_error(Code::kNotFound, "%s: npy header, byte %zu: wanted '%c'", name_, at_, c);
  }
  Result<void> read_string(std::string& out) {
    skip();
    if (at_ == text_.size() || (text_[at_] != '\'' && text_[at_] != '"'))
      return bad("wanted a quoted name");
    const char quote = text_[at_++];
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) return bad("a quote without its end");
    out = std::string(text_.substr(at_, end - at_));
    at_ = end + 1;
    return {};
  }
  Result<void> read_type(NpyArray& out) {
    std::string type;
    OUTRIDER_TRY(read_string(type));
    if (type.size() != 3 || (type[0] != '<' && type[0] != '|' && type[0] != '=') ||
        std::string_view("fiub").find(type[1]) == std::string_view::npos ||
        std::string_view("1248").find(type[2]) == std::string_view::npos ||
        (type[0] == '|' && type[2] != '1') || (type[1] == 'f' && type[2] == '1') ||
        (type[1] == 'b' && type[2] != '1'))
      return make_error(Code::kNotFound,
                        "%s: npy element type '%.20s'; wanted little-endian numbers such as '<f4'",
                        name_, type.c_str());
    out.type = type.substr(1);
    return {};
  }
  Result<void> read_order() {
    skip();
    if (text_.substr(at_).starts_with("False")) {
      at_ += 5;
      return {};
    }
    if (text_.substr(at_).starts_with("True"))
      return make_error(Code::kNotFound, "%s: npy array in Fortran order; save it in C order",
                        name_);
    return bad("fortran_order must be False");
  }
  Result<void> read_shape(NpyArray& out) {
    OUTRIDER_TRY(expect('('));
    while (!accept(')')) {
      skip();
      uint64_t n = 0;
      size_t digits = 0;
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9' && digits < 18;
           ++at_, ++digits)
        n = n * 10 + static_cast<uint64_t>(text_[at_] - '0');
      if (digits == 0 || digits == 18) return bad("wanted a size");
      if (out.shape.size() == kMaxRank) return bad("more than 32 dimensions");
      out.shape.push_back(static_cast<int64_t>(n));
      if (!accept(',')) {
        OUTRIDER_TRY(expect(')'));
        break;
      }
    }
    return {};
  }

  std::string_view text_;
  const char* name_;
  size_t at_ = 0;
};

}  // namespace

size_t NpyArray::n_values() const {
  size_t n = 1;
  for (int64_t size : shape) n *= static_cast<size_t>(size);  // checked against the data when read
  return n;
}

Result<NpyArray> parse_npy(std::span<const std::byte> bytes, const char* name) {
  const auto* raw = reinterpret_cast<const unsigned char*>(bytes.data());
  if (bytes.size() < 10 || std::memcmp(raw, kMagic.data(), kMagic.size()) != 0)
    return make_error(Code::kNotFound, "%s: not an npy file (%zu bytes, no NUMPY mark)", name,
                      bytes.size());
  const unsigned major = raw[6];
  if (major != 1 && major != 2)
    return make_error(Code::kNotFound, "%s: npy version %u, allowed 1 and 2", name, major);
  const size_t start = major == 1 ? 10 : 12;
  if (bytes.size() < start)
    return make_error(Code::kNotFound, "%s: npy file cut in its header", name);
  size_t header_bytes = raw[8] | size_t{raw[9]} << 8;
  if (major == 2) header_bytes |= size_t{raw[10]} << 16 | size_t{raw[11]} << 24;
  if (header_bytes > kMaxHeaderBytes || header_bytes > bytes.size() - start)
    return make_error(Code::kNotFound, "%s: npy header of %zu bytes, present %zu", name,
                      header_bytes, bytes.size() - start);
  NpyArray array;
  OUTRIDER_TRY(
      HeaderReader({reinterpret_cast<const char*>(raw) + start, header_bytes}, name).read(array));
  size_t wanted = static_cast<size_t>(array.type[1] - '0');
  for (int64_t n : array.shape)
    if (__builtin_mul_overflow(wanted, static_cast<size_t>(n), &wanted))
      return make_error(Code::kNotFound, "%s: npy shape overflows", name);
  const std::span<const std::byte> data = bytes.subspan(start + header_bytes);
  if (data.size() != wanted)
    return make_error(Code::kNotFound, "%s: npy data of %zu bytes, the shape needs %zu", name,
                      data.size(), wanted);
  array.bytes.assign(data.begin(), data.end());
  return array;
}

Result<NpyArray> read_npy(const std::string& path) {
  auto file = MappedFile::open(path.c_str());
  if (!file) return file.error();
  return parse_npy(file.value().bytes(), path.c_str());
}

std::vector<std::byte> npy_bytes(std::span<const float> values, std::span<const int64_t> shape) {
  size_t n = 1;
  std::string header = "{'descr': '<f4', 'fortran_order': False, 'shape': (";
  for (int64_t size : shape) {
    n *= static_cast<size_t>(size);
    header += std::to_string(size) + ", ";
  }
  OUTRIDER_ASSERT(n == values.size());
  if (shape.size() > 1) header.resize(header.size() - 2);
  if (shape.size() == 1) header.pop_back();
  header += "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');  // data begins at a multiple of 64
  header += '\n';
  std::vector<std::byte> out(10 + header.size() + values.size_bytes());
  auto* raw = reinterpret_cast<unsigned char*>(out.data());
  std::memcpy(raw, kMagic.data(), kMagic.size());
  raw[6] = 1;
  raw[7] = 0;
  raw[8] = static_cast<unsigned char>(header.size() & 255);
  raw[9] = static_cast<unsigned char>(header.size() >> 8);
  std::memcpy(raw + 10, header.data(), header.size());
  std::memcpy(raw + 10 + header.size(), values.data(), values.size_bytes());
  return out;
}

Result<void> write_npy(const std::string& path, std::span<const float> values,
                       std::span<const int64_t> shape) {
  const std::vector<std::byte> bytes = npy_bytes(values, shape);
  return write_output(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace outrider::cli
