#include "host/conform_elf.h"

#include <elf.h>

#include <cstring>
#include <optional>
#include <span>
#include <utility>

#include "base/mapped_file.h"

namespace outrider::host::conformance {
namespace {

constexpr uint64_t kMaxSymbols = 1 << 20;

class Elf {
 public:
  explicit Elf(std::span<const std::byte> file) : file_(file) {}

  // The i-th record of a table at `offset`; nullopt when it is not wholly inside the file.
  template <class T>
  std::optional<T> at(uint64_t offset, uint64_t index = 0) const {
    uint64_t begin = 0, end = 0;
    if (__builtin_mul_overflow(index, sizeof(T), &begin) ||
        __builtin_add_overflow(begin, offset, &begin) ||
        __builtin_add_overflow(begin, sizeof(T), &end) || end > file_.size())
      return std::nullopt;
    T record;
    std::memcpy(&record, file_.data() + begin, sizeof record);
    return record;
  }

  // A terminated string inside [offset, offset + size) of the file; "" when there is none.
  std::string text(uint64_t offset, uint64_t size, uint64_t index) const {
    if (offset > file_.size() || size > file_.size() - offset || index >= size) return "";
    const char* begin = reinterpret_cast<const char*>(file_.data()) + offset + index;
    const void* end = std::memchr(begin, 0, size - index);
    if (end == nullptr) return "";
    return std::string(begin, static_cast<const char*>(end));
  }

 private:
  std::span<const std::byte> file_;
};

void sort_symbol(const Elf64_Sym& symbol, std::string name, ElfFacts* facts) {
  const unsigned bind = ELF64_ST_BIND(symbol.st_info);
  const unsigned visibility = ELF64_ST_VISIBILITY(symbol.st_other);
  if (symbol.st_shndx == SHN_UNDEF || bind == STB_LOCAL) return;
  if (visibility == STV_HIDDEN || visibility == STV_INTERNAL) return;
  if (bind == STB_GNU_UNIQUE) facts->unique.push_back(name);
  (symbol.st_shndx == SHN_ABS ? facts->version_nodes : facts->exports).push_back(std::move(name));
}

Result<void> read_symbols(const Elf& elf, const Elf64_Shdr& table, const Elf64_Shdr& strings,
                          ElfFacts* facts) {
  const uint64_t n = table.sh_size / sizeof(Elf64_Sym);
  if (n > kMaxSymbols)
    return make_error(Code::kInvalid, "elf: %zu dynamic symbols, at most %zu", size_t(n),
                      size_t(kMaxSymbols));
  for (uint64_t i = 0; i < n; ++i) {
    const auto symbol = elf.at<Elf64_Sym>(table.sh_offset, i);
    if (!symbol) return make_error(Code::kInvalid, "elf: symbol %zu is past the end", size_t(i));
    sort_symbol(*symbol, elf.text(strings.sh_offset, strings.sh_size, symbol->st_name), facts);
  }
  return {};
}

Result<void> read_run_path(const Elf& elf, const Elf64_Shdr& table, const Elf64_Shdr& strings,
                           ElfFacts* facts) {
  for (uint64_t i = 0; i < table.sh_size / sizeof(Elf64_Dyn) && i < kMaxSymbols; ++i) {
    const auto entry = elf.at<Elf64_Dyn>(table.sh_offset, i);
    if (!entry)
      return make_error(Code::kInvalid, "elf: dynamic entry %zu is past the end", size_t(i));
    if (entry->d_tag == DT_NULL) break;
    if (entry->d_tag == DT_RPATH || entry->d_tag == DT_RUNPATH)
      facts->run_path = elf.text(strings.sh_offset, strings.sh_size, entry->d_un.d_val);
  }
  return {};
}

}  // namespace

Result<ElfFacts> read_elf(const char* path) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  const Elf elf(file.value().bytes());
  const auto header = elf.at<Elf64_Ehdr>(0);
  if (!header || std::memcmp(header->e_ident, ELFMAG, SELFMAG) != 0)
    return make_error(Code::kUnsupported, "elf: %.200s is not an ELF file", path);
  if (header->e_ident[EI_CLASS] != ELFCLASS64 || header->e_ident[EI_DATA] != ELFDATA2LSB ||
      header->e_shentsize != sizeof(Elf64_Shdr))
    return make_error(Code::kUnsupported, "elf: %.200s is not 64-bit little-endian", path);
  ElfFacts facts;
  bool found_symbols = false, found_dynamic = false;
  for (uint64_t i = 0; i < header->e_shnum; ++i) {
    const auto section = elf.at<Elf64_Shdr>(header->e_shoff, i);
    if (!section) return make_error(Code::kInvalid, "elf: section %zu is past the end", size_t(i));
    if (section->sh_type != SHT_DYNSYM && section->sh_type != SHT_DYNAMIC) continue;
    const auto strings = elf.at<Elf64_Shdr>(header->e_shoff, section->sh_link);
    if (!strings)
      return make_error(Code::kInvalid, "elf: section %zu has no string table", size_t(i));
    const bool symbols = section->sh_type == SHT_DYNSYM;
    // The first of each kind, as the loader sees it; a file with thousands of them costs nothing.
    if (std::exchange(symbols ? found_symbols : found_dynamic, true)) continue;
    OUTRIDER_TRY(symbols ? read_symbols(elf, *section, *strings, &facts)
                         : read_run_path(elf, *section, *strings, &facts));
  }
  if (!found_symbols)
    return make_error(Code::kUnsupported, "elf: no dynamic symbol table (stripped headers)");
  return facts;
}

}  // namespace outrider::host::conformance
