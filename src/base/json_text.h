// The one writer of JSON strings of this project's own records and descriptions.
#pragma once
#include <string>
#include <string_view>

namespace outrider {

// `text` with its quotes, in a form that every JSON reader takes: control bytes are escaped (the
// short forms where there are some), a byte that belongs to no UTF-8 sequence becomes '?'. What
// comes from outside and is shown to people goes through printable() first.
std::string json_quoted(std::string_view text);

}  // namespace outrider
