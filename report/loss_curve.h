// losses.csv read back.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace trainyard {

/// One entry per step that was run; losses that are not finite are NaN.
struct LossCurve {
  std::vector<std::int64_t> step;
  std::vector<double> loss, tokens_per_s, gradient_norm;
};

/// Throws ConfigError `path:line:column: problem`. A last line that is cut short, by a run that
/// still writes or was ended, is left out.
LossCurve read_losses(const std::string& text, const std::string& path);

/// At most `most` steps: of each slice the one with the highest and the one with the lowest loss.
LossCurve thinned(const LossCurve& curve, std::size_t most);

}  // namespace trainyard
