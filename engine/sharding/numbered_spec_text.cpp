// The form of specs with numbers: S01,R P2.
#include "engine/base/user_text.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace

std::string to_numbered_text(const TensorSpec& spec) {
  std::string text;
  for (const DimSplit& dim : spec.dims) {
    if (!text.empty()) text += ",";
    text += is_split(dim) ? "S" : "R";
    for (const AxisId axis : dim.parts.front().axes) text += std::to_string(axis);
  }
  for (const auto state : {AxisState::kPartial, AxisState::kEntered}) {
    const AxisSet set = state == AxisState::kPartial ? spec.partial : spec.entered;
    for (const AxisId axis : axes_of(set))
      text += std::string(" ") + letter(state) + std::to_string(axis);
  }
  return text;
}

bool has_numbered_text(const TensorSpec& spec, const DeviceMesh& mesh) {
  bool says = mesh.num_axes() <= 10 && spec.held.empty() && !spec.maximum;
  for (const DimSplit& dim : spec.dims)
    says = says && !is_packed(dim) && dim.parts.front().count == 0 && !dim.parts.front().reversed;
  return says;
}

std::variant<TensorSpec, SpecTextError> parse_numbered_spec(std::string_view text,
                                                            const DeviceMesh& mesh) {
  TensorSpec spec;
  AxisSet seen = 0;
  std::size_t at = 0;
  bool of_dim = true;  // the next word is a dim's
  const auto error = [](std::size_t where, const std::string& problem) {
    return SpecTextError{static_cast<int>(where) + 1, problem};
  };
  while (at < text.size() || of_dim) {
    while (at < text.size() && text[at] == ' ') ++at;
    const std::size_t begin = at;
    const char state = at < text.size() ? text[at] : ' ';
    if (of_dim ? state != 'S' && state != 'R' : state != 'P' && state != 'E')
      return error(at, "expected specs such as S01,R or S0,R P1");
    ++at;
    Axes axes;
    for (; at < text.size() && is_digit(text[at]); ++at) {
      const auto axis = static_cast<AxisId>(text[at] - '0');
      if (axis >= mesh.num_axes()) return error(at, "the mesh has no axis " + std::to_string(axis));
      if (has(seen, axis)) return error(at, "axis " + std::to_string(axis) + " is named twice");
      seen = static_cast<AxisSet>(seen | bit(axis));
      axes.push_back(axis);
    }
    if (axes.empty() != (state == 'R'))
      return error(begin, axes.empty() ? "a state without an axis" : "R stands without axes");
    if (of_dim) spec.dims.push_back(split_over(axes));
    for (const AxisId axis : axes) {
      if (!of_dim) set_state(spec, axis, state == 'P' ? AxisState::kPartial : AxisState::kEntered);
    }
    of_dim = of_dim && at < text.size() && text[at] == ',';
    if (of_dim) {
      ++at;
    } else if (at < text.size() && text[at] != ' ') {
      return error(at, "expected ',' or a space, got " + in_quotes(text.substr(at, 1)));
    }
  }
  return spec;
}

}  // namespace trainyard
