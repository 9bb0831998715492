// Which axes cut which group of an op's indices, as the spec of a tensor says it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/sharding/index_space.h"

namespace trainyard {

/// [dim][group]: the axes that cut it, in order.
using DimCuts = std::vector<std::vector<Axes>>;

/// The cuts of a tensor of these local extents, or what does not fit: parts that are not those of
/// the op, groups that are cut as one.
std::optional<std::string> find_cuts(const IndexSpace& space, const IndexedTensor& indexed,
                                     const TensorSpec& spec, const Extents& local,
                                     const DeviceMesh& mesh, DimCuts& cuts);

/// Whether two dims over one index give each rank the same pieces of it.
bool cut_alike(const DimSplit& a, const DimSplit& b);

}  // namespace trainyard
