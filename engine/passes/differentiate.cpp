#include "engine/passes/differentiate.h"

#include <algorithm>
#include <string>
#include <unordered_map>
#include <utility>

#include "engine/base/error.h"
#include "engine/graph/op_table.h"
#include "engine/passes/half_order.h"

namespace trainyard {

namespace {

class Differentiator {
 public:
  Differentiator(const StagedGraph& staged, const SoftwareProfile& software, DType grad_dtype)
      : staged_(staged),
        software_(software) {
    out_.graph = staged.graph;
    out_.num_stages = staged.num_stages;
    out_.forward.reserve(staged.graph.ops.size());
    out_.backward.reserve(staged.graph.ops.size() * 2);
    out_.graph.tensors.reserve(staged.graph.tensors.size() * 2);
    gradient_.assign(staged.graph.tensors.size(), kNoIndex);
    for (const Parameter& parameter : staged.graph.parameters) {
      out_.parameter_gradient.push_back(
          parameter.tensor == kNoIndex ? kNoIndex : parameter_gradient(parameter, grad_dtype));
    }
  }

  TrainingGraph run() {
    const auto& ops = staged_.graph.ops;
    for (const OpId i : ops.keys()) {
      Instruction forward = instruction(i, OpPart::kForward);
      forward.reads.assign(ops[i].inputs.begin(), ops[i].inputs.end());
      forward.writes.assign(ops[i].outputs.begin(), ops[i].outputs.end());
      out_.forward.push_back(std::move(forward));
    }
    for (std::size_t i = ops.size(); i-- > 0;) backward(OpId(i));
    order_halves(out_.backward);
    if (software_.overlap_tensor_gradient) hoist_collectives();
    return std::move(out_);
  }

 private:
  Tensor& tensor(TensorId id) { return out_.graph.tensors[id]; }
  const Op& op_at(OpId id) const { return staged_.graph.ops[id]; }

  TensorId parameter_gradient(const Parameter& parameter, DType dtype) {
    Tensor t = tensor(parameter.tensor);
    t.name = "grad." + t.name;
    t.dtype = dtype;
    t.role = TensorRole::kParameterGradient;
    t.spec = dual_of(parameter.used);
    out_.graph.tensors.push_back(std::move(t));
    return TensorId(out_.graph.tensors.size() - 1);
  }

  TensorId new_gradient(TensorId of, std::string_view suffix = "") {
    Tensor t = tensor(of);
    t.name = "d." + t.name + std::string(suffix);
    if (const int copies = ++copies_[t.name]; copies > 1) t.name += "~" + std::to_string(copies);
    t.role = TensorRole::kActivation;
    t.alias = kNoIndex;
    t.alias_offset = 0;
    t.producer = kNoIndex;
    t.spec = dual_of(t.spec);
    out_.graph.tensors.push_back(std::move(t));
    return TensorId(out_.graph.tensors.size() - 1);
  }

  /// Tensors of a graph that is not sharded have none.
  SpecId dual_of(SpecId spec) { return spec == kNoIndex ? spec : out_.graph.specs.dual_of(spec); }

  Instruction instruction(OpId id, OpPart part) const {
    const Op& op = op_at(id);
    Instruction result;
    result.kind = op.kind;
    result.part = part;
    result.attrs = op.attrs;
    result.module = op.module;
    result.layer = op.layer;
    result.sublayer = op.sublayer;
    result.half = op.half;
    result.stage = staged_.stage[id];
    result.origin = id;
    return result;
  }

  bool wants_gradient(TensorId id) {
    return tensor(id).needs_gradient && tensor(id).role == TensorRole::kActivation;
  }

  TensorId gradient_of(TensorId id) const { return gradient_[id]; }

  /// Adds `part` to the gradient of `id`: the first is it, later ones are summed as they come.
  void contribute(OpId user, TensorId id, TensorId part) {
    TensorId& sum = gradient_[id];
    if (sum == kNoIndex) {
      sum = part;
      return;
    }
    Instruction add = instruction(user, OpPart::kForward);
    add.kind = OpKind::kAdd;
    add.attrs = {};
    // A transfer's gradient arrives on the stage that sent the value.
    if (op_at(user).kind == OpKind::kSend)
      add.stage = instruction(user, OpPart::kForward).stage - 1;
    add.reads = {sum, part};
    const TensorId total = new_gradient(id, ".sum");
    add.writes = {total};
    sum = total;
    out_.backward.push_back(std::move(add));
  }

  void backward(OpId id) {
    switch (op_info(op_at(id).kind).backward) {
      case BackwardForm::kNone: return;
      case BackwardForm::kAlias: return backward_alias(id);
      case BackwardForm::kApart:
      case BackwardForm::kFused: return backward_kernels(id);
      case BackwardForm::kSpecial: return backward_special(id);
    }
  }

