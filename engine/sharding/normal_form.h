// One way to write each spec: specs of one tensor whose dims have the same parts, which give every
// rank the same boxes and have the same states beside them, are equal in normal form.
//
// Axes of one rank are left out. A dim of one part has no count where pieces of one element are cut
// alike; parts have the largest unit with equal boxes; neighbours that are cut as one become one;
// `after` becomes part of the list where its chunks are the pieces; axes behind single pieces
// ascend.
#pragma once

#include "engine/sharding/tensor_spec.h"

namespace trainyard {

/// Takes a spec without spec_problem(). Dims that are bound late keep their list as it is.
TensorSpec normal_form(const TensorSpec& spec, const Extents& extents, const DeviceMesh& mesh);

DimSplit normal_dim(const DimSplit& dim, std::int64_t extent, const DeviceMesh& mesh);

/// Whether two splits of one dim give each coordinate the same ranges, whatever their parts.
bool equal_ranges(const DimSplit& a, const DimSplit& b, std::int64_t extent,
                  const DeviceMesh& mesh);

}  // namespace trainyard
