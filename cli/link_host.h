// Connections of the command line to a host of the link.
#pragma once
#include <memory>
#include <string>
#include <string_view>

#include "base/result.h"
#include "link/client/connection.h"

namespace outrider::cli {

// [setup] Who makes streams to this endpoint, secure ones with a key file ("": none). Errors:
// kInvalid (not an endpoint), those of the key file.
Result<std::unique_ptr<link::Dialer>> make_dialer(std::string_view endpoint,
                                                  const std::string& key_file = "");

// [setup] This program towards a host: the machine's name, a random client id, what it understands.
link::DeviceName link_name(uint64_t features);

}  // namespace outrider::cli
