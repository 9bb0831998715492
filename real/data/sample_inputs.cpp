#include "real/data/sample_inputs.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "models/onnx/onnx_graph.h"

namespace trainyard {

namespace {

/// Whether the op's results are elements of its operands, which an import may repeat by ones.
bool carries(const Graph& graph, const Op& op) {
  using enum OpKind;
  const OpKind kind = op.kind;
  return kind == kView || kind == kPieces || kind == kPermute || kind == kRoll || kind == kFlip ||
         kind == kSplit || kind == kNarrow || kind == kConcat ||
         (kind == kMul && graph.modules[op.module] == "repeated");
}

/// Rows of the smallest table that the tensor, or what carries its elements, is looked up in; 0: of
/// none.
std::int64_t rows_looked_up(const Graph& graph, TensorId input) {
  std::set<TensorId> same{input};
  std::int64_t rows = 0;
  for (const Op& op : graph.ops) {
    const auto reads = std::find_if(op.inputs.begin(), op.inputs.end(),
                                    [&](TensorId id) { return same.contains(id); });
    if (reads == op.inputs.end()) continue;
    if (op.kind == OpKind::kEmbedding) {
      for (const TensorId id : op.inputs) {
        const Tensor& table = graph.tensors[id];
        if (table.role != TensorRole::kParameter) continue;
        rows = rows == 0 ? table.shape[0] : std::min(rows, table.shape[0]);
      }
    } else if (carries(graph, op)) {
      same.insert(op.outputs.begin(), op.outputs.end());
    }
  }
  return rows;
}

bool has_word(std::string_view name, std::string_view word) {
  return name.find(word) != std::string_view::npos;
}

SampleInput::Kind kind_of(const Tensor& tensor) {
  using Kind = SampleInput::Kind;
  if (tensor.name == "ones" || tensor.dtype == DType::kUint8 || is_mask(tensor.name))
    return Kind::kOnes;
  if (has_word(tensor.name, "position")) return Kind::kPositions;
  if (has_word(tensor.name, "token_type")) return Kind::kZeros;
  if (!is_integer(tensor.dtype)) return Kind::kNumbers;
  return tensor.name == "class_tokens" ? Kind::kZeros : Kind::kIds;
}

}  // namespace

std::vector<OpId> losses_of(const Graph& graph) {
  std::vector<OpId> losses, next{graph.tensors[graph.loss].producer};
  while (!next.empty()) {
    const OpId id = next.back();
    next.pop_back();
    const Op& op = graph.ops[id];
    if (op.kind != OpKind::kAdd) {
      losses.push_back(id);
      continue;
    }
    for (const TensorId input : op.inputs) next.push_back(graph.tensors[input].producer);
  }
  return losses;
}

std::vector<SampleInput> sample_inputs(const Graph& graph) {
  const std::vector<OpId> losses = losses_of(graph);
  std::vector<SampleInput> inputs;
  for (const TensorId id : graph.tensors.keys()) {
    const Tensor& tensor = graph.tensors[id];
    if (tensor.role != TensorRole::kInput || graph.constants.contains(tensor.name)) continue;
    SampleInput input;
    input.tensor = id;
    input.name = tensor.name;
    input.kind = kind_of(tensor);
    input.shape.assign(tensor.shape.begin() + 1, tensor.shape.end());
    input.whole = is_integer(tensor.dtype);
    const auto loss_at = std::find_if(losses.begin(), losses.end(), [&](OpId one) {
      const auto& read = graph.ops[one].inputs;
      return std::find(read.begin(), read.end(), id) != read.end();
    });
    if (loss_at != losses.end()) {
      const Op& loss = graph.ops[*loss_at];
      input.loss = *loss_at;
      input.role = SampleInput::Role::kTarget;
      input.kind = input.whole ? SampleInput::Kind::kIds : SampleInput::Kind::kNumbers;
      input.shares = loss.kind == OpKind::kBce;
      if (input.whole) input.below = graph.tensors[loss.inputs[0]].shape.back();
    } else if (input.whole) {
      input.below = rows_looked_up(graph, id);
    }
    inputs.push_back(std::move(input));
  }
  return inputs;
}

}  // namespace trainyard
