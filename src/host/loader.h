// A provider's shared object in this process, and the owning reference to a runtime that came from
// it.
#pragma once
#include <string>

#include "base/result.h"
#include "outrider/frt_v1.h"

namespace outrider::host {

// [setup] dlopen, RTLD_NOW | RTLD_LOCAL, of a regular file where the path has a '/': opening a pipe
// or a device could block for ever, and the loader itself does not ask. nullptr: `why`, which may
// be the loader's own words.
void* load_library(const char* path, std::string& why);

// Owns one dlopen reference. Movable. The path is for messages.
class Library {
 public:
  // [setup] RTLD_NOW | RTLD_LOCAL; symbols are looked up by handle, never in the global scope. A
  // path with a '/' must be a regular file. Errors: kInvalid (no path), kNotFound (missing, not a
  // library, an unresolved dependency: the loader's own words).
  static Result<Library> open(const char* path);

  Library() = default;
  Library(Library&& other) noexcept;
  Library& operator=(Library&& other) noexcept;
  ~Library();

  void* symbol(const char* name) const;
  // Keeps the code mapped for the life of the process: for a provider that cannot be released.
  void leave_loaded() { handle_ = nullptr; }

 private:
  void* handle_ = nullptr;
};

// Owns one reference of a runtime; gives it back through release(owner).
class RuntimeRef {
 public:
  RuntimeRef() = default;
  explicit RuntimeRef(const frt_model_runtime_v1* owned) : runtime_(owned) {}
  RuntimeRef(RuntimeRef&& other) noexcept;
  RuntimeRef& operator=(RuntimeRef&& other) noexcept;
  ~RuntimeRef();

  const frt_model_runtime_v1* get() const { return runtime_; }
  const frt_model_runtime_v1* operator->() const { return runtime_; }
  explicit operator bool() const { return runtime_ != nullptr; }

 private:
  const frt_model_runtime_v1* runtime_ = nullptr;
};

// [setup] Calls the library's open. The runtime is not checked yet beyond what it takes to hand its
// reference back. Errors: the provider's own code with the reason it left (or one made from the
// code); kNotFound without the symbol; kInvalid for another ABI version (the library then stays
// loaded, because nobody knows how to release what it made); kFailed when it broke the open
// contract.
Result<RuntimeRef> open_runtime(Library& library, const char* path, const char* config_json);

}  // namespace outrider::host
