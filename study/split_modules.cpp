#include "study/split_modules.h"

#include <string>
#include <variant>
#include <vector>

#include "engine/base/user_text.h"
#include "engine/passes/given_modules.h"
#include "engine/passes/parameter_buckets.h"
#include "engine/passes/plan_method.h"
#include "study/study_origin.h"

namespace trainyard {

void check_split_modules(const Study& study, const Graph& model) {
  const ParallelConfig& parallel = study.parallel;
  if (parallel.tensor_modules.empty() && parallel.split_table.empty()) return;
  const GivenModules modules(model);
  for (const std::string& pattern : parallel.tensor_modules) {
    // "*" matches the model as well.
    if (!modules.matched(pattern).empty()) continue;
    fail_at(
        study, "parallel.tensor_modules",
        in_quotes(pattern) + " matches no module; there are " + join_words(modules.some_paths()));
  }
  const auto planned = method_plan(parallel).plan(model);
  const auto* reason = std::get_if<Infeasible>(&planned);
  if (reason != nullptr && (reason->key.starts_with("parallel.tensor_method.table") ||
                            reason->key == "parallel.tensor_modules"))
    fail_at(study, reason->key, reason->reason);
}

void check_gathered_modules(const Study& study, const Graph& model) {
  const std::vector<std::string>& units = study.parallel.zero.units;
  if (units.empty() || !shards_parameters(study.parallel)) return;
  const GivenModules modules(model);
  for (std::size_t i = 0; i < units.size(); ++i) {
    if (!modules.matched(units[i]).empty()) continue;
    fail_at(
        study, units_item(i),
        in_quotes(units[i]) + " matches no module; there are " + join_words(modules.some_paths()));
  }
}

}  // namespace trainyard
