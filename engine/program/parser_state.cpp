#include "engine/program/parser_state.h"

namespace trainyard {

Axis read_axis(LineScanner& line) {
  const std::size_t at = line.position();
  const std::string_view name = line.take("an axis", ",:]+-");
  const auto axis = parse_axis(name);
  if (!axis) line.fail_at(at, quoted(name) + " is not an axis; there are pp, dp, cp, ep, tp");
  return *axis;
}

}  // namespace trainyard
