// One node: types in, kernel and types out; what is known is computed at once.
#include <cstdlib>
#include <new>

#include "onnx/channels.h"
#include "onnx/planner.h"

namespace outrider::onnx {
namespace {

bool is_half(DType dtype) {
  return dtype == DType::kF16 || dtype == DType::kBf16;
}

std::shared_ptr<std::byte> aligned_block(size_t n_bytes) {
  void* memory = std::aligned_alloc(64, (n_bytes + 63) / 64 * 64 + 64);
  if (memory == nullptr) throw std::bad_alloc();
  return {static_cast<std::byte*>(memory), std::free};
}

}  // namespace

bool Planner::sized(const TensorType& type) const {
  int64_t n = static_cast<int64_t>(dtype_bytes(type.dtype));
  for (const int64_t dim : type.shape.dims())
    if (dim < 0 || __builtin_mul_overflow(n, std::max<int64_t>(dim, 1), &n) ||
        static_cast<size_t>(n) > options_.max_bytes)
      return false;
  return true;
}

int Planner::root_of(int v) const {
  while (value(v).root >= 0) v = value(v).root;
  return v;
}

int Planner::add_value(const TensorType& type) {
  values_.push_back({type, -1, nullptr, nullptr});
  return static_cast<int>(values_.size()) - 1;
}

int Planner::add_constant(const Tensor& tensor) {
  static const std::byte kNothing[64] = {};
  const int v = add_value({tensor.dtype, Shape(tensor.dims)});
  Value& made = values_.back();
  made.owner = tensor.owner;
  made.constant = tensor.n_bytes == 0 ? kNothing : tensor.data;
  return v;
}

int Planner::cast(int v, DType dtype) {
  if (const auto found = widened_.find(v); dtype == DType::kF32 && found != widened_.end())
    return found->second;
  Node node;
  node.op = "Cast";
  node.outputs = {"cast"};
  Attribute to;
  to.name = "to";
  to.kind = Attribute::Kind::kInt;
  to.i = type_number(dtype);
  node.attributes.push_back(std::move(to));
  const auto made = prepare_as_is(node, {v}, *find_operator("Cast", kMaxOpset));
  if (made.empty()) return kBroken;
  if (dtype == DType::kF32) widened_[v] = made[0];
  return made[0];
}

// Operators that compute in f32 take half-precision arrays through a cast on either side.
std::vector<int> Planner::prepare_node(const Node& node, const std::vector<int>& inputs,
                                       const Operator& op) {
  DType half = DType::kF32;
  for (const int v : inputs)
    if (v >= 0 && is_half(value(v).type.dtype)) half = value(v).type.dtype;
  if (!op.in_f32 || half == DType::kF32) return prepare_as_is(node, inputs, op);
  std::vector<int> wide = inputs;
  for (int& v : wide)
    if (v >= 0 && is_half(value(v).type.dtype)) v = cast(v, DType::kF32);
  std::vector<int> made = prepare_as_is(node, wide, op);
  for (int& v : made)
    if (v >= 0 && value(v).type.dtype == DType::kF32) v = cast(v, half);
  return made;
}

std::vector<int> Planner::prepare_as_is(const Node& node, const std::vector<int>& inputs,
                                        const Operator& op) {
  if (const int v = absorbed(node, inputs); v >= 0) return {v};
  std::vector<int> given = inputs;
  auto wish = NodeContext::Wish::kNone;
  int64_t each_of = 0;
  const auto rows = [&] {
    for (int& v : given) v = in_rows(v);
  };
  if (op.channels == Channels::kEach && !blocks_of_each(given, each_of)) each_of = 0;
  if (op.channels != Channels::kReads && each_of == 0) rows();
  std::vector<int> made = prepare_once(node, given, op, each_of, wish);
  if (wish == NodeContext::Wish::kNone) return made;
  if (wish == NodeContext::Wish::kRows) rows();
  if (wish == NodeContext::Wish::kBlocks) given[0] = in_blocks(given[0]);
  return prepare_once(node, given, op, 0, wish);
}

std::vector<int> Planner::prepare_once(const Node& node, const std::vector<int>& inputs,
                                       const Operator& op, int64_t each_of,
                                       NodeContext::Wish& wish) {
  std::vector<NodeContext::Input> seen;
  for (const int v : inputs) {
    NodeContext::Input input;
    input.given = v >= 0;
    if (input.given) {
      input.type = value(v).type;
      input.constant = value(v).constant;
      input.blocked = value(v).blocked;
      if (each_of > 0 && input.blocked) input.type.shape = blocked_shape(input.type.shape);
    }
    seen.push_back(input);
  }
  NodeContext context(
      node, std::move(seen),
      {opset_of(node), options_.precision, &ops_, &plan_->limits_, &plan_->flop_, &pool_});
  auto prepared = op.prepare(context);
  wish = prepared ? NodeContext::Wish::kNone : context.wish();
  if (wish != NodeContext::Wish::kNone) return {};
  if (!prepared) {
    for (const size_t i : context.undetermined())
      for (size_t k = 0; k < plan_->inputs_.size(); ++k)
        if (i < inputs.size() && inputs[i] >= 0 && root_of(inputs[i]) == plan_->input_values_[k])
          problems_.undetermined.push_back(plan_->inputs_[k].name);
    problem(prepared.error());
    return {};
  }
  std::vector<int> made;
  Step step;
  step.what = node.op + " \"" + (node.outputs.empty() ? "" : node.outputs[0]) + "\"";
  for (size_t i = 0; i < context.outputs().size(); ++i) {
    const auto& output = context.outputs()[i];
    made.push_back(kLeftOut);
    if (!output.declared) {
      step.out.push_back(kLeftOut);
      continue;
    }
    if (!sized(output.type)) {
      problem(make_error(Code::kNoMemory, "%s: output %zu would be %s, larger than allowed",
                         context.where().c_str(), i, output.type.text().c_str()));
      return {};
    }
    const int v = add_value(output.type);
    values_.back().blocked = output.blocked || each_of > 0;
    if (each_of > 0) {
      Shape& shape = values_.back().type.shape;
      shape = Shape(shape.dims().first(static_cast<size_t>(shape.rank()) - 1));
      shape[1] = each_of;
    }
    made.back() = v;
    if (output.alias >= 0) {
      const int source = inputs[static_cast<size_t>(output.alias)];
      values_.back().root = source;
      values_.back().constant = value(source).constant;
      values_.back().owner = value(source).owner;
      step.out.push_back(kLeftOut);
    } else {
      step.out.push_back(v);
    }
  }
  for (auto& kept : context.take_kept())
    if (kept_.empty() || kept_.back() != kept) kept_.push_back(std::move(kept));
  if (!prepared.value()) return made;
  step.kernel = std::move(prepared.value());
  step.scratch_bytes = context.scratch_bytes();
  if (!context.known())
    for (const int v : inputs) step.in.push_back(v < 0 ? kLeftOut : root_of(v));
  add_step(std::move(step));
  return code_ == Code::kNoMemory ? std::vector<int>() : made;
}

void Planner::add_step(Step&& step) {
  if (!fold(step)) plan_->steps_.push_back(std::move(step));
}

// A step all of whose inputs are known runs now.
bool Planner::fold(Step& step) {
  for (const int v : step.in)
    if (v >= 0 && value(v).constant == nullptr) return false;
  size_t n_bytes = step.scratch_bytes;
  for (const int v : step.out)
    if (v >= 0) n_bytes += bytes_of(v);
  folded_bytes_ += n_bytes;
  if (folded_bytes_ > options_.max_bytes) {
    problem(make_error(Code::kNoMemory, "%s: constants computed at open take more than %zu bytes",
                       step.what.substr(0, 100).c_str(), options_.max_bytes));
    return true;
  }
  if (auto reserved = ops_.reserve(plan_->limits_); !reserved) {
    problem(reserved.error());
    return true;
  }
  std::vector<const std::byte*> in;
  std::vector<std::byte*> out;
  for (const int v : step.in) in.push_back(v < 0 ? nullptr : value(v).constant);
  for (const int v : step.out) {
    out.push_back(nullptr);
    if (v < 0) continue;
    const auto block = aligned_block(bytes_of(v));
    out.back() = block.get();
    values_[static_cast<size_t>(v)].owner = block;
    values_[static_cast<size_t>(v)].constant = block.get();
  }
  const auto scratch = aligned_block(step.scratch_bytes);
  step.kernel->run({in.data(), out.data(), scratch.get(), &ops_});
  return true;
}

}  // namespace outrider::onnx
