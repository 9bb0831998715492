#include "engine/recompute/checkpoint_groups.h"

#include <charconv>
#include <system_error>

namespace trainyard {

std::vector<std::vector<std::size_t>> checkpoint_groups(const std::vector<int>& stage_of_module,
                                                        int most) {
  std::vector<std::vector<std::size_t>> groups;
  for (std::size_t i = 0; i < stage_of_module.size(); ++i) {
    const bool goes_on = i > 0 && stage_of_module[i] == stage_of_module[i - 1] &&
                         groups.back().size() < static_cast<std::size_t>(most);
    if (!goes_on) groups.emplace_back();
    groups.back().push_back(i);
  }
  return groups;
}

std::optional<int> group_of_strategy(std::string_view strategy) {
  constexpr std::string_view kPrefix = "group_";
  if (strategy == "each") return 1;
  if (strategy == "contiguous") return kContiguousGroup;
  if (!strategy.starts_with(kPrefix)) return std::nullopt;
  strategy.remove_prefix(kPrefix.size());
  int most = 0;
  const char* const end = strategy.data() + strategy.size();
  const auto parsed = std::from_chars(strategy.data(), end, most);
  if (parsed.ec != std::errc{} || parsed.ptr != end || most < 1) return std::nullopt;
  return most;
}

std::string strategy_of_group(int most) {
  if (most == 1) return "each";
  if (most == kContiguousGroup) return "contiguous";
  return "group_" + std::to_string(most);
}

}  // namespace trainyard
