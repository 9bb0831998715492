// What the ops of random graphs compute, as plain loops.
#include <cmath>

#include "engine/base/error.h"
#include "tests/support/sharded_graph.h"

namespace trainyard {

namespace {

std::size_t at_index(const Extents& extents, const std::vector<std::int64_t>& index) {
  std::size_t at = 0;
  for (std::size_t d = 0; d < extents.size(); ++d)
    at = at * static_cast<std::size_t>(extents[d]) + static_cast<std::size_t>(index[d]);
  return at;
}

/// Calls `visit` with each index of a tensor, the last dim fastest.
template <typename Visit>
void for_each_index(const Extents& extents, Visit visit) {
  std::vector<std::int64_t> index(extents.size(), 0);
  std::int64_t elements = 1;
  for (const std::int64_t extent : extents) elements *= extent;
  for (std::int64_t i = 0; i < elements; ++i) {
    visit(index);
    for (std::size_t d = extents.size(); d-- > 0;) {
      if (++index[d] < extents[d]) break;
      index[d] = 0;
    }
  }
}

/// A dim of each operand by the op's index: a product of operands, summed over what the result
/// lacks.
struct Contraction {
  std::vector<std::string> operands;  // a letter per dim
  std::string result;
};

Contraction contraction_of(const GraphOp& op, const std::vector<DenseTensor>& operands) {
  if (op.kind == "bmm") return {{"bik", "bkj"}, "bij"};
  const std::string rows = std::string("abcd").substr(0, operands[0].extents.size() - 1);
  return {{rows + "i", "oi"}, rows + "o"};
}

/// out[of] += the product of all others, over all letters.
void contract(const std::vector<const DenseTensor*>& in, const std::vector<std::string>& letters,
              DenseTensor& out, const std::string& of) {
  std::string all;
  Extents extents;
  const auto add = [&](const DenseTensor& tensor, const std::string& dims) {
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (all.find(dims[d]) != std::string::npos) continue;
      all += dims[d];
      extents.push_back(tensor.extents[d]);
    }
  };
  for (std::size_t i = 0; i < in.size(); ++i) add(*in[i], letters[i]);
  add(out, of);
  const auto place = [&](const Extents& of_extents, const std::string& dims,
                         const std::vector<std::int64_t>& index) {
    std::vector<std::int64_t> own;
    for (const char c : dims) own.push_back(index[all.find(c)]);
    return at_index(of_extents, own);
  };
  for_each_index(extents, [&](const std::vector<std::int64_t>& index) {
    double product = 1;
    for (std::size_t i = 0; i < in.size(); ++i)
      product *= in[i]->data[place(in[i]->extents, letters[i], index)];
    out.data[place(out.extents, of, index)] += product;
  });
}

/// The place in a broadcast operand, aligned at the last dim.
std::size_t broadcast_at(const Extents& operand, const std::vector<std::int64_t>& index) {
  std::vector<std::int64_t> own(operand.size());
  for (std::size_t d = 0; d < operand.size(); ++d) {
    const std::int64_t i = index[index.size() - operand.size() + d];
    own[d] = operand[d] == 1 ? 0 : i;
  }
  return at_index(operand, own);
}

/// Calls `visit` with places in the operand and the result of ops that carry or add up elements.
template <typename Visit>
void for_each_carried(const GraphOp& op, const Extents& operand, const Extents& result,
                      Visit visit) {
  std::size_t flat = 0;
  for_each_index(operand, [&](const std::vector<std::int64_t>& index) {
    const std::size_t from = flat++;
    std::vector<std::int64_t> to;
    if (op.kind == "permute") {
      for (const int dim : op.parameters.dims) to.push_back(index[static_cast<std::size_t>(dim)]);
    } else if (op.kind == "sum") {
      for (std::size_t d = 0; d < index.size(); ++d) {
        if (static_cast<int>(d) != op.parameters.dims[0]) to.push_back(index[d]);
      }
      if (to.empty()) to.push_back(0);
    }
    visit(from, op.kind == "view" ? from : at_index(result, to));
  });
}

/// Places of part `which`, of a dim, in the whole.
template <typename Visit>
void for_each_of_part(const Extents& whole, const Extents& part, std::size_t dim,
                      std::int64_t offset, Visit visit) {
  std::size_t flat = 0;
  for_each_index(part, [&](std::vector<std::int64_t> index) {
    index[dim] += offset;
    visit(flat++, at_index(whole, index));
  });
}

}  // namespace

