// The strict open configuration: the given one is damaged in every way the ABI text (14) names.
#include <algorithm>

#include "base/json_text.h"
#include "host/conform_bench.h"

namespace outrider::host::conformance {
namespace {

using Member =
    std::pair<std::string, std::string>;  // key and value, both as they stand in the text
using Members = std::vector<Member>;

Members members_of(const Json& json) {
  Members members;
  for (const auto& m : json.members())
    members.emplace_back(json_quoted(m.name),
                         m.value.is_string() ? json_quoted(m.value.text()) : m.value.text());
  return members;
}

std::string text_of(const Members& members, const char* blank = "") {
  std::string out = "{";
  for (size_t i = 0; i < members.size(); ++i) {
    if (i > 0) out += ",";
    out += blank + members[i].first + blank + ":" + blank + members[i].second + blank;
  }
  return out + "}";
}

bool strict_face(Bench& b, Verdict& v) {
  if (b.json() == nullptr) {
    v.skip("the given configuration is no flat object; only faces with a model_family are strict");
  } else if (b.family().empty()) {
    v.skip("no model_family: not a face with strict configurations");
  }
  return b.json() != nullptr && !b.family().empty();
}

// -1 and *out NULL; a runtime that comes out is given back.
void refused(Bench& b, Verdict& v, const std::string& what, const std::string& config,
             bool exact = true) {
  const auto opened = b.try_open(config.c_str());
  if (opened.code == 0) {
    v.fail("%.120s was accepted", what.c_str());
    if (opened.runtime != nullptr) Instance(&b, opened.runtime).release();
  } else if (!opened.touched || opened.runtime != nullptr) {
    v.fail("%.120s answered %d and left *out other than NULL", what.c_str(), opened.code);
  } else if (exact && opened.code != FRT_ERR_INVALID) {
    v.fail("%.120s answered %d, must be -1", what.c_str(), opened.code);
  }
}

void repeated_key(Bench& b, Verdict& v) {
  if (!strict_face(b, v)) return;
  const Members good = members_of(*b.json());
  for (const auto& m : good) {
    Members twice = good;
    twice.push_back(m);
    refused(b, v, m.first + " twice", text_of(twice));
  }
}

void unknown_key(Bench& b, Verdict& v) {
  if (!strict_face(b, v)) return;
  for (const char* key : {"\"zz_unknown\"", "\"\"", "\"Model_family\""}) {
    Members more = members_of(*b.json());
    more.emplace_back(key, "\"x\"");
    refused(b, v, std::string("the unknown key ") + key, text_of(more));
  }
}

// Keys without a default. With a policy_dir the ABI's own set may be left out.
bool required(const Bench& b, const std::string& quoted_key) {
  if (quoted_key == "\"model_family\"") return true;
  if (b.is_remote()) return quoted_key == "\"endpoint\"" || quoted_key == "\"model\"";
  if (!b.text_key("policy_dir").empty()) return false;
  std::vector<std::string> keys = {"model_path", "backend"};
  if (b.family() == "pi0" || b.family() == "mllm") keys.push_back("mmproj_path");
  if (b.is_policy())
    for (const char* key :
         {"n_views", "image_height", "image_width", "image_channels", "action_steps", "action_dim"})
      keys.push_back(key);
  if (b.is_text())
    for (const char* key : {"n_ctx", "n_threads", "temp", "top_k", "top_p", "seed", "max_tokens"})
      keys.push_back(key);
  if (!b.is_policy() && !b.is_text()) keys.clear();
  return std::any_of(keys.begin(), keys.end(),
                     [&](const auto& k) { return quoted_key == "\"" + k + "\""; });
}

void missing_key(Bench& b, Verdict& v) {
  if (!strict_face(b, v)) return;
  const Members good = members_of(*b.json());
  for (size_t i = 0; i < good.size(); ++i) {
    if (!required(b, good[i].first)) continue;
    Members less = good;
    less.erase(less.begin() + static_cast<ptrdiff_t>(i));
    refused(b, v, "a configuration without " + good[i].first, text_of(less), false);
  }
}

void wrong_type(Bench& b, Verdict& v) {
  if (!strict_face(b, v)) return;
  const Members good = members_of(*b.json());
  for (size_t i = 0; i < good.size(); ++i) {
    const bool is_text = good[i].second[0] == '"';
    for (const char* value : {is_text ? "7" : "\"7\"", "null", "true", "{}", "[1]"}) {
      Members bad = good;
      bad[i].second = value;
      refused(b, v, good[i].first + " = " + value, text_of(bad));
    }
  }
}

void broken_text(Bench& b, Verdict& v) {
  if (!strict_face(b, v)) return;
  const Members good = members_of(*b.json());
  const std::string text = text_of(good), body = text.substr(0, text.size() - 1);
  refused(b, v, "an empty object", "{}");
  refused(b, v, "trailing text", text + "x");
  refused(b, v, "a second object behind the first", text + text);
  refused(b, v, "a trailing comma", body + ",}");
  refused(b, v, "a missing brace", body);
  refused(b, v, "a comment", "/* */" + text);
  refused(b, v, "an array around the object", "[" + text + "]");
  Members bad = good;
  for (auto& m : bad)
    if (m.first == "\"model_family\"") m.second = "\"\\u0070" + m.second.substr(2);
  refused(b, v, "a \\u escape", text_of(bad));
  bad = good;
  for (auto& m : bad)
    if (m.first == "\"model_family\"") m.second.insert(1, "\x01");
  refused(b, v, "a raw control byte in a string", text_of(bad));
}

void bad_values(Bench& b, Verdict& v) {
  if (!strict_face(b, v)) return;
  if (b.is_remote()) return v.skip("the keys are those of the link");
  if (!b.is_policy() && !b.is_text())
    return v.skip("family %.40s has no fixed keys", b.family().c_str());
  const Members good = members_of(*b.json());
  struct Row {
    const char *key, *value;
    bool exact;
  };
  constexpr Row kRows[] = {{"model_family", "\"\"", true},
                           {"model_family", "\"zz\"", false},
                           {"model_path", "\"\"", true},
                           {"mmproj_path", "\"\"", true},
                           {"backend", "\"\"", true},
                           {"backend", "\"abacus\"", false},
                           {"model_path", "\"/nonexistent/model.gguf\"", false},
                           {"n_views", "0", true},
                           {"n_views", "4", true},
                           {"n_views", "01", true},
                           {"n_views", "1.0", true},
                           {"n_views", "1e0", true},
                           {"n_views", "-1", true},
                           {"n_views", "4294967297", true},
                           {"image_height", "0", true},
                           {"image_width", "0", true},
                           {"image_channels", "0", true},
                           {"action_steps", "0", true},
                           {"action_dim", "0", true},
                           {"n_ctx", "-1", true},
                           {"n_ctx", "4294967296", true},
                           {"n_threads", "2147483648", true},
                           {"temp", "inf", true},
                           {"temp", "nan", true},
                           {"temp", ".", true},
                           {"top_k", "0.5", true},
                           {"seed", "-1", true},
                           {"max_tokens", "4294967296", true}};
  for (const Row& row : kRows) {
    Members bad = good;
    const std::string key = "\"" + std::string(row.key) + "\"";
    bool changed = false;
    for (auto& m : bad)
      if (m.first == key) m.second = row.value, changed = true;
    if (changed) refused(b, v, key + " = " + row.value, text_of(bad), row.exact);
  }
}

void accepts_equal_text(Bench& b, Verdict& v) {
  if (!strict_face(b, v)) return;
  Members reversed = members_of(*b.json());
  std::reverse(reversed.begin(), reversed.end());
  const std::string text = "\r\n\t " + text_of(reversed, " \t\r\n") + "\n";
  const auto opened = b.try_open(text.c_str());
  if (opened.code != 0 || opened.runtime == nullptr)
    return v.fail("the same keys in another order with blanks between answered %d", opened.code);
  Instance second(&b, opened.runtime);
  if (second->exp->fingerprint != b.main->get()->exp->fingerprint)
    v.fail("the same keys in another order gave another fingerprint");
}

constexpr Check kChecks[] = {
    {"config: a repeated key is refused", Check::kSound, repeated_key},
    {"config: an unknown key is refused", Check::kSound, unknown_key},
    {"config: a missing key is refused", Check::kSound, missing_key},
    {"config: a value of another type is refused", Check::kSound, wrong_type},
    {"config: broken text is refused", Check::kSound, broken_text},
    {"config: values out of range are refused", Check::kSound, bad_values},
    {"config: key order and blanks do not matter", Check::kSound, accepts_equal_text},
};

}  // namespace

std::span<const Check> config_checks() {
  return kChecks;
}

}  // namespace outrider::host::conformance
