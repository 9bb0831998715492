// Reading the weights of an ONNX file: any piece of any parameter of the model imported from it.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "engine/base/indexed.h"
#include "engine/plan/model_config.h"
#include "models/onnx/onnx_graph.h"
#include "real/checkpoint/piece.h"

namespace trainyard {

class OnnxWeights {
 public:
  /// Throws ConfigError where the file has not the elements of every parameter.
  explicit OnnxWeights(const ModelConfig& config, std::int64_t microbatch);

  /// As Checkpoint::read(). Reads a tensor of the file whole, and keeps the last one: pieces that
  /// follow each other are best of one weight. For one thread.
  void read(const Piece& wanted, std::span<std::byte> out);

 private:
  ModelConfig config_;                                   // which holds what weights_ points into
  std::unordered_map<std::string, OnnxWeight> weights_;  // by parameter
  std::string kept_;
  Numbered<double> numbers_;  // of kept_, row by row as the parameter has them
};

}  // namespace trainyard
