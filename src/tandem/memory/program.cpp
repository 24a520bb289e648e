#include "tandem/memory/program.h"

#include <algorithm>
#include <cstring>
#include <functional>

namespace outrider::memory {

Result<std::shared_ptr<Program>> Program::make(std::unique_ptr<CompiledGraph> graph,
                                               BufferRef output) {
  if (graph == nullptr || output == nullptr)
    return make_error(Code::kInvalid, "program: no %s", graph == nullptr ? "graph" : "output");
  if (output->bytes() < graph->output_bytes())
    return make_error(Code::kShape, "program: its output has %zu bytes, wanted %zu",
                      output->bytes(), graph->output_bytes());
  return std::shared_ptr<Program>(new Program(std::move(graph), std::move(output)));
}

Result<void> Program::bind_output(BufferRef buffer) {
  if (state_ != State::kUnlinked)
    return make_error(Code::kInvalid,
                      "program: an output cannot be bound after the first run; bind it before the "
                      "warm-up");
  if (buffer == nullptr || buffer->data() == nullptr)
    return make_error(Code::kInvalid, "program: the output to bind is %s",
                      buffer == nullptr ? "none" : "not mapped");
  if (buffer->bytes() < graph_->output_bytes())
    return make_error(Code::kShape, "program: the output to bind has %zu bytes, wanted %zu",
                      buffer->bytes(), graph_->output_bytes());
  output_ = std::move(buffer);
  ++n_bindings_;
  return {};
}

Code Program::fail(Code code, Fault fault, size_t argument, uint64_t found) noexcept {
  fault_ = fault;
  bad_argument_ = argument;
  found_ = found;
  return code;
}

void Program::note_name(std::string_view name) noexcept {
  const size_t n = std::min(name.size(), sizeof found_name_ - 1);
  if (n > 0) std::memcpy(found_name_, name.data(), n);
  found_name_[n] = '\0';
}

Code Program::check_one(const ArgumentSpec& spec, const Argument& a, size_t index) noexcept {
  if (a.name != spec.name) {
    note_name(a.name);
    return fail(Code::kInvalid, Fault::kName, index);
  }
  if (a.dtype != spec.dtype) return fail(Code::kShape, Fault::kType, index, a.dtype);
  if (!std::equal(a.shape.begin(), a.shape.end(), spec.shape.begin(), spec.shape.end()))
    return fail(Code::kShape, Fault::kShape, index, a.shape.size());
  if (a.bytes != spec.bytes) return fail(Code::kShape, Fault::kBytes, index, a.bytes);
  if (a.data == nullptr) return fail(Code::kInvalid, Fault::kNull, index);
  // The output must not be an input as well, not even in part.
  const std::less<const std::byte*> before;
  const auto* begin = static_cast<const std::byte*>(a.data);
  const std::byte* out = output_->data();
  if (out != nullptr && before(begin, out + output_->bytes()) && before(out, begin + a.bytes))
    return fail(Code::kInvalid, Fault::kInsideOutput, index);
  return Code::kOk;
}

Code Program::check(std::span<const Argument> arguments) noexcept {
  const std::span<const ArgumentSpec> captured = graph_->captured();
  for (size_t i = 0; i < arguments.size(); ++i)
    for (size_t j = 0; j < i; ++j)
      if (arguments[i].name == arguments[j].name) {
        note_name(arguments[i].name);
        return fail(Code::kInvalid, Fault::kTwice, i);
      }
  if (arguments.size() != captured.size())
    return fail(Code::kInvalid, Fault::kCount, 0, arguments.size());
  for (size_t i = 0; i < captured.size(); ++i)
    if (const Code code = check_one(captured[i], arguments[i], i); code != Code::kOk) return code;
  return Code::kOk;
}

Code Program::link() noexcept {
  try {
    if (!graph_->link(output_->data())) return fail(Code::kDevice, Fault::kLink);
  } catch (...) {
    return fail(Code::kDevice, Fault::kLink);
  }
  ++n_links_;
  state_ = State::kLinked;
  return Code::kOk;
}

Code Program::start(std::span<const Argument> arguments) noexcept {
  if (state_ == State::kBroken) return fail(Code::kDevice, Fault::kBroken);
  if (const Code code = check(arguments); code != Code::kOk) return code;
  if (state_ == State::kUnlinked)
    if (const Code code = link(); code != Code::kOk) return code;
  const std::byte* written = graph_->replay(arguments);
  if (written == nullptr) return fail(Code::kDevice, Fault::kReplay);
  if (written != output_->data()) {
    state_ = State::kBroken;
    return fail(Code::kDevice, Fault::kElsewhere);
  }
  ++n_runs_;
  fault_ = Fault::kNone;
  return Code::kOk;
}

Code Program::wait() noexcept {
  return graph_->wait() == Code::kOk ? Code::kOk : fail(Code::kDevice, Fault::kReplay);
}

std::string Program::last_error() const {
  const std::span<const ArgumentSpec> captured = graph_->captured();
  const bool known = bad_argument_ < captured.size();
  const std::string name = known ? captured[bad_argument_].name : std::string("?");
  const auto number = [](uint64_t n) { return std::to_string(n); };
  switch (fault_) {
    case Fault::kNone:
      return {};
    case Fault::kCount:
      return "program: " + number(found_) + " arguments, captured were " + number(captured.size());
    case Fault::kName:
      return "program: argument " + number(bad_argument_) + " is \"" + found_name_ +
             "\", captured was \"" + name + "\"";
    case Fault::kTwice:
      return std::string("program: argument \"") + found_name_ + "\" is given twice";
    case Fault::kType:
      return "program: argument \"" + name + "\" has type " + number(found_) + ", captured was " +
             number(known ? captured[bad_argument_].dtype : 0);
    case Fault::kShape:
      return "program: argument \"" + name + "\" has another shape than was captured";
    case Fault::kBytes:
      return "program: argument \"" + name + "\" has " + number(found_) + " bytes, captured were " +
             number(known ? captured[bad_argument_].bytes : 0);
    case Fault::kNull:
      return "program: argument \"" + name + "\" is nowhere (NULL)";
    case Fault::kInsideOutput:
      return "program: argument \"" + name + "\" lies in the program's own output";
    case Fault::kLink:
      return "program: could not be linked";
    case Fault::kReplay:
      return "program: a run failed";
    case Fault::kElsewhere:
      return "program: wrote another buffer than the one that is bound";
    case Fault::kBroken:
      return "program: is broken since it wrote another buffer than the one that was bound";
  }
  return {};
}

}  // namespace outrider::memory
