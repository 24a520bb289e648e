// What a model file is: one report, from which text, Markdown and JSON are made.
#pragma once
#include <string>

#include "base/result.h"
#include "cli/config.h"

namespace outrider::cli {

struct Inspection {
  Report report;      // the JSON document
  bool runs = false;  // this build runs it
  bool good = false;  // readable, and something was looked at
};

// Errors: kInvalid (missing, no regular file), kNotFound (damaged), kUnsupported (unknown kind).
Result<Inspection> inspect_file(const std::string& path, const Wish& wish = {});

// Token ids of `text` as the policy face makes them, with their pieces; state as for PI0.5's
// prompt, empty: zeros. Errors: kUnsupported when the file has no tokenizer this build knows.
Result<Report> inspect_tokens(const std::string& path, const std::string& text,
                              std::span<const float> state);

std::string inspection_text(const Report& report);
std::string inspection_markdown(const Report& report);

}  // namespace outrider::cli