  void backward_alias(OpId id) {
    const Op& op = op_at(id);
    const TensorId dy = gradient_of(op.outputs[0]);
    if (dy == kNoIndex) return;
    for (TensorId input : op.inputs) {
      if (wants_gradient(input)) contribute(id, input, dy);
    }
  }

  void add_saved(Instruction& to, const Op& op, unsigned inputs, unsigned outputs) const {
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      if ((inputs >> i & 1U) != 0) to.reads.push_back(op.inputs[i]);
    }
    for (std::size_t i = 0; i < op.outputs.size(); ++i) {
      if ((outputs >> i & 1U) != 0) to.reads.push_back(op.outputs[i]);
    }
  }

  void backward_kernels(OpId id) {
    const Op& op = op_at(id);
    const OpInfo& info = op_info(op.kind);
    const TensorId dy = info.gradient_in ? gradient_of(op.outputs[0]) : kNoIndex;
    if (info.gradient_in && dy == kNoIndex) return;
    const bool fused = info.backward == BackwardForm::kFused;

    boost::container::small_vector<TensorId, 4> inputs;
    boost::container::small_vector<TensorId, 4> parameters;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      const TensorId input = op.inputs[i];
      if (tensor(input).role == TensorRole::kParameter) {
        parameters.push_back(input);
      } else if (wants_gradient(input)) {
        if (static_cast<int>(i) == info.alias_input) {
          contribute(id, input, dy);
        } else {
          inputs.push_back(input);
        }
      }
    }
    if (!inputs.empty() || (fused && !parameters.empty())) {
      Instruction dx = instruction(id, fused ? OpPart::kBackward : OpPart::kInputGrad);
      if (dy != kNoIndex) dx.reads.push_back(dy);
      add_saved(dx, op, info.dx_saved_inputs, info.dx_saved_outputs);
      for (TensorId input : inputs) dx.writes.push_back(new_gradient(input));
      const auto written = dx.writes;
      if (fused) add_parameter_gradients(dx, parameters);
      out_.backward.push_back(std::move(dx));
      for (std::size_t i = 0; i < inputs.size(); ++i) contribute(id, inputs[i], written[i]);
    }
    if (!fused && !parameters.empty()) {
      Instruction dw = instruction(id, OpPart::kWeightGrad);
      if (dy != kNoIndex) dw.reads.push_back(dy);
      add_saved(dw, op, info.dw_saved_inputs, 0);
      if (op.kind == OpKind::kLinear && !software_.fused_gradient_accumulation) {
        accumulate_apart(id, std::move(dw), parameters);
      } else {
        add_parameter_gradients(dw, parameters);
        out_.backward.push_back(std::move(dw));
      }
    }
  }

  void add_parameter_gradients(Instruction& to,
                               const boost::container::small_vector<TensorId, 4>& parameters) {
    for (TensorId parameter : parameters) {
      to.accumulates.push_back(gradient_tensor(parameter));
    }
  }

  TensorId gradient_tensor(TensorId parameter) {
    return out_.parameter_gradient[tensor(parameter).parameter];
  }

