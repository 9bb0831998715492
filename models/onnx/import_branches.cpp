// Shapes that a model asks for, and the Ifs that choose by them.
#include <algorithm>

#include "models/onnx/importer.h"

namespace trainyard {

namespace {

/// How many of a node's first operands have the elements that its result has, each somewhere; 0: it
/// computes others.
std::size_t moved_operands(const OnnxNode& node) {
  constexpr std::string_view kMove[] = {"Cast",     "Expand",  "Flatten",   "Gather",
                                        "Identity", "Reshape", "Slice",     "Split",
                                        "Squeeze",  "Tile",    "Transpose", "Unsqueeze"};
  if (node.op == "Concat") return node.inputs.size();
  return std::find(std::begin(kMove), std::end(kMove), node.op) != std::end(kMove) ? 1 : 0;
}

bool has_ones(const OnnxConstant& marks) {
  return std::any_of(marks.numbers.begin(), marks.numbers.end(), [](double x) { return x != 0; });
}

}  // namespace

/// Whether the batch says how long a dim of a value is, of data or constants.
bool OnnxImporter::is_batch_size(int id, std::int64_t dim) const {
  if (wider_ == nullptr || wider_->empty()) return false;
  const Dims &dims = values_[id].dims, &wider = (*wider_)[id];
  return wider.size() == dims.size() ? wider.begin()[dim] != dims.begin()[dim]
                                     : dim == 0 && is_of_data(id);
}

void OnnxImporter::give_shape(const OnnxNode& node) {
  const int from = in(node, 0);
  const Dims& dims = dims_of(from);
  OnnxConstant out, marks;
  out.type = OnnxType::kInt64;
  if (node.op == "Size") {
    double all = 1, marked = 0;
    for (std::int64_t d = 0; d < std::ssize(dims); ++d) {
      all *= static_cast<double>(dims.begin()[d]);
      if (is_batch_size(from, d)) marked = 1;
    }
    out.numbers = {all};
    marks.numbers = {marked};
  } else {
    const auto count = static_cast<std::int64_t>(dims.size());
    const auto bound = [&](std::int64_t at) {
      return std::clamp<std::int64_t>(at < 0 ? at + count : at, 0, count);
    };
    const std::int64_t end = bound(node.integer("end", count));
    for (std::int64_t d = bound(node.integer("start", 0)); d < end; ++d) {
      out.numbers.push_back(static_cast<double>(dims.begin()[d]));
      marks.numbers.push_back(is_batch_size(from, d) ? 1 : 0);
    }
    out.dims = {static_cast<std::int64_t>(out.numbers.size())};
  }
  marks.dims = out.dims;
  Value& v = value(node.outputs[0]);
  v.kind = Value::Kind::kConstant;
  v.dims = out.dims;
  v.constant = done(std::move(out));
  if (has_branches_ && has_ones(marks)) of_batch_size_[node.outputs[0]] = done(std::move(marks));
}

/// What follows from numbers that follow from the size of the batch does so too.
void OnnxImporter::pass_batch_size_on(const OnnxNode& node, FoldInputs inputs) {
  const std::size_t moved = moved_operands(node);
  bool any = false, all = false;
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (inputs[i] == nullptr) continue;
    const auto marks = of_batch_size_.find(node.inputs[i]);
    any |= marks != of_batch_size_.end();
    all |= marks != of_batch_size_.end() && i >= moved;
    if (i >= moved) continue;
    inputs[i] = marks != of_batch_size_.end()
                    ? marks->second
                    : done(empty_constant(inputs[i]->type, inputs[i]->dims));
  }
  if (!any) return;
  const auto made = all ? std::nullopt : fold(node, inputs);
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const int id = node.outputs[i];
    if (id == kNoOnnxValue) continue;
    if (made) {
      if (has_ones(*(*made)[i])) of_batch_size_[id] = (*made)[i];
      continue;
    }
    OnnxConstant marks = empty_constant(OnnxType::kInt64, dims_of(id));
    std::fill(marks.numbers.begin(), marks.numbers.end(), 1);
    of_batch_size_[id] = done(std::move(marks));
  }
}

/// Whether it is of no branch, or of the one that a constant condition chooses.
bool OnnxImporter::is_taken(const OnnxNode& node) {
  if (node.condition == kNoOnnxValue) return true;
  const auto condition = scalar(node.condition);
  return condition && !of_batch_size_.contains(node.condition) && (*condition != 0) == node.holds;
}

void OnnxImporter::take_branch(const OnnxNode& node) {
  const auto condition = scalar(node.inputs[0]);
  if (!condition) throw FoldError("chooses a branch by data, which is not modelled");
  if (of_batch_size_.contains(node.inputs[0]))
    throw FoldError(
        "chooses a branch by the size of the batch, which differs with microbatches and replicas; "
        "export the branch that is meant");
  const std::size_t first = *condition != 0 ? 1 : 1 + node.outputs.size();
  for (std::size_t i = 0; i < node.outputs.size(); ++i) {
    const int from = node.inputs[first + i];
    if (node.outputs[i] == kNoOnnxValue) continue;
    if (value(from).kind == Value::Kind::kTensor) {
      value(from).finer == kNoIndex ? tensor(from) : finer_tensor(from);
      made_by_[node.outputs[i]] = now_;
    }
    value(node.outputs[i]) = value(from);
    if (const auto marks = of_batch_size_.find(from); marks != of_batch_size_.end())
      of_batch_size_[node.outputs[i]] = marks->second;
  }
}

}  // namespace trainyard
