#include "report/loss_curve.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string_view>

#include "engine/base/error.h"

namespace trainyard {

namespace {

constexpr std::string_view kHeader = "step,loss,tokens_per_s,grad_norm";

/// A field as a number; "nan" and "inf" are numbers too.
double number(const std::string& field, const SourcePos& where) {
  char* end = nullptr;
  const double value = std::strtod(field.c_str(), &end);
  if (field.empty() || *end != '\0')
    throw ConfigError(where, "", "expected a number, got '" + field + "'");
  return value;
}

}  // namespace

LossCurve read_losses(const std::string& text, const std::string& path) {
  LossCurve curve;
  int line_number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    if (end == std::string::npos) break;
    const std::string_view line(text.data() + begin, end - begin);
    begin = end + 1;
    ++line_number;
    if (line_number == 1) {
      if (line != kHeader)
        throw ConfigError({path, 1, 1}, "", "expected the header '" + std::string(kHeader) + "'");
      continue;
    }
    std::vector<double> fields;
    for (std::size_t at = 0; at <= line.size();) {
      const std::size_t comma = std::min(line.find(',', at), line.size());
      fields.push_back(number(std::string(line.substr(at, comma - at)),
                              {path, line_number, static_cast<int>(at) + 1}));
      at = comma + 1;
    }
    if (fields.size() != 4) {
      throw ConfigError({path, line_number, 1}, "",
                        "expected 4 fields, got " + std::to_string(fields.size()));
    }
    if (!(fields[0] >= 0 && fields[0] < 9e15) || fields[0] != std::floor(fields[0])) {
      throw ConfigError({path, line_number, 1}, "", "expected the number of a step");
    }
    curve.step.push_back(static_cast<std::int64_t>(fields[0]));
    curve.loss.push_back(fields[1]);
    curve.tokens_per_s.push_back(fields[2]);
    curve.gradient_norm.push_back(fields[3]);
  }
  if (line_number == 0)
    throw ConfigError({path, 1, 1}, "", "expected the header '" + std::string(kHeader) + "'");
  return curve;
}

LossCurve thinned(const LossCurve& curve, std::size_t most) {
  const std::size_t steps = curve.step.size();
  if (steps <= most || most < 2) return curve;
  LossCurve out;
  const std::size_t slices = most / 2;
  const auto keep = [&](std::size_t i) {
    out.step.push_back(curve.step[i]);
    out.loss.push_back(curve.loss[i]);
    out.tokens_per_s.push_back(curve.tokens_per_s[i]);
    out.gradient_norm.push_back(curve.gradient_norm[i]);
  };
  for (std::size_t s = 0; s < slices; ++s) {
    const std::size_t begin = s * steps / slices, end = (s + 1) * steps / slices;
    std::size_t lowest = begin, highest = begin;
    for (std::size_t i = begin; i < end; ++i) {
      // A loss that is not a number is what a reader looks for first.
      if (!(curve.loss[i] <= curve.loss[highest])) highest = i;
      if (curve.loss[i] < curve.loss[lowest]) lowest = i;
    }
    keep(std::min(lowest, highest));
    if (lowest != highest) keep(std::max(lowest, highest));
  }
  return out;
}

}  // namespace trainyard
