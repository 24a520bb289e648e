// outrider run: one request through one runtime.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "cli/commands.h"
#include "cli/config.h"
#include "cli/flags.h"
#include "cli/idle.h"
#include "cli/llm_model.h"
#include "cli/npy.h"
#include "cli/outputs.h"
#include "cli/request.h"
#include "cli/runtime_facts.h"

namespace outrider::cli {
namespace {

constexpr Flag kFlags[] = {
    kImageFlag,
    kMmprojFlag,
    kPromptFlag,
    kStateFlag,
    {"--input", "NAME=FILE.npy", nullptr,
     "Array for the input port NAME; FILE.npy alone where there is one input.", parse_text, true},
    {"--out", "FILE.npy", nullptr, "Also write the output array to this file.", parse_text},
    kSeedFlag,
    {"--max-tokens", "N", nullptr,
     "Tokens of the answer at most (key max_tokens), for language models.", parse_count},
    kSchemaFlag,
    kThreadsFlag,
    kViewsFlag,
    kSetFlag,
    kProviderFlag,
    kPrintConfigFlag,
    kJsonFlag,
};
constexpr Positional kPositionals[] = {kConfigOrFile};

int run(Context& context);

}  // namespace

const Command kRun = {
    "run",
    "Run one request and print the action chunk, or a language model's text.",
    "Pictures go to the camera slots in the order given; where a policy names its "
    "cameras, to the camera that is named (--image wrist=w.png). With a model file "
    "the "
    "runtime is opened for the "
    "pictures' own size; with a configuration the sizes must match it. A picture "
    "of another size than the model's is resized by the runtime, and a short "
    "state is padded with zeros; both are reported. Text goes in as written; "
    "actions are in the policy's normalised units, or in the robot's where the policy "
    "knows its robot.",
    "outrider run pi05.gguf --image base.png --image wrist.png --prompt \"pick "
    "up the cup\" --state 0,0,0,0,0,0,0,0",
    kPositionals,
    kFlags,
    run};

namespace {

// Does the array fit the port, and is it finite? An images port takes u8 [n, h, w, 3].
Result<void> set_array(Session& session, const std::string& name, const NpyArray& array,
                       const std::string& path) {
  const frt_runtime_port_desc* port = session.find(name);
  if (port == nullptr) return session.port(name).error();
  if (port->direction != FRT_PORT_IN)
    return make_error(Code::kInvalid, "--input %s: this port is an output", name.c_str());
  if (port->modality == FRT_MODALITY_IMAGE) {
    if (array.type != "u1" || array.shape.size() != 4 || array.shape[3] != 3 ||
        array.n_values() == 0 || array.shape[0] > 64 || array.shape[1] > 65535 ||
        array.shape[2] > 65535)
      return make_error(Code::kInvalid,
                        "--input %s: %s holds %s of shape %s; wanted u1 (0 to 255) of shape "
                        "{views, height, width, 3}",
                        name.c_str(), path.c_str(), array.type.c_str(),
                        shape_text(array.shape).c_str());
    std::vector<ImageView> views;
    const size_t view_bytes = array.bytes.size() / static_cast<size_t>(array.shape[0]);
    for (int64_t i = 0; i < array.shape[0]; ++i)
      views.push_back({PixelFormat::kRgb8, array.bytes.data() + static_cast<size_t>(i) * view_bytes,
                       view_bytes, static_cast<int32_t>(array.shape[2]),
                       static_cast<int32_t>(array.shape[1]), 0});
    return session.set_images(name, views);
  }
  // Its runtime takes views, which hold addresses: bytes of a file are none.
  if (port->modality == FRT_MODALITY_DEPTH)
    return make_error(Code::kUnsupported,
                      "--input %s: this port takes depth pictures, which run does not stage; stage "
                      "them through the C ABI",
                      name.c_str());
  static constexpr const char* kTypes[] = {"u1", "f4", "f2", "", "i4", "i8"};
  const char* wanted = port->dtype < 6 ? kTypes[port->dtype] : "";
  if (array.type != wanted)
    return make_error(Code::kInvalid, "--input %s: %s holds %s, the port takes %s%s", name.c_str(),
                      path.c_str(), array.type.c_str(),
                      *wanted ? wanted : port_dtype_name(port->dtype),
                      array.type == "f8" ? "; save it with .astype(\"float32\")" : "");
  if (array.type == "f4") {
    for (size_t i = 0; i < array.n_values(); ++i) {
      float value;
      std::memcpy(&value, array.bytes.data() + i * sizeof value, sizeof value);
      if (!std::isfinite(value))
        return make_error(Code::kInvalid, "--input %s: value %zu of %s is not finite", name.c_str(),
                          i, path.c_str());
    }
  }
  return session.set_input(name, array.bytes.data(), array.bytes.size());
}

// "obs=obs.npy", or "obs.npy" for a runtime with one input that takes arrays.
struct InputWord {
  std::string name, path;
};
Result<InputWord> input_word(const Session& session, const std::string& word) {
  const size_t at = word.find('=');
  const bool names_a_port = at != std::string::npos && session.find(word.substr(0, at)) != nullptr;
  // A path may hold the sign too: then it must be there.
  if (at != std::string::npos && (names_a_port || !check_there(word)))
    return InputWord{word.substr(0, at), word.substr(at + 1)};
  std::string names;
  int n_inputs = 0;
  for (const auto* port : session.ports()) {
    if (port->direction != FRT_PORT_IN || port->modality == FRT_MODALITY_TEXT) continue;
    names += (n_inputs++ == 0 ? "" : ", ") + std::string(port->name);
  }
  if (n_inputs == 1) return InputWord{names, word};
  return make_error(Code::kInvalid,
                    "--input %.200s: this runtime has %d inputs (%.200s); say NAME=FILE.npy",
                    word.c_str(), n_inputs, names.c_str());
}

// Frames of a driving policy that nobody gave: a pattern that moves nowhere; scalars: zeros.
Result<void> stage_sample(Session& session, const frt_runtime_port_desc& port) {
  size_t n = port_dtype_bytes(port.dtype);
  for (uint32_t d = 0; d < port.rank; ++d) n *= static_cast<size_t>(port.shape[d]);
  std::vector<uint8_t> bytes(n, 0);
  if (port.dtype == FRT_DTYPE_U8)
    for (size_t i = 0; i < n; ++i) bytes[i] = static_cast<uint8_t>(i * 2654435761u >> 24);
  return session.set_input(port.name, bytes.data(), bytes.size());
}

// Sets what was given and says which required port nothing was given for.
Result<void> stage_all(Context& context, Session& session, const Request& request) {
  std::vector<std::string> set;
  for (const std::string& word : context.args.all("--input")) {
    const auto split = input_word(session, word);
    if (!split) return split.error();
    const auto& [name, path] = split.value();
    OUTRIDER_TRY(check_there(path));
    auto array = read_npy(path);
    if (!array) return array.error();
    OUTRIDER_TRY(set_array(session, name, array.value(), path));
    set.push_back(name);
  }
  auto done = [&](const char* name) { return std::ranges::find(set, name) != set.end(); };
  if (!request.images.empty()) {
    OUTRIDER_TRY(stage_images(session, request));
    set.push_back("images");
    for (const std::string& camera : request.cameras) set.push_back(camera);
    if (request.cameras.empty())
      for (const auto* port : camera_ports(session)) set.push_back(port->name);
  }
  if (!request.prompt.empty()) {
    OUTRIDER_TRY(session.set_text("prompt", request.prompt));
    set.push_back("prompt");
  }
  if (!request.state.empty()) {
    OUTRIDER_TRY(session.set_floats("state", request.state));
    set.push_back("state");
  }
  const bool driving = runtime_facts(session).described.contains("driving");
  for (const auto* port : session.ports()) {
    if (port->direction != FRT_PORT_IN || port->required == 0 || done(port->name)) continue;
    // As many pictures as one likes may be none.
    if (port->modality == FRT_MODALITY_IMAGE && port->rank == 4 && port->shape[0] < 0) {
      OUTRIDER_TRY(session.set_input(port->name, nullptr, 0));
      continue;
    }
    if (std::strcmp(port->name, "prompt") == 0 && done("tokens")) continue;
    if (std::strcmp(port->name, "state") == 0 && port->dtype == FRT_DTYPE_F32) {
      // PI0 takes at most as many values as an action has.
      const frt_runtime_port_desc* actions = session.find("actions");
      const int64_t dim =
          actions != nullptr && actions->rank == 2 && actions->shape[1] > 0 ? actions->shape[1] : 8;
      const bool fixed = port->rank == 1 && port->shape[0] > 0 && port->shape[0] <= 4096;
      const std::vector<float> zeros(
          static_cast<size_t>(fixed ? port->shape[0] : std::min<int64_t>(dim, 8)), 0.0f);
      OUTRIDER_TRY(session.set_floats("state", zeros));
      context.out.say(Level::kWarn, "no --state given: {} zeros are used", zeros.size());
      continue;
    }
    if (driving && port->modality == FRT_MODALITY_TENSOR) {
      OUTRIDER_TRY(stage_sample(session, *port));
      context.out.say(Level::kWarn, "no --input {}=FILE.npy given: {}", port->name,
                      port->dtype == FRT_DTYPE_U8 ? "a made pattern is used" : "zeros are used");
      continue;
    }
    const bool camera = port->modality == FRT_MODALITY_IMAGE;
    const char* flag = std::strcmp(port->name, "images") == 0   ? "--image P"
                       : camera                                 ? "--image CAMERA=P"
                       : std::strcmp(port->name, "prompt") == 0 ? "--prompt T"
                                                                : "--input";
    return make_error(Code::kInvalid, "run: input %s %s is required and was not given; use %s%s%s",
                      port->name, port_shape_text(*port).c_str(), flag,
                      std::strcmp(flag, "--input") == 0 ? " NAME=FILE.npy for " : "",
                      std::strcmp(flag, "--input") == 0 ? port->name : "");
  }
  return {};
}

// Shape of the output: the port's where it is fixed, else one row.
std::vector<int64_t> output_shape(const frt_runtime_port_desc& port, size_t n_values) {
  std::vector<int64_t> shape(port.shape, port.shape + port.rank);
  size_t n = 1;
  for (int64_t size : shape) n *= size > 0 ? static_cast<size_t>(size) : 0;
  if (n != n_values || shape.empty()) shape = {static_cast<int64_t>(n_values)};
  return shape;
}

void print_table(Output& out, std::span<const float> values, int64_t n_cols) {
  constexpr int64_t kColsPerBlock = 8;
  const int64_t n_rows = n_cols > 0 ? static_cast<int64_t>(values.size()) / n_cols : 0;
  for (int64_t first = 0; first < n_cols; first += kColsPerBlock) {
    const int64_t end = std::min(first + kColsPerBlock, n_cols);
    out.text("{:>6}", "step");
    for (int64_t c = first; c < end; ++c) out.text(" {:>9}", fmt::format("[{}]", c));
    out.text("\n");
    for (int64_t r = 0; r < n_rows; ++r) {
      out.text("{:>6}", r);
      for (int64_t c = first; c < end; ++c)
        out.text(" {:>9.4f}", values[static_cast<size_t>(r * n_cols + c)]);
      out.text("\n");
    }
    if (end < n_cols) out.text("\n");
  }
}

// FC-22: a value that is no number is a failed run, never a result.
Result<void> check_finite(std::span<const float> values, const std::string& port) {
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i]))
      return make_error(Code::kFailed,
                        "output %.80s: value %zu of %zu is %g and nothing is delivered; check "
                        "weights and inputs",
                        port.c_str(), i, values.size(), static_cast<double>(values[i]));
  return {};
}

