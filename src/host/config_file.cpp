#include "host/config_file.h"

#include "base/mapped_file.h"
#include "base/sha256.h"
#include "host/config_chain.h"
#include "host/provider_path.h"

namespace outrider::host {

Result<ConfigFile> read_config_file(const std::string& path, const std::string& provider) {
  const auto fail = [&](const Error& error) {
    return make_error(error.code, "%.200s: %.280s", path.c_str(), error.text);
  };
  auto file = MappedFile::open(path.c_str());
  if (!file) return file.error();
  if (file.value().size() > kMostConfigBytes)
    return make_error(Code::kInvalid, "%.200s: %zu bytes, a configuration has at most %zu",
                      path.c_str(), file.value().size(), kMostConfigBytes);
  const auto bytes = file.value().bytes();
  ConfigFile out{path, {}, {}, provider, {}};
  out.json.assign(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  auto family = config_family(out.json);
  if (!family) return fail(family.error());
  out.family = family.value();
  if (out.provider.empty()) {
    auto found = find_provider(out.family);
    if (!found) return fail(found.error());
    out.provider = found.value();
  }
  OUTRIDER_TRY(check_config_chain(path));
  auto digest = sha256_hex(bytes);
  if (!digest) return fail(digest.error());
  out.digest = digest.value();
  return out;
}

}  // namespace outrider::host
