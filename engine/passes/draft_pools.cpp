#include "engine/passes/draft_pools.h"

#include <algorithm>

namespace trainyard {

PoolId DraftPools::named(const std::string& name, Space space) {
  auto& pools = program_.pools;
  if (shared_) {
    const auto known =
        std::find_if(pools.begin(), pools.end(), [&](const Pool& p) { return p.name == name; });
    if (known != pools.end()) return PoolId(known - pools.begin());
  }
  return pools.add({name, 0, space});
}

PoolId DraftPools::host(std::int32_t stage, Bytes bytes) {
  const auto [it, fresh] = host_.try_emplace({stage, bytes}, kNoIndex);
  if (fresh)
    it->second =
        named("offload@" + std::to_string(stage) + "." + std::to_string(bytes), Space::kHost);
  return it->second;
}

}  // namespace trainyard
