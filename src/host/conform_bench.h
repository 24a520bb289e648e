// What the checks of the contract suite stand on: one provider, its configuration, instances,
// inputs made for any port, and the verdict of a check.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/json.h"
#include "base/result.h"
#include "host/conform.h"
#include "outrider/frt_v1.h"

namespace outrider::host::conformance {

// A code no provider can answer: the call threw.
inline constexpr int kThrew = INT32_MIN;
// No generated input and no output is larger.
inline constexpr uint64_t kMaxPayloadBytes = uint64_t{1} << 28;

// What a check found. The first failure and the first advice are kept.
class Verdict {
 public:
  __attribute__((format(printf, 2, 3))) void fail(const char* format, ...);
  __attribute__((format(printf, 2, 3))) void skip(const char* format, ...);
  __attribute__((format(printf, 2, 3))) void advise(const char* format, ...);
  bool failed() const { return !failure_.empty(); }
  ConformCheck check(const char* name, bool strict) const;

 private:
  std::string failure_, skip_, advice_;
};

// One staged input: its bytes, and for pictures the pixels that the views point at.
struct Payload {
  std::vector<std::byte> bytes;
  std::vector<std::vector<std::byte>> pixels;
  std::vector<frt_image_view> views;

  const void* data() const { return views.empty() ? bytes.data() : (const void*)views.data(); }
  uint64_t size() const {
    return views.empty() ? bytes.size() : views.size() * sizeof(frt_image_view);
  }
};

struct Output {
  int code = 0;
  std::vector<std::byte> bytes;
  bool operator==(const Output&) const = default;
};

class Bench;

// One runtime, held by one reference. Foreign exceptions end here and are noted in the bench.
class Instance {
 public:
  Instance(Bench* bench, const frt_model_runtime_v1* owned);
  Instance(Instance&& other) noexcept;
  Instance& operator=(Instance&& other) noexcept;
  ~Instance() { release(); }
  void release();

  const frt_model_runtime_v1* get() const { return runtime_; }
  const frt_model_runtime_v1* operator->() const { return runtime_; }
  std::span<const frt_runtime_port_desc> ports() const {
    return {runtime_->ports, static_cast<size_t>(runtime_->n_ports)};
  }
  std::span<const frt_generic_stage_desc_v1> stages() const;
  const frt_generic_stage_plan_ext_v1* plan() const { return plan_; }
  std::optional<uint32_t> port(std::string_view name) const;
  std::optional<uint32_t> stage(std::string_view name) const;

  int set(uint32_t port, const void* data, uint64_t bytes);
  int set(uint32_t port, const Payload& payload) {
    return set(port, payload.data(), payload.size());
  }
  int get(uint32_t port, void* out, uint64_t capacity, uint64_t* written);
  int run_ref(uint32_t executor_ref);
  int run_stage(size_t index) { return run_ref(plan_->stages[index].executor_ref); }
  int step();
  int tick();  // every stage in declared order, else step; stops at the first failure
  int query(uint64_t id, uint32_t min_version, const void** out);
  int prepare(uint32_t graph, uint64_t key);
  std::string error();  // last_error as one clean line; "" for NULL
  const char* raw_error();

  Output read(uint32_t port);      // whatever its size
  std::vector<Output> read_all();  // STAGED outputs in port order
  bool has_step() const { return runtime_->verbs.step != nullptr; }

 private:
  Bench* bench_;
  const frt_model_runtime_v1* runtime_;
  const frt_generic_stage_plan_ext_v1* plan_ = nullptr;
};

class Bench {
 public:
  Bench(std::string path, std::string config, const ConformOptions& options);
  Bench(const Bench&) = delete;
  ~Bench();

  const std::string& path() const { return path_; }
  const std::string& config() const { return config_; }
  const ConformOptions& options() const { return options_; }
  // The configuration as values; nullptr when it is not a flat object.
  const Json* json() const { return json_ ? &*json_ : nullptr; }
  // A runtime that lives elsewhere. Its own keys are the link's; what is asked of its ports, stages
  // and outputs follows `options.served`, where that was given.
  bool is_remote() const { return remote_; }
  // Keys of what answers: of the configuration, or of `options.served` in its place.
  std::string text_key(const char* key) const;  // "" when absent
  std::optional<int64_t> integer_key(const char* key) const;
  double number_key(const char* key, double otherwise) const;
  const std::string& family() const { return family_; }  // of what answers
  // A tandem gives the ports: it answers every tick, with a held value if need be. Known by its
  // family, and by its own ports where another runtime (a camera, a link) stands in front of it.
  bool is_tandem() const;
  // A STAGED output whose bytes the checks judge.
  bool judges(const frt_runtime_port_desc& port) const;
  bool is_policy() const { return family_ == "pi0"; }
  bool is_text() const { return family_ == "llm" || family_ == "mllm"; }
  // Outputs may differ from tick to tick by design: a recurrent model, another computer, two
  // leaders, unseeded sampling.
  bool may_vary() const;

