// From values to bytes: which steps are left, and where each array lies while it is needed.
#include <algorithm>
#include <cstring>
#include <map>
#include <new>

#include "base/printable.h"
#include "onnx/channels.h"
#include "onnx/fuse.h"
#include "onnx/planner.h"

namespace outrider::onnx {
namespace {

constexpr size_t kAlign = 64;
size_t rounded(size_t n_bytes) {
  return (std::max<size_t>(n_bytes, 1) + kAlign - 1) / kAlign * kAlign;
}

// Memory in use over the steps, first fit: what ends before a step begins is free for it.
class Places {
 public:
  size_t take(size_t n_bytes) {
    n_bytes = rounded(n_bytes);
    for (auto hole = holes_.begin(); hole != holes_.end(); ++hole) {
      if (hole->second < n_bytes) continue;
      const size_t at = hole->first, left = hole->second - n_bytes;
      holes_.erase(hole);
      if (left > 0) holes_[at + n_bytes] = left;
      return at;
    }
    size_t at = end_;
    if (!holes_.empty()) {
      const auto last = std::prev(holes_.end());
      if (last->first + last->second == end_) {
        at = last->first;
        holes_.erase(last);
      }
    }
    end_ = at + n_bytes;
    return at;
  }
  void give_back(size_t at, size_t n_bytes) {
    auto hole = holes_.emplace(at, rounded(n_bytes)).first;
    const auto next = std::next(hole);
    if (next != holes_.end() && hole->first + hole->second == next->first) {
      hole->second += next->second;
      holes_.erase(next);
    }
    if (hole == holes_.begin()) return;
    const auto before = std::prev(hole);
    if (before->first + before->second == hole->first) {
      before->second += hole->second;
      holes_.erase(hole);
    }
  }
  size_t end() const { return end_; }

 private:
  std::map<size_t, size_t> holes_;  // offset -> bytes
  size_t end_ = 0;
};

}  // namespace

size_t Planner::bytes_of(int v) const {
  return value(v).blocked ? blocked_bytes(value(v).type.shape) : value(v).type.n_bytes();
}

// Every output has an array of its own, which a later tick overwrites and nothing else touches.
Result<void> Planner::add_outputs(const Scope& scope) {
  std::set<int> taken(plan_->input_values_.begin(), plan_->input_values_.end());
  for (const Declared& output : model_.graph.outputs) {
    int v = scope.find(output.name);
    if (v < 0) continue;  // its maker is among the problems
    v = in_rows(v);
    DType declared;
    if (output.type != 0 &&
        (!known_type(output.type, declared) || declared != value(v).type.dtype)) {
      problem(make_error(Code::kNotFound, "output %s is declared as %s and computed as %s",
                         printable(output.name).c_str(), type_name(output.type),
                         short_type_name(value(v).type.dtype)));
      continue;
    }
    const TensorType type = value(v).type;
    v = root_of(v);
    if (value(v).constant != nullptr || !taken.insert(v).second) {
      const size_t n_bytes = type.n_bytes();
      Step copy;
      copy.what = "copy to output \"" + output.name + "\"";
      copy.in = {v};
      copy.kernel = make_kernel([n_bytes](const Operands& o) {
        if (n_bytes > 0) std::copy_n(o.in[0], n_bytes, o.out[0]);
      });
      v = add_value(type);
      copy.out = {v};
      taken.insert(v);
      plan_->steps_.push_back(std::move(copy));
    }
    plan_->outputs_.push_back({output.name, type});
    plan_->output_values_.push_back(v);
  }
  return {};
}

void Planner::drop_unused_steps() {
  std::vector<bool> wanted(values_.size(), false);
  for (const int v : plan_->output_values_) wanted[static_cast<size_t>(v)] = true;
  auto& steps = plan_->steps_;
  std::vector<bool> useful(steps.size(), false);
  for (size_t i = steps.size(); i-- > 0;) {
    for (const int v : steps[i].out)
      useful[i] = useful[i] || (v >= 0 && wanted[static_cast<size_t>(v)]);
    if (!useful[i]) continue;
    for (const int v : steps[i].in)
      if (v >= 0) wanted[static_cast<size_t>(v)] = true;
  }
  size_t kept = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!useful[i]) continue;
    if (kept != i) steps[kept] = std::move(steps[i]);
    ++kept;
  }
  steps.resize(kept);
}

