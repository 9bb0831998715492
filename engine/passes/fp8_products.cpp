#include "engine/passes/fp8_products.h"

#include <algorithm>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace trainyard {

namespace {

constexpr std::int64_t kMultiple = 16;  // elements of a dim

bool is_multiple(std::int64_t extent) { return extent % kMultiple == 0; }

class ProductCaster {
 public:
  ProductCaster(TrainingGraph& training, const Fp8Config& config, const AmaxAxes& axes,
                WeightCasts weights)
      : training_(training),
        config_(config),
        weights_(weights),
        copies_(training, config, axes, weights),
        products_(training.graph.ops.size()) {}

  std::optional<Infeasible> run() {
    if (auto problem = gathered_problem()) return problem;
    find_products();
    if (std::none_of(products_.begin(), products_.end(), [](const Product& p) { return p.cast; }))
      return Infeasible{
          "fp8 casts linear layers whose dims are multiples of 16, of which the model's blocks "
          "have "
          "none",
          "training.precision"};
    for (const OpId id : products_.keys()) {
      if (!products_[id].cast) continue;
      if (auto problem = local_problem(tensor(training_.graph.ops[id].inputs[1]))) return problem;
    }
    find_readers();
    if (weights_ == WeightCasts::kGathered) gather_weights();
    cast(training_.forward);
    cast(training_.backward);
    copies_.finish();
    return std::nullopt;
  }

 private:
  /// A linear layer, and which gradients its backward makes.
  struct Product {
    bool cast = false, dx = false, dw = false;
  };
  struct Readers {
    OpId product = kNoIndex;  // the first
    bool others = false;
  };

  const Tensor& tensor(TensorId id) const { return training_.graph.tensors[id]; }
  const TensorSpec& spec(TensorId id) const { return training_.graph.specs[tensor(id).spec]; }

  bool is_product(const Instruction& op) const {
    return op.kind == OpKind::kLinear && products_[op.origin].cast;
  }

  bool can_cast(const Op& op) const {
    // The gradient of what is entered comes in summands.
    return is_cast_layer(training_.graph, op) && spec(op.inputs[0]).partial == 0 &&
           spec(op.outputs[0]).entered == 0;
  }

  /// Weights are cast as they are stored, once per step.
  std::optional<Infeasible> gathered_problem() const {
    for (const Op& op : training_.graph.ops) {
      if (op.kind != OpKind::kLinear) continue;
      const OpId producer = tensor(op.inputs[1]).producer;
      if (producer == kNoIndex || training_.graph.ops[producer].inputs.empty()) continue;
      const Tensor& of = tensor(training_.graph.ops[producer].inputs[0]);
      if (of.role != TensorRole::kParameter) continue;
      return Infeasible{of.name + " is used otherwise than it is stored, and gathered in every " +
                            "microbatch, which fp8 does not go with in this version",
                        "training.precision"};
    }
    return std::nullopt;
  }

  static std::optional<Infeasible> local_problem(const Tensor& weight) {
    for (const std::int64_t extent : weight.shape) {
      if (is_multiple(extent)) continue;
      return Infeasible{"each rank has " + std::to_string(extent) + " of a dim of " + weight.name +
                            ", and fp8 takes multiples of 16",
                        "parallel.tensor"};
    }
    return std::nullopt;
  }

  void find_products() {
    for (const OpId id : training_.graph.ops.keys())
      products_[id].cast = can_cast(training_.graph.ops[id]);
    for (const Instruction& op : training_.backward) {
      if (op.kind != OpKind::kLinear) continue;
      (op.part == OpPart::kInputGrad ? products_[op.origin].dx : products_[op.origin].dw) = true;
    }
  }

  void find_readers() {
    readers_.assign(training_.graph.tensors.size(), {});
    for (const auto* list : {&training_.forward, &training_.backward}) {
      for (const Instruction& op : *list) {
        for (const TensorId read : op.reads) {
          const bool sums = op.part == OpPart::kWeightGrad && op.attrs->has_bias;
          Readers& readers = readers_[read];
          if (!is_product(op) || sums)
            readers.others = true;
          else if (readers.product == kNoIndex)
            readers.product = op.origin;
        }
      }
    }
  }

  /// In 8 bits, those that nothing but products reads.
  void gather_weights() {
    std::set<TensorId> weights;
    for (const Instruction& op : training_.forward) {
      if (is_product(op) && !readers_[op.reads[1]].others) weights.insert(op.reads[1]);
    }
    for (const TensorId weight : weights) copies_.gather_weight(weight);
  }

