#include "cli/jetlink_backend.h"

#include <cstring>

#include "base/json.h"
#include "base/json_text.h"
#include "cli/version.h"
#include "host/provider_path.h"
#include "outrider/ext/driving.h"

namespace outrider::cli {
namespace {

namespace jl = link::jetlink;

const outrider_driving_v1* driving_of(const host::Session& session) {
  return static_cast<const outrider_driving_v1*>(session.extension(OUTRIDER_EXT_DRIVING, 1));
}

class DrivingEngine final : public jl::Engine {
 public:
  DrivingEngine(host::Session session, const outrider_driving_v1& table)
      : session_(std::move(session)), table_(&table) {}

  jl::Answer run(const jl::Frame& frame) noexcept override {
    outrider_driving_frame_v1 in{};
    in.struct_size = sizeof in;
    in.flags = frame.reset ? OUTRIDER_DRIVING_RESET : 0;
    in.frames = frame.warped.data();
    in.frames_bytes = frame.warped.size();
    in.packed = frame.packed.data();
    in.packed_bytes = frame.packed.size();
    // A device of wire version 2 brings the hidden state along.
    in.hidden = frame.prev_feat.empty() ? nullptr : frame.prev_feat.data();
    in.hidden_bytes = frame.prev_feat.size();
    outrider_driving_answer_v1 out{};
    out.struct_size = sizeof out;
    jl::Answer answer;
    if (table_->run(table_->self, &in, &out) != 0) return answer;
    answer.stage_ns = static_cast<int64_t>(out.stage_ns);
    answer.run_ns = static_cast<int64_t>(out.run_ns);
    if (out.outputs == nullptr) return answer;
    if (out.status == OUTRIDER_DRIVING_OK) answer.status = jl::Status::kOk;
    if (out.status == OUTRIDER_DRIVING_NOT_FINITE) answer.status = jl::Status::kNotFinite;
    if (answer.status != jl::Status::kInferFailed)
      answer.outputs = {out.outputs, table_->n_outputs};
    return answer;
  }
  void forget_hidden() noexcept override { table_->forget_hidden(table_->self); }
  void reset() noexcept override { table_->reset(table_->self); }
  std::string last_error() const override {
    const frt_model_runtime_v1& runtime = session_.runtime();
    if (runtime.verbs.last_error == nullptr) return "";
    const char* text = runtime.verbs.last_error(runtime.self);
    return text == nullptr ? "" : text;
  }

 private:
  host::Session session_;
  const outrider_driving_v1* table_;
};

// The graph's own record with the model's name and size in front.
Result<jl::ModelSpec> spec_of(const outrider_driving_v1& table, const jl::ModelId& id) {
  std::string text = table.spec_json;
  if (text.size() < 2 || text.front() != '{')
    return make_error(Code::kFailed, "the runtime's driving description is no JSON object");
  text.replace(
      0, 1,
      "{\"sha256\":" + json_quoted(id.sha256) + ",\"nbytes\":" + std::to_string(id.nbytes) + ",");
  auto json = Json::parse(text);
  if (!json) return json.error();
  return jl::spec_from_json(json.value());
}

}  // namespace

JetlinkBackend::JetlinkBackend(JetlinkBackendOptions options) : options_(std::move(options)) {
  facts_.name = options_.name;
  facts_.runtime_version = kVersion;
  facts_.device = "cpu";
  facts_.tag = "outrider" + std::string(kVersion) + ".cpu";
}

Result<host::Session> JetlinkBackend::open(const std::string& path, uint32_t frame_skip) const {
  std::string provider = options_.provider_path;
  if (provider.empty()) {
    auto found = host::find_provider("onnx");
    if (!found) return make_error(Code::kInvalid, "%s", found.error().text);
    provider = found.value();
  }
  std::string config = "{\"model_family\":\"onnx\",\"model_path\":" + json_quoted(path) +
                       ",\"backend\":\"cpu\",\"driving\":\"on\",\"heads\":\"off\","
                       "\"desire\":\"pulse\",\"frame_skip\":" +
                       std::to_string(frame_skip);
  for (const auto& [key, literal] : options_.settings) config += ",\"" + key + "\":" + literal;
  return host::Session::open(provider, config + "}");
}

Result<jl::ModelSpec> JetlinkBackend::build(const std::string& path, const jl::ModelId& id,
                                            const jl::Report& report) {
  opened_.reset();
  report("build", 0.0, "planning the graph");
  auto session = open(path, id.frame_skip);
  if (!session) return session.error();
  const outrider_driving_v1* table = driving_of(session.value());
  if (table == nullptr)
    return make_error(Code::kUnsupported, "the model is no driving graph that this build runs");
  auto spec = spec_of(*table, id);
  if (!spec) return spec.error();
  opened_ = std::make_unique<host::Session>(std::move(session.value()));
  opened_path_ = path;
  opened_skip_ = id.frame_skip;
  return spec;
}

Result<std::unique_ptr<jl::Engine>> JetlinkBackend::load(const std::string& path,
                                                         const jl::ModelSpec& spec,
                                                         const jl::Report&) {
  std::unique_ptr<host::Session> session = std::move(opened_);
  if (session == nullptr || opened_path_ != path || opened_skip_ != spec.id.frame_skip) {
    session.reset();
    auto opened = open(path, spec.id.frame_skip);
    if (!opened) return opened.error();
    session = std::make_unique<host::Session>(std::move(opened.value()));
  }
  const outrider_driving_v1* table = driving_of(*session);
  if (table == nullptr)
    return make_error(Code::kUnsupported, "the model is no driving graph that this build runs");
  auto sizes = jl::sizes_of(spec);
  if (!sizes) return sizes.error();
  if (table->frames_bytes != sizes.value().warped_bytes ||
      table->n_packed != sizes.value().packed() || table->n_outputs != sizes.value().output)
    return make_error(Code::kShape, "the model on disk has other sizes than its record");
  return std::unique_ptr<jl::Engine>(std::make_unique<DrivingEngine>(std::move(*session), *table));
}

}  // namespace outrider::cli