Result<void> Planner::place() {
  auto& steps = plan_->steps_;
  std::vector<size_t> last(values_.size(), 0);
  std::vector<bool> stays(values_.size(), false);
  for (size_t i = 0; i < steps.size(); ++i) {
    for (const auto* list : {&steps[i].in, &steps[i].out})
      for (const int v : *list)
        if (v >= 0) last[static_cast<size_t>(v)] = i;
  }
  auto& places = plan_->places_;
  places.resize(values_.size());
  Places memory;
  for (const auto* list : {&plan_->input_values_, &plan_->output_values_}) {
    for (const int v : *list) {
      places[static_cast<size_t>(v)].offset = memory.take(bytes_of(v));
      stays[static_cast<size_t>(v)] = true;
    }
  }
  for (size_t i = 0; i < steps.size(); ++i) {
    Step& step = steps[i];
    for (const int v : step.out)
      if (v >= 0 && !stays[static_cast<size_t>(v)])
        places[static_cast<size_t>(v)].offset = memory.take(bytes_of(v));
    step.scratch_offset = memory.take(step.scratch_bytes);
    memory.give_back(step.scratch_offset, step.scratch_bytes);
    std::set<int> ended;
    for (const auto* list : {&step.in, &step.out})
      for (const int v : *list)
        if (v >= 0 && !stays[static_cast<size_t>(v)] && last[static_cast<size_t>(v)] == i &&
            value(v).constant == nullptr)
          ended.insert(v);
    for (const int v : ended) memory.give_back(places[static_cast<size_t>(v)].offset, bytes_of(v));
  }
  // Small constants that a run reads move beside the packed weights; large ones stay where they
  // are.
  constexpr size_t kMovedBytes = size_t{16} << 10;
  std::map<int, const std::byte*> seen;
  for (const Step& step : steps)
    for (const int v : step.in) {
      if (v < 0 || value(v).constant == nullptr) continue;
      const auto [entry, first] = seen.emplace(v, value(v).constant);
      const size_t n_bytes = value(v).type.n_bytes();
      if (first && n_bytes <= kMovedBytes) {
        ConstantPool::Block block = pool_.take(n_bytes);
        if (n_bytes > 0) std::memcpy(block.data, value(v).constant, n_bytes);
        entry->second = block.data;
        if (kept_.empty() || kept_.back() != block.owner) kept_.push_back(std::move(block.owner));
      } else if (first) {
        plan_->kept_.push_back(value(v).owner);
      }
      if (first) plan_->constant_bytes_ += n_bytes;
      places[static_cast<size_t>(v)].constant = entry->second;
    }
  for (auto& kept : kept_) plan_->kept_.push_back(std::move(kept));
  plan_->arena_bytes_ = memory.end();
  if (plan_->arena_bytes_ > options_.max_bytes)
    return make_error(Code::kNoMemory, "%s: %zu bytes of arrays for one run, allowed are %zu",
                      short_path(model_.file).c_str(), plan_->arena_bytes_, options_.max_bytes);
  return {};
}

Result<std::shared_ptr<const Plan>> Planner::make() {
  plan_ = std::make_shared<Plan>();
  // Weights in f32 and a little more: panels are padded.
  const auto n_values = static_cast<size_t>(std::max<int64_t>(model_.n_parameters, 0));
  pool_ =
      ConstantPool(std::min(n_values, options_.max_bytes / sizeof(float)) * sizeof(float) * 9 / 8);
  Scope scope;
  fuse(model_.graph);
  OUTRIDER_TRY(add_inputs(scope));
  add_constants(model_.graph, scope);
  add_nodes(model_.graph, scope);
  OUTRIDER_TRY(add_outputs(scope));
  if (code_ != Code::kOk) {
    std::string list;
    for (const std::string& name : problems_.free_dims)
      list += (list.empty() ? "" : ", ") + printable(name, 40);
    if (code_ == Code::kInvalid)
      return make_error(Code::kInvalid,
                        "%s: dimensions without a size: %s; give dims, for example "
                        "\"%s=1\"",
                        short_path(model_.file).c_str(), list.c_str(),
                        printable(problems_.free_dims[0], 40).c_str());
    list.clear();
    for (const std::string& line : problems_.lines) list += (list.empty() ? "" : "; ") + line;
    return make_error(code_, "%s: %zu in the way: %s", short_path(model_.file).c_str(),
                      problems_.lines.size(), list.c_str());
  }
  drop_unused_steps();
  OUTRIDER_TRY(place());
  return std::shared_ptr<const Plan>(std::move(plan_));
}

Result<std::shared_ptr<const Plan>> Plan::make(Model model, const PlanOptions& options, Ops& ops,
                                               PlanProblems* problems) {
  PlanProblems unheard;
  const std::string file = model.file;
  try {
    return Planner(std::move(model), options, ops, problems != nullptr ? *problems : unheard)
        .make();
  } catch (const std::bad_alloc&) {
    return make_error(Code::kNoMemory, "%s: no memory to prepare it", short_path(file).c_str());
  }
}

int Plan::find_input(std::string_view name) const {
  for (size_t i = 0; i < inputs_.size(); ++i)
    if (inputs_[i].name == name) return static_cast<int>(i);
  return -1;
}

int Plan::find_output(std::string_view name) const {
  for (size_t i = 0; i < outputs_.size(); ++i)
    if (outputs_[i].name == name) return static_cast<int>(i);
  return -1;
}

}  // namespace outrider::onnx
