// A global batch that does not divide evenly, over microbatches and over the ranks that share each.
#pragma once

#include <cstdint>

#include "engine/base/indexed.h"

namespace trainyard {

struct BatchSplit {
  Numbered<std::int64_t> micro;            // [microbatch]: samples
  Numbered<Numbered<std::int64_t>> local;  // [microbatch][rank]: samples
};

/// The first microbatches take one sample more. So do, of each microbatch, as many ranks as it has
/// samples left over, counted on from where the one before would have stopped with as many samples:
/// from rank k samples mod ranks for microbatch k. Tanaka et al., RaNNC (arXiv:2103.16063); the
/// rotation is its code's.
BatchSplit split_batch(std::int64_t global_batch, std::int64_t num_microbatches,
                       std::int64_t num_ranks);

}  // namespace trainyard
