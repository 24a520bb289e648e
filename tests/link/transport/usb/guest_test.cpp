// Starts usb_guest_program in a small virtual machine that is gadget and host at once. The tool
// that makes the machine lies beside the repository and belongs to the test set-up, not to
// Outrider.
#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

namespace {

namespace fs = std::filesystem;

std::string tool_path() {
  const char* shared = std::getenv("OUTRIDER_SHARED");
  const fs::path root =
      shared != nullptr ? fs::path(shared) : fs::path(OUTRIDER_SOURCE_DIR) / "../shared";
  return (root / "tools/usb_guest.sh").string();
}

struct Ran {
  int status = -1;
  std::string output;
};

Ran run(const std::string& command) {
  Ran ran;
  FILE* pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (pipe == nullptr) return ran;
  char bytes[4096];
  for (size_t got; (got = std::fread(bytes, 1, sizeof bytes, pipe)) > 0;)
    ran.output.append(bytes, got);
  const int status = ::pclose(pipe);
  ran.status = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  return ran;
}

TEST(UsbInAGuest, gadget_and_host_code_run_on_the_kernels_own_usb_stack) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the guest has no room for a sanitizer";
#endif
  if (!fs::exists(tool_path())) GTEST_SKIP() << "no " << tool_path() << " (set OUTRIDER_SHARED)";
  if (run("command -v qemu-system-x86_64 busybox cpio depmod").status != 0)
    GTEST_SKIP() << "qemu-system-x86, busybox-static, cpio or kmod is not installed";
  const std::string program = std::string(OUTRIDER_BUILD_DIR) + "/bin/usb_guest_program";
  const std::string provider = std::string(OUTRIDER_BUILD_DIR) + "/lib/provider_fake.so";
  const Ran ran = run("bash '" + tool_path() + "' -t 300 -f '" + provider + "' '" + program +
                      "' --gtest_color=no");
  if (ran.status == 2 && ran.output.find("no kernel package") != std::string::npos)
    GTEST_SKIP() << "no kernel package to boot: run apt-get update";
  EXPECT_EQ(ran.status, 0) << ran.output;
  EXPECT_NE(ran.output.find("[  PASSED  ] 12 tests."), std::string::npos) << ran.output;
}

}  // namespace
