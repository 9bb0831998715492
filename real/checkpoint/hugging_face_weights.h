// Reading published weights: any piece of any weight of ours, cut out of Hugging Face's files.
#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "engine/plan/model_config.h"
#include "real/checkpoint/piece.h"

namespace trainyard {

/// `path` is a folder with model.safetensors or with model.safetensors.index.json and its files, or
/// one such file. On opening every weight of the model of `config` must be there, in its shape:
/// ConfigError with the file and the reason. Reading is safe from many threads.
class HuggingFaceWeights {
 public:
  static HuggingFaceWeights open(const std::string& path, const ModelConfig& config);
  HuggingFaceWeights(HuggingFaceWeights&&) noexcept;
  HuggingFaceWeights& operator=(HuggingFaceWeights&&) noexcept;
  ~HuggingFaceWeights();

  /// Tensors of the files that no weight of the model is read from, but for tables that modules
  /// compute with and never train, and copies of what is read.
  struct LeftOver {
    std::vector<std::string> of_model;  // in its layers, or what its class has in this place
    std::vector<std::string> of_heads;  // for other tasks
  };
  LeftOver left_over() const;
  /// Those that are read.
  const std::set<std::string>& names() const;

  /// As Checkpoint::read().
  void read(const Piece& wanted, std::span<std::byte> out) const;

 private:
  struct Parts;
  explicit HuggingFaceWeights(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace trainyard