  /// The product writes its own tensor, which a second kernel adds to the accumulated gradient.
  void accumulate_apart(OpId id, Instruction dw,
                        const boost::container::small_vector<TensorId, 4>& parameters) {
    for (TensorId parameter : parameters) {
      const TensorId fresh = new_gradient(parameter, ".fresh");
      tensor(fresh).spec = tensor(gradient_tensor(parameter)).spec;
      dw.writes.push_back(fresh);
    }
    const auto fresh = dw.writes;
    out_.backward.push_back(std::move(dw));
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      Instruction add = instruction(id, OpPart::kForward);
      add.kind = OpKind::kAdd;
      add.attrs = {};
      add.reads = {fresh[i]};
      add.accumulates = {gradient_tensor(parameters[i])};
      out_.backward.push_back(std::move(add));
    }
  }

  /// One instruction `kind` that turns the gradient of the output into that of the first input.
  void communicate(OpId id, OpKind kind, TensorId dy, bool in_place) {
    const Op& op = op_at(id);
    if (!wants_gradient(op.inputs[0])) return;
    Instruction comm = instruction(id, OpPart::kForward);
    comm.kind = kind;
    comm.attrs.partial_gradient = false;
    const TensorId dx = new_gradient(op.inputs[0]);
    if (in_place) tensor(dx).alias = dy;
    comm.reads = {dy};
    comm.writes = {dx};
    out_.backward.push_back(std::move(comm));
    contribute(id, op.inputs[0], dx);
  }

  void backward_special(OpId id) {
    const Op& op = op_at(id);
    if (op.kind == OpKind::kSplit) return backward_split(id);
    const TensorId dy = gradient_of(op.outputs[0]);
    if (dy == kNoIndex) return;
    if (op.kind == OpKind::kJoin) return backward_join(id, dy);
    switch (op.kind) {
      case OpKind::kEnterTensor: return communicate(id, OpKind::kAllReduce, dy, true);
      case OpKind::kAllReduce:
        if (wants_gradient(op.inputs[0])) contribute(id, op.inputs[0], dy);
        return;
      case OpKind::kReduceScatter: return communicate(id, OpKind::kAllGather, dy, false);
      case OpKind::kSlice: return communicate(id, OpKind::kAllGather, dy, false);
      case OpKind::kAllGather:
        return op.attrs.partial_gradient ? communicate(id, OpKind::kReduceScatter, dy, false)
                                         : communicate(id, OpKind::kSlice, dy, op.attrs.dim < 0);
      case OpKind::kSend: {
        if (!wants_gradient(op.inputs[0])) return;
        Instruction send = instruction(id, OpPart::kInputGrad);
        const TensorId dx = new_gradient(op.inputs[0]);
        send.reads = {dy};
        send.writes = {dx};
        out_.backward.push_back(std::move(send));
        return contribute(id, op.inputs[0], dx);
      }
      default: bug("no backward for op kind " + std::string(to_string(op.kind)));
    }
  }

  /// The gradients of the views are written into one packed gradient; no kernel.
  void backward_split(OpId id) {
    const Op& op = op_at(id);
    if (!wants_gradient(op.inputs[0])) return;
    const TensorId packed = new_gradient(op.inputs[0]);
    Instruction join = instruction(id, OpPart::kInputGrad);
    for (TensorId output : op.outputs) {
      const TensorId part = gradient_of(output);
      if (part == kNoIndex) return;
      const TensorId home = root(part);
      check(tensor(home).shape == tensor(part).shape, "gradient of a view already has a home");
      tensor(home).alias = packed;
      tensor(home).alias_offset = tensor(output).alias_offset;
      join.reads.push_back(part);
    }
    join.writes = {packed};
    out_.backward.push_back(std::move(join));
    contribute(id, op.inputs[0], packed);
  }

  /// The gradients of the halves are views of their join's; no kernel.
  void backward_join(OpId id, TensorId dy) {
    const Op& op = op_at(id);
    Instruction split = instruction(id, OpPart::kInputGrad);
    split.reads = {dy};
    std::int64_t offset = 0;
    for (TensorId input : op.inputs) {
      const TensorId part = new_gradient(input);
      tensor(part).alias = dy;
      tensor(part).alias_offset = offset;
      offset += num_elements(tensor(part).shape);
      split.writes.push_back(part);
    }
    const auto parts = split.writes;
    out_.backward.push_back(std::move(split));
    for (std::size_t i = 0; i < parts.size(); ++i) {
      if (wants_gradient(op.inputs[i])) contribute(id, op.inputs[i], parts[i]);
    }
  }

  TensorId root(TensorId id) {
    while (tensor(id).alias != kNoIndex) id = tensor(id).alias;
    return id;
  }

  /// Moves each tensor-parallel collective up to right behind the instruction that it waits for, so
  /// that the weight gradient, issued after it, runs beside it.
  void hoist_collectives() {
    auto& list = out_.backward;
    for (std::size_t i = 1; i < list.size(); ++i) {
      if (!is_collective(list[i].kind)) continue;
      std::size_t to = i;
      while (to > 0 && !is_communication(list[to - 1].kind) &&
             !writes_any(list[to - 1], list[i].reads)) {
        --to;
      }
      // Not across anything but weight gradients: other work is not waiting to be hidden behind.
      std::size_t first = i;
      while (first > to && (list[first - 1].part == OpPart::kWeightGrad ||
                            !list[first - 1].accumulates.empty())) {
        --first;
      }
      std::rotate(list.begin() + static_cast<std::ptrdiff_t>(first),
                  list.begin() + static_cast<std::ptrdiff_t>(i),
                  list.begin() + static_cast<std::ptrdiff_t>(i) + 1);
    }
  }

  static bool writes_any(const Instruction& instruction,
                         const boost::container::small_vector<TensorId, 4>& reads) {
    return std::any_of(reads.begin(), reads.end(), [&](TensorId id) {
      return std::find(instruction.writes.begin(), instruction.writes.end(), id) !=
             instruction.writes.end();
    });
  }

  const StagedGraph& staged_;
  const SoftwareProfile& software_;
  TrainingGraph out_;
  Indexed<TensorId, TensorId>
      gradient_;  // [forward tensor]: sum of its gradient so far; -1: none yet
  std::unordered_map<std::string, int> copies_;
};

}  // namespace

TrainingGraph differentiate(const StagedGraph& staged, const SoftwareProfile& software,
                            DType grad_dtype) {
  return Differentiator(staged, software, grad_dtype).run();
}

}  // namespace trainyard
