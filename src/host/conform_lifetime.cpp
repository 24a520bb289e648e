// References, two copies of the library, and that it leaves the process. ABI text 6 and 16.
#include <dlfcn.h>

#include <filesystem>
#include <system_error>

#include "host/conform_bench.h"

namespace outrider::host::conformance {
namespace {

namespace fs = std::filesystem;

void references_count(Bench& b, Verdict& v) {
  const auto* r = b.main->get();
  b.foreign(ProviderCall::kRetainRelease, [&] {
    for (int i = 0; i < 3; ++i) r->retain(r->owner);
    for (int i = 0; i < 3; ++i) r->release(r->owner);
    r->exp->retain(r->exp->owner);
    r->exp->release(r->exp->owner);
    return 0;
  });
  b.run_tick(*b.main, v);  // still alive
}

// A folder of its own with a copy of the library; what lies beside the library is linked, so that
// $ORIGIN finds it. Gone at the end of the scope.
class LibraryCopy {
 public:
  explicit LibraryCopy(const std::string& path) {
    const fs::path source = fs::absolute(path);
    std::string pattern = (fs::temp_directory_path() / "outrider-conform-XXXXXX").string();
    if (mkdtemp(pattern.data()) == nullptr)
      throw fs::filesystem_error("mkdtemp", pattern,
                                 std::error_code(errno, std::generic_category()));
    folder_ = pattern;
    path_ = folder_ / source.filename();
    fs::copy_file(source, path_);
    for (const auto& beside : fs::directory_iterator(source.parent_path())) {
      const std::string name = beside.path().filename().string();
      if (name.find(".so") != std::string::npos && name != source.filename())
        fs::create_symlink(beside.path(), folder_ / name);
    }
  }
  LibraryCopy(const LibraryCopy&) = delete;
  ~LibraryCopy() {
    std::error_code ignored;
    fs::remove_all(folder_, ignored);
  }
  std::string path() const { return path_.string(); }

 private:
  fs::path folder_, path_;
};

bool is_loaded(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_NOLOAD);
  if (handle != nullptr) dlclose(handle);
  return handle != nullptr;
}

void two_copies_and_an_end(Bench& b, Verdict& v) {
  if (!fs::is_regular_file(b.path()))
    return v.skip("the library is found through the loader's path only");
  const LibraryCopy copy(b.path());
  void* handle = nullptr;
  std::string why;
  const auto open = b.load(copy.path(), &handle, &why);
  if (open == nullptr) {
    v.fail("a second copy of the library cannot be loaded: %.600s", why.c_str());
  } else if (auto second = b.open(v, open)) {
    if (b.run_tick(*b.main, v) && b.run_tick(*second, v) && !b.may_vary() &&
        b.main->read_all() != second->read_all())
      v.fail("two copies of the library give different outputs");
  }
  b.unload(handle);
  if (is_loaded(copy.path()))
    v.fail(
        "the library stays in the process after the last release and dlclose: look for "
        "thread_local "
        "objects with destructors, STB_GNU_UNIQUE symbols, threads that still run");
}

constexpr Check kChecks[] = {
    {"lifetime: retain and release are balanced", Check::kSound, references_count},
    {"lifetime: two copies in one process, and the library leaves", Check::kSound,
     two_copies_and_an_end},
};

}  // namespace

std::span<const Check> lifetime_checks() {
  return kChecks;
}

}  // namespace outrider::host::conformance