// What the runtime changed on the way in, by its own counters.
struct Adjusted {
  int64_t padded_states = 0, resized_views = 0;
};
Adjusted adjusted(const Session& session) {
  const Report counters = counters_report(session);
  return {counters.value("padded_states", int64_t{0}), counters.value("resized_views", int64_t{0})};
}

Report rows_report(std::span<const float> values, std::span<const int64_t> shape) {
  if (shape.size() != 2) return std::vector<float>(values.begin(), values.end());
  Report rows = Report::array();
  for (int64_t r = 0; r < shape[0]; ++r) {
    const auto row =
        values.subspan(static_cast<size_t>(r * shape[1]), static_cast<size_t>(shape[1]));
    rows.push_back(std::vector<float>(row.begin(), row.end()));
  }
  return rows;
}

void say_how_it_was_opened(Context& context, const Resolved& resolved) {
  for (const std::string& note : resolved.notes) context.out.say(Level::kInfo, "{}", note);
  if (resolved.derived && (resolved.family == "onnx" || is_language(resolved.family))) {
    context.out.say(Level::kInfo, "opened {} (--print-config shows all)", resolved.model_path);
    return;
  }
  if (resolved.derived)
    if (!resolved.policy_dir.empty())
      context.out.say(Level::kInfo, "opened {} (--print-config shows all)", resolved.policy_dir);
  if (resolved.derived && resolved.policy_dir.empty())
    context.out.say(Level::kInfo, "opened {} with {}; {} of {}x{} (--print-config shows all)",
                    resolved.model_path, resolved.mmproj_path,
                    resolved.integer("n_views", 0) == 1
                        ? std::string("1 view")
                        : fmt::format("{} views", resolved.integer("n_views", 0)),
                    resolved.integer("image_width", 0), resolved.integer("image_height", 0));
}