  /// Whether it can carry 8 bits: of a layer's input or gradient, which products alone read.
  bool can_carry(const Instruction& op) const {
    return config_.gathers && op.kind == OpKind::kAllGather && op.attrs->dim >= 0 &&
           readers_[op.writes[0]].product != kNoIndex && !readers_[op.writes[0]].others;
  }

  void cast(std::vector<Instruction>& list) {
    const bool backward = &list == &training_.backward;
    std::vector<Instruction> out;
    out.reserve(list.size() * 2);
    for (Instruction& op : list) {
      if (can_carry(op)) {
        copies_.gather(op, readers_[op.writes[0]].product, copies_.type_of(backward), out);
      } else if (!is_product(op)) {
        out.push_back(std::move(op));
      } else if (op.part == OpPart::kForward) {
        forward(std::move(op), out);
      } else {
        this->backward(std::move(op), out);
      }
    }
    list = std::move(out);
  }

  void forward(Instruction op, std::vector<Instruction>& out) {
    const Product& product = products_[op.origin];
    const DType type = copies_.type_of(false);
    const TensorId x = op.reads[0];
    const Fp8Copy a = copies_.get(x, type, SummedDim::kLast, product.dw, op, out);
    if (product.dw && !config_.whole()) copies_.get(x, type, SummedDim::kRows, true, op, out);
    const Fp8Copy b = copies_.get_weight(op.reads[1], SummedDim::kLast, product.dx, op, out);
    read(op, a, b, out);
  }

  void backward(Instruction op, std::vector<Instruction>& out) {
    const Product& product = products_[op.origin];
    const DType type = copies_.type_of(true);
    const TensorId dy = op.reads[0], other = op.reads[1];
    if (op.part == OpPart::kInputGrad) {
      const Fp8Copy a = copies_.get(dy, type, SummedDim::kLast, product.dw, op, out);
      return read(op, a, copies_.get_weight(other, SummedDim::kRows, true, op, out), out);
    }
    if (op.attrs->has_bias) give_bias(op, dy, out);
    const Fp8Copy a = copies_.get(dy, type, SummedDim::kRows, product.dx, op, out);
    const Fp8Copy b = copies_.get(other, copies_.type_of(false), SummedDim::kRows, true, op, out);
    read(op, a, b, out);
  }

  /// The bias' gradient is summed from what is not cast.
  static void give_bias(Instruction& op, TensorId dy, std::vector<Instruction>& out) {
    Instruction bias = op;
    bias.kind = OpKind::kAddBias;
    bias.attrs = {};
    bias.reads = {dy};
    auto& of_product = op.accumulates.empty() ? op.writes : op.accumulates;
    auto& of_bias = op.accumulates.empty() ? bias.writes : bias.accumulates;
    of_bias = {of_product.back()};
    of_product.pop_back();
    out.push_back(std::move(bias));
  }

  static void read(Instruction& op, const Fp8Copy& a, const Fp8Copy& b,
                   std::vector<Instruction>& out) {
    op.reads[0] = a.data;
    op.reads[1] = b.data;
    if (op.part != OpPart::kForward) op.attrs.set(&OpAttrs::has_bias, false);
    op.reads.push_back(a.scale);
    op.reads.push_back(b.scale);
    out.push_back(std::move(op));
  }

  TrainingGraph& training_;
  const Fp8Config& config_;
  WeightCasts weights_;
  Fp8Copies copies_;
  Indexed<OpId, Product> products_;
  Indexed<TensorId, Readers> readers_;
};

}  // namespace

bool is_cast_layer(const Graph& graph, const Op& op) {
  if (op.kind != OpKind::kLinear || op.layer < 0 || op.attrs->scale != 1) return false;
  const Tensor& weight = graph.tensors[op.inputs[1]];
  // Dims of all ranks: whether a layer is cast does not depend on the plan.
  return weight.role == TensorRole::kParameter &&
         can_cast_part(graph.parameters[weight.parameter].shape);
}

bool can_cast_part(const Shape& weight) {
  return std::all_of(weight.begin(), weight.end(), is_multiple);
}

std::optional<Infeasible> cast_products(TrainingGraph& training, const Fp8Config& config,
                                        const AmaxAxes& axes, WeightCasts weights) {
  check(config.obstacle.empty(), "a study whose devices have no such products is refused");
  return ProductCaster(training, config, axes, weights).run();
}

}  // namespace trainyard
