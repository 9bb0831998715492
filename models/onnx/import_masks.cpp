// Inputs of integers or conditions that models compute with.
//
// Exporters write a mask as integers that are cast, compared, combined with constants and repeated.
// A mask is 0 or 1: whatever follows from it and constants is a pair of constants, computed while
// reading, between which it chooses. One op makes that choice, where something else reads it.
#include <algorithm>
#include <array>
#include <set>

#include "engine/base/error.h"
#include "engine/base/user_text.h"
#include "models/onnx/importer.h"

namespace trainyard {

namespace {

constexpr std::array<std::string_view, 10> kMoves = {"Reshape",  "Flatten",  "Squeeze", "Unsqueeze",
                                                     "Expand",   "Tile",     "Slice",   "Transpose",
                                                     "Identity", "ScatterND"};

/// Whether all that the node does is to carry the elements of `id` elsewhere.
bool moves(const OnnxNode& node, int id) {
  const std::size_t operand = node.op == "ScatterND" ? 2 : 0;
  if (node.outputs[0] == kNoOnnxValue) return false;
  return std::find(kMoves.begin(), kMoves.end(), node.op) != kMoves.end() &&
         operand < node.inputs.size() && node.inputs[operand] == id;
}

std::optional<double> one_number(const OnnxConstant& constant) {
  return constant.numbers.size() == 1 ? std::optional(constant.numbers[0]) : std::nullopt;
}

/// `node` over a constant in place of the operand that lies in `dims`. What is repeated stays so
/// where the node leaves it together.
ConstantRef moved(const OnnxNode& node, FoldInputs operands, const OnnxConstant& constant,
                  const std::vector<std::int64_t>& dims) {
  OnnxConstant whole = constant;
  if (node.op == "Transpose" || node.op == "Unsqueeze") {
    whole.dims.insert(whole.dims.begin(), dims.size() - whole.dims.size(), 1);
  } else {
    whole = expanded(constant, dims);
  }
  operands[0] = done(std::move(whole));
  return done(without_repeats(*fold_movement(node, operands)->front()));
}

}  // namespace

bool is_mask(std::string_view input) { return input.find("mask") != std::string_view::npos; }

OnnxImporter::InputUse OnnxImporter::use_of_input(int input) const {
  InputUse use;
  std::set<int> same{input};  // that hold its elements
  std::vector<int> next{input};
  while (!next.empty()) {
    const int id = next.back();
    next.pop_back();
    for (const int reader : readers_[id]) {
      const OnnxNode& node = model_.nodes[reader];
      if (node.op == "Shape" || node.op == "Size") continue;
      const auto to = node.outputs[0] == kNoOnnxValue ? std::nullopt : cast_target(node);
      if (moves(node, id) || (to && !is_floating(*to) && *to != OnnxType::kBool)) {
        if (same.insert(node.outputs[0]).second) next.push_back(node.outputs[0]);
      } else if (node.op == "Gather" && node.inputs.size() == 2 && node.inputs[1] == id) {
        use.looked_up = true;
      } else if (to && is_floating(*to)) {
        use.cast = true;
      } else {
        use.computed = true;
      }
    }
  }
  return use;
}

/// Conditions, and integers of a mask's name, are masks; other integers that a model does nothing
/// with but to cast them are numbers. What it computes of any others stays integers.
void OnnxImporter::find_masks() {
  for (const OnnxInput& input : model_.inputs) {
    if (is_floating(input.type)) continue;
    const std::string& name = model_.values[input.value];
    const InputUse use = use_of_input(input.value);
    Value& v = value(input.value);
    const bool masks = is_mask(name) && !use.looked_up && (use.cast || use.computed);
    if (masks || input.type == OnnxType::kBool) {
      v.ones = done({input.type, {}, {1}});
      v.zeros = done({input.type, {}, {0}});
    } else if (use.cast && !use.computed && !use.looked_up) {
      v.type = OnnxType::kFloat;
    }
  }
}

/// Where the node's operands are one mask, what follows from it, and constants, what follows now.
bool OnnxImporter::follow_mask(const OnnxNode& node) {
  const auto follows = [&](int id) { return id != kNoOnnxValue && is_masked(id); };
  if (std::none_of(node.inputs.begin(), node.inputs.end(), follows)) return false;
  int from = kNoOnnxValue;
  FoldInputs where_1, where_0;
  Dims dims;
  for (const int id : node.inputs) {
    const bool given = id != kNoOnnxValue;
    const bool masked = follows(id);
    const ConstantRef constant = given && !masked ? constant_of(id) : nullptr;
    if (given && !masked && constant == nullptr) return false;
    if (masked && from != kNoOnnxValue && own_tensor(id) != own_tensor(from)) return false;
    if (masked) from = id;
    where_1.push_back(masked ? value(id).ones : constant);
    where_0.push_back(masked ? value(id).zeros : constant);
  }
  if (node.outputs[0] == kNoOnnxValue) return false;
  const auto ones = fold_elementwise(node, where_1);
  if (!ones) return moves(node, from) && move_mask(node, from);
  for (const int id : node.inputs) {
    if (id == kNoOnnxValue) continue;
    dims = broadcast_dims(dims, dims_of(id));
    operands_[now_].push_back(id);
  }
  set(node, own_tensor(from), dims);
  Value& v = value(node.outputs[0]);
  v.ones = done(without_repeats(**ones));
  v.zeros = done(without_repeats(**fold_elementwise(node, where_0)));
  v.type = v.ones->type;
  return true;
}

/// While it lives, the value is the mask that it follows from.
struct OnnxImporter::MaskAlone {
  explicit MaskAlone(Value& v) : value(v), given(v) { v.ones = v.zeros = nullptr; }
  MaskAlone(const MaskAlone&) = delete;
  MaskAlone& operator=(const MaskAlone&) = delete;
  ~MaskAlone() { value = given; }

