#include "engine/graph/graph.h"

#include <algorithm>
#include <array>
#include <limits>

#include "engine/graph/general_shapes.h"
#include "engine/graph/image_shapes.h"
#include "engine/graph/op_table.h"
#include "engine/graph/state_space_shapes.h"

namespace trainyard {

namespace {

std::string describe(const Graph& graph, OpId op) {
  const Op& it = graph.ops[op];
  return "op " + std::to_string(op.number()) + " " + std::string(to_string(it.kind)) + " (" +
         graph.modules[it.module] + ")";
}

std::string find_tensor_violation(const Graph& graph) {
  for (const TensorId id : graph.tensors.keys()) {
    const Tensor& tensor = graph.tensors[id];
    const auto fail = [&](const std::string& problem) {
      return "tensor " + std::to_string(id.number()) + " '" + tensor.name + "': " + problem;
    };
    if (tensor.shape.empty() || std::any_of(tensor.shape.begin(), tensor.shape.end(),
                                            [](std::int64_t size) { return size < 1; })) {
      return fail("shape " + to_text(tensor.shape) + " has no elements");
    }
    const bool is_parameter = tensor.role == TensorRole::kParameter;
    if (is_parameter && (!graph.parameters.has(tensor.parameter) ||
                         graph.parameters[tensor.parameter].tensor != id)) {
      return fail("its parameter names another tensor");
    }
    if ((is_parameter || tensor.role == TensorRole::kInput) && tensor.producer != kNoIndex) {
      return fail("data and parameters have no producer");
    }
  }
  return {};
}

/// Inputs exist before they are read, and each activation is written at most once, by its producer.
/// Tensors that no op touches are allowed: passes that fuse ops leave them behind.
class OrderCheck {
 public:
  explicit OrderCheck(const Graph& graph)
      : graph_(graph),
        is_written_(graph.tensors.size(), false) {}

  std::string next(OpId id) {
    const Op& op = graph_.ops[id];
    if (!graph_.modules.has(op.module)) return "op " + std::to_string(id.number()) + ": no module";
    for (const TensorId input : op.inputs) {
      if (!graph_.tensors.has(input)) return describe(graph_, id) + ": reads no tensor";
      const Tensor& tensor = graph_.tensors[input];
      if (tensor.role == TensorRole::kActivation && !is_written_[input]) {
        return describe(graph_, id) + ": reads '" + tensor.name + "' before it is produced";
      }
    }
    if (op.outputs.empty()) return describe(graph_, id) + ": produces nothing";
    for (const TensorId output : op.outputs) {
      if (!graph_.tensors.has(output)) return describe(graph_, id) + ": writes no tensor";
      if (graph_.tensors[output].producer != id || is_written_[output]) {
        return describe(graph_, id) + ": writes '" + graph_.tensors[output].name +
               "', which another op produces";
      }
      is_written_[output] = true;
    }
    return {};
  }

  bool is_written(TensorId id) const { return is_written_[id]; }

 private:
  const Graph& graph_;
  Indexed<TensorId, bool> is_written_;
};

/// Execution order runs through the embeddings (-1), layers 0, 1, ..., and the head (-1), so that a
/// pipeline stage can be any run of consecutive layers. Chunks of a microbatch each do so by
/// themselves: where they take turns, one may be a layer ahead.
class LayerCheck {
 public:
  explicit LayerCheck(const Graph& graph) : graph_(graph) {}

  std::string next(OpId id) {
    const Op& op = graph_.ops[id];
    if (op.chunk == 0) last_.assign(last_.size(), latest());
    if (op.chunk >= std::ssize(last_)) last_.resize(op.chunk + 1, last_[0]);
    std::int32_t& before = last_[op.chunk];
    if (op.layer < 0) {
      in_head_ = before >= 0;
      return {};
    }
    if (in_head_) {
      return describe(graph_, id) + ": layer " + std::to_string(op.layer) + " after the head";
    }
    if (op.layer != before && op.layer != before + 1) {
      return describe(graph_, id) + ": layer " + std::to_string(op.layer) + " after layer " +
             std::to_string(before);
    }
    if (op.chunk == 0) last_.assign(last_.size(), op.layer);
    before = op.layer;
    return {};
  }

