#include "host/loader.h"

#include <dlfcn.h>
#include <sys/stat.h>

#include <cstring>
#include <utility>

#include "abi/probe.h"
#include "host/foreign.h"
#include "host/reason.h"

namespace outrider::host {

void* load_library(const char* path, std::string& why) {
  struct stat info;
  if (std::strchr(path, '/') != nullptr && stat(path, &info) == 0 && !S_ISREG(info.st_mode)) {
    why = "not a regular file; name a .so file";
    return nullptr;
  }
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return handle;
  const char* words = dlerror();
  why = words == nullptr ? "unknown loader error" : words;
  return nullptr;
}

Result<Library> Library::open(const char* path) {
  if (path == nullptr || path[0] == '\0')
    return make_error(Code::kInvalid, "provider: no path given; name a provider's .so file");
  Library library;
  std::string why;
  library.handle_ = load_library(path, why);
  if (library.handle_ == nullptr) {
    char words[kReasonBytes];
    copy_line(words, sizeof words, why.c_str());
    return make_error(Code::kNotFound, "provider %s: cannot be loaded: %s", path, words);
  }
  return library;
}

Library::Library(Library&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}

Library& Library::operator=(Library&& other) noexcept {
  std::swap(handle_, other.handle_);
  return *this;
}

Library::~Library() {
  if (handle_ != nullptr) dlclose(handle_);
}

void* Library::symbol(const char* name) const {
  return dlsym(handle_, name);
}

RuntimeRef::RuntimeRef(RuntimeRef&& other) noexcept
    : runtime_(std::exchange(other.runtime_, nullptr)) {}

RuntimeRef& RuntimeRef::operator=(RuntimeRef&& other) noexcept {
  std::swap(runtime_, other.runtime_);
  return *this;
}

RuntimeRef::~RuntimeRef() {
  if (runtime_ == nullptr || runtime_->release == nullptr) return;
  call_foreign([this] { return runtime_->release(runtime_->owner), 0; });
}

namespace {

// What a failed open's code says (cli-and-config: codes of a failed open).
const char* open_code_words(int code) {
  switch (code) {
    case FRT_ERR_INVALID:
      return "it refused the configuration";
    case FRT_ERR_NOT_FOUND:
      return "a file is missing, unreadable, damaged or not of the promised kind";
    case FRT_ERR_UNSUPPORTED:
      return "family, backend, element type or operator not supported by this build";
    case FRT_ERR_SHAPE:
      return "sizes in the configuration and in the file differ";
    case FRT_ERR_STORAGE:
      return "out of memory";
    case FRT_ERR_BACKEND:
      return "the device or backend failed";
    default:
      return "a code of its own";
  }
}

Error open_failed(const char* path, const ForeignCall& call) {
  if (call.threw)
    return make_error(Code::kFailed, "provider %s: threw an exception through open", path);
  if (call.code > 0)
    return make_error(Code::kFailed, "provider %s: open returned %d; failures are negative", path,
                      call.code);
  char reason[kReasonBytes];
  read_open_reason(reason);
  if (reason[0] != '\0') return make_error(static_cast<Code>(call.code), "%s", reason);
  return make_error(static_cast<Code>(call.code),
                    "provider %s: open failed with code %d (%s); it left no reason", path,
                    call.code, open_code_words(call.code));
}

}  // namespace

Result<RuntimeRef> open_runtime(Library& library, const char* path, const char* config_json) {
  const auto open =
      reinterpret_cast<frt_model_runtime_open_v1_fn>(library.symbol(FRT_MODEL_RUNTIME_OPEN_SYMBOL));
  if (open == nullptr)
    return make_error(Code::kNotFound,
                      "provider %s: no symbol %s; this is not a model-runtime provider", path,
                      FRT_MODEL_RUNTIME_OPEN_SYMBOL);
  publish_reason_sink();
  clear_open_reason();
  frt_model_runtime_v1* runtime = nullptr;
  const ForeignCall call = call_foreign([&] { return open(config_json, &runtime); });
  if (!call.ok()) return open_failed(path, call);
  if (runtime == nullptr)
    return make_error(Code::kFailed, "provider %s: open returned 0 and no runtime", path);
  if (auto prefix = abi::check_runtime_prefix(runtime); !prefix) {
    library.leave_loaded();
    return make_error(prefix.code(), "provider %s: %s; it cannot be released and stays loaded",
                      path, prefix.error().text);
  }
  return RuntimeRef(runtime);
}

}  // namespace outrider::host
