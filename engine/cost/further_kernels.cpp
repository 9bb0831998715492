#include "engine/cost/further_kernels.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "engine/cost/cost_model.h"
#include "engine/cost/memory_time.h"

namespace trainyard {

namespace {

double elements(const KernelWork& work) {
  return static_cast<double>(work.m) * static_cast<double>(work.n);
}

double loss_bytes(const KernelWork& work, double per_logit) {
  // Where ranks share the vocabulary (logits, labels, maxima and sums are read), the ops of maxima
  // and of sums have read the logits before, once each.
  constexpr std::uint8_t kReadsOfShared = 4;
  const bool shared = work.part == OpPart::kForward && work.form.num_reads == kReadsOfShared;
  const double read_before = shared ? 2.0 * static_cast<double>(size_in_bytes(work.dtype)) : 0;
  return std::max(static_cast<double>(work.bytes), (per_logit - read_before) * elements(work));
}

/// Megatron-LM's scaled_upper_triang_masked_softmax.h: a row reads its scores up to the diagonal,
/// backward also its probabilities, and writes all. Longer rows take another kernel.
double triangle_bytes(const KernelWork& work) {
  constexpr std::int64_t kMostKeys = 2048;
  const auto own = static_cast<double>(work.bytes);
  if (!work.form.has(FormFlag::kCausal) || work.n > kMostKeys) return own;
  const double unread = work.part == OpPart::kForward ? 0.5 : 1;
  return own - unread * elements(work) * static_cast<double>(size_in_bytes(work.dtype));
}

}  // namespace

double moved_bytes(const KernelWork& work, const SoftwareProfile& software, SourceLog& log) {
  if (work.kind == OpKind::kSoftmax && software.triangular_softmax) {
    use_number("triangular_softmax", "unfused attention", software, log);
    return triangle_bytes(work);
  }
  const LossTraffic& loss = software.loss_traffic;
  const double per_logit = work.part == OpPart::kForward ? loss.forward : loss.backward;
  if (work.kind != OpKind::kCrossEntropy || per_logit == 0) return static_cast<double>(work.bytes);
  use_number("loss_traffic", "the loss", software, log);
  return loss_bytes(work, per_logit);
}

double update_bytes(const KernelWork& work, const SoftwareProfile& software, SourceLog& log) {
  const auto end = work.form.types.begin() + static_cast<std::ptrdiff_t>(work.form.num_operands());
  for (const auto& [type, bytes] : software.update_traffic) {
    if (std::find(work.form.types.begin(), end, type) == end) continue;
    use_number("update_traffic", "the update of the weights", software, log);
    return bytes * elements(work);
  }
  return 0;
}

Seconds further_kernels_time(const KernelWork& work, const HardwareProfile& hardware,
                             const SoftwareProfile& software, SourceLog& log) {
  Seconds time = 0;
  const auto add = [&](OpKind like, Bytes bytes) {
    use_number("memory_bound_factor", "memory-bound kernels", software, log);
    time += memory_time(static_cast<double>(bytes) * software.memory_bound_factor, to_string(like),
                        hardware, log);
  };
  if (software.sums_bias_gradients && work.summed_for_bias > 0) {
    use_number("sums_bias_gradients", "gradients of biases", software, log);
    add(OpKind::kAdd, work.summed_for_bias);
  }
  if (software.copies_split_gradients && work.packed_gradients > 0) {
    use_number("copies_split_gradients", "gradients of q, k and v", software, log);
    add(OpKind::kTranspose, 2 * work.packed_gradients);
  }
  return time;
}

}  // namespace trainyard
