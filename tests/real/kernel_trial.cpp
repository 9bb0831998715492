#include "tests/real/kernel_trial.h"

#include <algorithm>
#include <random>
#include <vector>

#include "engine/base/error.h"
#include "engine/graph/op_table.h"
#include "real/kernels/kernel.h"
#include "tests/real/torch_ops.h"
#include "tests/support/random_graph.h"

namespace trainyard {

namespace {

using Extents = std::vector<std::int64_t>;

class Trial {
 public:
  Trial(const Graph& graph, const Op& op, std::uint64_t seed)
      : graph_(graph),
        op_(op),
        random_(seed),
        values_(graph.tensors.size()),
        attrs_(op.attrs) {
    attrs_.copies = true;
    for (const TensorId id : op.inputs) {
      if (!values_[id].defined()) values_[id] = numbers(extents(id)).requires_grad_();
    }
    run_by_torch(graph, op, 1, values_);
  }

  double run() {
    check_forward();
    if (op_.kind != OpKind::kConcat && op_.kind != OpKind::kSplit) {
      for (std::size_t i = 0; i < op_.inputs.size(); ++i) check_gradient(i);
    }
    return worst_;
  }

 private:
  Extents extents(TensorId id) const {
    return {graph_.tensors[id].shape.begin(), graph_.tensors[id].shape.end()};
  }
  at::Tensor numbers(const Extents& shape) {
    const at::Tensor out = at::empty(shape, at::TensorOptions(at::kDouble));
    double* data = out.mutable_data_ptr<double>();
    std::uniform_real_distribution<double> uniform(-1, 1);
    for (std::int64_t i = 0; i < out.numel(); ++i) data[i] = uniform(random_);
    return out;
  }
  void compare(const at::Tensor& ours, const at::Tensor& theirs) {
    check(ours.sizes() == theirs.sizes(), "a kernel's result has the Program's extents");
    worst_ = std::max(worst_, at::max(at::abs(ours - theirs)).item<double>());
  }

  KernelCall call(std::vector<at::Tensor> reads) {
    KernelCall k;
    k.attrs = &attrs_;
    k.state = &state_;
    k.reads = std::move(reads);
    if (op_.kind == OpKind::kMse) k.loss_divisor = static_cast<double>(k.reads[0].numel());
    return k;
  }
  /// In storage that is there already, or not.
  void will_write(KernelCall& k, const Extents& shape) {
    const bool given = std::bernoulli_distribution(0.5)(random_);
    k.writes.push_back(given ? numbers(shape) : at::Tensor{});
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
    for (const TensorId id : op_.inputs) reads.push_back(values_[id].detach());
    KernelCall k = call(std::move(reads));
    for (const TensorId id : op_.outputs) will_write(k, extents(id));
    run_kernel(OpPart::kForward, k);
    for (std::size_t i = 0; i < op_.outputs.size(); ++i)
      compare(k.writes[i], values_[op_.outputs[i]].detach());
  }

  /// The gradient of operand `i`: as an activation's, which is written, and as a parameter's, which
  /// is added.
  void check_gradient(std::size_t i) {
    const OpInfo& info = op_info(op_.kind);
    const at::Tensor& y = values_[op_.outputs[0]];
    const at::Tensor dy =
        info.gradient_in ? numbers(extents(op_.outputs[0])) : at::ones({1}, at::kDouble);
    const bool alone = op_.inputs.size() == 1;
    // An operand that is there twice is two here, of the same value.
    Indexed<TensorId, at::Tensor> apart = values_;
    std::vector<at::Tensor> leaves;
    for (const TensorId id : op_.inputs)
      leaves.push_back(values_[id].detach().clone().requires_grad_());
    Op twin = op_;
    Graph graph = graph_;
    for (std::size_t k = 0; k < op_.inputs.size(); ++k) {
      twin.inputs[k] = graph.tensors.add(graph_.tensors[op_.inputs[k]]);
      apart.push_back(leaves[k]);
    }
    run_by_torch(graph, twin, 1, apart);
    apart[op_.outputs[0]].backward(dy.reshape(y.sizes()));
    const at::Tensor expected = leaves[i].grad();

    for (const bool parameter : {false, true}) {
      const OpPart part = (alone ? parameter : i == 1) ? OpPart::kWeightGrad : OpPart::kInputGrad;
      const unsigned saved =
          (alone ? parameter : i == 1) ? info.dw_saved_inputs : info.dx_saved_inputs;
      std::vector<at::Tensor> reads;
      for (std::size_t k = 0; k < op_.inputs.size(); ++k) {
        if ((saved >> k & 1U) != 0) reads.push_back(values_[op_.inputs[k]].detach());
      }
      KernelCall k = call(reads);
      if (info.gradient_in) k.reads.insert(k.reads.begin(), dy);
      at::Tensor before;
      if (parameter) {
        before = numbers(extents(op_.inputs[i]));
        k.accumulates.push_back(before.clone());
      } else {
        will_write(k, extents(op_.inputs[i]));
      }
      run_kernel(part, k);
      if (parameter) {
        compare(k.accumulates[0], before + expected);
      } else {
        compare(k.writes[0], expected);
      }
    }
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
  const bool loss = kind == OpKind::kMse;
  RandomGraph options{.ops = 1};
  if (!loss) options.only = kind;
  const Graph graph = random_graph(seed, options);
  const auto op = std::find_if(graph.ops.begin(), graph.ops.end(),
                               [&](const Op& one) { return one.kind == kind; });
  if (op == graph.ops.end()) return 0;  // a narrow instead, of what was too large
  return Trial(graph, *op, seed).run();
}

}  // namespace trainyard