  Value& value;
  const Value given;
};

/// The mask moves, and both constants.
bool OnnxImporter::move_mask(const OnnxNode& node, int from) {
  own_tensor(from);
  const Value given = value(from);
  const int out = node.outputs[0];
  {
    const MaskAlone alone(value(from));
    (this->*handlers().at(node.op))(node);
  }
  const TensorId mask = tensor(out);
  Value& v = value(out);
  FoldInputs operands;
  for (const int id : node.inputs)
    operands.push_back(id == kNoOnnxValue || id == from ? nullptr : constant_of(id));
  const bool repeats = node.op == "Expand" || node.op == "Tile";
  const bool stays = node.op != "Transpose" && v.dims == given.dims;
  const auto follow = [&](const ConstantRef& constant) {
    if (repeats || stays) return constant;
    if (const auto number = one_number(*constant)) return done({constant->type, {}, {*number}});
    return moved(node, operands, *constant, given.dims);
  };
  v.tensor = mask;
  v.chosen = kNoIndex;
  v.finer = kNoIndex;
  v.ones = follow(given.ones);
  v.zeros = follow(given.zeros);
  v.type = given.type;
  return true;
}

TensorId OnnxImporter::chosen(int id) {
  Value& v = value(id);
  const bool as_it_is =
      v.type == OnnxType::kBool && one_number(*v.ones) == 1.0 && one_number(*v.zeros) == 0.0;
  if (v.chosen == kNoIndex && as_it_is) v.chosen = own_tensor(id);
  if (v.chosen == kNoIndex)
    v.chosen =
        graph_.where(reader(), own_tensor(id), shrunk_constant(*v.ones), shrunk_constant(*v.zeros));
  return v.chosen;
}

/// A Where whose condition follows from a mask.
void OnnxImporter::choose(const OnnxNode& node) {
  const int condition = node.inputs[0];
  const std::string& where = module(node);
  const TensorId a = tensor(node.inputs[1]), b = tensor(node.inputs[2]);
  operands_[now_].push_back(condition);
  const auto pick = [&](const OnnxConstant& which) {
    if (const auto number = one_number(which)) return *number != 0 ? a : b;
    return graph_.where(where, shrunk_constant(which), a, b);
  };
  const TensorId one = pick(*value(condition).ones), zero = pick(*value(condition).zeros);
  Dims dims;
  for (const int id : node.inputs) dims = broadcast_dims(dims, dims_of(id));
  set(node, one == zero ? one : graph_.where(where, own_tensor(condition), one, zero), dims);
}

}  // namespace trainyard
