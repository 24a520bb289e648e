// The report of inspect for people: the same facts as lines and as Markdown.
#include "cli/inspect.h"
#include "cli/machine.h"

namespace outrider::cli {
namespace {

using Rows = std::vector<std::pair<std::string, std::string>>;

uint64_t number(const Report& report, const char* key) {
  return report.contains(key) && report[key].is_number() ? report[key].get<uint64_t>() : 0;
}
std::string words(const Report& report, const char* key) {
  return report.contains(key) && report[key].is_string()
             ? shown(report[key].get<std::string>(), 300)
             : "";
}

std::string count_text(uint64_t n) {
  if (n >= 1000000000u) return fmt::format("{:.2f} G", static_cast<double>(n) * 1e-9);
  if (n >= 1000000u) return fmt::format("{:.2f} M", static_cast<double>(n) * 1e-6);
  return std::to_string(n);
}

std::string gemma_text(const Report& g) {
  return fmt::format("{} layers, width {}, mlp {}, {} query and {} key/value heads of {}",
                     number(g, "layers"), number(g, "width"), number(g, "mlp"), number(g, "heads"),
                     number(g, "kv_heads"), number(g, "head_dim"));
}

std::string picture_text(const Report& v) {
  if (v["any_size"].get<bool>())
    return fmt::format("any size, at most {} tokens a picture", number(v, "tokens_per_frame"));
  return fmt::format("{} pixels square, {} tokens{}", number(v, "image_size"),
                     number(v, "tokens_per_frame"),
                     v["tiles"].get<bool>() ? " a tile" : " a picture");
}

// A policy that knows its robot: cameras to slots, widths, units, statistics, conventions.
void put_robot(Rows& rows, const Report& robot) {
  const Report& p = robot["policy"];
  rows.emplace_back("robot", words(p, "robot"));
  const std::string absent = robot.contains("answer_tokens") ? "; black when it is absent"
                                                             : "; masked out when it is absent";
  for (const Report& camera : p["cameras"])
    rows.emplace_back("  camera", words(camera, "name") + " goes to slot " + words(camera, "slot") +
                                      (camera["required"].get<bool>() ? "" : absent));
  for (const Report& field : p["state"]["fields"])
    rows.emplace_back("  state", fmt::format("{} ({}) {}", words(field, "name"),
                                             number(field, "size"), words(field, "unit")));
  rows.emplace_back("  actions",
                    fmt::format("{} values {}; {}", number(p["actions"], "size"),
                                words(p["actions"], "unit"), words(robot, "convention")));
  const Report &n = robot["normalisation"], &s = robot["statistics"];
  rows.emplace_back("  statistics",
                    fmt::format("state {} ({}), actions {} ({}), {} rule, from {}",
                                words(n, "state"), words(s, "state"), words(n, "actions"),
                                words(s, "actions"), words(n, "rule"), words(s, "origin")));
  rows.emplace_back("  prompt", fmt::format("{} rule, state {} the text, at most {} tokens",
                                            words(p["prompt"], "rule"),
                                            robot["state_in_text"].get<bool>() ? "in" : "not in",
                                            number(robot, "max_tokens")));
  for (const Report& note : robot["notes"])
    rows.emplace_back("  from", shown(note.get<std::string>(), 300));
}

void put_file(Rows& rows, const Report& r, const char* label) {
  std::string head = words(r, "file") + ", " + bytes_text(number(r, "bytes"));
  if (words(r, "kind") == "gguf")
    head += fmt::format(", GGUF v{}, architecture {}{}", number(r, "gguf_version"),
                        words(r, "architecture"),
                        words(r, "name").empty() ? "" : ", name \"" + words(r, "name") + "\"");
  rows.emplace_back(label, head);
  rows.emplace_back("tensors", fmt::format("{} with {} values", number(r, "tensors"),
                                           count_text(number(r, "parameters"))));
  if (r.contains("tensor_types"))
    for (const Report& type : r["tensor_types"])
      rows.emplace_back(
          "  " + words(type, "type"),
          fmt::format("{} tensors, {} values, {}", number(type, "tensors"),
                      count_text(number(type, "values")), bytes_text(number(type, "bytes"))));
  if (r.contains("family"))
    rows.emplace_back("family",
                      words(r["family"], "name") + " (" + words(r["family"], "why") + ")");
}

void put_onnx(Rows& rows, const Report& r) {
  rows.emplace_back("model",
                    fmt::format("ONNX, opset {}, IR version {}, made by {}", number(r, "opset"),
                                number(r, "ir_version"),
                                words(r, "producer").empty() ? "?" : words(r, "producer")));
  for (const char* side : {"inputs", "outputs"})
    for (const Report& port : r[side]) {
      std::string shape;
      for (const Report& dim : port["shape"])
        shape += (shape.empty() ? "" : ", ") +
                 (dim.is_string() ? shown(dim.get<std::string>(), 40) : dim.dump());
      rows.emplace_back(
          std::string(side).substr(0, std::string(side).size() - 1),
          fmt::format("{} {} {{{}}}", words(port, "name"), words(port, "type"), shape));
    }
  std::string operators;
  for (const auto& [op, n] : r["operators"].items())
    operators += fmt::format("{}{} {}", operators.empty() ? "" : ", ", shown(op, 40), n.dump());
  rows.emplace_back("operators", operators);
  for (const Report& line : r["problems"])
    rows.emplace_back("missing", shown(line.get<std::string>(), 300));
  if (r.contains("driving")) {
    const Report& d = r["driving"];
    rows.emplace_back(
        "driving",
        fmt::format("{}, frames of {} and {} floats, {} outputs, frame skip {}{}",
                    words(d, "layout"), bytes_text(number(d, "frames_bytes")),
                    number(d, "packed_floats"), number(d, "outputs"), number(d, "frame_skip"),
                    d["checkpoint"].is_string()
                        ? ", checkpoint " + shown(d["checkpoint"].get<std::string>(), 60)
                        : ""));
    std::string heads;
    for (const auto& [name, range] : d["slices"].items())
      heads += fmt::format("{}{} {}..{}", heads.empty() ? "" : ", ", shown(name, 40),
                           range[0].dump(), range[1].dump());
    rows.emplace_back("heads", heads);
  }
  if (r.contains("memory"))
    rows.emplace_back("memory", fmt::format("{} of packed constants, {} for one run",
                                            bytes_text(number(r["memory"], "constant_bytes")),
                                            bytes_text(number(r["memory"], "arena_bytes"))));
  if (r.contains("work"))
    rows.emplace_back(
        "work", fmt::format("{:.6g} GFLOP a run in {} steps",
                            r["work"]["total_gflop"].get<double>(), number(r["work"], "steps")));
}

Rows rows_of(const Report& r) {
  Rows rows;
  if (r.contains("bytes")) {
    put_file(rows, r, "file");
  } else {
    rows.emplace_back("file", words(r, "file") + ", " + words(r, "kind"));
    if (r.contains("family")) rows.emplace_back("family", words(r["family"], "why"));
  }
  if (words(r, "kind") == "onnx") put_onnx(rows, r);
  if (r.contains("role")) rows.emplace_back("role", words(r, "role"));
  if (r.contains("chunk"))
    rows.emplace_back(
        "action chunk",
        r["chunk"].contains("answer_tokens")
            ? fmt::format("{} steps of {} values, in at most {} tokens",
                          number(r["chunk"], "steps"), number(r["chunk"], "dim"),
                          number(r["chunk"], "answer_tokens"))
            : fmt::format("{} steps of {} values, {} denoising steps", number(r["chunk"], "steps"),
                          number(r["chunk"], "dim"), number(r["chunk"], "denoise_steps")));
  if (r.contains("backbone")) rows.emplace_back("backbone", gemma_text(r["backbone"]));
  if (r.contains("expert")) rows.emplace_back("action expert", gemma_text(r["expert"]));
  if (r.contains("vision")) {
    const Report& v = r["vision"];
    rows.emplace_back(
        "vision",
        fmt::format("{} layers, width {}, mlp {}, {} heads; {} pixels square, {} tokens a view",
                    number(v, "layers"), number(v, "width"), number(v, "mlp"), number(v, "heads"),
                    number(v, "image_size"), number(v, "tokens_per_view")));
  }
  if (r.contains("picture_tower")) {
    const Report& v = r["picture_tower"];
    rows.emplace_back("pictures",
                      !v["usable"].get<bool>()
                          ? "not usable: " + words(v, "why_not")
                          : fmt::format("projector {}, {} layers, width {}, {} heads; {}",
                                        words(v, "projector"), number(v, "layers"),
                                        number(v, "width"), number(v, "heads"), picture_text(v)));
  }
  if (r.contains("tokenizer")) {
    const Report& t = r["tokenizer"];
    rows.emplace_back(
        "tokenizer",
        t["usable"].get<bool>()
            ? fmt::format("{}, {} pieces, bos {}, eos {}", words(t, "model"), number(t, "pieces"),
                          t["bos"].get<int64_t>(), t["eos"].get<int64_t>())
            : "not usable: " + words(t, "why_not"));
  }
  if (r.contains("robot")) put_robot(rows, r["robot"]);
  if (r.contains("vision_file")) put_file(rows, r["vision_file"], "vision file");
  if (r.contains("memory") && r["memory"].contains("stored_bytes")) {
    const Report& m = r["memory"];
    rows.emplace_back("memory", fmt::format("about {} as stored, {} of it keys and values of {} "
                                            "tokens",
                                            bytes_text(number(m, "stored_bytes")),
                                            bytes_text(number(m, "key_value_cache_bytes")),
                                            number(m, "context")));
  }
  if (r.contains("memory") && r["memory"].contains("f32_bytes")) {
    const Report& m = r["memory"];
    rows.emplace_back(
        "memory",
        fmt::format("about {} in f32, {} in bf16, {} in int8", bytes_text(number(m, "f32_bytes")),
                    bytes_text(number(m, "bf16_bytes")), bytes_text(number(m, "int8_bytes"))));
  }
  if (r.contains("work") && r["work"].contains("vision_gflop")) {
    const Report& w = r["work"];
    rows.emplace_back(
        "work",
        fmt::format("{:.3g} GFLOP a run ({} views, {} text tokens): vision {:.3g}, prefix {:.3g}, "
                    "actions {:.3g}",
                    w["total_gflop"].get<double>(), number(w, "views"), number(w, "text_tokens"),
                    w["vision_gflop"].get<double>(), w["prefix_gflop"].get<double>(),
                    w["expert_gflop"].get<double>()));
  }
  if (r.contains("runs"))
    rows.emplace_back("this build", r["runs"].get<bool>()
                                        ? "runs it"
                                        : "does not run it: " + words(r, "why_not"));
  return rows;
}

}  // namespace

std::string inspection_text(const Report& report) {
  std::string out;
  for (const auto& [name, value] : rows_of(report)) out += fmt::format("{:<14}{}\n", name, value);
  return out;
}

std::string inspection_markdown(const Report& report) {
  std::string out = "| | |\n|---|---|\n";
  for (auto [name, value] : rows_of(report)) {
    for (size_t at = 0; (at = value.find('|', at)) != std::string::npos; at += 2)
      value.insert(at, "\\");
    out += "| " + name + " | " + value + " |\n";
  }
  return out;
}

}  // namespace outrider::cli
