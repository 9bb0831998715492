// Pass: how much device memory every pipeline rank needs, when, and for what.
//
// Counted in issue order from the Program alone (engine/program/README.md, rule 3): an arena value
// takes its storage at the first write in issue order and gives it back at its `free`; pools hold
// all their slots all the time, or all bytes of the persistent buffer that these lie in. So the
// peak is the same in every executor. Of ranks that run one list, that with the most optimizer
// state counts.
//
// A framework holds more than the Program's values: FixedMemory. Beside the total, its caching
// allocator keeps blocks in which nothing lives, and gives them back where the device is full: a
// driver shows them, but no plan needs them.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "engine/base/units.h"
#include "engine/cost/software_profile.h"
#include "engine/program/program.h"

namespace trainyard {

/// Bytes alive at the instant of the largest total on one rank.
struct MemoryPeak {
  Bytes total = 0;
  Bytes parameters = 0;
  // ZeRO-3's, among the parameters: those gathered, and of these what no op has read yet.
  Bytes gathered_parameters = 0;
  Bytes prefetched_parameters = 0;
  Bytes gradients = 0;
  Bytes optimizer_state = 0;  // fp32 master weights and moments
  Bytes activations = 0;
  Bytes buffers = 0;  // pools, and what the software profile adds (context, communicators)
  Bytes host = 0;     // pools and persistent values in the memory of the host, all the time; in no
                      // other figure
  Bytes nvme = 0;     // and persistent values on its NVMe drives
  Bytes cached =
      0;  // what the allocator keeps beside the total while the device has room; in no other figure
  std::string instant;  // "0F7 op 41" (op_place())
};

/// What a rank holds beside the Program's values. Bytes "per parameter" are of each one that the
/// rank holds.
struct FixedMemory {
  Bytes buffers = 0;                  // context, communicators
  Bytes gradients_per_parameter = 0;  // copies of gradients, all the time
  double activation_factor = 1;       // bytes that an activation takes over those of its value
  Bytes step_copy = 0;        // of each gradient that a rank updates by, while it does (phase U)
  bool casts_logits = false;  // loss_workspace()
  // What reserved_memory() replays:
  bool expandable_segments = false;  // PyTorch's setting of that name
  Bytes cached = 0;                  // kept by the allocator, whatever lives
  Bytes cached_per_parameter = 0;
};

/// What PyTorch's cross_entropy of logits cast to fp32 holds beside the op's values: `copies` of
/// them in fp32 at once, of `bytes` each. Forward the cast; backward the gradients of the log of
/// the softmax and of the logits before the cast back. Where ranks share the vocabulary (loss.py of
/// torch.distributed.tensor.parallel), forward the shifted logits and their exponentials, too;
/// backward the gradient, the exponentials and their sum.
struct LossCopies {
  Bytes bytes = 0;  // 0: of any other op
  bool split = false;
  bool forward = false;
  int copies() const { return (forward ? 1 : 2) + (split ? (forward ? 2 : 1) : 0); }
};
LossCopies loss_copies(const Program& program, const ProgramOp& op);

/// Bytes of these that live beside what the op writes at the fullest moment.
Bytes loss_workspace(const Program& program, const ProgramOp& op);

FixedMemory fixed_memory(const SoftwareProfile& software, DType precision);

/// Whether the largest total is no further from the capacity, on either side, than predictions are
/// known to be off: `error` of the capacity.
bool may_fit(const std::vector<MemoryPeak>& peaks, Bytes capacity, double error);

/// Bytes that the allocator keeps on a rank, as far as there is room.
Bytes cached_within(const MemoryPeak& peak, Bytes capacity);

/// One entry per rank class.
std::vector<MemoryPeak> memory_peaks(const Program& program, const FixedMemory& fixed);

inline constexpr std::size_t kNumMemoryClasses = 5;
using MemoryParts = IndexedArray<MemoryClass, Bytes, kNumMemoryClasses>;  // bytes alive
Bytes sum(const MemoryParts& parts);

/// What one run of a segment does to the bytes alive on the device; the first of a list has no
/// segment (-1) and is what lives before the step: persistent values, pools, fixed memory.
struct MemoryStep {
  SegmentId segment = kNoIndex;
  std::array<Microbatch, 2> mb = {-1, -1};  // Call's
  std::size_t peak_op = 0;                  // after its writes the total is largest
  MemoryParts at_peak{};                    // the total is at least that of the step before
  MemoryParts after{};
  // What of the parameters at the peak is gathered, and what of that is read later.
  Bytes gathered = 0;
  Bytes prefetched = 0;
};

/// Visits the steps of every list of Program::body, one list after the other, in issue order.
void follow_memory(const Program& program, const FixedMemory& fixed,
                   const std::function<void(std::size_t list, const MemoryStep&)>& visit);

}  // namespace trainyard
