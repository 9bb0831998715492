// The values of a bucket: its parameters, gradients and optimizer state on one rank.
#pragma once

#include <string>

#include "engine/passes/parameter_buckets.h"

namespace trainyard {

/// Adds to `program` what each bucket of `plan` needs, without lengths (size_buckets()), and a view
/// for each of its parameters and their gradients.
void add_bucket_values(const TrainingGraph& training, const ParallelConfig& parallel,
                       const TrainingConfig& config, DType grad_dtype, Program& program,
                       BucketPlan& plan);

/// The pool of that name in the memory of the host; added where there is none yet.
PoolId host_pool(Program& program, const std::string& name);

}  // namespace trainyard
