// A checkpoint's parameters as a model that transformers loads.
#pragma once

#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/graph/graph.h"
#include "engine/plan/model_config.h"
#include "real/checkpoint/checkpoint.h"

namespace trainyard {

/// Writes model.safetensors, its weights as `dtype`, and config.json into `folder`, which is made
/// where it is not there. What is in memory at a time is a part of one tensor. `written_by` goes
/// into the metadata of the weights. Throws ConfigError where transformers has no such model, and
/// as Checkpoint::read().
void save_hugging_face(const Checkpoint& checkpoint, const ModelConfig& config,
                       const std::string& folder, DType dtype, const std::string& written_by = "");

/// Writes model.safetensors alone: the weights of `graph`, which the checkpoint is of, under their
/// own names. Those of an ONNX file are PyTorch's, where the file has them.
void save_own_weights(const Checkpoint& checkpoint, const Graph& graph, const std::string& folder,
                      DType dtype, const std::string& written_by = "");

/// Where versions of transformers compute what is saved for `config` otherwise than here.
std::vector<std::string> notes_on_reading(const ModelConfig& config);

/// config.json for `config`. read_hugging_face_config() gives back the same, but for what that file
/// cannot hold: name, pad_vocab_to, next_sentence, and lengths below the longest possible.
std::string hugging_face_config(const ModelConfig& config, DType dtype);

}  // namespace trainyard
