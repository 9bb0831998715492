#include "engine/planner/op_times.h"

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "engine/program/attrs_text.h"

namespace trainyard {

namespace {

std::string operand_text(DType dtype, const std::vector<std::int64_t>& extents) {
  std::string text(to_string(dtype));
  text += "[";
  for (std::size_t i = 0; i < extents.size(); ++i) {
    if (i > 0) text += ",";
    text += std::to_string(extents[i]);
  }
  return text + "]";
}

/// `operand(id)`: what one of them is. A Program adds to the step's loss what a graph writes, so
/// results are told in one list, in the order of their texts.
template <typename Op, typename Operand>
std::string text_of(const Op& op, const OpAttrs& attrs, const Operand& operand) {
  std::string text = op_name(op.kind, op.part);
  TextSink sink([&](std::string_view piece) { text += piece; });
  write_attrs(attrs, sink);
  sink.flush();
  for (const auto& id : op.reads) text += " " + operand(id);
  std::vector<std::string> results;
  for (const auto& id : op.writes) results.push_back(operand(id));
  for (const auto& id : op.accumulates) results.push_back(operand(id));
  std::sort(results.begin(), results.end());
  text += " ->";
  for (const std::string& result : results) text += " " + result;
  return text;
}

}  // namespace

std::string kernel_text(const TrainingGraph& training, const Instruction& op) {
  return text_of(op, op.attrs, [&](TensorId id) {
    const Tensor& tensor = training.graph.tensors[id];
    return operand_text(tensor.dtype, {tensor.shape.begin(), tensor.shape.end()});
  });
}

std::string kernel_text(const Program& program, const ProgramOp& op) {
  return text_of(op, program.attrs[op.attrs], [&](const Operand& operand) {
    const Value& value = program.values[operand.value];
    std::vector<std::int64_t> extents;
    for (const Dim& dim : value.dims) extents.push_back(dim.expected);
    return operand_text(value.dtype, extents);
  });
}

void OpTimes::add(const std::string& kernel, Seconds time) {
  auto& [sum, count] = sums_[kernel];
  sum += time;
  count += 1;
}

std::optional<Seconds> OpTimes::find(const std::string& kernel) const {
  const auto found = sums_.find(kernel);
  if (found == sums_.end()) return std::nullopt;
  return found->second.first / found->second.second;
}

std::map<std::string, Seconds> OpTimes::all() const {
  std::map<std::string, Seconds> out;
  for (const auto& [kernel, sum] : sums_) out.emplace(kernel, sum.first / sum.second);
  return out;
}

}  // namespace trainyard
