// Puts an ONNX file together: synthetic models. The other way of reader.h.
#pragma once
#include <initializer_list>
#include <memory>
#include <string>
#include <vector>

#include "base/result.h"
#include "onnx/model.h"

namespace outrider::onnx {

class ModelWriter {
 public:
  explicit ModelWriter(const std::string& producer, int64_t opset = 17);
  ~ModelWriter();
  ModelWriter(const ModelWriter&) = delete;
  ModelWriter& operator=(const ModelWriter&) = delete;

  void input(const std::string& name, DType dtype, const std::vector<int64_t>& dims);
  void output(const std::string& name, DType dtype, const std::vector<int64_t>& dims);
  // `raw`: the values as they lie in memory.
  void constant(const std::string& name, DType dtype, const std::vector<int64_t>& dims,
                std::string raw);
  void constant(const std::string& name, const std::vector<int64_t>& values);  // I64 {n}
  // In the order of calls; each reads what was there before. Returns its only output's name.
  struct Ints {
    const char* name;
    std::vector<int64_t> values;
    bool single = false;  // an attribute of one number, not of a list
  };
  std::string node(const std::string& op, const std::vector<std::string>& inputs,
                   const std::string& output, std::initializer_list<Ints> attributes = {});
  void metadata(const std::string& key, const std::string& value);

  // Nobody sees half of it. Errors: those of OutputFile; kShape beyond what a file can hold.
  Result<void> write(const std::string& path) const;
  std::string bytes() const;

 private:
  struct Proto;
  std::unique_ptr<Proto> proto_;
};

}  // namespace outrider::onnx