  std::string at_end() const {
    if (graph_.num_layers == latest() + 1) return {};
    return "num_layers is " + std::to_string(graph_.num_layers) + ", but the last layer is " +
           std::to_string(latest());
  }

 private:
  std::int32_t latest() const { return *std::max_element(last_.begin(), last_.end()); }

  const Graph& graph_;
  Numbered<std::int32_t> last_ = Numbered<std::int32_t>(1, -1);  // [chunk]; 0: of ops on all
  bool in_head_ = false;
};

/// What is trained, or was computed on the way to the loss, is read by something.
class UseCheck {
 public:
  explicit UseCheck(const Graph& graph) : graph_(graph), is_read_(graph.tensors.size(), false) {}

  std::string begin() {
    if (!graph_.tensors.has(graph_.loss)) return "the graph has no loss";
    const Tensor& loss = graph_.tensors[graph_.loss];
    if (loss.role != TensorRole::kActivation || !loss.needs_gradient ||
        num_elements(loss.shape) != 1) {
      return "loss '" + loss.name + "' is not a scalar that depends on a parameter";
    }
    is_read_[graph_.loss] = true;
    return {};
  }

  void next(OpId id) {
    for (const TensorId input : graph_.ops[id].inputs) is_read_[input] = true;
  }

  std::string at_end(const OrderCheck& order) const {
    if (!order.is_written(graph_.loss)) return "no op produces the loss";
    for (const TensorId id : graph_.tensors.keys()) {
      if (is_read_[id] || !graph_.tensors[id].needs_gradient) continue;
      const bool is_parameter = graph_.tensors[id].role == TensorRole::kParameter;
      if (!is_parameter && (!order.is_written(id) || another_is_used(id))) continue;
      return "tensor " + std::to_string(id.number()) + " '" + graph_.tensors[id].name +
             "': needs a gradient, but nothing reads it";
    }
    return {};
  }

 private:
  /// Some of an op's several results may be left alone.
  bool another_is_used(TensorId id) const {
    const auto& outputs = graph_.ops[graph_.tensors[id].producer].outputs;
    return std::any_of(outputs.begin(), outputs.end(), [&](TensorId one) {
      return graph_.tensors[one].needs_gradient && is_read_[one];
    });
  }

  const Graph& graph_;
  Indexed<TensorId, bool> is_read_;
};

/// Whether the op leaves a tensor's value as it is, however it lies on ranks.
bool is_move(OpKind kind) {
  return is_communication(kind) || kind == OpKind::kEnterTensor || kind == OpKind::kSlice ||
         kind == OpKind::kPad || kind == OpKind::kKeepOnOne;
}

/// The gradient of a loss is 1: losses are added to each other, and nothing else is done with them.
class LossCheck {
 public:
  explicit LossCheck(const Graph& graph) : graph_(graph), is_loss_(graph.tensors.size(), false) {}

  std::string next(OpId id) {
    const Op& op = graph_.ops[id];
    const auto of_loss = [&](TensorId input) { return is_loss_[input]; };
    const auto first = std::find_if(op.inputs.begin(), op.inputs.end(), of_loss);
    if (first != op.inputs.end()) {
      const bool adds =
          op.kind == OpKind::kAdd && std::all_of(op.inputs.begin(), op.inputs.end(), of_loss);
      if (!adds && !is_move(op.kind)) {
        return describe(graph_, id) + ": reads loss '" + graph_.tensors[*first].name +
               "', to which only other losses can be added";
      }
      is_loss_[op.outputs[0]] = true;
    } else if (op_info(op.kind).backward != BackwardForm::kNone && !op_info(op.kind).gradient_in) {
      is_loss_[op.outputs[0]] = true;
    }
    return {};
  }

