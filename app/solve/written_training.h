// A graph of ops with sizes, written by hand, as the instructions of one microbatch.
#pragma once

#include "engine/passes/training_graph.h"
#include "study/yaml_reader.h"

namespace trainyard {

/// `nodes: [{name, bytes, reads, saves, tmp, backward_tmp, input, in_place, gradient}]`, each
/// behind what it reads. The backward of a node reads the gradient of what it made and what it
/// `saves`, and makes a gradient of all that it reads; several gradients of one value are added.
/// The last node is the loss.
TrainingGraph read_written_training(const YamlNode& problem);

}  // namespace trainyard
