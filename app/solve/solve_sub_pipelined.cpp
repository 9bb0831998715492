// solve: problem `subpipelined-tp`.
#include <nlohmann/json.hpp>

#include "app/solve/problem_keys.h"
#include "app/solve/solve.h"
#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "engine/plan/tensor_overlap.h"
#include "engine/schedule/sub_pipelined.h"

namespace trainyard {

nlohmann::ordered_json solve_sub_pipelined(const YamlNode& problem) {
  constexpr std::int64_t kMostLayers = 100'000;
  const auto layers =
      static_cast<int>(at_either(problem, "layers", "K").as_integer(1, kMostLayers));
  const auto time_of = [&](const char* key, const char* other) {
    const YamlNode node = at_either(problem, key, other);
    const double time = node.as_number();
    if (!(time >= 0)) node.fail("expected at least 0, got " + number_text(time));
    if (time > kLongestTime)
      node.fail("expected at most " + number_text(kLongestTime) + ", got " + number_text(time));
    return time;
  };
  const double compute = time_of("compute", "Tm");
  const double all_reduce = time_of("all_reduce", "Ta");
  bool across = true;
  if (const auto overlap = given(problem, "overlap")) {
    across = overlap->as_string() == "across-blocks";
    if (!across && overlap->as_string() != "block")
      overlap->fail("expected across-blocks or block, got " + in_quotes(overlap->as_string()));
  }
  int chunks = 2;
  if (const auto number = given(problem, "chunks"))
    chunks = static_cast<int>(number->as_integer(2, kMaxTensorChunks));
  const SubPipelinedTime time = sub_pipelined(layers, compute, all_reduce, across, chunks);
  return {{"forward", time.forward},
          {"backward", time.backward},
          {"total", time.total},
          {"sequential", time.sequential}};
}

}  // namespace trainyard