  std::string at_end() const {
    if (is_loss_[graph_.loss]) return {};
    return "loss '" + graph_.tensors[graph_.loss].name + "' is no loss, nor a sum of losses";
  }

 private:
  const Graph& graph_;
  Indexed<TensorId, bool> is_loss_;
};

/// What the shapes of `op` break, for the kinds that models are made of; other kinds pass.
std::string find_shape_problem(const Graph& graph, const Op& op) {
  const auto input = [&](std::size_t i) -> const Shape& {
    return graph.tensors[op.inputs[i]].shape;
  };
  const auto has_inputs = [&](std::size_t least) { return op.inputs.size() >= least; };
  const Shape& y = graph.tensors[op.outputs[0]].shape;
  switch (op.kind) {
    case OpKind::kLinear: {
      if (!has_inputs(op.attrs->has_bias ? 3 : 2)) return "too few inputs";
      const Shape& w = input(1);
      if (w.size() != 2 || input(0).back() != w[1] || y.back() != w[0]) {
        return "weight " + to_text(w) + " does not take " + to_text(input(0)) + " to " + to_text(y);
      }
      if (op.attrs->has_bias && input(2) != Shape{w[0]}) {
        return "bias " + to_text(input(2)) + " does not match weight " + to_text(w);
      }
      return {};
    }
    case OpKind::kNormalize: {
      if (!has_inputs(op.attrs->unbiased ? 3 : 4)) return "too few inputs";
      const Shape& moments = input(1);
      if (input(2) != Shape{input(0).back()} || moments.size() != input(0).size())
        return "weight " + to_text(input(2)) + " does not match " + to_text(input(0));
      if (y != input(0)) return "takes " + to_text(input(0)) + " to " + to_text(y);
      return {};
    }
    case OpKind::kNormMoments:
      if (!has_inputs(1)) return "too few inputs";
      if (y.size() != input(0).size() || (y.back() != 2 && y.back() != 3))
        return "takes " + to_text(input(0)) + " to " + to_text(y);
      return {};
    case OpKind::kLayerNorm:
    case OpKind::kRmsNorm:
      if (!has_inputs(op.kind == OpKind::kLayerNorm && !op.attrs->unbiased ? 3 : 2))
        return "too few inputs";
      if (op.outputs.size() != 2) return "a norm has two outputs, y and its statistics";
      if (input(1) != Shape{input(0).back()}) {
        return "weight " + to_text(input(1)) + " does not match " + to_text(input(0));
      }
      [[fallthrough]];
    case OpKind::kDropout:
    case OpKind::kGelu:
    case OpKind::kRelu:
    case OpKind::kTanh:
    case OpKind::kRope:
      if (!has_inputs(1)) return "too few inputs";
      if (y != input(0)) return "takes " + to_text(input(0)) + " to " + to_text(y);
      return {};
    case OpKind::kHeadNorm: {
      if (!has_inputs(3)) return "too few inputs";
      if (op.outputs.size() != 2) return "a norm has two outputs, y and its statistics";
      const OpAttrs& attrs = op.attrs;
      const std::int64_t heads = std::int64_t{attrs.heads} + 2 * std::int64_t{attrs.kv_heads};
      if (y != input(0) || y.back() != heads * attrs.head_dim)
        return "heads do not match " + to_text(input(0));
      const Shape of_head = {attrs.head_dim};
      if (input(1) != of_head || input(2) != of_head) return "weights do not match a head";
      return {};
    }
    case OpKind::kSwiglu:
    case OpKind::kGeglu:
      if (!has_inputs(1)) return "too few inputs";
      if (input(0).back() != 2 * y.back()) {
        return "takes " + to_text(input(0)) + " to " + to_text(y);
      }
      return {};
    case OpKind::kAttention: {
      if (!has_inputs(op.attrs->packed ? 1 : 2)) return "too few inputs";
      const std::int64_t q = std::int64_t{op.attrs->heads} * op.attrs->head_dim;
      const std::int64_t kv = 2 * std::int64_t{op.attrs->kv_heads} * op.attrs->head_dim;
      const bool fits = op.attrs->packed ? input(0).back() == q + kv
                                         : input(0).back() == q && input(1).back() == kv;
      if (!fits || y.back() != q) return "heads do not match " + to_text(input(0));
      return {};
    }
    case OpKind::kCausalConv1d:
    case OpKind::kChunkScan: return find_state_space_problem(graph, op);
    case OpKind::kConv2d:
    case OpKind::kMaxPool2d:
    case OpKind::kAvgPool2d:
    case OpKind::kBatchNorm:
    case OpKind::kBatchMoments:
    case OpKind::kConvTranspose2d:
    case OpKind::kInterpolate2d:
    case OpKind::kGroupNorm:
    case OpKind::kBatchNormalize: return find_image_shape_problem(graph, op);
    default: return is_general(op.kind) ? find_general_shape_problem(graph, op) : std::string();
  }
}

std::string shape_violation(const Graph& graph, OpId id) {
  const std::string problem = find_shape_problem(graph, graph.ops[id]);
  return problem.empty() ? problem : describe(graph, id) + ": " + problem;
}

}  // namespace

Graph::Graph() = default;
Graph::Graph(const Graph&) = default;
Graph::Graph(Graph&&) noexcept = default;
Graph& Graph::operator=(const Graph&) = default;
Graph& Graph::operator=(Graph&&) noexcept = default;
Graph::~Graph() = default;

std::int64_t num_elements(const Shape& shape) {
  std::int64_t count = 1;
  for (const std::int64_t size : shape) {
    if (__builtin_mul_overflow(count, size, &count)) {
      return std::numeric_limits<std::int64_t>::max();
    }
  }
  return count;
}

Graph without_ops(const Graph& graph) {
  Graph copy;
  copy.name = graph.name;
  // What passes add, and the gradients of all, need not move them.
  copy.tensors.reserve(graph.tensors.size() * 9 / 4);
  copy.tensors.insert(copy.tensors.end(), graph.tensors.begin(), graph.tensors.end());
  copy.parameters = graph.parameters;
  copy.modules = graph.modules;
  copy.specs = graph.specs;
  copy.loss = graph.loss;
  copy.num_layers = graph.num_layers;
  copy.model_flop_per_microbatch = graph.model_flop_per_microbatch;
  return copy;
}

ParameterCount count_parameters(const Graph& graph) {
  ParameterCount count;
  for (const Parameter& parameter : graph.parameters) {
    if (parameter.momentum > 0) continue;
    const std::int64_t size = num_elements(parameter.shape);
    if (!parameter.head) count.base += size;
    if (parameter.tensor != kNoIndex) count.with_head += size;
  }
  return count;
}

std::string find_violation(const Graph& graph) {
  if (std::string problem = find_tensor_violation(graph); !problem.empty()) return problem;
  OrderCheck order(graph);
  LayerCheck layers(graph);
  UseCheck uses(graph);
  LossCheck losses(graph);
  if (std::string problem = uses.begin(); !problem.empty()) return problem;
  // One walk for all of them: a large graph is longer on its way from memory than in any check.
  // Past the first, every index of the op can be followed.
  std::string misfit;  // said where nothing worse is wrong
  for (const OpId id : graph.ops.keys()) {
    if (std::string problem = order.next(id); !problem.empty()) return problem;
    if (std::string problem = layers.next(id); !problem.empty()) return problem;
    uses.next(id);
    if (misfit.empty()) misfit = shape_violation(graph, id);
    if (misfit.empty()) misfit = losses.next(id);
  }
  if (std::string problem = layers.at_end(); !problem.empty()) return problem;
  if (std::string problem = uses.at_end(order); !problem.empty()) return problem;
  return misfit.empty() ? losses.at_end() : misfit;
}

}  // namespace trainyard
