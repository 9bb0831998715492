#include "study/unaligned_sizes.h"

#include <optional>
#include <string>

#include "engine/base/quantity.h"
#include "engine/cost/unaligned_rows.h"
#include "study/attention.h"

namespace trainyard {

namespace {

std::string times(const UnalignedRows& rows, std::int64_t size) {
  if (size % 2 == 0) return number_text(rows.even);
  return number_text(rows.odd) + " to " + number_text(rows.odd_result);
}

std::int64_t round_up(std::int64_t size, std::int64_t to) { return (size + to - 1) / to * to; }

}  // namespace

void warn_of_unaligned_sizes(Study& study, const StudyResolvers& resolvers) {
  const ModelConfig& model = study.model;
  const std::optional<HardwareProfile> hardware = resolvers.hardware(study.cluster.device);
  const DType type = study.training.fp8.on() ? DType::kBf16 : study.training.precision;
  const bool of_16_bits = type == DType::kBf16 || type == DType::kFp16;
  if (!hardware || !hardware->unaligned.any() || !of_16_bits || !may_attend(model)) return;
  const std::int64_t tensor = study.parallel.tensor;
  const auto warn = [&](const std::string& key, std::int64_t whole, std::int64_t parts,
                        const std::string& remedy_key) {
    if (whole % parts != 0) return;  // said elsewhere, or by a method with rules of its own
    const std::int64_t size = whole / parts;
    if (size <= 1 || size % kAlignedElements == 0) return;
    const std::string of_rank = parts > 1 ? "a rank's " + std::to_string(size) + " of " : "";
    study.warnings.push_back(
        key + ": " + of_rank + std::to_string(whole) + " is no multiple of " +
        std::to_string(kAlignedElements) + ": the arithmetic of its products takes " +
        times(hardware->unaligned, size) + " times as long on " + hardware->name + "; " +
        remedy_key + ": " + std::to_string(round_up(whole, kAlignedElements * parts)) +
        " would do");
  };
  const auto warn_of_fp8 = [&](const std::string& key, std::int64_t whole, std::int64_t parts) {
    constexpr std::int64_t kVector = 16;  // bytes
    if (!study.training.fp8.on() || whole % parts != 0 || whole / parts % kVector == 0) return;
    study.warnings.push_back(key + ": a rank's " + std::to_string(whole / parts) +
                             " is no multiple of 16, and GPUs have no FP8 products of such rows: "
                             "times are as if they had; " +
                             key + ": " + std::to_string(round_up(whole, kVector * parts)) +
                             " would do");
  };
  warn_of_fp8("model.hidden", model.hidden, 1);
  warn_of_fp8("model.ffn", model.ffn, tensor);
  warn("model.vocab", model.pad_vocab_to, tensor, "model.pad_vocab_to");
  warn("model.hidden", model.hidden, 1, "model.hidden");
  warn("model.ffn", model.ffn, tensor, "model.ffn");
  if (study.training.flash_attention == FlashAttention::kOff)
    warn("model.head_dim", model.head_dim, 1, "model.head_dim");
}

}  // namespace trainyard
