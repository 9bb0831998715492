#include "engine/program/parser_state.h"

#include <vector>

namespace trainyard {

AxisId read_axis(LineScanner& line, const DeviceMesh& mesh) {
  const std::size_t at = line.position();
  const std::string_view name = line.take("an axis", ",:]+-");
  for (AxisId axis = 0; axis < mesh.num_axes(); ++axis) {
    if (mesh.axis_name(axis) == name) return axis;
  }
  std::vector<std::string> known;
  for (const MeshAxis& axis : mesh.axes) known.push_back(axis.name);
  line.fail_at(at, in_quotes(name) + " is not an axis; " +
                       (known.empty() ? "the mesh has none" : "there are " + join_words(known)));
}

Axes read_axes(LineScanner& line, const DeviceMesh& mesh) {
  Axes axes;
  line.expect("[");
  if (line.accept("]")) return axes;
  do {
    const std::size_t at = line.position();
    const AxisId axis = read_axis(line, mesh);
    if (has(set_of(axes), axis)) line.fail_at(at, "an axis twice");
    axes.push_back(axis);
  } while (line.accept(","));
  line.expect("]");
  return axes;
}

}  // namespace trainyard
