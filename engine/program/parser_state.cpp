#include "engine/program/parser_state.h"

namespace trainyard {

Axis read_axis(LineScanner& line) {
  const std::size_t at = line.position();
  const std::string_view name = line.take("an axis", ",:]+-");
  const auto axis = parse_axis(name);
  if (!axis) line.fail_at(at, quoted(name) + " is not an axis; there are pp, dp, cp, ep, tp");
  return *axis;
}

std::string_view read_new_name(LineScanner& line, const std::string& kind, std::string_view stops,
                               Names& names) {
  const std::size_t at = line.position();
  const std::string_view name = line.take("the name of a " + kind, stops);
  if (!names.add(name)) line.fail_at(at, "a second " + kind + " called " + quoted(name));
  line.set_subject(kind + " " + printable(name, 60));
  return name;
}

std::int32_t read_known_name(LineScanner& line, const std::string& kind, std::string_view stops,
                             const Names& names) {
  const std::size_t at = line.position();
  const std::string_view name = line.take("the name of a " + kind, stops);
  const auto id = names.find(name);
  if (!id) line.fail_at(at, "no " + kind + " is called " + quoted(name));
  return *id;
}

}  // namespace trainyard
