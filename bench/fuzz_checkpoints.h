// Targets of checkpoints and of published weights. What is damaged on purpose has its checksums
// made to fit again, half of the time: they are no defence against a careful hand.
#pragma once

#include "bench/fuzz_target.h"

namespace trainyard {

FuzzTarget index_target();    // index.json
FuzzTarget shard_target();    // a rank's file
FuzzTarget weights_target();  // a model's safetensors, and what tells which file holds what

}  // namespace trainyard
