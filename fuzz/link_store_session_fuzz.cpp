// Messages for the store in any order, with any contents: a host's store takes what agrees with its
// digest and nothing else, over a file system in memory.
#include "base/assert.h"
#include "base/sha256.h"
#include "fuzz/link_frames.h"
#include "link/provision/store_session.h"
#include "link/store/memory_files.h"

namespace outrider::link {
namespace {

// What honest devices push.
const std::string& content(size_t i) {
  static const std::array<std::string, 3> all = {std::string(1, 'a'), std::string(1024, 'b'),
                                                 std::string(2500, 'c')};
  return all[i % all.size()];
}
const std::string& digest(size_t i) {
  static const std::array<std::string, 3> all = [] {
    std::array<std::string, 3> made;
    for (size_t k = 0; k < made.size(); ++k)
      made[k] = sha256_hex(std::as_bytes(std::span(content(k)))).value();
    return made;
  }();
  return all[i % all.size()];
}

class Replies final : public StoreReplies {
 public:
  bool reply(const wire::StoreState& state, uint64_t) override {
    OUTRIDER_ASSERT(state.next_offset <= (uint64_t{1} << 62));
    return ++n < 200;
  }
  bool reply(const wire::StoreListReply& list, uint64_t) override {
    OUTRIDER_ASSERT(list.entries.items.size() <= wire::kMaxStoreEntries);
    return ++n < 200;
  }
  bool reply(const wire::Answer&, uint64_t) override { return ++n < 200; }
  int n = 0;
};

// Everything that is published is what its digest says, and as long as its entry says.
void expect_true_store(store::MemoryFiles& files, const store::Store& store) {
  const auto all = store.list();
  OUTRIDER_ASSERT(all);
  for (const store::Entry& entry : all.value()) {
    if (entry.state != store::EntryState::kPublished) continue;
    const std::string bytes = files.content(entry.info.sha256 + "/data");
    OUTRIDER_ASSERT(bytes.size() == entry.info.n_bytes);
    OUTRIDER_ASSERT(sha256_hex(std::as_bytes(std::span(bytes))).value() == entry.info.sha256);
  }
}

void try_session(std::span<const uint8_t> data) {
  store::MemoryFiles files;
  store::Limits limits;
  limits.chunk_bytes = 1024;
  limits.sync_bytes = 2048;
  limits.reserve_bytes = 4096;
  limits.max_entries = 8;
  files.set_capacity(uint64_t{1} << 20);
  auto store = store::Store::open(files, limits);
  OUTRIDER_ASSERT(store);
  const ManualClock clock;
  Replies replies;
  {
    StoreSession session(store.value(), replies, clock);
    uint64_t id = 0;
    for (const fuzz::Part& part : fuzz::parts_of(data)) {
      if (!StoreSession::takes(part.type)) continue;
      const auto taken = session.take(part.type, ++id, std::as_bytes(std::span(part.body)),
                                      std::as_bytes(std::span(part.payload)));
      if (!taken && taken.code() == Code::kFailed) break;  // the peer is lost
    }
  }
  expect_true_store(files, store.value());
}

// A message of an upload that may succeed.
fuzz::Part store_part(uint64_t seed) {
  const size_t i = seed % 3;
  const std::string& bytes = content(i);
  switch (seed / 3 % 8) {
    case 0:
    case 1: {
      wire::StorePush push;
      push.sha256.assign(digest(i));
      push.n_bytes = seed / 24 % 5 == 0 ? seed >> 16 : bytes.size();
      push.name.assign("m");
      push.role = static_cast<uint8_t>(seed / 120 % 3);
      if (seed / 360 % 4 == 0) push.companions.add().sha256.assign(digest(i + 1));
      return fuzz::part_of(push, 1);
    }
    case 2:
    case 3:
    case 4: {
      wire::StoreChunk chunk;
      const size_t n = std::min<size_t>(bytes.size(), 1 + seed / 24 % 1500);
      chunk.offset = seed / 36000 % 3 == 0 ? 0 : bytes.size() - n;
      const auto* at = reinterpret_cast<const uint8_t*>(bytes.data()) + chunk.offset;
      return fuzz::part_of(chunk, 0, {at, std::min(n, bytes.size() - chunk.offset)});
    }
    case 5: {
      wire::StoreEnd end;
      end.n_bytes = bytes.size();
      return fuzz::part_of(end, 1);
    }
    case 6: {
      wire::StoreRemove remove;
      remove.sha256.assign(digest(i));
      return fuzz::part_of(remove, 1);
    }
    default:
      return fuzz::part_of(wire::StoreList(), 1);
  }
}

}  // namespace
}  // namespace outrider::link

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  outrider::link::try_session({data, size});
  return 0;
}

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size,
                                          unsigned int seed) {
  return outrider::link::fuzz::mutate_parts(data, size, max_size, seed, outrider::link::store_part);
}
