#include "engine/graph/general_shapes.h"

#include <algorithm>
#include <numeric>

#include "engine/graph/op_table.h"

namespace trainyard {

namespace {

/// One op's shapes, and what is wrong with them.
class ShapeCheck {
 public:
  ShapeCheck(const Graph& graph, const Op& op) : graph_(graph), op_(op) {}

  std::string run() const {
    switch (op_.kind) {
      case OpKind::kView: return view();
      case OpKind::kPieces: return pieces();
      case OpKind::kPermute: return permute();
      case OpKind::kRoll:
      case OpKind::kFlip:
      case OpKind::kCumsum: return has_dim() && y() == x() ? "" : misfit();
      case OpKind::kAffine:
      case OpKind::kPower:
      case OpKind::kExp:
      case OpKind::kLog:
      case OpKind::kErf:
      case OpKind::kSin:
      case OpKind::kCos:
      case OpKind::kSigmoid:
      case OpKind::kSilu:
      case OpKind::kSoftplus:
      case OpKind::kClamp: return one_to_one() && y() == x() ? "" : misfit();
      case OpKind::kZeroPad: return zero_pad();
      case OpKind::kWhere: return where();
      case OpKind::kSplit: return op_.attrs->dim < 0 ? "" : parts(op_.inputs[0], op_.outputs);
      case OpKind::kConcat:
        return op_.outputs.size() == 1 ? parts(op_.outputs[0], op_.inputs) : misfit();
      case OpKind::kNarrow: return narrow();
      case OpKind::kAdd:
      case OpKind::kSub:
      case OpKind::kDiv:
      case OpKind::kCombine:
      case OpKind::kMul: return broadcast();
      case OpKind::kGather: return gather();
      case OpKind::kScatter: return scatter();
      case OpKind::kArgmax: return argmax();
      case OpKind::kTopk: return topk();
      case OpKind::kCast: return one_to_one() && y() == x() ? "" : misfit();
      case OpKind::kSum: return sum();
      case OpKind::kBmm: return bmm();
      default: return mse();
    }
  }

 private:
  const Shape& shape(TensorId id) const { return graph_.tensors[id].shape; }
  const Shape& x(std::size_t i = 0) const { return shape(op_.inputs[i]); }
  const Shape& y() const { return shape(op_.outputs[0]); }
  bool one_to_one() const { return op_.inputs.size() == 1 && op_.outputs.size() == 1; }
  bool two_to_one() const { return op_.inputs.size() == 2 && op_.outputs.size() == 1; }
  bool has_dim() const {
    return one_to_one() && op_.attrs->dim >= 0 && op_.attrs->dim < std::ssize(x());
  }

  std::string misfit() const {
    std::string text = "does not take";
    for (const TensorId input : op_.inputs) text += " " + to_text(shape(input));
    text += " to";
    for (const TensorId output : op_.outputs) text += " " + to_text(shape(output));
    return text;
  }

  std::string view() const {
    return one_to_one() && num_elements(x()) == num_elements(y()) ? "" : misfit();
  }

  std::string pieces() const {
    const int dim = op_.attrs->dim;
    if (!has_dim() || y().size() != x().size() + 1) return misfit();
    Shape joined = y();
    joined.begin()[dim] *= joined.begin()[dim + 1];
    joined.erase(joined.begin() + dim + 1);
    return joined == x() ? "" : misfit();
  }

  std::string permute() const {
    const DimList& dims = op_.attrs->dims;
    if (!one_to_one() || dims.size() != x().size() || y().size() != x().size()) return misfit();
    DimList sorted;
    for (int dim = 0; dim < std::ssize(x()); ++dim) sorted.push_back(dim);
    if (!std::is_permutation(dims.begin(), dims.end(), sorted.begin(), sorted.end()))
      return "an order of " + std::to_string(dims.size()) + " dims names each of them once";
    for (std::size_t i = 0; i < dims.size(); ++i) {
      if (y()[i] != x().begin()[dims[i]]) return misfit();
    }
    return {};
  }

  /// `parts` are `whole`, one behind the other along the op's dim.
  template <typename Ids>
  std::string parts(TensorId whole, const Ids& parts) const {
    const Shape& all = shape(whole);
    const int dim = op_.attrs->dim;
    if (dim < 0 || dim >= std::ssize(all) || parts.empty()) return misfit();
    std::int64_t sum = 0;
    for (const TensorId part : parts) {
      if (shape(part).size() != all.size()) return misfit();
      const std::int64_t extent = shape(part).begin()[dim];
      if (shape(part) != with_dim(all, dim, extent)) return misfit();
      sum += extent;
    }
    return sum == all.begin()[dim] ? "" : misfit();
  }

  std::string narrow() const {
    if (!has_dim() || y().size() != x().size()) return misfit();
    const int dim = op_.attrs->dim;
    const std::int64_t length = y().begin()[dim], begin = op_.attrs->begin;
    if (y() != with_dim(x(), dim, length)) return misfit();
    if (begin >= 0 && begin <= x().begin()[dim] - length) return {};
    return "elements " + std::to_string(begin) + " to " + std::to_string(begin + length) +
           " of dim " + std::to_string(dim) + " of " + to_text(x());
  }

  std::string zero_pad() const {
    if (!has_dim() || y().size() != x().size()) return misfit();
    const std::int64_t before = op_.attrs->begin, behind = op_.attrs->end;
    const int dim = op_.attrs->dim;
    const std::int64_t all = x().begin()[dim] + before + behind;
    if (before < 0 || behind < 0) return "pads with fewer than no zeros";
    return y() == with_dim(x(), dim, all) ? "" : misfit();
  }

