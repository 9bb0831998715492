// Constants element by element: arithmetic, comparisons, functions, casts.
#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>

#include "models/onnx/onnx_constant.h"

namespace trainyard {

namespace {

using Unary = double (*)(double);
using Binary = double (*)(double, double);

double divided(double a, double b) { return a / b; }

/// ONNX's Mod without fmod: the sign of the divisor, as Python has it.
double modulo(double a, double b) {
  const double rest = std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

const std::unordered_map<std::string_view, Unary>& unary_functions() {
  static const std::unordered_map<std::string_view, Unary> known = {
      {"Identity", [](double x) { return x; }},
      {"Neg", [](double x) { return -x; }},
      {"Abs", [](double x) { return std::fabs(x); }},
      {"Sqrt", [](double x) { return std::sqrt(x); }},
      {"Reciprocal", [](double x) { return 1 / x; }},
      {"Exp", [](double x) { return std::exp(x); }},
      {"Log", [](double x) { return std::log(x); }},
      {"Sin", [](double x) { return std::sin(x); }},
      {"Cos", [](double x) { return std::cos(x); }},
      {"Tanh", [](double x) { return std::tanh(x); }},
      {"Floor", [](double x) { return std::floor(x); }},
      {"Ceil", [](double x) { return std::ceil(x); }},
      {"Round", [](double x) { return std::nearbyint(x); }},
      {"Erf", [](double x) { return std::erf(x); }},
      {"Sign", [](double x) { return x > 0   ? 1.0
                                     : x < 0 ? -1.0
                                             : 0.0; }},
      {"Not", [](double x) { return x == 0 ? 1.0 : 0.0; }},
      {"Sigmoid", [](double x) { return 1 / (1 + std::exp(-x)); }},
      {"Relu", [](double x) { return std::max(x, 0.0); }},
      {"IsNaN", [](double x) { return std::isnan(x) ? 1.0 : 0.0; }},
      {"IsInf", [](double x) { return std::isinf(x) ? 1.0 : 0.0; }}};
  return known;
}

const std::unordered_map<std::string_view, Binary>& binary_functions() {
  static const std::unordered_map<std::string_view, Binary> known = {
      {"Add", [](double a, double b) { return a + b; }},
      {"Sub", [](double a, double b) { return a - b; }},
      {"Mul", [](double a, double b) { return a * b; }},
      {"Div", divided},
      {"Pow", [](double a, double b) { return std::pow(a, b); }},
      {"Mod", modulo},
      {"Min", [](double a, double b) { return std::min(a, b); }},
      {"Max", [](double a, double b) { return std::max(a, b); }},
      {"BitwiseAnd", [](double a, double b) {
         return static_cast<double>(static_cast<std::int64_t>(a) & static_cast<std::int64_t>(b));
       }}};
  return known;
}

const std::unordered_map<std::string_view, Binary>& comparisons() {
  static const std::unordered_map<std::string_view, Binary> known = {
      {"Equal", [](double a, double b) { return a == b ? 1.0 : 0.0; }},
      {"Less", [](double a, double b) { return a < b ? 1.0 : 0.0; }},
      {"LessOrEqual", [](double a, double b) { return a <= b ? 1.0 : 0.0; }},
      {"Greater", [](double a, double b) { return a > b ? 1.0 : 0.0; }},
      {"GreaterOrEqual", [](double a, double b) { return a >= b ? 1.0 : 0.0; }},
      {"And", [](double a, double b) { return a != 0 && b != 0 ? 1.0 : 0.0; }},
      {"Or", [](double a, double b) { return a != 0 || b != 0 ? 1.0 : 0.0; }},
      {"Xor", [](double a, double b) { return (a != 0) != (b != 0) ? 1.0 : 0.0; }}};
  return known;
}

OnnxConstant combine(const OnnxConstant& a, const OnnxConstant& b, OnnxType type, Binary function) {
  const auto dims = broadcast_dims(a.dims, b.dims);
  OnnxConstant out = expanded(a, dims);
  const OnnxConstant other = expanded(b, dims);
  out.type = type;
  for (std::size_t i = 0; i < out.numbers.size(); ++i)
    out.numbers[i] = function(out.numbers[i], other.numbers[i]);
  return out;
}

/// Min and Max take any number of operands.
ConstantRef combine_all(const FoldInputs& inputs, Binary function, bool divides) {
  OnnxConstant out = operand(inputs, 0);
  for (std::size_t i = 1; i < inputs.size(); ++i) {
    const OnnxConstant& next = operand(inputs, i);
    const bool whole = divides && !is_floating(next.type);
    if (whole && std::count(next.numbers.begin(), next.numbers.end(), 0.0) > 0)
      throw FoldError("divides an integer by 0");
    out = combine(out, next, out.type, function);
  }
  return done(std::move(out));
}

ConstantRef choose(const FoldInputs& inputs) {
  const OnnxConstant& condition = operand(inputs, 0);
  const OnnxConstant &a = operand(inputs, 1), &b = operand(inputs, 2);
  const auto dims = broadcast_dims(condition.dims, broadcast_dims(a.dims, b.dims));
  const OnnxConstant which = expanded(condition, dims), other = expanded(b, dims);
  OnnxConstant out = expanded(a, dims);
  for (std::size_t i = 0; i < out.numbers.size(); ++i) {
    if (which.numbers[i] == 0) out.numbers[i] = other.numbers[i];
  }
  return done(std::move(out));
}

ConstantRef clip(const FoldInputs& inputs) {
  OnnxConstant out = operand(inputs, 0);
  for (std::size_t i = 1; i < inputs.size() && i < 3; ++i) {
    if (inputs[i] == nullptr) continue;
    if (inputs[i]->numbers.size() != 1) throw FoldError("has bounds that are not one number each");
    const double bound = inputs[i]->numbers[0];
    for (double& x : out.numbers) x = i == 1 ? std::max(x, bound) : std::min(x, bound);
  }
  return done(std::move(out));
}

}  // namespace

OnnxType cast_type(const OnnxNode& node) {
  switch (node.integer("to", 0)) {  // TensorProto.DataType
    case 1: return OnnxType::kFloat;
    case 2: return OnnxType::kUint8;
    case 3: return OnnxType::kInt8;
    case 5: return OnnxType::kInt16;
    case 6: return OnnxType::kInt32;
    case 7: return OnnxType::kInt64;
    case 9: return OnnxType::kBool;
    case 10: return OnnxType::kFloat16;
    case 11: return OnnxType::kDouble;
    case 16: return OnnxType::kBfloat16;
    default: throw FoldError("casts to a type that is not modelled");
  }
}

std::optional<OnnxType> cast_target(const OnnxNode& node) {
  try {
    return node.op == "Cast" ? std::optional(cast_type(node)) : std::nullopt;
  } catch (const FoldError&) {
    return std::nullopt;
  }
}

std::optional<ConstantRef> fold_elementwise(const OnnxNode& node, const FoldInputs& inputs) {
  if (node.op == "Cast" || node.op == "CastLike") {
    OnnxConstant out = operand(inputs, 0);
    out.type = node.op == "Cast" ? cast_type(node) : operand(inputs, 1).type;
    return done(std::move(out));
  }
  if (node.op == "Where") return choose(inputs);
  if (node.op == "Clip") return clip(inputs);
  if (const auto it = unary_functions().find(node.op); it != unary_functions().end()) {
    OnnxConstant out = operand(inputs, 0);
    for (double& x : out.numbers) x = it->second(x);
    return done(std::move(out));
  }
  if (const auto it = binary_functions().find(node.op); it != binary_functions().end())
    return combine_all(inputs, it->second, node.op == "Div" || node.op == "Mod");
  if (const auto it = comparisons().find(node.op); it != comparisons().end())
    return done(combine(operand(inputs, 0), operand(inputs, 1), OnnxType::kBool, it->second));
  return std::nullopt;
}

}  // namespace trainyard
