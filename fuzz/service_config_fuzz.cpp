// The service configuration of `outrider serve`: any text. What is taken keeps every limit.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string_view>

#include "base/assert.h"
#include "cli/service_text.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace outrider;
  const auto json = Json::parse({reinterpret_cast<const char*>(data), size});
  if (!json || !json.value().is_object()) return 0;
  const auto read = cli::read_service_text(json.value(), "/etc/outrider/service.json");
  if (!read) {
    OUTRIDER_ASSERT(read.error().text[0] != '\0');
    return 0;
  }
  const cli::ServiceText& text = read.value();
  OUTRIDER_ASSERT(text.max_instances >= 1 && text.max_instances <= 256);
  OUTRIDER_ASSERT(text.max_peers >= 1 && text.max_peers <= 1024);
  OUTRIDER_ASSERT(text.memory_budget_mb >= 0 && text.store.reserve_mb >= 0);
  OUTRIDER_ASSERT(text.store.keep_last >= 0 && text.store.keep_last <= 1024);
  OUTRIDER_ASSERT(!text.models.empty() || !text.store.folder.empty());
  std::set<std::string_view> names;
  for (const cli::NamedModel& model : text.models) {
    OUTRIDER_ASSERT(!model.name.empty() && model.name.size() <= 255);
    OUTRIDER_ASSERT(names.insert(model.name).second);
    OUTRIDER_ASSERT(!model.config.empty());
  }
  return 0;
}

// Words of the format, so that mutation finds the keys.
extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);
extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  static constexpr std::string_view kWords[] = {
      "{\"listen\":[\"tcp://127.0.0.1:5610\"],\"models\":[{\"name\":\"a\",\"config\":\"b\"}]}",
      "{\"store\":{\"folder\":\"kept\",\"reserve_mb\":1,\"keep_last\":3}}",
      "{\"memory_budget_mb\":4096,\"max_instances\":2,\"max_peers\":8,\"key_file\":\"k\","
      "\"models\":[{\"name\":\"x\",\"config\":\"/y\"},{\"name\":\"z\",\"config\":\"w\"}]}"};
  if (seed % 16 != 0) return LLVMFuzzerMutate(data, size, max_size);
  const std::string_view word = kWords[seed / 16 % std::size(kWords)];
  if (word.size() > max_size) return LLVMFuzzerMutate(data, size, max_size);
  std::copy(word.begin(), word.end(), data);
  return LLVMFuzzerMutate(data, word.size(), max_size);
}
