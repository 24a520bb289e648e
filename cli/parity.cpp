#include "cli/parity.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>

#include "base/input_file.h"
#include "base/mapped_file.h"
#include "cli/config.h"
#include "cli/npy.h"

namespace outrider::cli {
namespace fs = std::filesystem;

namespace {

constexpr size_t kMaxMetaBytes = size_t{4} << 20;

// The stored files of a case: the tap each belongs to, the field of meta.json with its tolerance,
// and how many times tolerance_max_abs it gets at least. That field alone carries what the storage
// type of the recorded weights costs (a recording of 8-bit weights quantises activations too), so
// earlier stages are never held tighter than the actions allow: keys and values are not averaged
// over steps yet (4), and one velocity is worse than the mean of all steps that the actions are
// (2).
struct StoredArray {
  const char *stage, *file, *tolerance;
  double at_least;
};
constexpr StoredArray kStored[] = {
    {"image_embd_0", "image_embd_0", "tolerance_image_embd", 0},
    {"prefix_k_0", "prefix_k_layer0", "tolerance_prefix_kv", 4},
    {"prefix_v_0", "prefix_v_layer0", "tolerance_prefix_kv", 4},
    {"velocity_0", "velocity_step0", "tolerance_max_abs", 2},
    {"x_0", "x_after_step0", "tolerance_max_abs", 1},
    {"actions", "actions", "tolerance_max_abs", 1},
};

Result<Json> read_meta(const std::string& folder) {
  auto text = read_file(folder + "/meta.json", kMaxMetaBytes);
  if (!text) return text.error();
  auto json = Json::parse(text.value());
  if (!json)
    return make_error(Code::kNotFound, "%s/meta.json: %s", folder.c_str(), json.error().text);
  return json;
}

class Meta {
 public:
  Meta(const Json& json, const std::string& folder) : json_(json), folder_(folder) {}

  Error bad(const char* field, const char* wanted) const {
    return make_error(Code::kNotFound, "%s/meta.json: \"%s\" %s; wanted %s", folder_.c_str(), field,
                      json_.find(field) == nullptr ? "is missing" : "is of another type", wanted);
  }
  Result<std::string> text(const char* field) const {
    const Json* value = json_.find(field);
    if (value == nullptr || !value->is_string()) return bad(field, "a string");
    return value->text();
  }
  Result<int64_t> integer(const char* field, int64_t most) const {
    const Json* value = json_.find(field);
    if (value == nullptr || !value->is_integer() || value->integer() < 1 || value->integer() > most)
      return bad(field, "a whole number in range");
    return value->integer();
  }
  Result<double> real(const char* field) const {
    const Json* value = json_.find(field);
    if (value == nullptr || !value->is_number() || value->number() < 0)
      return bad(field, "a number, 0 or more");
    return value->number();
  }
  Result<std::vector<float>> floats(const char* field) const {
    const Json* value = json_.find(field);
    if (value == nullptr || !value->is_array()) return bad(field, "a list of numbers");
    std::vector<float> out;
    for (const Json& item : value->items()) {
      if (!item.is_number()) return bad(field, "a list of numbers");
      out.push_back(static_cast<float>(item.number()));
    }
    return out;
  }
  const Json* find(const char* field) const { return json_.find(field); }

