// What stands between this machine and a calm control loop, each with what to do about it.
#pragma once
#include <string>
#include <vector>

#include "cli/machine.h"

namespace outrider::cli {

enum class Health : uint8_t { kOk, kAdvice };

struct Check {
  std::string name, found, wanted, fix;  // wanted and fix are "" when all is well
  Health health = Health::kOk;
};
std::vector<Check> check_machine(const Machine& machine);
Report checks_report(const std::vector<Check>& checks);

}  // namespace outrider::cli
