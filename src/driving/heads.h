// The heads of a driving policy's output vector and how each is read: means and deviations,
// probabilities. Source: driving specification c.3, c.4; openpilot's parser.
#pragma once
#include <array>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "driving/spec.h"

namespace outrider::driving {

// exp(min(x, 11)): a deviation stays finite whatever the network says.
float safe_exp(float x) noexcept;
float sigmoid(float x) noexcept;
// In place, over n values.
void softmax(float* x, int64_t n) noexcept;

enum class HeadRule : uint8_t { kMixture, kSigmoid, kSoftmax };

struct HeadForm {
  const char* name;
  HeadRule rule;
  int rank;
  std::array<int64_t, 3> dims;  // after parsing; 0: as many as the slice has
  // Mixtures: how many of dims[0] are chosen apart (3 for leads with hypotheses), 1 otherwise.
  int64_t n_selected;
  bool required;
};
// Every head that is read. `action` and `hidden_state` are left as they are.
std::span<const HeadForm> head_forms();

// One array of parsed values.
struct HeadArray {
  std::string name;  // "plan", "plan_std"
  std::vector<int64_t> dims;
  size_t offset = 0, n = 0;  // in values()
};

enum class HeadsWanted : uint8_t {
  kKnown,    // those slices whose name and size are known
  kRequired  // all required heads, each of its size
};

class HeadParser {
 public:
  // [setup] Takes all memory. Errors: kNotFound (a required head is missing), kShape (its size is
  // none that the head may have); kKnown has none.
  static Result<HeadParser> make(const Spec& spec, HeadsWanted wanted);

  // [hot] Reads a whole output vector. False: a parsed value is not finite; bad() names its array.
  bool parse(const float* outputs) noexcept;
  std::span<const float> values() const { return values_; }
  const std::vector<HeadArray>& arrays() const { return arrays_; }
  const HeadArray* find(std::string_view name) const;
  const HeadArray* bad() const { return bad_; }
  // Slices that have the name of a head and another size: "lead (5)", for status.
  const std::vector<std::string>& unread() const { return unread_; }

 private:
  struct Head {
    const HeadForm* form;
    Range range;
    int64_t n_hypotheses;
    size_t mean, deviation;  // arrays
  };
  void add(const HeadForm& form, const Range& range, int64_t n_hypotheses);
  void parse_mixture(const Head& head, const float* raw) noexcept;

  std::vector<Head> heads_;
  std::vector<HeadArray> arrays_;
  std::vector<std::string> unread_;
  std::vector<float> values_;
  std::vector<size_t> order_;  // of finite checks
  const HeadArray* bad_ = nullptr;
};

}  // namespace outrider::driving
