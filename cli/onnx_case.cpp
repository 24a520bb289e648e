// Recorded cases of ONNX models for parity.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "base/input_file.h"
#include "base/printable.h"
#include "cli/npy.h"
#include "cli/onnx_model.h"

namespace outrider::cli {
namespace {

constexpr size_t kMaxBytes = size_t{64} << 20;

Result<std::vector<std::byte>> from_base64(const std::string& text) {
  static constexpr std::string_view kLetters =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
  std::vector<std::byte> out;
  uint32_t bits = 0;
  int n = 0;
  for (const char c : text) {
    if (c == '=') break;
    const size_t at = kLetters.find(c);
    if (at == std::string_view::npos)
      return make_error(Code::kNotFound, "a recorded array is no base64 text");
    bits = (bits << 6 | static_cast<uint32_t>(at)) & 0xffffff;
    n += 6;
    if (n < 8) continue;
    n -= 8;
    out.push_back(static_cast<std::byte>(bits >> n & 0xff));
  }
  return out;
}

Error bad(const std::string& path, const std::string& what) {
  return make_error(Code::kNotFound, "%.200s: %.200s", path.c_str(), what.c_str());
}

// {"type": .., "shape": [..], "data": base64 or a number}
Result<OnnxArray> inline_array(const Json::Member& member, const std::string& path) {
  OnnxArray array;
  array.port = member.name;
  const Json *data = member.value.find("data"), *shape = member.value.find("shape");
  if (data == nullptr || shape == nullptr || !shape->is_array())
    return bad(path, "array " + shown(member.name) + " lacks data or shape");
  for (const Json& dim : shape->items()) array.shape.push_back(dim.integer());
  if (data->is_string()) {
    auto bytes = from_base64(data->text());
    if (!bytes) return bytes.error();
    array.bytes = std::move(bytes.value());
    return array;
  }
  const auto put = [&](const Json& item) {
    const int64_t value = item.integer();
    const auto* first = reinterpret_cast<const std::byte*>(&value);
    array.bytes.insert(array.bytes.end(), first, first + sizeof value);
  };
  if (data->is_array())
    for (const Json& item : data->items()) put(item);
  else
    put(*data);
  return array;
}

Result<OnnxArray> file_array(const Json::Member& member, const std::string& folder) {
  if (!member.value.is_string() || member.value.text().find('/') != std::string::npos)
    return bad(folder, "array " + shown(member.name) + " is no file name");
  auto npy = read_npy(folder + "/" + member.value.text());
  if (!npy) return npy.error();
  return OnnxArray{member.name, std::move(npy.value().bytes), std::move(npy.value().shape)};
}

Result<std::vector<OnnxArray>> read_side(const Json& item, const char* side,
                                         const std::string& path, bool inline_data) {
  std::vector<OnnxArray> arrays;
  const Json* list = item.find(side);
  if (list == nullptr || !list->is_object()) return bad(path, std::string("a case lacks ") + side);
  for (const Json::Member& member : list->members()) {
    auto array = inline_data ? inline_array(member, path) : file_array(member, path);
    if (!array) return array.error();
    arrays.push_back(std::move(array.value()));
  }
  return arrays;
}

// max|d| against tolerance * max(1, max|recorded|), as numbers of the port's type.
Report compare(const std::string& name, uint32_t dtype, const std::vector<std::byte>& got,
               const std::vector<std::byte>& wanted, double tolerance) {
  Report row{{"name", name},       {"n", 0},
             {"rms", nullptr},     {"cosine", nullptr},
             {"max_abs", nullptr}, {"problem", nullptr},
             {"passed", false},    {"tolerance", tolerance}};
  if (got.size() != wanted.size()) {
    row["problem"] = fmt::format("{} bytes computed, {} recorded", got.size(), wanted.size());
    return row;
  }
  const auto numbers = numbers_of(dtype, got), recorded = numbers_of(dtype, wanted);
  if (!numbers || !recorded) {
    row["problem"] = std::string((numbers ? recorded : numbers).error().message());
    return row;
  }
  row["n"] = recorded.value().size();
  double worst = 0, largest = 1, squares = 0, gg = 0, ww = 0, gw = 0;
  for (size_t i = 0; i < recorded.value().size(); ++i) {
    const double x = numbers.value()[i], y = recorded.value()[i], d = std::abs(x - y);
    worst = d > worst || d != d ? d : worst;
    largest = std::max(largest, std::abs(y));
    squares += d * d;
    gg += x * x;
    ww += y * y;
    gw += x * y;
  }
  const double n = static_cast<double>(recorded.value().size());
  row["tolerance"] = tolerance * largest;
  if (std::isfinite(worst)) row["max_abs"] = worst;
  if (n > 0 && std::isfinite(squares)) row["rms"] = std::sqrt(squares / n);
  if (gg > 0 && ww > 0 && std::isfinite(gw)) row["cosine"] = gw / std::sqrt(gg * ww);
  row["passed"] = n > 0 && worst <= tolerance * largest;
  return row;
}

}  // namespace

bool is_onnx_recording(const std::string& path) {
  return path.ends_with(".ref.json");
}

Result<OnnxCases> read_onnx_cases(const std::string& path) {
  const bool inline_data = is_onnx_recording(path);
  const std::string file = inline_data ? path : path + "/meta.json";
  auto text = read_file(file, kMaxBytes);
  if (!text) return text.error();
  auto json = Json::parse(text.value());
  if (!json) return bad(file, std::string(json.error().message()));
  OnnxCases cases;
  if (const Json* tolerance = json.value().find("tolerance"); tolerance != nullptr) {
    if (!tolerance->is_number() || !(tolerance->number() >= 0))
      return bad(file, "\"tolerance\" is no number, 0 or more");
    cases.tolerance = tolerance->number();
  }
  const Json* list = json.value().find("cases");
  if (list == nullptr || !list->is_array() || list->items().empty())
    return bad(file, "no \"cases\": nothing to compare");
  for (const Json& item : list->items()) {
    OnnxCase one;
    for (auto& [side, arrays] :
         {std::pair<const char*, std::vector<OnnxArray>*>("inputs", &one.inputs),
          {"outputs", &one.outputs}}) {
      auto read = read_side(item, side, path, inline_data);
      if (!read) return read.error();
      *arrays = std::move(read.value());
    }
    cases.cases.push_back(std::move(one));
  }
  return cases;
}

// A state is no port and begins at zero: a recording that begins elsewhere would be compared with
// what the model was never given.
static Result<void> check_first_state(const OnnxArray& input) {
  if (std::ranges::all_of(input.bytes, [](std::byte b) { return b == std::byte{0}; })) return {};
  return make_error(Code::kUnsupported,
                    "parity: case 0 gives %s values, but it is no port of the runtime: a state "
                    "begins at zero; record from there, or check the name",
                    printable(input.port).c_str());
}

Result<Report> run_onnx_cases(Session& session, const OnnxCases& cases, double tolerance) {
  Report rows = Report::array();
  std::string first;
  const std::vector<std::string> stages = session.stages();
  for (size_t i = 0; i < cases.cases.size(); ++i) {
    for (const OnnxArray& input : cases.cases[i].inputs) {
      // A recorded state belongs to the first case; later ones go on from the runtime's own.
      if (session.find(input.port) == nullptr) {
        if (i == 0) OUTRIDER_TRY(check_first_state(input));
        continue;
      }
      OUTRIDER_TRY(session.set_input(input.port, input.bytes.data(), input.bytes.size()));
    }
    for (size_t s = 0; s < stages.size(); ++s)
      if (i == 0 || stages[s] != "reset") OUTRIDER_TRY(session.run_stage(s));
    for (const OnnxArray& output : cases.cases[i].outputs) {
      auto got = session.output(output.port);
      if (!got) return got.error();
      Report row = compare(fmt::format("{}[{}]", output.port, i), session.find(output.port)->dtype,
                           got.value(), output.bytes, tolerance);
      if (!row["passed"].get<bool>() && first.empty()) first = row["name"].get<std::string>();
      rows.push_back(std::move(row));
    }
  }
  return Report{{"stages", rows},
                {"first_deviation", first.empty() ? Report(nullptr) : Report(first)},
                {"passed", first.empty() && !rows.empty()}};
}

}  // namespace outrider::cli
