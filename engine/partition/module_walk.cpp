#include "engine/partition/module_walk.h"

#include <algorithm>

namespace trainyard {

namespace {

/// The modules on the way from `from` to `to`, neither of them among them but where one is around
/// the other.
std::vector<std::size_t> way_between(const ModelModules& modules, std::size_t from,
                                     std::size_t to) {
  const auto line_of = [&](std::size_t module) {
    std::vector<std::size_t> line;
    for (; module != kNoParent; module = modules.parent[module]) line.push_back(module);
    return line;
  };
  const std::vector<std::size_t> up = line_of(from), down = line_of(to);
  std::size_t shared = 0;  // of the ends of both lines
  while (shared < std::min(up.size(), down.size()) &&
         up[up.size() - 1 - shared] == down[down.size() - 1 - shared])
    ++shared;
  std::vector<std::size_t> way(up.begin(), up.end() - static_cast<std::ptrdiff_t>(shared - 1));
  for (std::size_t i = down.size() - shared; i-- > 0;) way.push_back(down[i]);
  return way;
}

}  // namespace

ModuleWalk walk_modules(const ModelModules& modules, const std::vector<std::int32_t>& device,
                        PartitionConfig::Routing routing) {
  ModuleWalk out;
  out.stage.assign(modules.of_op.size(), 0);
  std::size_t at = 0;  // the module that ran last; the model begins
  const auto go_to = [&](std::int32_t next) {
    if (out.on.empty() || out.on.back() != next) out.on.push_back(next);
  };
  for (const OpId op : modules.of_op.keys()) {
    const std::size_t to = modules.of_op[op];
    const bool stays = !out.on.empty() && out.on.back() == device[to];
    if (!stays && routing == PartitionConfig::Routing::kParent && !out.on.empty()) {
      for (const std::size_t module : way_between(modules, at, to)) go_to(device[module]);
    }
    go_to(device[to]);
    out.stage[op] = static_cast<std::int32_t>(out.on.size()) - 1;
    at = to;
  }
  return out;
}

}  // namespace trainyard
