#include "real/train/scale_states.h"

#include <string_view>

#include "engine/base/error.h"
#include "real/checkpoint/stored_weights.h"

namespace trainyard {

std::vector<ScaleState> scale_states(RankExecutor& executor) {
  constexpr std::string_view kSuffix = ".scale";
  const Program& program = executor.plan().program();
  std::vector<ScaleState> out;
  for (const IssuedOp& issued : executor.plan().order().ops) {
    const ProgramOp& op = program.segments[issued.segment].ops[issued.op];
    if (op.kind != OpKind::kUpdateScales) continue;
    const ValueId scales = op.accumulates[1].value;
    const at::Tensor history = executor.values().tensor(op.accumulates[0].value, 0),
                     all = executor.values().tensor(scales, 0);
    for (const Value& value : program.values) {
      if (!value.alias || value.alias->in != scales) continue;
      check(value.name.ends_with(kSuffix), "a scale is named as one");
      const std::string of = value.name.substr(0, value.name.size() - kSuffix.size());
      out.push_back({std::string(kFp8History) + of,
                     {history.size(0)},
                     history.select(1, value.alias->offset)});
      out.push_back({std::string(kFp8Scale) + of, {1}, all.narrow(0, value.alias->offset, 1)});
    }
  }
  return out;
}

bool has_first_scale_states(const RankExecutor& executor) {
  const DeviceMesh& mesh = executor.plan().program().mesh;
  for (AxisId axis = 0; axis < mesh.num_axes(); ++axis) {
    if (!mesh.axes[axis].stages && executor.plan().at().begin()[axis] != 0) return false;
  }
  return true;
}

}  // namespace trainyard
