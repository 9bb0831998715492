// Tensors as ranks really hold them, in one process: what each has by its spec, moves between specs
// done by the members of their groups alone, and the global value that comes of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "engine/sharding/redistribution.h"
#include "tests/support/random_spec.h"

namespace trainyard {

struct DenseTensor {
  Extents extents;
  std::vector<double> data;  // the last dim fastest
};
DenseTensor zeros(const Extents& extents);
DenseTensor random_tensor(Random& random, const Extents& extents);

struct ShardedTensor {
  TensorSpec spec;
  Extents extents;                 // of the global tensor
  std::vector<DenseTensor> local;  // per rank
};

/// A mistake put into the moves on purpose, and whether it has changed anything yet.
struct PlantedError {
  enum class Kind {
    kNone,
    kMissingAllReduce,
    kAllReduceTwice,
    kMaximumSummed,
    kBiasOnEveryPartial,
    kAxesSwapped,    // S01 gathered as S10
    kPartsIgnored,   // qkv gathered as one dim
    kCountsSwapped,  // the last ranks get one more
    kOneOfTwoAxes,   // a gradient reduced over the first of two axes
  } kind = Kind::kNone;
  bool done = false;
};

/// Pieces as the spec says; summands and candidates at random.
ShardedTensor distribute(Random& random, const DenseTensor& tensor, const TensorSpec& spec,
                         const DeviceMesh& mesh);
ShardedTensor sharded_zeros(const TensorSpec& spec, const Extents& extents, const DeviceMesh& mesh);

/// The global value; `problem` says where copies differ by more than `tolerance`, or nobody has it.
DenseTensor gather(const ShardedTensor& tensor, const DeviceMesh& mesh, std::string& problem,
                   double tolerance = 1e-10);

/// The tensor behind a path's moves, in forward; or its gradient, from the path's end to its
/// beginning.
ShardedTensor moved(const ShardedTensor& tensor, const Redistribution& path, const DeviceMesh& mesh,
                    PlantedError& planted);
ShardedTensor moved_back(const ShardedTensor& gradient, const Redistribution& path,
                         const DeviceMesh& mesh, PlantedError& planted);

}  // namespace trainyard
