// A model's weights as numbers that tell them apart, in a checkpoint and in files of transformers.
#pragma once

#include <vector>

#include "models/model.h"
#include "real/checkpoint/save_hugging_face.h"
#include "real/checkpoint/stored_weights.h"
#include "tests/real/checkpoint/checkpoint_fixture.h"
#include "tests/support/scratch_folder.h"

namespace trainyard {

/// Every weight of the model, each element another number that bf16 holds exactly up to a point.
inline Values numbered_weights(const ModelConfig& config) {
  Values values;
  int next = 0;
  for (const StoredWeight& weight : stored_weights(build_model(config, {}))) {
    std::vector<float>& elements = values[weight.name];
    for (std::int64_t i = product(weight.shape); i-- > 0;) {
      elements.push_back(static_cast<float>(next++));
    }
  }
  return values;
}

inline std::vector<Piece> whole_weights(const ModelConfig& config) {
  std::vector<Piece> pieces;
  for (const StoredWeight& weight : stored_weights(build_model(config, {}))) {
    pieces.push_back(whole_tensor(weight.name, DType::kFp32, weight.shape));
  }
  return pieces;
}

inline void save_numbered(const ModelConfig& config, const ScratchFolder& scratch, DType dtype) {
  write_checkpoint(scratch / "ours", at_step(1), {whole_weights(config)}, numbered_weights(config));
  const Checkpoint checkpoint =
      Checkpoint::open(latest_complete(scratch / "ours").value(), Verify::kChecksums);
  save_hugging_face(checkpoint, config, scratch / "theirs", dtype);
}

}  // namespace trainyard
