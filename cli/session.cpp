#include "cli/session.h"

#include <algorithm>
#include <cstring>

#include "base/clock.h"
#include "tensor/dtype.h"

namespace outrider::cli {
namespace {

Code code_of(int abi) {
  return abi <= -1 && abi >= -8 ? static_cast<Code>(abi) : Code::kFailed;
}

}  // namespace

Result<Session> Session::open(const std::string& provider_path, const std::string& config_json) {
  Session session;
  char reason[Error::kTextBytes] = {};
  outrider_session* handle = nullptr;
  MonotonicClock clock;
  const int64_t start_ns = clock.now_ns();
  const int code =
      outrider_open(provider_path.c_str(), config_json.c_str(), &handle, reason, sizeof reason);
  session.open_ns_ = clock.now_ns() - start_ns;
  session.handle_.reset(handle);
  if (code != 0 || handle == nullptr)
    return make_error(code_of(code), "%s",
                      reason[0] != 0 ? reason : "open failed and gave no reason");
  return session;
}

Result<void> Session::check(int code, const std::string& what) const {
  if (code == 0) return {};
  const char* reason = outrider_session_error(handle_.get());
  if (reason == nullptr || *reason == 0) reason = "no reason given";
  // Many reasons begin with what they are about: "stage context: ...", "images: ...".
  const std::string subject = what.substr(what.find(' ') + 1);
  std::string_view line = reason;
  // The host puts its verb and the code in front of what the provider said.
  const std::string host_words = ": code " + std::to_string(code) + ": ";
  if (const size_t at = line.find(host_words); at != std::string_view::npos && at < 80)
    line.remove_prefix(at + host_words.size());
  const bool named = line.starts_with(what) || line.starts_with(subject);
  return make_error(code_of(code), "%s%s%s (code %d)", named ? "" : what.c_str(), named ? "" : ": ",
                    line.data(), code);
}

Result<uint32_t> Session::port(std::string_view name) const {
  const int index = outrider_find_port(handle_.get(), std::string(name).c_str());
  if (index >= 0) return static_cast<uint32_t>(index);
  std::string list;
  for (const auto* port : ports()) list += (list.empty() ? "" : ", ") + std::string(port->name);
  return make_error(Code::kInvalid, "no port \"%.*s\"; this runtime has %s",
                    static_cast<int>(name.size()), name.data(), list.c_str());
}

std::vector<const frt_runtime_port_desc*> Session::ports() const {
  std::vector<const frt_runtime_port_desc*> out;
  for (uint64_t i = 0; i < outrider_n_ports(handle_.get()); ++i)
    out.push_back(outrider_port(handle_.get(), i));
  return out;
}

const frt_runtime_port_desc* Session::find(std::string_view name) const {
  for (const auto* port : ports())
    if (name == port->name) return port;
  return nullptr;
}

Result<void> Session::set_input(std::string_view name, const void* data, uint64_t bytes) {
  auto index = port(name);
  if (!index) return index.error();
  return check(outrider_set_input(handle_.get(), index.value(), data, bytes),
               "input " + std::string(name));
}

Result<void> Session::set_images(std::string_view port, std::span<const ImageView> views) {
  std::vector<frt_image_view> raw;
  for (const ImageView& view : views) {
    frt_image_view out = {};
    out.struct_size = sizeof out;
    out.pixel_format = static_cast<uint32_t>(view.format);
    out.data = view.data;
    out.bytes = view.n_bytes;
    out.width = view.width;
    out.height = view.height;
    out.stride_bytes = view.stride_bytes;
    raw.push_back(out);
  }
  return set_input(port, raw.data(), raw.size() * sizeof raw[0]);
}

Result<void> Session::set_text(std::string_view port, std::string_view text) {
  return set_input(port, text.data(), text.size());
}

Result<void> Session::set_floats(std::string_view port, std::span<const float> values) {
  return set_input(port, values.data(), values.size_bytes());
}

Result<std::vector<std::byte>> Session::output(std::string_view name) {
  auto index = port(name);
  if (!index) return index.error();
  const frt_runtime_port_desc* desc = outrider_port(handle_.get(), index.value());
  uint64_t capacity = port_dtype_bytes(desc->dtype);
  for (uint32_t d = 0; d < desc->rank; ++d)
    capacity = desc->shape[d] > 0 && desc->shape[d] < (1 << 24)
                   ? capacity * static_cast<uint64_t>(desc->shape[d])
                   : 1 << 16;
  // A port of variable length tells its size; a bounded number of tries, as it may grow between
  // them.
  for (int attempt = 0; attempt < 3; ++attempt) {
    if (capacity > (uint64_t{1} << 30))
      return make_error(Code::kNoMemory, "output %s: %llu bytes, allowed 1 GiB", desc->name,
                        static_cast<unsigned long long>(capacity));
    std::vector<std::byte> bytes(capacity);
    uint64_t written = 0;
    const int code =
        outrider_get_output(handle_.get(), index.value(), bytes.data(), capacity, &written);
    if (code == FRT_ERR_STORAGE && written > capacity) {
      capacity = written;
      continue;
    }
    OUTRIDER_TRY(check(code, "output " + std::string(name)));
    bytes.resize(std::min(written, capacity));
    return bytes;
  }
  return make_error(Code::kFailed, "output %s: its size changes with every question", desc->name);
}

Result<std::vector<double>> numbers_of(uint32_t dtype, std::span<const std::byte> bytes) {
  const auto all = [&](auto like, const auto& number) {
    std::vector<double> values(bytes.size() / sizeof like);
    for (size_t i = 0; i < values.size(); ++i) {
      std::memcpy(&like, bytes.data() + i * sizeof like, sizeof like);
      values[i] = static_cast<double>(number(like));
    }
    return values;
  };
  const auto same = [](auto x) { return x; };
  switch (dtype) {
    case FRT_DTYPE_F32:
      return all(float{}, same);
    case FRT_DTYPE_F16:
      return all(uint16_t{}, [](uint16_t x) { return f16_to_f32(x); });
    case FRT_DTYPE_BF16:
      return all(uint16_t{}, [](uint16_t x) { return bf16_to_f32(x); });
    case FRT_DTYPE_I64:
      return all(int64_t{}, same);
    case FRT_DTYPE_I32:
      return all(int32_t{}, same);
    case FRT_DTYPE_U8:
      return all(uint8_t{}, same);
    default:
      return make_error(Code::kUnsupported, "element type %u has no numbers", dtype);
  }
}

Result<std::vector<float>> Session::output_floats(std::string_view name) {
  auto index = port(name);
  if (!index) return index.error();
  const frt_runtime_port_desc* desc = outrider_port(handle_.get(), index.value());
  auto bytes = output(name);
  if (!bytes) return bytes.error();
  auto values = numbers_of(desc->dtype, bytes.value());
  if (!values)
    return make_error(Code::kUnsupported, "output %s: element type %s, wanted numbers", desc->name,
                      port_dtype_name(desc->dtype));
  return std::vector<float>(values.value().begin(), values.value().end());
}

std::vector<std::string> Session::stages() const {
  std::vector<std::string> names;
  for (uint64_t i = 0; i < outrider_n_stages(handle_.get()); ++i)
    names.emplace_back(outrider_stage_name(handle_.get(), i));
  return names;
}

Result<void> Session::run_stage(uint64_t stage) {
  return check(outrider_run_stage(handle_.get(), stage),
               std::string("stage ") + outrider_stage_name(handle_.get(), stage));
}

Result<void> Session::tick() {
  return check(outrider_tick(handle_.get()), "tick");
}

const outrider_taps_v1* Session::taps() const {
  return static_cast<const outrider_taps_v1*>(
      outrider_extension(handle_.get(), OUTRIDER_EXT_TAPS, 1));
}

const outrider_status_v1* Session::status() const {
  return static_cast<const outrider_status_v1*>(
      outrider_extension(handle_.get(), OUTRIDER_EXT_STATUS, 1));
}

Result<Session::Tap> Session::tap(const std::string& name) const {
  const outrider_taps_v1* table = taps();
  if (table == nullptr) return make_error(Code::kUnsupported, "this runtime offers no taps");
  Tap out;
  out.name = name;
  uint64_t n_values = 0;
  int64_t shape[4] = {};
  uint32_t rank = 0;
  int code = table->read(table->self, name.c_str(), nullptr, 0, &n_values, shape, &rank);
  if (code == FRT_ERR_STORAGE) {
    if (n_values > (uint64_t{1} << 30))
      return make_error(Code::kNoMemory, "tap %s: too large", name.c_str());
    out.values.resize(n_values);
    code = table->read(table->self, name.c_str(), out.values.data(), n_values, &n_values, shape,
                       &rank);
  }
  if (code != 0) return make_error(code_of(code), "tap %s: code %d", name.c_str(), code);
  out.values.resize(std::min<uint64_t>(n_values, out.values.size()));
  out.shape.assign(shape, shape + std::min<uint32_t>(rank, 4));
  return out;
}

const char* modality_name(uint32_t modality) {
  static constexpr const char* kNames[] = {"tensor", "image", "text",  "state",
                                           "action", "audio", "depth", "force"};
  return modality < 8 ? kNames[modality] : "unknown";
}

const char* port_dtype_name(uint32_t dtype) {
  static constexpr const char* kNames[] = {"u8", "f32", "f16", "bf16", "i32", "i64"};
  return dtype < 6 ? kNames[dtype] : "unknown";
}

size_t port_dtype_bytes(uint32_t dtype) {
  static constexpr size_t kBytes[] = {1, 4, 2, 2, 4, 8};
  return dtype < 6 ? kBytes[dtype] : 1;
}

std::string shape_text(std::span<const int64_t> shape) {
  std::string out = "{";
  for (int64_t n : shape) out += (out.size() > 1 ? ", " : "") + std::to_string(n);
  return out + "}";
}

std::string port_shape_text(const frt_runtime_port_desc& port) {
  return shape_text({port.shape, port.rank});
}

}  // namespace outrider::cli