std::vector<DenseTensor> run_op(const GraphOp& op, const std::vector<DenseTensor>& operands,
                                const std::vector<Extents>& results) {
  std::vector<DenseTensor> out;
  for (const Extents& extents : results) out.push_back(zeros(extents));
  DenseTensor& y = out.front();
  const auto dim = static_cast<std::size_t>(op.parameters.dim);
  if (op.kind == "linear" || op.kind == "bmm") {
    const Contraction c = contraction_of(op, operands);
    contract({&operands[0], &operands[1]}, c.operands, y, c.result);
    if (operands.size() == 2) return out;
    for_each_index(y.extents, [&](const auto& index) {
      y.data[at_index(y.extents, index)] +=
          operands[2].data[broadcast_at(operands[2].extents, index)];
    });
  } else if (op.kind == "add" || op.kind == "mul") {
    for_each_index(y.extents, [&](const auto& index) {
      const double a = operands[0].data[broadcast_at(operands[0].extents, index)];
      const double b = operands[1].data[broadcast_at(operands[1].extents, index)];
      y.data[at_index(y.extents, index)] = op.kind == "add" ? a + b : a * b;
    });
  } else if (op.kind == "tanh") {
    for (std::size_t i = 0; i < y.data.size(); ++i) y.data[i] = std::tanh(operands[0].data[i]);
  } else if (op.kind == "concat" || op.kind == "split") {
    const bool joins = op.kind == "concat";
    std::int64_t offset = 0;
    for (std::size_t p = 0; p < (joins ? operands.size() : out.size()); ++p) {
      const Extents& part = joins ? operands[p].extents : out[p].extents;
      for_each_of_part(joins ? y.extents : operands[0].extents, part, dim, offset,
                       [&](std::size_t own, std::size_t whole) {
                         if (joins) y.data[whole] = operands[p].data[own];
                         if (!joins) out[p].data[own] = operands[0].data[whole];
                       });
      offset += part[dim];
    }
  } else {
    for_each_carried(op, operands[0].extents, y.extents, [&](std::size_t from, std::size_t to) {
      y.data[to] += operands[0].data[from];
    });
  }
  return out;
}

std::vector<DenseTensor> run_backward(const GraphOp& op, const std::vector<DenseTensor>& operands,
                                      const std::vector<DenseTensor>& gradients) {
  std::vector<DenseTensor> out;
  for (const DenseTensor& operand : operands) out.push_back(zeros(operand.extents));
  const DenseTensor& g = gradients.front();
  const auto dim = static_cast<std::size_t>(op.parameters.dim);
  if (op.kind == "linear" || op.kind == "bmm") {
    const Contraction c = contraction_of(op, operands);
    contract({&g, &operands[1]}, {c.result, c.operands[1]}, out[0], c.operands[0]);
    contract({&g, &operands[0]}, {c.result, c.operands[0]}, out[1], c.operands[1]);
    if (operands.size() == 2) return out;
    for_each_index(g.extents, [&](const auto& index) {
      out[2].data[broadcast_at(out[2].extents, index)] += g.data[at_index(g.extents, index)];
    });
  } else if (op.kind == "add" || op.kind == "mul") {
    for_each_index(g.extents, [&](const auto& index) {
      const double one = g.data[at_index(g.extents, index)];
      const std::size_t a = broadcast_at(operands[0].extents, index);
      const std::size_t b = broadcast_at(operands[1].extents, index);
      out[0].data[a] += op.kind == "add" ? one : one * operands[1].data[b];
      out[1].data[b] += op.kind == "add" ? one : one * operands[0].data[a];
    });
  } else if (op.kind == "tanh") {
    for (std::size_t i = 0; i < g.data.size(); ++i) {
      const double y = std::tanh(operands[0].data[i]);
      out[0].data[i] = g.data[i] * (1 - y * y);
    }
  } else if (op.kind == "concat" || op.kind == "split") {
    const bool joins = op.kind == "concat";
    std::int64_t offset = 0;
    for (std::size_t p = 0; p < (joins ? operands.size() : gradients.size()); ++p) {
      const Extents& part = joins ? operands[p].extents : gradients[p].extents;
      for_each_of_part(joins ? g.extents : operands[0].extents, part, dim, offset,
                       [&](std::size_t own, std::size_t whole) {
                         if (joins) out[p].data[own] = g.data[whole];
                         if (!joins) out[0].data[whole] = gradients[p].data[own];
                       });
      offset += part[dim];
    }
  } else {
    for_each_carried(op, operands[0].extents, g.extents,
                     [&](std::size_t from, std::size_t to) { out[0].data[from] += g.data[to]; });
  }
  return out;
}

}  // namespace trainyard