  std::string where() const {
    if (op_.inputs.size() != 3 || op_.outputs.size() != 1) return misfit();
    const auto both = broadcast_shape(x(1), x(2));
    return both && broadcast_shape(x(0), *both) == y() ? "" : misfit();
  }

  std::string broadcast() const {
    return two_to_one() && broadcast_shape(x(0), x(1)) == y() ? "" : misfit();
  }

  /// The index has x's dims but the last, or 1 in their place.
  bool has_index() const {
    if (x(0).size() < 2 || x(1).size() + 1 != x(0).size()) return false;
    for (std::size_t d = 0; d + 1 < x(1).size(); ++d) {
      if (x(1)[d] != 1 && x(1)[d] != x(0)[d]) return false;
    }
    return true;
  }
  Shape rows_at_index() const {
    return with_dim(x(0), static_cast<int>(x(0).size()) - 2, x(1).back());
  }

  std::string gather() const {
    return two_to_one() && has_index() && y() == rows_at_index() ? "" : misfit();
  }

  std::string scatter() const {
    const bool fits = op_.inputs.size() == 3 && op_.outputs.size() == 1 && has_index() &&
                      x(2) == rows_at_index() && y() == x(0);
    return fits ? "" : misfit();
  }

  std::string topk() const {
    if (!one_to_one() || y().size() != x().size() || y().back() > x().back()) return misfit();
    return y() == with_dim(x(), static_cast<int>(x().size()) - 1, y().back()) ? "" : misfit();
  }

  std::string argmax() const {
    if (!one_to_one()) return misfit();
    const DimList last{static_cast<int>(x().size()) - 1};
    return y() == sum_shape(x(), last, /*keepdim=*/false) ? "" : misfit();
  }

  std::string sum() const {
    if (!one_to_one()) return misfit();
    DimList seen;
    for (const int dim : op_.attrs->dims) {
      if (dim >= std::ssize(x()) || std::count(seen.begin(), seen.end(), dim) > 0)
        return "sums dims that " + to_text(x()) + " does not have, or one twice";
      seen.push_back(dim);
    }
    if (seen.empty()) return "sums no dim";
    const bool fits = y() == sum_shape(x(), seen, false) || y() == sum_shape(x(), seen, true);
    return fits ? "" : misfit();
  }

  std::string bmm() const {
    if (!two_to_one() || x(0).size() < 3 || x(1).size() != x(0).size()) return misfit();
    const int last = static_cast<int>(x(0).size()) - 1;  // M, K and N are the last two dims
    Shape b = with_dim(x(1), last, x(0).back()), made = with_dim(x(0), last, x(1).back());
    b = with_dim(b, last - 1, x(0).begin()[last - 1]);
    return b == x(0) && x(1).begin()[last - 1] == x(0).back() && y() == made ? "" : misfit();
  }

  std::string mse() const {
    return two_to_one() && x(0) == x(1) && y() == Shape{1} ? "" : misfit();
  }

  const Graph& graph_;
  const Op& op_;
};

}  // namespace

std::string to_text(const Shape& shape) {
  std::string text = "[";
  for (std::size_t i = 0; i < shape.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(shape[i]);
  }
  return text + "]";
}

Shape with_dim(Shape shape, int dim, std::int64_t extent) {
  if (dim >= 0 && dim < std::ssize(shape)) shape.begin()[dim] = extent;
  return shape;
}

std::optional<Shape> broadcast_shape(const Shape& a, const Shape& b) {
  const Shape& shorter = a.size() < b.size() ? a : b;
  std::optional<Shape> out(a.size() < b.size() ? b : a);
  const auto missing = static_cast<std::ptrdiff_t>(out->size() - shorter.size());
  for (auto at = shorter.begin(); at != shorter.end(); ++at) {
    std::int64_t& extent = out->begin()[missing + (at - shorter.begin())];
    if (extent != *at && extent != 1 && *at != 1) return std::nullopt;
    if (extent == 1) extent = *at;
  }
  return out;
}

std::int64_t stride_of(const Shape& shape, int dim) {
  return std::accumulate(shape.begin() + dim + 1, shape.end(), std::int64_t{1},
                         std::multiplies<>());
}

bool is_one_run(const Shape& shape, int dim) {
  return std::all_of(shape.begin(), shape.begin() + dim, [](std::int64_t n) { return n == 1; });
}

Shape sum_shape(const Shape& x, const DimList& dims, bool keepdim) {
  Shape out = x;
  for (int dim = static_cast<int>(x.size()) - 1; dim >= 0; --dim) {
    if (std::count(dims.begin(), dims.end(), dim) == 0) continue;
    out.begin()[dim] = 1;
    if (!keepdim && out.size() > 1) out.erase(out.begin() + dim);
  }
  return out;
}

std::string find_general_shape_problem(const Graph& graph, const Op& op) {
  if (op.inputs.empty()) return "too few inputs";
  for (const TensorId output : op.outputs) {
    const Shape& shape = graph.tensors[output].shape;
    if (shape.size() > kMostDims)
      return "makes a tensor of more than " + std::to_string(kMostDims) + " dims";
    if (std::any_of(shape.begin(), shape.end(), [](std::int64_t n) { return n < 1; }))
      return "makes a tensor of " + to_text(shape);
  }
  return ShapeCheck(graph, op).run();
}

}  // namespace trainyard
