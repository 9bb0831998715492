// Einsum: sums over what only one operand has, products of matrices of what two have, and dims in
// the order that is asked for.
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

/// x without the dims that nothing else has.
TensorId OnnxImporter::summed_out(const OnnxNode& node, TensorId x, std::string& letters,
                                  const std::string& others) {
  DimList gone;
  for (std::size_t d = 0; d < letters.size(); ++d) {
    if (!has(others, letters[d])) gone.push_back(static_cast<int>(d));
  }
  letters = those_of(letters, others, true);
  return gone.empty() ? x : graph_.sum(module(node), x, gone);
}

/// The product of two operands of these letters: matrices of what one has alone by what is summed,
/// in batches of what both have and the result has, too.
TensorId OnnxImporter::product_of(const OnnxNode& node, const Lettered& first,
                                  const Lettered& second, const std::string& result,
                                  const std::map<char, std::int64_t>& sizes) {
  const std::string &a = first.letters, &b = second.letters;
  const std::string both = those_of(a, b, true);
  const std::string batch = those_of(both, result, true), summed = those_of(both, result, false);
  const std::string rows = those_of(a, b, false), columns = those_of(b, a, false);
  const auto dims_named = [&](const std::string& letters) {
    Dims dims;
    for (const char letter : letters) dims.push_back(sizes.at(letter));
    return dims;
  };
  const auto elements = [&](const std::string& letters) {
    std::int64_t all = 1;
    for (const char letter : letters) all *= sizes.at(letter);
    return all;
  };
  const auto matrices = [&](const Lettered& x, const std::string& before,
                            const std::string& behind) {
    Dims dims = batch.empty() ? Dims{1} : dims_named(batch);
    dims.insert(dims.end(), {elements(before), elements(behind)});
    return viewed(node, in_order(node, x.tensor, x.letters, batch + before + behind), dims);
  };
  const TensorId y =
      graph_.bmm(module(node), matrices(first, rows, summed), matrices(second, summed, columns));
  const std::string made = batch + rows + columns;
  return in_order(node, viewed(node, y, dims_named(made)), made, result);
}

/// One operand after the other: a product keeps what the result or an operand behind it has.
void OnnxImporter::einsum(const OnnxNode& node) {
  const Equation equation = equation_of(node.text("equation", ""));
  const std::string& result = equation.result;
  if (equation.operands.size() != node.inputs.size()) throw FoldError("has other operands");
  std::map<char, std::int64_t> sizes;
  std::vector<Lettered> operands;
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
    operands.push_back({full_tensor(node.inputs[i]), letters});
  }
  Dims to;
  for (const char letter : result) {
    if (sizes.count(letter) == 0 || std::count(result.begin(), result.end(), letter) > 1)
      throw FoldError("has a result of other dims");
    to.push_back(sizes[letter]);
  }
  for (std::size_t i = 0; i < operands.size(); ++i) {
    std::string others = result;
    for (std::size_t k = 0; k < operands.size(); ++k)
      others += k == i ? std::string() : operands[k].letters;
    operands[i].tensor = summed_out(node, operands[i].tensor, operands[i].letters, others);
  }
  Lettered all = operands.front();
  for (std::size_t i = 1; i < operands.size(); ++i) {
    std::string later = result, kept;
    for (std::size_t k = i + 1; k < operands.size(); ++k) later += operands[k].letters;
    for (const char letter : all.letters + operands[i].letters) {
      if (has(later, letter) && !has(kept, letter)) kept += letter;
    }
    if (i + 1 == operands.size()) kept = result;
    all = {product_of(node, all, operands[i], kept, sizes), kept};
  }
  set(node, viewed(node, in_order(node, all.tensor, all.letters, result), to), to);
}

}  // namespace trainyard
