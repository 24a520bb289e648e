#include "text/end_texts.h"

#include <algorithm>
#include <string_view>

namespace outrider {
namespace {

constexpr std::string_view kEndTexts[] = {"<|eot_id|>",
                                          "<|im_end|>",
                                          "<|end|>",
                                          "<|return|>",
                                          "<|call|>",
                                          "<|flush|>",
                                          "<|calls|>",
                                          "<end_of_turn>",
                                          "<|endoftext|>",
                                          "</s>",
                                          "<|eom_id|>",
                                          "<EOT>",
                                          "_<EOT>",
                                          "[EOT]",
                                          "[EOS]",
                                          "<|end_of_text|>",
                                          "<end_of_utterance>",
                                          "<eos>",
                                          "<turn|>",
                                          "<|tool_response>"};

}  // namespace

void add_end_texts(const PieceTable& table, std::vector<int32_t>& ends) {
  for (const std::string_view text : kEndTexts) {
    const int32_t id = table.find(text);
    if (id != PieceTable::kNone) ends.push_back(id);
  }
  // Where a message ends with <|return|> or <|call|>, <|end|> only closes a part of it.
  const int32_t part_end = table.find("<|end|>");
  if (part_end != PieceTable::kNone && table.find("<|return|>") != PieceTable::kNone &&
      table.find("<|call|>") != PieceTable::kNone)
    std::erase(ends, part_end);
}

}  // namespace outrider
