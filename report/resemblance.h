// Which published runs a study resembles, and how well those are predicted: the step times that
// validate scores, by what their plans use.
#pragma once

#include <array>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "engine/graph/graph.h"
#include "study/study.h"

namespace trainyard {

/// What two runs have to have in common.
inline constexpr std::array<std::string_view, 10> kRunFeatures = {
    "framework",        "device", "model",     "tensor parallel", "pipeline parallel",
    "context parallel", "zero",   "recompute", "precision",       "flash attention"};
using RunFeatures = std::array<std::string, kRunFeatures.size()>;  // in words, in that order

/// Framework with its version, kind of device without its memory, text, images or other data;
/// tensor, pipeline and context parallelism used or not; ZeRO stage, kind of recompute, precision,
/// flash attention. Of a resolved study and the graph of its model.
RunFeatures features_of(const Study& study, const Graph& model);

struct ScoredCase {
  std::string id;
  RunFeatures features;
  double error_percent = 0;  // of its step time, signed
};

struct RunGroup {
  std::vector<std::string> ids;  // in the order of the list
  double mean_abs_percent = 0;   // of their step times; 0 without runs
};

struct Resemblance {
  struct Difference {
    std::string_view feature;  // of kRunFeatures
    std::string study, runs;
  };
  RunGroup alike;
  RunGroup nearest;  // where none is alike: of those of a like model the ones with the fewest
                     // differences
  std::vector<Difference> differs;  // of `nearest`
};

/// `id`: the run itself, which does not count; "": it is none of them.
Resemblance find_resemblance(const RunFeatures& features, const std::vector<ScoredCase>& runs,
                             const std::string& id);

/// {runs, mean_abs_percent, ids}, and where runs is 0 nearest: {runs, mean_abs_percent, ids,
/// differs: [{feature, study, runs}]}.
nlohmann::ordered_json resemblance_json(const Resemblance& resemblance);

/// One or two lines for a terminal, without the line breaks around them: "resembles 9 published
/// runs, whose step times are predicted 4.1 % off in the mean: ...".
std::string resemblance_text(const Resemblance& resemblance);

}  // namespace trainyard
