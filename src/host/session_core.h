// One opened or adopted runtime: what stands behind `outrider_session` and behind the C++ Session.
#pragma once
#include <memory>
#include <string>

#include "base/clock.h"
#include "host/contract.h"
#include "host/loader.h"
#include "host/reason.h"

namespace outrider::host {

class SessionCore {
 public:
  // [setup] Loads, opens, checks, adopts. Errors: those of Library::open, open_runtime,
  // check_runtime.
  static Result<std::unique_ptr<SessionCore>> open(const char* provider_path,
                                                   const char* config_json, const Clock& clock);
  // [setup] Checks and retains a runtime that somebody else made.
  static Result<std::unique_ptr<SessionCore>> adopt(const frt_model_runtime_v1* runtime,
                                                    const Clock& clock);

  const frt_model_runtime_v1& runtime() const { return *runtime_.get(); }
  const StageOrder& order() const { return order_; }
  bool has_step() const { return contract_.verbs.step != nullptr; }
  int find_port(const char* name) const noexcept;
  int find_stage(const char* name) const noexcept;

  // [hot] Verbs. Codes are the runtime's own; what this host refuses itself is listed in host.h.
  int set_input(uint32_t port, const void* data, uint64_t bytes) noexcept;
  int get_output(uint32_t port, void* out, uint64_t capacity, uint64_t* written) noexcept;
  int run_stage(uint64_t stage) noexcept;
  int tick() noexcept;
  int step() noexcept;

  // The reason of the last failed verb, made on demand: a failing tick formats nothing. Empty after
  // success. Asks the runtime for its last_error.
  const char* error() const noexcept;

 private:
  // What failed, in numbers.
  enum class Fault : uint8_t {
    kNone,
    kNoPort,
    kNoStage,
    kNoVerb,
    kSwapPort,
    kDirection,
    kNullData,
    kNullWritten,
    kOrder,
    kProvider,
    kThrew,
    kPositive,
    kOverrun,
  };
  enum class Verb : uint8_t { kSetInput, kGetOutput, kRunStage, kStep };
  struct Failure {
    Fault fault = Fault::kNone;
    Verb verb = Verb::kStep;
    int code = 0;
    uint64_t index = 0, other = 0;  // port or stage; kOrder: the missing stage
  };

  SessionCore(Library library, RuntimeRef runtime, Contract contract, const Clock& clock);
  int refuse(Fault fault, Verb verb, int code, uint64_t index, uint64_t other = 0) noexcept;
  int settle(const struct ForeignCall& call, Verb verb, uint64_t index) noexcept;
  int fire(uint64_t stage) noexcept;
  void describe(char* out, size_t n) const noexcept;
  void provider_words(char* out, size_t n) const noexcept;

  // Order matters: the runtime goes before the library that holds its code.
  Library library_;
  RuntimeRef runtime_;
  Contract contract_;
  StageOrder order_;
  const Clock* clock_;
  Failure failure_;
  mutable char text_[kReasonBytes] = {};
};

// The clock of every session that is not given one.
const Clock& monotonic_clock();

}  // namespace outrider::host
