#include "engine/graph/op_parameters.h"

namespace trainyard {

OpParameters op_parameters(OpKind kind, const OpAttrs& attrs, const std::vector<Extents>& operands,
                           const std::vector<Extents>& results) {
  OpParameters out;
  out.dims.assign(attrs.dims.begin(), attrs.dims.end());
  out.dim = attrs.dim;
  if (results.empty() || operands.empty()) return out;
  const Extents& y = results[0];
  switch (kind) {
    case OpKind::kView: out.to = y; break;
    case OpKind::kPieces:
      if (y.has(attrs.dim)) out.extents["c"] = y[attrs.dim];
      break;
    case OpKind::kSplit:
      for (const Extents& part : results)
        out.sizes.push_back(part.has(attrs.dim) ? part[attrs.dim] : 0);
      break;
    case OpKind::kZeroPad:
    case OpKind::kNarrow:
      if (y.has(attrs.dim)) out.extents["left"] = y[attrs.dim];
      break;
    case OpKind::kSum: out.keepdim = operands[0].size() == y.size(); break;
    default: break;
  }
  return out;
}

}  // namespace trainyard
