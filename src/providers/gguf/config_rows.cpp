#include "providers/gguf/config_rows.h"

namespace outrider {

std::string choices_text(std::span<const char* const> choices) {
  std::string text;
  for (const char* choice : choices)
    text += (text.empty() ? "\"" : ", \"") + std::string(choice) + "\"";
  return text;
}

}  // namespace outrider
