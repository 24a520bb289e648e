// One JSON object read key by key: every key known, every value in range, the first fault kept.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>

#include "base/json.h"
#include "base/result.h"

namespace outrider {

class JsonObject {
 public:
  // where: "policy.json" or "policy.json: cameras[1]". keys: all that are allowed.
  JsonObject(const Json& json, std::string where, std::initializer_list<const char*> keys);

  bool ok() const { return failure_.code == Code::kOk; }
  const Error& failure() const { return failure_; }
  void fail(const Error& error) {
    if (ok()) failure_ = error;
  }
  const std::string& where() const { return where_; }

  // nullptr when the key is absent or something failed before.
  const Json* find(const char* key);
  // An absent key leaves `out` alone.
  void text(const char* key, std::string& out);
  void integer(const char* key, int64_t least, int64_t most, int64_t& out);
  void real(const char* key, double least, double most, double& out);
  void flag(const char* key, bool& out);
  // Index of the value among `choices`; -1 when absent.
  int choice(const char* key, std::span<const char* const> choices);
  // An array of at most `most` items; nullptr when absent.
  const Json* array(const char* key, size_t most);
  // "where: key is VALUE, allowed is WANTED"
  void wrong(const char* key, const Json& found, const std::string& wanted);

 private:
  const Json& json_;
  std::string where_;
  Error failure_;
};

}  // namespace outrider
