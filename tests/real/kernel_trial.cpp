#include "tests/real/kernel_trial.h"

#include <algorithm>
#include <cmath>
#include <random>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/op_table.h"
#include "real/kernels/kernel.h"
#include "tests/real/test_device.h"
#include "tests/real/torch_ops.h"
#include "tests/support/random_graph.h"

namespace trainyard {

namespace {

using Extents = std::vector<std::int64_t>;

/// Numbers that an operand may be: what is divided by and what has a logarithm are not near 0, and
/// functions that level off are tried where they do, too.
std::uniform_real_distribution<double> numbers_for(const Op& op, std::size_t operand) {
  switch (op.kind) {
    case OpKind::kDiv: return std::uniform_real_distribution<double>(operand == 1 ? 0.5 : -2, 2);
    case OpKind::kLog:
    case OpKind::kPower: return std::uniform_real_distribution<double>(0.5, 2);
    case OpKind::kErf:
    case OpKind::kSin:
    case OpKind::kCos:
    case OpKind::kSigmoid:
    case OpKind::kSilu:
    case OpKind::kSoftplus: return std::uniform_real_distribution<double>(-30, 30);
    case OpKind::kClamp: return std::uniform_real_distribution<double>(-2, 2);
    case OpKind::kBce: return std::uniform_real_distribution<double>(operand == 1 ? 0 : -30, 1);
    default: return std::uniform_real_distribution<double>(-1, 1);
  }
}

/// One backward instruction: of which operands it writes the gradient, to whose it adds.
struct BackwardCall {
  OpPart part;
  unsigned saved_inputs = 0, saved_outputs = 0;
  std::vector<std::size_t> written, accumulated;
};

/// The gradient of one operand: as an activation's, which is written, and as a parameter's, which
/// is added.
void add_both(std::vector<BackwardCall>& calls, OpPart part, unsigned saved, std::size_t operand) {
  calls.push_back({part, saved, 0, {operand}, {}});
  calls.push_back({part, saved, 0, {}, {operand}});
}

/// As op_table.h says that backwards read, write and accumulate.
std::vector<BackwardCall> backward_calls(const Op& op) {
  const OpInfo& info = op_info(op.kind);
  const unsigned dx = info.dx_saved_inputs, dw = info.dw_saved_inputs, y = info.dx_saved_outputs;
  const std::size_t last = op.inputs.size() - 1;
  std::vector<std::size_t> weights;
  for (std::size_t i = 0; i <= last; ++i) {
    if ((info.weights >> i & 1U) != 0) weights.push_back(i);
  }
  std::vector<BackwardCall> calls;
  switch (info.backward) {
    case BackwardForm::kFused:
      if (op.kind == OpKind::kChunkScan) {  // all that it reads of tokens has a gradient
        calls.push_back({OpPart::kBackward, dx, y, {0, 1, 2, 3}, weights});
        break;
      }
      calls.push_back({OpPart::kBackward, dx, y, {0}, weights});
      calls.push_back({OpPart::kBackward, dx, y, {}, weights});
      break;
    case BackwardForm::kApart:
      calls.push_back({OpPart::kInputGrad, dx, y, {0}, {}});
      if (!weights.empty()) calls.push_back({OpPart::kWeightGrad, dw, 0, {}, weights});
      break;
    case BackwardForm::kAlias:
    case BackwardForm::kFactors:
      add_both(calls, OpPart::kInputGrad, dx, op.kind == OpKind::kScatter ? 0 : last - 1);
      add_both(calls, OpPart::kWeightGrad, dw, last);
      break;
    default:  // ranges and parts of others are instructions of another kind
      if (op.kind == OpKind::kConcat || op.kind == OpKind::kSplit) break;
      calls.push_back({OpPart::kInputGrad, 0, 0, {0}, {}});
      calls.push_back({OpPart::kWeightGrad, 0, 0, {}, {0}});
  }
  return calls;
}

class Trial {
 public:
  Trial(const Graph& graph, const Op& op, std::uint64_t seed)
      : graph_(graph),
        op_(op),
        random_(seed),
        values_(graph.tensors.size()),
        attrs_(op.attrs) {
    attrs_.copies = true;
    for (std::size_t i = 0; i < op.inputs.size(); ++i) {
      at::Tensor& value = values_[op.inputs[i]];
      if (value.defined()) continue;
      value = numbers(extents(op.inputs[i]), numbers_for(op, i));
      if (is_condition(i)) value = value.ge(0).to(at::kByte);
      if (is_index(i)) value = at::floor(value * extents(op.inputs[0]).end()[-2]).to(at::kLong);
    }
    if (op.kind == OpKind::kScatter && !attrs_.adds && tests_on_gpu()) write_alike();
    run_by_torch(graph, op, 1, values_);
  }

  double run() {
    check_forward();
    for (const BackwardCall& call : backward_calls(op_)) check_backward(call);
    return worst_;
  }