// A language model: its text as it comes, or one document.
int answer(Context& context, Session& session, bool by_schema) {
  auto answered = run_answer(session, [&](std::string_view part) {
    context.out.lines(shown_text(part));
    context.out.flush(kGood);
  });
  if (!answered) return context.fail(answered.error());
  const Answer& a = answered.value();
  context.out.lines("\n");
  const auto n = static_cast<double>(a.ids.size());
  if (!a.ids.empty())
    context.out.say(Level::kInfo,
                    "{} prompt tokens in {:.1f} ms, {} tokens in {:.1f} ms ({:.1f} a "
                    "second), end: {}",
                    a.n_prompt_tokens, a.prefill_ms, a.ids.size(), a.decode_ms,
                    n / std::max(a.decode_ms, 1e-6) * 1e3, a.end);
  Report report;
  report["text"] = a.text;
  report["output"] = "text";
  report["ids"] = a.ids;
  report["new_tokens"] = a.ids.size();
  report["end"] = a.end;
  report["prompt_tokens"] = a.n_prompt_tokens;
  report["prefill_ms"] = a.prefill_ms;
  report["decode_ms"] = a.decode_ms;
  report["open_ms"] = static_cast<double>(session.open_ns()) * 1e-6;
  report["fingerprint"] = fmt::format("{:016x}", outrider_fingerprint(session.handle()));
  const bool whole = !by_schema || is_whole(a);
  if (by_schema) report["complete"] = whole;
  if (!whole) context.out.say(Level::kWarn, "{}", kCutAnswer);
  context.out.document(std::move(report));
  return whole ? kGood : kBad;
}

