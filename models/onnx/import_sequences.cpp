// Sequences of parts, as exporters write torch.split and torch.chunk: each part is a range of the
// whole, made when it is taken.
#include <algorithm>

#include "models/onnx/importer.h"
#include "models/onnx/slice_range.h"

namespace trainyard {

namespace {
constexpr std::int64_t kMostParts = 1 << 16;
}

void OnnxImporter::split_to_sequence(const OnnxNode& node) {
  const int id = in(node, 0);
  Sequence parts;
  parts.whole = id;
  parts.axis = axis_of(node.integer("axis", 0), dims_of(id).size());
  const std::int64_t extent = dims_of(id)[parts.axis];
  const OnnxConstant* said = has_input(node, 1) ? &constant_in(node, 1) : nullptr;
  if (said != nullptr && !said->dims.empty()) {
    parts.sizes = split_sizes(extent, said->numbers.size(), said->integers());
  } else {
    const std::int64_t each = said == nullptr ? 1 : said->integer(0);
    if (each < 1) throw FoldError("makes parts of " + std::to_string(each));
    if ((extent - 1) / each >= kMostParts)
      throw FoldError("makes parts of " + std::to_string(each) + " of " + std::to_string(extent) +
                      " elements, more than " + std::to_string(kMostParts));
    for (std::int64_t left = extent; left > 0; left -= each)
      parts.sizes.push_back(std::min(each, left));
    parts.squeezed = said == nullptr && node.integer("keepdims", 1) == 0;
  }
  sequences_[node.outputs[0]] = std::move(parts);
  value(node.outputs[0]).kind = Value::Kind::kSequence;
}

void OnnxImporter::sequence_at(const OnnxNode& node) {
  const auto found = sequences_.find(in(node, 0));
  if (found == sequences_.end()) throw FoldError("reads what is no sequence of parts");
  Sequence& of = found->second;
  const auto count = static_cast<std::int64_t>(of.sizes.size());
  const std::size_t part = axis_of(constant_in(node, 1).integer(0), of.sizes.size());
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < part; ++i) begin += of.sizes[i];
  Dims to = dims_of(of.whole);
  to[of.axis] = of.sizes[part];
  if (to[of.axis] == 0) throw FoldError("takes a part without elements");
  const auto dim = static_cast<int>(of.axis);
  Dims kept = to;
  if (of.squeezed) kept = squeezed_dims(to, {dim});
  if (const ConstantRef whole = constant_of(of.whole)) {
    const Dims steps = strides_of(whole->dims);
    OnnxConstant taken = strided(*whole, to, steps, begin * steps[of.axis]);
    taken.dims = kept;
    Value& v = value(node.outputs[0]);
    v.kind = Value::Kind::kConstant;
    v.dims = kept;
    v.constant = done(std::move(taken));
    return;
  }
  const TensorId x = full_tensor(of.whole);
  const bool all = static_cast<std::int64_t>(readers_[node.inputs[0]].size()) == count;
  if (all && of.parts.empty()) of.parts = graph_.split(module(node), x, dim, of.sizes);
  const TensorId taken =
      all ? of.parts[part] : graph_.narrow(module(node), x, dim, begin, of.sizes[part]);
  set(node, of.squeezed ? viewed(node, taken, kept) : taken, kept);
}

}  // namespace trainyard
