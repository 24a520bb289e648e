// An ONNX file after reading: plain values, nothing of protobuf. Names are the file's bytes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "tensor/dtype.h"
#include "tensor/ops.h"

namespace outrider::onnx {

// Limits of a file. What lies beyond them is refused, not walked.
inline constexpr size_t kMaxFileBytes = (size_t{1} << 31) - 1;  // protobuf's own
inline constexpr size_t kMaxNodes = 1 << 18;                    // subgraphs included
inline constexpr int kMaxGraphDepth = 16;                       // graphs inside each other
inline constexpr size_t kMaxRank = 8;
inline constexpr int64_t kMinOpset = 7, kMaxOpset = 21;

// Number of an element type in the file format (1 FLOAT, 7 INT64, ...).
using TypeNumber = int32_t;
const char* type_name(TypeNumber type);          // "FLOAT", "STRING", ...; "type 99" is "unknown"
bool known_type(TypeNumber type, DType& dtype);  // the types that this build computes with
TypeNumber type_number(DType dtype);
size_t dtype_bytes(DType dtype);  // of one value; unblocked types only

// A constant array. `data` lies in `owner`, aligned to the element.
struct Tensor {
  std::string name;
  TypeNumber type = 0;
  DType dtype = DType::kF32;
  bool computable = true;  // false: `type` is none of ours; data is null then
  std::vector<int64_t> dims;
  const std::byte* data = nullptr;
  size_t n_bytes = 0;
  std::shared_ptr<const void> owner;

  int64_t n_values() const;
};

struct Graph;

struct Attribute {
  enum class Kind : uint8_t {
    kFloat,
    kInt,
    kString,
    kTensor,
    kGraph,
    kFloats,
    kInts,
    kStrings,
    kOther
  };
  std::string name;
  Kind kind = Kind::kOther;
  float f = 0;
  int64_t i = 0;
  std::string s;
  std::vector<float> floats;
  std::vector<int64_t> ints;
  std::vector<std::string> strings;
  Tensor tensor;
  std::unique_ptr<Graph> graph;
  // In a function's body: the attribute of the caller whose value this one has.
  std::string refers_to;
};

struct Node {
  std::string name, op, domain;              // domain "": the standard's
  std::vector<std::string> inputs, outputs;  // "": left out
  std::vector<Attribute> attributes;
  // Put there by fuse(), never by a file: what is applied to the result of a product.
  Activation activation = Activation::kNone;
  uint32_t sole = 0;  // bit i: input i is made by a node beside this one and read by nobody else
  int64_t opset = 0;  // of the standard's operators in a function's body; 0: the model's
  const Attribute* find(std::string_view attribute) const;
};

// One dimension of a declared shape: a size, a name, or neither.
struct Dim {
  int64_t size = -1;  // -1: not given
  std::string name;
};

struct Declared {
  std::string name;
  TypeNumber type = 0;  // 0: no tensor, or not given
  bool has_shape = false;
  std::vector<Dim> dims;
};

struct Graph {
  std::string name;
  std::vector<Node> nodes;  // each after what it reads
  std::vector<Tensor> initializers;
  std::vector<Declared> inputs, outputs;
};

// A function of the file: what a node of its domain and name stands for.
struct Function {
  std::string name, domain;
  int64_t opset = 0;  // of the standard's operators in it
  std::vector<std::string> inputs, outputs;
  std::vector<Attribute> defaults;  // of attributes that a caller leaves out
  std::vector<Node> nodes;
};

struct Model {
  int64_t ir_version = 0, opset = 0;
  std::string producer, file;
  std::vector<std::pair<std::string, int64_t>> other_domains;
  Graph graph;
  std::vector<std::pair<std::string, std::string>> metadata;  // the exporter's, in the file's order
  int64_t n_parameters = 0;                                   // values of all initializers
  std::vector<std::string> external_files;
};

}  // namespace outrider::onnx
