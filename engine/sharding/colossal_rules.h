// Colossal-AI's (MAP's) view of strategies: a filter over the exact set, with its names.
//
// colossalai/auto_parallel/tensor_shard/node_handler/strategy: meshes of two axes (one of a single
// rank is left out), each axis splits one index or nothing, lists ascend, and each family leaves
// out some. Names show operands as matrices: rows, i and o of a linear; S01 is a dim over both
// axes.
#pragma once

#include <optional>
#include <string>

#include "engine/sharding/op_index_table.h"
#include "engine/sharding/strategy.h"

namespace trainyard {

/// Which axes a strategy has to use.
enum class ShardOption : std::uint8_t { kStandard, kShard, kFullShard, kShardLastAxis };

/// Its name for a strategy of op `kind`, where it has that strategy. The kinds are those of
/// colossal_kinds().
std::optional<std::string> colossal_name(std::string_view kind, const IndexSpace& space,
                                         const Strategy& strategy, const DeviceMesh& mesh,
                                         ShardOption option = ShardOption::kStandard);
const std::vector<std::string>& colossal_kinds();

/// How a spec goes through view, permute, split and sum. A split or summed dim is gathered first.
/// Of dims that a view merges, the first's axes stay on the first new dim, and any other axes make
/// all of it replicated: nullopt.
std::optional<TensorSpec> colossal_propagation(std::string_view kind, const TensorSpec& input,
                                               const Extents& extents,
                                               const OpParameters& parameters);

}  // namespace trainyard
