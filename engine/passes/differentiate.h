// Pass: forward graph -> forward and explicit backward instructions for one microbatch.
//
// No tape: every gradient is a tensor, every backward op an instruction that says what it reads.
// The input-gradient and the weight-gradient half of a linear layer are two instructions, so that
// schedules can move them apart.
#pragma once

#include "engine/cost/software_profile.h"
#include "engine/partition/stage_partition.h"
#include "engine/passes/training_graph.h"

namespace trainyard {

/// `grad_dtype`: type in which parameter gradients accumulate.
TrainingGraph differentiate(StagedGraph staged, const SoftwareProfile& software, DType grad_dtype);

}  // namespace trainyard
