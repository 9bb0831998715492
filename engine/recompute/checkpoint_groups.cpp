#include "engine/recompute/checkpoint_groups.h"

namespace trainyard {

std::vector<std::vector<std::size_t>> checkpoint_groups(const std::vector<int>& stage_of_module,
                                                        std::size_t most) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < stage_of_module.size(); ++i) {
    const bool goes_on =
        i > 0 && stage_of_module[i] == stage_of_module[i - 1] && groups.back().size() < most;
    if (!goes_on) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

}  // namespace trainyard