  // Loads a library; nullptr with the loader's words in *why.
  frt_model_runtime_open_v1_fn load(const std::string& path, void** handle, std::string* why);
  void unload(void* handle);
  frt_model_runtime_open_v1_fn open_fn() const { return open_fn_; }
  // Calls open with a non-NULL *out before; returns the code and what *out became. A runtime that
  // came out against expectation is released by the caller.
  struct Opened {
    int code = 0;
    const frt_model_runtime_v1* runtime = nullptr;
    bool touched = false;  // *out was written
  };
  Opened try_open(const char* config, frt_model_runtime_open_v1_fn fn = nullptr);
  // Opens `config_` for a check that needs an instance of its own; says why not in the verdict.
  std::optional<Instance> open(Verdict& v, frt_model_runtime_open_v1_fn fn = nullptr);

  // The instance that most checks share; set by the check that opens it, dropped by the last ones.
  std::optional<Instance> main;
  bool sound = false;  // main passed every check of its published structs: it may be called

  // Inputs for a port; `variant` changes the values. nullopt: this suite cannot make one.
  std::optional<Payload> payload(const frt_runtime_port_desc& port, int variant = 0) const;
  // The ports that a tick is given: required inputs, and optional ones of a fixed shape.
  bool wants(const frt_runtime_port_desc& port) const;
  // Stages all of them, except `except`. False with the verdict failed or skipped.
  bool stage_all(Instance& in, Verdict& v, int variant = 0, int64_t except = -1);
  // stage_all and one good tick.
  bool run_tick(Instance& in, Verdict& v, int variant = 0);

  // fn's code, or kThrew. Whoever watches from outside is told of the call.
  template <class Fn>
  int foreign(ProviderCall call, Fn&& fn) noexcept {
    tell(call);
    int code = kThrew;
    try {
      code = fn();
    } catch (...) {
      threw_ = true;
    }
    tell(ProviderCall::kNone);
    return code;
  }
  bool take_threw() { return std::exchange(threw_, false); }

  // Values that are not finite in an ACTION output, whichever check reads it: a robot would get
  // them. `take_nonfinite` gives the first such finding since the last call, or "".
  void note_nonfinite(uint32_t index, const frt_runtime_port_desc& port, const Output& out);
  std::string take_nonfinite() { return std::exchange(nonfinite_, {}); }

  // Remembers the first check during which standard output grew.
  void look_at_stdout(const char* check_name);
  const std::string& wrote_to_stdout() const { return stdout_writer_; }

  // Ends the shared instance and lets the library go. Nothing but kNothing checks may follow.
  void close();

 private:
  void tell(ProviderCall call) noexcept {
    if (options_.on_call) options_.on_call(call);
  }
  const Json* value_of(const char* key) const;
  std::optional<Payload> images(const frt_runtime_port_desc& port, int variant) const;

  std::string path_, config_, family_;
  const ConformOptions& options_;
  std::optional<Json> json_, served_;
  bool remote_ = false;
  frt_model_runtime_open_v1_fn open_fn_ = nullptr;
  void* handle_ = nullptr;
  bool threw_ = false;
  std::string nonfinite_, stdout_writer_;
};

struct Check {
  const char* name;
  // What must have come true before: kNothing, a library, a main instance, a sound main instance.
  enum Needs : uint8_t { kNothing, kLibrary, kOpen, kSound } needs;
  void (*run)(Bench&, Verdict&);
};

std::span<const Check> library_checks();
std::span<const Check> record_checks();
std::span<const Check> config_checks();
std::span<const Check> verb_checks();
std::span<const Check> run_checks();
std::span<const Check> image_checks();
std::span<const Check> policy_checks();
std::span<const Check> text_checks();
std::span<const Check> lifetime_checks();
std::span<const Check> process_checks();

uint64_t dtype_bytes(uint32_t dtype);  // 0 for an unknown one
// Product of a shape without variable dimensions times the element size; nullopt when variable,
// unknown or beyond kMaxPayloadBytes.
std::optional<uint64_t> fixed_bytes(const frt_runtime_port_desc& port);

}  // namespace outrider::host::conformance
