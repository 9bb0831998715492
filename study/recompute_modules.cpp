#include "study/recompute_modules.h"

#include <algorithm>
#include <string>

#include "engine/base/user_text.h"
#include "engine/passes/given_modules.h"
#include "engine/passes/recompute_regions.h"
#include "study/study_origin.h"

namespace trainyard {

void check_recompute_modules(const Study& study, const Graph& model) {
  if (study.recompute.modules.empty()) return;
  const GivenModules modules(model);
  for (const std::string& entry : study.recompute.modules) {
    if (is_word_of_modules(entry)) continue;
    const auto matched = modules.matched(entry);
    const bool of_layer = std::any_of(matched.begin(), matched.end(), [&](const auto* module) {
      return std::any_of(module->ops.begin(), module->ops.end(),
                         [&](const OpId op) { return model.ops[op].layer >= 0; });
    });
    if (!of_layer)
      fail_at(study, "recompute.modules",
              in_quotes(entry) + " matches no module of a layer; there are " +
                  join_words(modules.some_paths()));
  }
}

}  // namespace trainyard
