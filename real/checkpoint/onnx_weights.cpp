#include "real/checkpoint/onnx_weights.h"

#include "engine/base/error.h"
#include "real/checkpoint/convert.h"
#include "real/checkpoint/host_file.h"
#include "real/checkpoint/piece_runs.h"

namespace trainyard {

OnnxWeights::OnnxWeights(const ModelConfig& config, std::int64_t microbatch) : config_(config) {
  for (const OnnxWeight& weight : build_onnx_graph(config_, {.microbatch = microbatch}).weights) {
    check_content(*weight.tensor, config_.onnx->file);
    weights_.emplace(weight.parameter, weight);
  }
}

void OnnxWeights::read(const Piece& wanted, std::span<std::byte> out) {
  const auto found = weights_.find(wanted.tensor);
  if (found == weights_.end()) refuse(config_.onnx->file, "has no weight " + wanted.tensor);
  if (kept_ != wanted.tensor) {
    const OnnxWeight& weight = found->second;
    numbers_ = read_numbers(*weight.tensor, config_.onnx->file);
    if (weight.transposed) {
      const std::int64_t rows = weight.tensor->dims[0], columns = weight.tensor->dims[1];
      Numbered<double> turned(numbers_.size());
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) turned[c * rows + r] = numbers_[r * columns + c];
      }
      numbers_ = std::move(turned);
    }
    kept_ = wanted.tensor;
  }
  for (RunCursor run(wanted); !run.done(); run.advance(run.length())) {
    const auto* from = reinterpret_cast<const std::byte*>(numbers_.data() + run.global());
    convert(DType::kFp64, from, wanted.dtype,
            out.data() + run.local() * size_in_bytes(wanted.dtype), run.length());
  }
}

}  // namespace trainyard
