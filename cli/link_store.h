// The words of `outrider link` that are about a host's store: push, models, remove.
#pragma once
#include <string_view>

#include "cli/output.h"

namespace outrider::cli {

bool is_store_verb(std::string_view word);
// The command with such a word first. Flags: --mmproj, --name, --timeout, --key-file, --json.
int run_store_verb(Context& context);

}  // namespace outrider::cli
