#include "engine/planner/split_times.h"

#include <string_view>
#include <variant>

#include "engine/graph/count_work.h"

namespace trainyard {

namespace {

/// "d.x~2", "d.x.fresh" -> "x"; "": no gradient's name.
std::string_view name_of_whole(std::string_view name) {
  constexpr std::string_view kGradient = "d.", kFresh = ".fresh";
  if (!name.starts_with(kGradient)) return "";
  name.remove_prefix(kGradient.size());
  name = name.substr(0, name.find('~'));
  if (name.ends_with(kFresh)) name.remove_suffix(kFresh.size());
  return name;
}

}  // namespace

SplitTimes::SplitTimes(const TrainingGraph& training, const HardwareProfile& hardware,
                       const SoftwareProfile& software)
    : training_(training),
      hardware_(hardware),
      software_(software),
      instructions_(training.graph.ops.size()) {
  for (const OpId id : training.graph.ops.keys()) {
    const Op& op = training.graph.ops[id];
    if (!op.outputs.empty()) by_result_.emplace(training.graph.tensors[op.outputs[0]].name, id);
  }
  for (const auto* list : {&training.forward, &training.backward}) {
    for (const Instruction& op : *list) {
      if (op.origin != kNoIndex && op.kind != OpKind::kFree && !moves_data(op.kind))
        instructions_[op.origin].push_back(&op);
    }
  }
}

OpId SplitTimes::op_named(const std::string& result) const {
  const auto known = by_result_.find(result);
  return known == by_result_.end() ? OpId(kNoIndex) : known->second;
}

SpecId SplitTimes::spec_of(const Graph& graph, const Op& op, const SplitOp& split,
                           TensorId tensor) const {
  const Tensor& t = training_.graph.tensors[tensor];
  const std::string_view whole = name_of_whole(t.name);
  const auto is = [&](TensorId other) {
    const Tensor& o = graph.tensors[other];
    return o.name == t.name || o.name == whole ||
           (t.role == TensorRole::kParameterGradient && o.role == TensorRole::kParameter &&
            o.parameter == t.parameter);
  };
  for (std::size_t i = 0; i < op.inputs.size(); ++i) {
    if (is(op.inputs[i])) return split.operands[i];
  }
  for (std::size_t i = 0; i < op.outputs.size(); ++i) {
    if (is(op.outputs[i])) return split.results[i];
  }
  return kNoIndex;
}

Seconds SplitTimes::of(const Graph& graph, const Op& op, const SplitOp& split,
                       const Sharding& sharding) {
  const OpId id = op.outputs.empty() ? OpId(kNoIndex) : op_named(graph.tensors[op.outputs[0]].name);
  if (id == kNoIndex) return 0;
  Seconds time = 0;
  for (const Instruction* one : instructions_[id]) {
    std::vector<Shape> shapes;
    shapes.reserve(one->reads.size() + one->writes.size() + one->accumulates.size());
    const auto operands = [&](const auto& ids) {
      std::vector<OperandShape> out;
      for (const TensorId tensor : ids) {
        const Tensor& t = training_.graph.tensors[tensor];
        shapes.push_back(t.shape);
        const SpecId spec = spec_of(graph, op, split, tensor);
        if (spec != kNoIndex && sharding.specs[spec].dims.size() == t.shape.size()) {
          const auto local = local_shape(t.name, t.shape, sharding.specs[spec], sharding);
          if (const auto* found = std::get_if<Shape>(&local)) shapes.back() = *found;
        }
        out.push_back({&shapes.back(), t.dtype});
      }
      return out;
    };
    const auto reads = operands(one->reads), writes = operands(one->writes);
    const auto accumulates = operands(one->accumulates);
    OpAttrs attrs = one->attrs;
    if (attrs.heads > 0) {
      attrs.heads = split.heads;
      attrs.kv_heads = split.kv_heads;
    }
    time += kernel_time(kernel_work(one->kind, one->part, attrs, reads, writes, accumulates),
                        hardware_, software_, 1, log_);
  }
  return time;
}

}  // namespace trainyard