 private:
  const Json& json_;
  const std::string& folder_;
};

// NAME.npy (f4) where there is one, else NAME.bin (raw little-endian f32); empty when neither is.
Result<std::vector<float>> read_floats(const std::string& stem, std::string& file) {
  std::error_code ignored;
  if (fs::exists(stem + ".npy", ignored)) {
    file = stem + ".npy";
    auto array = read_npy(file);
    if (!array) return array.error();
    if (array.value().type != "f4")
      return make_error(Code::kNotFound, "%s: holds %s, wanted f4", file.c_str(),
                        array.value().type.c_str());
    std::vector<float> values(array.value().n_values());
    std::memcpy(values.data(), array.value().bytes.data(), array.value().bytes.size());
    return values;
  }
  file = stem + ".bin";
  if (!fs::exists(file, ignored)) return std::vector<float>();
  auto mapped = MappedFile::open(file.c_str());
  if (!mapped) return mapped.error();
  if (mapped.value().size() % sizeof(float) != 0 || mapped.value().size() == 0)
    return make_error(Code::kNotFound, "%s: %zu bytes, wanted a whole number of 4-byte floats",
                      file.c_str(), mapped.value().size());
  std::vector<float> values(mapped.value().size() / sizeof(float));
  std::memcpy(values.data(), mapped.value().bytes().data(), values.size() * sizeof(float));
  return values;
}

Result<void> read_images(const std::string& folder, GoldenCase& golden) {
  const std::string path = folder + "/images.u8";
  auto mapped = MappedFile::open(path.c_str());
  if (!mapped) return mapped.error();
  const size_t view_bytes =
      static_cast<size_t>(golden.width) * static_cast<size_t>(golden.height) * 3;
  const size_t wanted = view_bytes * static_cast<size_t>(golden.n_views);
  if (mapped.value().size() != wanted)
    return make_error(
        Code::kNotFound, "%s: %zu bytes, meta.json needs %zu (%lld views of %lldx%lldx3)",
        path.c_str(), mapped.value().size(), wanted, static_cast<long long>(golden.n_views),
        static_cast<long long>(golden.width), static_cast<long long>(golden.height));
  const auto* first = reinterpret_cast<const uint8_t*>(mapped.value().bytes().data());
  for (int64_t i = 0; i < golden.n_views; ++i)
    golden.request.images.push_back({static_cast<int32_t>(golden.width),
                                     static_cast<int32_t>(golden.height),
                                     {first + static_cast<size_t>(i) * view_bytes,
                                      first + static_cast<size_t>(i + 1) * view_bytes}});
  return {};
}

Result<void> read_sizes(const Meta& meta, GoldenCase& golden) {
  struct Field {
    const char* name;
    int64_t most;
    int64_t& out;
  };
  const Field fields[] = {{"views", 16, golden.n_views},
                          {"width", 8192, golden.width},
                          {"height", 8192, golden.height},
                          {"action_steps", 1 << 16, golden.action_steps},
                          {"action_dim", 1 << 16, golden.action_dim}};
  for (const Field& field : fields) {
    auto value = meta.integer(field.name, field.most);
    if (!value) return value.error();
    field.out = value.value();
  }
  return {};
}

Result<void> read_state(const Meta& meta, GoldenCase& golden) {
  const Json* state = meta.find("state");
  if (state == nullptr || state->is_null()) {
    golden.request.state.assign(static_cast<size_t>(std::min<int64_t>(8, golden.action_dim)), 0.0f);
    return {};
  }
  auto values = meta.floats("state");
  if (!values) return values.error();
  golden.request.state = std::move(values.value());
  return {};
}

Result<void> read_arrays(const Meta& meta, GoldenCase& golden) {
  if (meta.find("prefix_text_tokens") != nullptr) {
    auto tokens = meta.floats("prefix_text_tokens");
    if (!tokens) return tokens.error();
    golden.arrays.push_back({"tokens", "meta.json", std::move(tokens.value()), 0});
  }
  for (const StoredArray& stored : kStored) {
    GoldenArray array{stored.stage, "", {}, 0};
    auto values = read_floats(golden.folder + "/" + stored.file, array.file);
    if (!values) return values.error();
    if (values.value().empty()) continue;
    array.values = std::move(values.value());
    auto tolerance = meta.real(stored.tolerance), actions = meta.real("tolerance_max_abs");
    if (!tolerance) return tolerance.error();
    if (!actions) return actions.error();
    array.tolerance = std::max(tolerance.value(), stored.at_least * actions.value());
    golden.arrays.push_back(std::move(array));
  }
  return {};
}

// ---- cases of a policy that knows its robot ----------------------------------------------------

// Stages in the order the model computes them; those with a number follow it.
constexpr const char* kStageOrder[] = {
    "pixels",   "tokens",   "normalised_state", "image_embd", "prefix_embd",
    "prefix_k", "prefix_v", "suffix_embd",      "velocity",   "x",
    "logits",   "answer",   "coefficients",     "actions"};
constexpr double kPolicyTolerance = 2e-4;

// (place among the stages, number): velocity_3 lies between x_2 and x_3.
std::pair<int, int64_t> place_of(const std::string& stage) {
  std::string head = stage;
  int64_t number = 0;
  if (const size_t at = stage.rfind('_'); at != std::string::npos) {
    if (read_integer(stage.substr(at + 1), number)) head = stage.substr(0, at);
  }
  for (int i = 0; i < static_cast<int>(std::size(kStageOrder)); ++i) {
    if (head != kStageOrder[i]) continue;
    const bool step = head == "suffix_embd" || head == "velocity" || head == "x";
    return step ? std::pair<int, int64_t>{7, number * 16 + i} : std::pair<int, int64_t>{i, number};
  }
  return {-1, 0};
}

// Every NAME.npy or NAME.bin whose name is a stage.
Result<void> read_stages(const Meta& meta, GoldenCase& golden) {
  double common = kPolicyTolerance;
  if (meta.find("tolerance") != nullptr) {
    auto value = meta.real("tolerance");
    if (!value) return value.error();
    common = value.value();
  }
  std::error_code error;
  std::map<std::pair<int, int64_t>, std::string> stems;
  for (fs::directory_iterator it(golden.folder, error), end; !error && it != end;
       it.increment(error)) {
    const std::string extension = it->path().extension().string(),
                      stem = it->path().stem().string();
    if ((extension == ".npy" || extension == ".bin") && place_of(stem).first >= 0)
      stems[place_of(stem)] = stem;
  }
  for (const auto& [place, stem] : stems) {
    GoldenArray array{stem, "", {}, common};
    auto values = read_floats(golden.folder + "/" + stem, array.file);
    if (!values) return values.error();
    array.values = std::move(values.value());
    // Whole numbers are right or wrong.
    if (stem == "tokens" || stem == "answer" || stem == "coefficients") array.tolerance = 0;
    const Json* tolerances = meta.find("tolerances");
    const Json* own = tolerances != nullptr ? tolerances->find(stem) : nullptr;
    if (own != nullptr && own->is_number() && own->number() >= 0) array.tolerance = own->number();
    golden.arrays.push_back(std::move(array));
  }
  return {};
}

Result<GoldenCase> read_policy_case(const Meta& meta, const std::string& folder) {
  GoldenCase golden;
  golden.folder = folder;
  golden.kind = "policy";
  const Json* cameras = meta.find("cameras");
  if (cameras == nullptr || !cameras->is_array() || cameras->items().empty() ||
      cameras->items().size() > 16)
    return meta.bad("cameras", "a list of camera names");
  for (const Json& camera : cameras->items()) {
    if (!camera.is_string()) return meta.bad("cameras", "a list of camera names");
    golden.request.cameras.push_back(camera.text());
  }
  golden.n_views = static_cast<int64_t>(golden.request.cameras.size());
  for (const auto& [name, out] :
       {std::pair{"width", &golden.width}, std::pair{"height", &golden.height}}) {
    auto value = meta.integer(name, 8192);
    if (!value) return value.error();
    *out = value.value();
  }
  auto prompt = meta.text("prompt");
  if (!prompt) return prompt.error();
  golden.request.prompt = prompt.value();
  auto state = meta.floats("state");
  if (!state) return state.error();
  golden.request.state = std::move(state.value());
  OUTRIDER_TRY(read_images(folder, golden));
  std::string file;
  auto noise = read_floats(folder + "/noise", file);
  if (!noise) return noise.error();
  golden.noise = std::move(noise.value());
  OUTRIDER_TRY(read_stages(meta, golden));
  if (golden.arrays.empty())
    return make_error(Code::kNotFound, "%s: no stored arrays: nothing to compare", folder.c_str());
  return golden;
}

StageVerdict compare(const GoldenArray& wanted, const std::vector<float>& got) {
  StageVerdict verdict;
  verdict.stage = wanted.stage;
  verdict.tolerance = wanted.tolerance;
  if (got.size() != wanted.values.size()) {
    verdict.problem = fmt::format("{} values computed, {} stored in {}", got.size(),
                                  wanted.values.size(), wanted.file);
    return verdict;
  }
  verdict.n_values = got.size();
  verdict.difference = difference(got, wanted.values);
  return verdict;
}

std::vector<double> worst_per_column(std::span<const float> got, std::span<const float> wanted,
                                     size_t n_columns) {
  std::vector<double> worst(n_columns, 0);
  for (size_t i = 0; i < got.size(); ++i)
    worst[i % n_columns] =
        std::max(worst[i % n_columns], std::abs(static_cast<double>(got[i]) - wanted[i]));
  return worst;
}

}  // namespace

Result<std::string> case_kind(const std::string& folder) {
  auto json = read_meta(folder);
  if (!json) return json.error();
  return Meta(json.value(), folder).text("kind");
}

bool recorded_in_bf16(const std::string& folder) {
  auto json = read_meta(folder);
  const Json* flag = json ? json.value().find("bf16") : nullptr;
  return flag != nullptr && flag->is_bool() && flag->boolean();
}

Result<GoldenCase> read_case(const std::string& folder) {
  auto json = read_meta(folder);
  if (!json) return json.error();
  const Meta meta(json.value(), folder);
  GoldenCase golden;
  golden.folder = folder;
  auto kind = meta.text("kind");
  if (!kind) return kind.error();
  golden.kind = kind.value();
  if (golden.kind == "policy") return read_policy_case(meta, folder);
  if (golden.kind != "pi0" && golden.kind != "pi05")
    return make_error(Code::kUnsupported,
                      "%s/meta.json: kind \"%.40s\" is not in this build; it compares pi0, pi05, "
                      "policy and pi-policy",
                      folder.c_str(), golden.kind.c_str());
  OUTRIDER_TRY(read_sizes(meta, golden));
  auto prompt = meta.text("prompt");
  if (!prompt) return prompt.error();
  golden.request.prompt = prompt.value();
  OUTRIDER_TRY(read_state(meta, golden));
  OUTRIDER_TRY(read_images(folder, golden));
  OUTRIDER_TRY(read_arrays(meta, golden));
  if (golden.arrays.empty())
    return make_error(Code::kNotFound, "%s: no stored arrays: nothing to compare", folder.c_str());
  return golden;
}

Result<ParityResult> run_case(Session& session, const GoldenCase& golden, const std::string& only) {
  const outrider_taps_v1* taps = session.taps();
  if (taps != nullptr && taps->enable(taps->self, 1) != 0) taps = nullptr;
  OUTRIDER_TRY(stage(session, golden.request));
  if (!golden.noise.empty()) OUTRIDER_TRY(session.set_floats("noise", golden.noise));
  int64_t n_columns = golden.action_dim;
  if (const auto* port = session.find("actions"); n_columns == 0 && port != nullptr)
    n_columns = port->rank == 2 && port->shape[1] > 0 ? port->shape[1] : 1;
  for (uint64_t i = 0; i < outrider_n_stages(session.handle()); ++i)
    OUTRIDER_TRY(session.run_stage(i));
  ParityResult result;
  for (const GoldenArray& array : golden.arrays) {
    if (!only.empty() && array.stage != only) continue;
    if (array.stage == "actions") {
      auto actions = session.output_floats("actions");
      if (!actions) return actions.error();
      result.stages.push_back(compare(array, actions.value()));
      if (result.stages.back().problem.empty())
        result.action_columns =
            worst_per_column(actions.value(), array.values, static_cast<size_t>(n_columns));
      continue;
    }
    auto tap = session.tap(array.stage);
    if (!tap && taps == nullptr) continue;  // a runtime without taps: the actions alone decide
    if (!tap) {
      StageVerdict verdict;
      verdict.stage = array.stage;
      verdict.tolerance = array.tolerance;
      verdict.problem = std::string(tap.error().message());
      result.stages.push_back(std::move(verdict));
      continue;
    }
    result.stages.push_back(compare(array, tap.value().values));
  }
  if (taps != nullptr) taps->enable(taps->self, 0);
  return result;
}

bool ParityResult::passed() const {
  return !stages.empty() &&
         std::ranges::all_of(stages, [](const StageVerdict& s) { return s.passed(); });
}

std::string ParityResult::first_deviation() const {
  for (const StageVerdict& verdict : stages)
    if (!verdict.passed()) return verdict.stage;
  return "";
}

Report parity_report(const ParityResult& result) {
  Report report;
  Report rows = Report::array();
  for (const StageVerdict& v : result.stages)
    rows.push_back(
        {{"name", v.stage},
         {"n", v.n_values},
         {"max_abs", v.problem.empty() && v.difference.finite ? Report(v.difference.max_abs)
                                                              : Report(nullptr)},
         {"rms",
          v.problem.empty() && v.difference.finite ? Report(v.difference.rms) : Report(nullptr)},
         {"cosine",
          v.problem.empty() && v.difference.finite ? Report(v.difference.cosine) : Report(nullptr)},
         {"worst_index", v.difference.worst_index},
         {"tolerance", v.tolerance},
         {"passed", v.passed()},
         {"problem", v.problem.empty()
                         ? (v.difference.finite ? Report(nullptr) : Report("not finite"))
                         : Report(v.problem)}});
  report["stages"] = std::move(rows);
  report["action_columns_max_abs"] = result.action_columns;
  report["first_deviation"] =
      result.first_deviation().empty() ? Report(nullptr) : Report(result.first_deviation());
  report["passed"] = result.passed();
  return report;
}

}  // namespace outrider::cli
