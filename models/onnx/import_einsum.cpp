// Einsum of one or two operands: sums over what only one of them has, a product of matrices of what
// both have, and dims in the order that is asked for.
#include <algorithm>

#include "models/onnx/importer.h"

namespace trainyard {

namespace {

using Dims = std::vector<std::int64_t>;

/// "bij, jk -> bik" as {"bij", "jk"} and "bik". Without an arrow the result has what occurs once,
/// in the order of letters.
struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

Equation equation_of(std::string text) {
  text.erase(std::remove(text.begin(), text.end(), ' '), text.end());
  const std::size_t arrow = text.find("->");
  Equation out;
  std::string left = text.substr(0, arrow);
  for (std::size_t begin = 0; begin <= left.size();) {
    const std::size_t end = std::min(left.find(',', begin), left.size());
    out.operands.push_back(left.substr(begin, end - begin));
    begin = end + 1;
  }
  if (arrow != std::string::npos) {
    out.result = text.substr(arrow + 2);
    return out;
  }
  std::string letters = left;
  std::sort(letters.begin(), letters.end());
  for (const char letter : letters) {
    if (letter != ',' && std::count(left.begin(), left.end(), letter) == 1) out.result += letter;
  }
  return out;
}

bool has(const std::string& letters, char letter) {
  return letters.find(letter) != std::string::npos;
}

std::string those_of(const std::string& letters, const std::string& others, bool in_others) {
  std::string out;
  for (const char letter : letters) {
    if (has(others, letter) == in_others) out += letter;
  }
  return out;
}

}  // namespace

/// x, whose dims are called by `from`, in the order of `to`.
TensorId OnnxImporter::in_order(const OnnxNode& node, TensorId x, const std::string& from,
                                const std::string& to) {
  DimList order;
  for (const char letter : to) order.push_back(static_cast<int>(from.find(letter)));
  return from == to ? x : graph_.permute(module(node), x, order);
}

void OnnxImporter::einsum(const OnnxNode& node) {
  Equation equation = equation_of(node.text("equation", ""));
  if (equation.operands.size() != node.inputs.size() || node.inputs.size() > 2)
    throw FoldError("sums up products of more than two operands, which is not modelled");
  std::map<char, std::int64_t> sizes;
  std::vector<TensorId> operands;
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    const std::string& letters = equation.operands[i];
    const Dims dims = dims_of(in(node, i));
    if (letters.size() != dims.size() || has(letters, '.'))
      throw FoldError("leaves dims without a letter, which is not modelled");
    for (std::size_t d = 0; d < dims.size(); ++d) {
      if (letters.find(letters[d]) != d) throw FoldError("takes a diagonal, which is not modelled");
      if (sizes.emplace(letters[d], dims[d]).first->second != dims[d])
        throw FoldError("has operands that do not fit");
    }
    operands.push_back(full_tensor(node.inputs[i]));
  }
  for (const char letter : equation.result) {
    if (sizes.count(letter) == 0 ||
        std::count(equation.result.begin(), equation.result.end(), letter) > 1)
      throw FoldError("has a result of other dims");
  }
  const std::string& where = module(node);
  for (std::size_t i = 0; i < operands.size(); ++i) {  // what only this one has
    std::string& letters = equation.operands[i];
    const std::string others =
        equation.result + (operands.size() > 1 ? equation.operands[1 - i] : "");
    DimList gone;
    for (std::size_t d = 0; d < letters.size(); ++d) {
      if (!has(others, letters[d])) gone.push_back(static_cast<int>(d));
    }
    if (!gone.empty()) operands[i] = graph_.sum(where, operands[i], gone);
    letters = those_of(letters, others, true);
  }
  const auto dims_named = [&](const std::string& letters) {
    Dims dims;
    for (const char letter : letters) dims.push_back(sizes[letter]);
    return dims;
  };
  const std::string& result = equation.result;
  if (operands.size() == 1) {
    const TensorId y = in_order(node, operands[0], equation.operands[0], result);
    return set(node, viewed(node, y, dims_named(result)), dims_named(result));
  }
  const std::string &a = equation.operands[0], &b = equation.operands[1];
  const std::string both = those_of(a, b, true);
  const std::string batch = those_of(both, result, true), summed = those_of(both, result, false);
  const std::string rows = those_of(a, b, false), columns = those_of(b, a, false);
  const auto product = [&](const std::string& letters) {
    std::int64_t all = 1;
    for (const char letter : letters) all *= sizes[letter];
    return all;
  };
  const auto matrices = [&](TensorId x, const std::string& has, const std::string& first,
                            const std::string& second) {
    Dims dims = batch.empty() ? Dims{1} : dims_named(batch);
    dims.insert(dims.end(), {product(first), product(second)});
    return viewed(node, in_order(node, x, has, batch + first + second), dims);
  };
  TensorId y = graph_.bmm(where, matrices(operands[0], a, rows, summed),
                          matrices(operands[1], b, summed, columns));
  const std::string made = batch + rows + columns;
  y = in_order(node, viewed(node, y, dims_named(made)), made, result);
  set(node, viewed(node, y, dims_named(result)), dims_named(result));
}

}  // namespace trainyard