 private:
  /// Rows that go to one place are equal: a GPU has no order in which the last of them stays.
  void write_alike() {
    at::Tensor& rows = values_[op_.inputs[2]];
    const at::Tensor index = values_[op_.inputs[1]].unsqueeze(-1).expand(rows.sizes());
    rows = at::gather(numbers(extents(op_.inputs[0])), -2, index).contiguous();
  }
  bool is_condition(std::size_t i) const {
    return graph_.tensors[op_.inputs[i]].dtype == DType::kUint8;
  }
  bool is_index(std::size_t i) const {
    return graph_.tensors[op_.inputs[i]].dtype == DType::kInt64;
  }
  Extents extents(TensorId id) const {
    return {graph_.tensors[id].shape.begin(), graph_.tensors[id].shape.end()};
  }
  at::Tensor numbers(const Extents& shape, std::uniform_real_distribution<double> uniform) {
    const at::Tensor out = at::empty(shape, at::TensorOptions(at::kDouble));
    double* data = out.mutable_data_ptr<double>();
    for (std::int64_t i = 0; i < out.numel(); ++i) data[i] = uniform(random_);
    return out;
  }
  at::Tensor numbers(const Extents& shape) {
    return numbers(shape, std::uniform_real_distribution<double>(-1, 1));
  }
  /// Against the larger of 1 and the number itself.
  void compare(const at::Tensor& ours, const at::Tensor& theirs) {
    check(ours.sizes() == theirs.sizes(), "a kernel's result has the Program's extents");
    const at::Tensor apart = at::abs(ours.cpu() - theirs) / at::clamp_min(at::abs(theirs), 1);
    const double most = at::max(apart).item<double>();
    worst_ = std::isnan(most) ? INFINITY : std::max(worst_, most);
  }

  KernelCall call(std::vector<at::Tensor> reads) {
    KernelCall k;
    k.attrs = &attrs_;
    k.state = &state_;
    k.device = test_device();
    k.immediate = !tests_on_gpu();
    for (const at::Tensor& read : reads) k.reads.push_back(read.to(test_device()));
    if (is_mean_loss(op_.kind)) k.loss_divisor = static_cast<double>(k.reads[0].numel());
    return k;
  }
  /// In storage that is there already, or not.
  void will_write(KernelCall& k, const Extents& shape) {
    const bool given = std::bernoulli_distribution(0.5)(random_);
    k.writes.push_back(given ? numbers(shape).to(test_device()) : at::Tensor{});
    k.write_shapes.push_back(shape);
    k.write_types.push_back(at::kDouble);
  }
  void run_kernel(OpPart part, KernelCall& k) {
    const Kernel kernel = find_kernel(op_.kind, part);
    check(kernel != nullptr, "a general kind has its kernels");
    const at::AutoDispatchBelowADInplaceOrView no_autograd;
    kernel(k);
  }

  void check_forward() {
    std::vector<at::Tensor> reads;
    for (const TensorId id : op_.inputs) reads.push_back(values_[id]);
    KernelCall k = call(std::move(reads));
    for (const TensorId id : op_.outputs) will_write(k, extents(id));
    run_kernel(OpPart::kForward, k);
    for (std::size_t i = 0; i < op_.outputs.size(); ++i)
      compare(k.writes[i], values_[op_.outputs[i]]);
  }

  /// By autograd, of each operand. One that is there twice is two here, of the same value.
  std::vector<at::Tensor> gradients_by_torch(const at::Tensor& dy) {
    Indexed<TensorId, at::Tensor> apart = values_;
    std::vector<at::Tensor> leaves;
    Op twin = op_;
    Graph graph = graph_;
    for (std::size_t k = 0; k < op_.inputs.size(); ++k) {
      const TensorId id = op_.inputs[k];
      leaves.push_back(values_[id].clone());
      if (!is_condition(k) && !is_index(k)) leaves.back().requires_grad_();
      twin.inputs[k] = graph.tensors.add(graph_.tensors[id]);
      apart.push_back(leaves[k]);
    }
    run_by_torch(graph, twin, 1, apart);
    const at::Tensor& y = apart[op_.outputs[0]];
    y.backward(dy.reshape(y.sizes()));
    std::vector<at::Tensor> out;
    out.reserve(leaves.size());
    for (const at::Tensor& leaf : leaves) out.push_back(leaf.grad());
    return out;
  }

  void check_backward(const BackwardCall& back) {
    const bool given = op_info(op_.kind).gradient_in;
    const at::Tensor dy = given ? numbers(extents(op_.outputs[0])) : at::ones({1}, at::kDouble);
    const std::vector<at::Tensor> expected = gradients_by_torch(dy);
    std::vector<at::Tensor> reads;
    if (given) reads.push_back(dy);
    const auto save = [&](unsigned which, const auto& ids) {
      for (std::size_t k = 0; k < ids.size(); ++k) {
        if ((which >> k & 1U) != 0) reads.push_back(values_[ids[k]]);
      }
    };
    save(back.saved_inputs, op_.inputs);
    save(back.saved_outputs, op_.outputs);
    KernelCall k = call(std::move(reads));
    std::vector<at::Tensor> before;
    for (const std::size_t i : back.written) will_write(k, extents(op_.inputs[i]));
    for (const std::size_t i : back.accumulated) {
      before.push_back(numbers(extents(op_.inputs[i])));
      k.accumulates.push_back(before.back().clone().to(test_device()));
    }
    run_kernel(back.part, k);
    for (std::size_t w = 0; w < back.written.size(); ++w)
      compare(k.writes[w], expected[back.written[w]]);
    for (std::size_t a = 0; a < back.accumulated.size(); ++a)
      compare(k.accumulates[a], before[a] + expected[back.accumulated[a]]);
  }

  const Graph& graph_;
  const Op& op_;
  std::mt19937_64 random_;
  Indexed<TensorId, at::Tensor> values_;
  OpAttrs attrs_;
  StepState state_;
  double worst_ = 0;
};

}  // namespace

double distance_from_torch(OpKind kind, std::uint64_t seed) {
  const Graph graph = random_graph(seed, {.ops = 1, .only = kind});
  const auto op = std::find_if(graph.ops.begin(), graph.ops.end(),
                               [&](const Op& one) { return one.kind == kind; });
  if (op == graph.ops.end()) return 0;  // a narrow instead, of what was too large
  return Trial(graph, *op, seed).run();
}

}  // namespace trainyard
