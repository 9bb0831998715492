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

/// The extents of the whole tensor of which a rank has `local`.
Extents whole_extents(const TensorSpec& spec, const Extents& local, const DeviceMesh& mesh);

/// Gives the indices of a tensor in `space` the extents that a rank has of those in `whole`: the
/// axes of a group cut its outermost index until a rank has a single one, then the next.
void cut_indices(const IndexSpace& whole, const IndexedTensor& indexed, const TensorSpec& spec,
                 const DeviceMesh& mesh, IndexSpace& space);

/// Whether two dims over one index give each rank the same pieces of it.
bool cut_alike(const DimSplit& a, const DimSplit& b, const DeviceMesh& mesh);

}  // namespace trainyard
