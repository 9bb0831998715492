// Reading published weights: any piece of any weight of ours, cut out of Hugging Face's files.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>

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

  /// As Checkpoint::read().
  void read(const Piece& wanted, std::span<std::byte> out) const;

 private:
  struct Parts;
  explicit HuggingFaceWeights(std::unique_ptr<Parts> parts);
  std::unique_ptr<Parts> parts_;
};

}  // namespace trainyard