int run(Context& context) {
  const Args& args = context.args;
  Request request;
  if (auto loaded = load_images(args.all("--image"), request); !loaded)
    return context.fail(loaded.error());
  request.prompt = args.text("--prompt");
  if (args.given("--state")) {
    auto state = parse_csv(args.text("--state"));
    if (!state) return context.fail(state.error());
    request.state = std::move(state.value());
  }
  if (const std::string oddity = prompt_oddity(request.prompt); !oddity.empty())
    context.out.say(Level::kWarn, "--prompt: {}", oddity);

  Wish wish = wish_of(args, kRun);
  if (!request.images.empty() && request.cameras.empty())
    wish.image_size = {request.images[0].width, request.images[0].height};
  auto resolved = resolve(args.positional(0), wish);
  if (!resolved) return context.fail(resolved.error());
  if (args.given("--print-config")) {
    print_settings(resolved.value(), context.out);
    context.out.document(settings_report(resolved.value()));
    return kGood;
  }
  if (!request.images.empty() && request.cameras.empty() && resolved.value().family != "mllm") {
    if (auto same = check_one_size(args.all("--image"), request); !same)
      return context.fail(same.error());
    if (auto fits = check_images(request.images, resolved.value()); !fits)
      return context.fail(fits.error());
  }
  if (is_language(resolved.value().family))
    if (auto good = refuse_idle(args, {"--out"}, "a language model writes text, no array"); !good)
      return context.fail(good.error());
  std::vector<std::string> inputs = input_files(args.positional(0), resolved.value());
  if (args.given("--schema")) inputs.push_back(args.text("--schema"));
  for (const std::string& word : args.all("--image")) inputs.push_back(image_path(word));
  for (const std::string& word : args.all("--input"))
    inputs.push_back(word.substr(word.find('=') + 1));
  static constexpr const char* kOutputs[] = {"--out"};
  if (auto fine = check_outputs(wanted_outputs(args, kOutputs), inputs, context.out); !fine)
    return context.fail(fine.error());
  auto session = open_session(resolved.value());
  if (!session) return context.fail(session.error());
  say_how_it_was_opened(context, resolved.value());
  if (auto staged = stage_all(context, session.value(), request); !staged)
    return context.fail(staged.error());

  if (is_language(resolved.value().family))
    return answer(context, session.value(), follows_schema(resolved.value()));
  Report stages = Report::array();
  const std::vector<std::string> names = session.value().stages();
  double total_ms = 0;
  for (size_t i = 0; i < names.size(); ++i) {
    if (auto ran = session.value().run_stage(i); !ran) return context.fail(ran.error());
    const double ms = static_cast<double>(session.value().stage_ns(i)) * 1e-6;
    total_ms += ms;
    stages.push_back({{"name", names[i]}, {"ms", ms}});
  }
  auto port = main_output(session.value());
  if (!port) return context.fail(port.error());
  auto values = session.value().output_floats(port.value());
  if (!values) return context.fail(values.error());
  if (auto finite = check_finite(values.value(), port.value()); !finite)
    return context.fail(finite.error());
  const std::vector<int64_t> shape =
      output_shape(*session.value().find(port.value()), values.value().size());
  if (args.given("--out")) {
    if (auto wrote = write_npy(args.text("--out"), values.value(), shape); !wrote)
      return context.fail(wrote.error());
    context.out.say(Level::kInfo, "wrote {}", args.text("--out"));
  }
  const Report described = runtime_facts(session.value()).described;
  const std::string units =
      described.is_object() ? described.value("units", "normalised") : "normalised";
  context.out.text("{} {} in {:.{}f} ms, {} units\n", port.value(), shape_text(shape), total_ms,
                   resolved.value().family == "onnx" ? 3 : 1, units);
  const Adjusted changed = adjusted(session.value());
  if (changed.resized_views > 0)
    context.out.text("{} {} resized to the size the model sees\n", changed.resized_views,
                     changed.resized_views == 1 ? "picture was" : "pictures were");
  if (changed.padded_states > 0) context.out.text("the state was padded with zeros\n");
  print_table(context.out, values.value(), shape.back());
  Report report;
  report[port.value()] = rows_report(values.value(), shape);
  report["output"] = port.value();
  report["shape"] = shape;
  report["units"] = units;
  report["resized_views"] = changed.resized_views;
  report["padded_states"] = changed.padded_states;
  report["stages"] = std::move(stages);
  report["open_ms"] = static_cast<double>(session.value().open_ns()) * 1e-6;
  report["fingerprint"] = fmt::format("{:016x}", outrider_fingerprint(session.value().handle()));
  context.out.document(std::move(report));
  return kGood;
}

}  // namespace
}  // namespace outrider::cli
