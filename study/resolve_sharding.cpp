#include "study/resolve_sharding.h"

#include <utility>
#include <variant>
#include <vector>

#include "engine/passes/given_sharding.h"
#include "engine/passes/plan_method.h"
#include "engine/passes/plan_splits.h"
#include "engine/passes/select_kernels.h"
#include "study/sharding_names.h"
#include "study/study_origin.h"

namespace trainyard {

void resolve_sharding(Study& study, const Graph& model, const SoftwareProfile& software) {
  if (study.sharding.empty()) return;
  const bool flash = study.training.flash_attention == FlashAttention::kOn;
  const auto base =
      plan_beneath(select_kernels(model, software, flash), method_plan(study.parallel));
  if (std::holds_alternative<Infeasible>(base)) return;
  auto found = find_given(std::get<PlannedGraph>(base),
                          without_single_ranks(study.sharding, sharding_names(study.parallel)));
  if (const auto* mistakes = std::get_if<std::vector<GivenMistake>>(&found)) {
    std::vector<ConfigError> errors;
    for (const GivenMistake& one : *mistakes)
      errors.push_back(error_at(study, one.key, one.problem));
    throw ConfigError(errors);
  }
  study.sharding = std::move(std::get<FoundSharding>(found).whole);
}

}  // namespace trainyard
