#include "tandem/lead_driver.h"

#include <cstddef>

#include "base/json.h"
#include "host/foreign.h"
#include "record/process.h"

namespace outrider::tandem {
namespace {

constexpr int64_t kChaseTicks = 16;  // how many more ticks than are kept one job follows

// nullptr when the runtime offers none: a shadow answer has to show that it lives.
const outrider_liveness_v1* liveness_of(const host::SessionCore& session) noexcept {
  const auto* table =
      static_cast<const outrider_liveness_v1*>(extension_of(session, OUTRIDER_EXT_LIVENESS, 1));
  constexpr uint32_t kLeastBytes = offsetof(outrider_liveness_v1, generation);
  const bool usable =
      table != nullptr && table->struct_size >= kLeastBytes && table->alive != nullptr;
  return usable ? table : nullptr;
}

// 0 when the runtime does not tell.
uint64_t generation_of(const outrider_liveness_v1* liveness) noexcept {
  if (liveness == nullptr || liveness->struct_size < sizeof(outrider_liveness_v1) ||
      liveness->generation == nullptr)
    return 0;
  uint64_t generation = 0;
  (void)host::call_foreign([&] {
    generation = liveness->generation(liveness->self);
    return FRT_OK;
  });
  return generation;
}

}  // namespace

LeadName lead_name_of(const frt_runtime_export_v1& exp) {
  constexpr std::string_view kKey = "\nweights_sha256=";
  LeadName name;
  const std::string_view identity = exp.identity != nullptr ? exp.identity : "";
  if (const size_t at = identity.find(kKey); at != std::string_view::npos) {
    const std::string digest(identity.substr(at + kKey.size(), 64));
    if (record::is_hex(digest, 64)) name.sha256 = digest;
  }
  if (exp.manifest_json == nullptr) return name;
  const auto manifest = Json::parse(exp.manifest_json);
  const Json* bytes =
      manifest && manifest.value().is_object() ? manifest.value().find("weights_bytes") : nullptr;
  if (bytes != nullptr && bytes->is_number() && bytes->is_integer() && bytes->integer() > 0)
    name.bytes = bytes->integer();
  return name;
}

LeadDriver::LeadDriver(Parts parts, LeadReports& reports, Arena& arena)
    : parts_(std::move(parts)), reports_(reports), scratch_(take_answer(*parts_.ports, arena)) {}

void LeadDriver::work(const Job& job) {
  switch (job.kind) {
    case JobKind::kNone:
      return;
    case JobKind::kConnect:
      return connect(job);
    case JobKind::kClose:
      return close();
    case JobKind::kAsk:
      return ask(job);
    case JobKind::kFollow:
    case JobKind::kShadow:
      return follow(job);
    case JobKind::kPing:
      return liveness_ != nullptr ? ping(job) : follow(job);
  }
}

void LeadDriver::close() {
  lead_.reset();
  history_ = {};
  liveness_ = nullptr;
  fed_tick_ = -1;
}

Event LeadDriver::event_of(const Job& job, EventKind kind) const {
  Event event;
  event.kind = kind;
  event.tick = job.tick;
  event.epoch = job.epoch;
  event.link = job.link;
  return event;
}

void LeadDriver::note_failure(const Error& error) {
  const std::scoped_lock lock(words_mutex_);
  failure_ = error;
}

Error LeadDriver::last_failure() const {
  const std::scoped_lock lock(words_mutex_);
  return failure_;
}

LeadName LeadDriver::lead_name() const {
  const std::scoped_lock lock(words_mutex_);
  return name_;
}

void LeadDriver::connect(const Job& job) {
  close();
  auto opened = [&]() -> Result<std::unique_ptr<host::SessionCore>> {
    try {
      return parts_.open();
    } catch (...) {
      return make_error(Code::kNoMemory, "lead: out of memory");
    }
  }();
  if (!opened) {
    note_failure(opened.error());
    return reports_.report(event_of(job, EventKind::kFailed), nullptr);
  }
  lead_ = std::move(opened.value());
  const std::string differences = port_differences(*parts_.standby, lead_->runtime());
  if (!differences.empty()) {
    note_failure(
        make_error(Code::kShape, "ports of standby and lead differ: %s", differences.c_str()));
    return reports_.report(event_of(job, EventKind::kMismatch), nullptr);
  }
  in_ = lead_indices(parts_.ports->in, FRT_PORT_IN, lead_->runtime());
  out_ = lead_indices(parts_.ports->out, FRT_PORT_OUT, lead_->runtime());
  auto history = History::of(*lead_);
  if (!history) {
    note_failure(make_error(history.error().code, "lead: %s", history.error().text));
    return reports_.report(event_of(job, EventKind::kFailed), nullptr);
  }
  history_ = history.value();
  liveness_ = liveness_of(*lead_);
  generation_ = generation_of(liveness_);
  const LeadName name = lead_name_of(*lead_->runtime().exp);
  {
    const std::scoped_lock lock(words_mutex_);
    name_ = name;
  }
  reports_.report(event_of(job, EventKind::kJoined), nullptr);
}

LeadDriver::Ran LeadDriver::feed(int64_t tick, Answer& out, bool compares) {
  InputRing::Slot* slot = parts_.ring->borrow(tick);
  if (slot == nullptr) return Ran::kGone;
  const int64_t begin_ns = parts_.clock->now_ns();
  int code = FRT_OK;
  for (size_t i = 0; i < slot->inputs.size() && code == FRT_OK; ++i) {
    const InputRing::Payload& payload = slot->inputs[i];
    if (payload.version != 0) code = lead_->set_input(in_[i], payload.given(), payload.bytes);
  }
  const bool staged = code == FRT_OK;
  if (staged) code = history_.tick(*lead_);
  if (code != FRT_OK) note_failure(make_error(static_cast<Code>(code), "lead: %s", lead_->error()));
  bool sound = false;
  agreement_ = Agreement::kNotCompared;
  if (code == FRT_OK) {
    sound = read_answer(*lead_, parts_.ports->out, out_, out);
    fed_ns_ = parts_.clock->now_ns() - begin_ns;
    if (sound && compares && parts_.agree_wait_ns > 0) agreement_ = compare(*slot, out);
  }
  parts_.ring->give_back(slot);
  // A lead that is well and has no answer to this tick: its frame was lost on the way. It goes on
  // without it, and so do we.
  if (staged && code == FRT_ERR_NOT_READY) {
    fed_tick_ = tick;
    return Ran::kNoAnswer;
  }
  if (code != FRT_OK) return Ran::kFailed;
  if (!sound)
    note_failure(make_error(Code::kFailed,
                            "lead: tick %lld: an output is missing, has another size or is not "
                            "finite",
                            static_cast<long long>(tick)));
  fed_tick_ = tick;
  return sound ? Ran::kSound : Ran::kUnsound;
}

void LeadDriver::ask(const Job& job) {
  if (lead_ == nullptr) return;  // closed since
  if (is_another() && history_.exists()) {
    note_failure(
        make_error(Code::kDevice, "lead: its link was lost and found; its history is gone"));
    return reports_.report(event_of(job, EventKind::kFailed), nullptr);
  }
  Answer* answer = reports_.free_answer();
  if (answer == nullptr) return;
  const Ran ran = feed(job.tick, *answer, false);
  if (ran == Ran::kGone || ran == Ran::kNoAnswer) return;  // nothing is said, the tick is held
  if (ran == Ran::kFailed) return reports_.report(event_of(job, EventKind::kFailed), nullptr);
  Event event = event_of(job, EventKind::kAnswer);
  event.sound = ran == Ran::kSound;
  reports_.report(event, answer);
}

// What the lead knows of its far end already; nothing is sent.
void LeadDriver::ping(const Job& job) {
  Event event = event_of(job, EventKind::kPong);
  event.sound =
      host::call_foreign([&] { return liveness_->alive(liveness_->self) == 1 ? 0 : -1; }).ok();
  if (!event.sound) note_failure(make_error(Code::kDevice, "lead: its far end is gone"));
  reports_.report(event, nullptr);
}

// The published answer of that tick comes at the end of it; wait for it, not for ever.
Agreement LeadDriver::compare(InputRing::Slot& slot, const Answer& answer) {
  const int64_t tick = slot.tick.load(std::memory_order_relaxed);
  const int64_t until_ns = parts_.clock->now_ns() + parts_.agree_wait_ns;
  while (slot.answered.load(std::memory_order_acquire) != tick) {
    if (reports_.stopped() || parts_.clock->now_ns() >= until_ns) return Agreement::kNotCompared;
    reports_.pause();
  }
  return answer_distance(parts_.ports->out, slot.answer, answer) <= parts_.agree_distance
             ? Agreement::kWithin
             : Agreement::kBeyond;
}

// The link was lost and found by itself: who is there now has not seen what was fed.
bool LeadDriver::is_another() {
  const uint64_t generation = generation_of(liveness_);
  if (generation == generation_) return false;
  generation_ = generation;
  fed_tick_ = -1;
  return true;
}

// The tick to follow from. False: there is a gap, and the history could not be reset for it.
bool LeadDriver::begin_following(const Job& job, int64_t& from) {
  (void)is_another();
  from = fed_tick_ + 1;
  const int64_t oldest = std::max<int64_t>(1, job.tick - parts_.ring->n_ticks() + 1);
  if (fed_tick_ < 0 || from < oldest) {  // from the start again, with all that is kept
    if (history_.reset(*lead_) != FRT_OK) return false;
    from = oldest;
  }
  from = std::min(from, job.tick);
  return true;
}

// Follows to the newest tick, not only to the one that was asked for: a lead that needs most of a
// period would otherwise be two ticks behind for ever.
void LeadDriver::follow(const Job& job) {
  if (lead_ == nullptr) return;
  int64_t from = job.tick;
  const bool follows = job.kind == JobKind::kFollow;
  if (follows && !begin_following(job, from)) {
    note_failure(make_error(Code::kFailed, "lead: its history cannot be reset"));
    return reports_.report(event_of(job, EventKind::kFailed), nullptr);
  }
  bool whole = follows;
  Event event = event_of(job, EventKind::kShadow);
  const int64_t most = from + parts_.ring->n_ticks() + kChaseTicks;
  const auto until = [&] {
    return follows ? std::min(std::max(job.tick, parts_.ring->newest()), most) : job.tick;
  };
  for (int64_t tick = from; tick <= until() && !reports_.stopped(); ++tick) {
    const Ran ran = feed(tick, scratch_, true);
    if (ran == Ran::kFailed) return reports_.report(event_of(job, EventKind::kFailed), nullptr);
    if (ran == Ran::kGone || ran == Ran::kNoAnswer) whole = false;
    if (ran == Ran::kGone) continue;
    event.tick = tick;
    event.sound &= ran == Ran::kSound;
    event.took_ns = fed_ns_;
    if (agreement_ == Agreement::kBeyond || event.agreement == Agreement::kNotCompared)
      event.agreement = agreement_;
  }
  whole = !is_another() && whole;
  if (!whole) fed_tick_ = -1;  // there is a gap before it
  event.caught_up = whole;
  reports_.report(event, nullptr);
}

}  // namespace outrider::tandem
