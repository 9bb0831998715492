// What a device can do: peaks, memory, and the curves of its kernels, each with its source.
// One YAML file per device under calibrate/profiles/; study/profile_reader.h reads it.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/provenance.h"
#include "engine/base/units.h"
#include "engine/cost/op_curves.h"
#include "engine/graph/kernel_form.h"

namespace trainyard {

/// Time of a GEMM, or of a convolution:
///
///   startup + flop / (flop_efficiency * peak) + bytes / (byte_efficiency * memory bandwidth)
///
/// byte_efficiency may exceed 1: part of the operands comes from cache. Of a convolution that
/// Winograd's algorithm takes, flop are over `winograd` (Lavin and Gray 2015, arXiv:1509.09308:
/// 2.25 for tiles of 2 x 2).
struct MatmulCurve {
  Seconds startup = 0;
  double flop_efficiency = 1;
  double byte_efficiency = 1;
  double weight_gradient_factor = 1;  // >= 1: the layout that accumulates into a gradient
  Provenance provenance;
  double winograd = 1;  // >= 1: multiplications that it saves
};

/// Time of one flash-attention kernel:
///
///   startup + (flop + tail * sqrt(head_dim * flop / batch)) / (efficiency * peak)
///           + bytes / (byte_efficiency * memory bandwidth)
///
/// with batch = sequences x heads. flop / batch is 2 S^2 head_dim (causal forward), so the square
/// root grows with S * head_dim: the FLOP of one block of query rows, the last of which keeps one
/// multiprocessor busy while the others wait. With tail and the byte efficiencies 0 (no such term)
/// it is startup + flop / (efficiency * peak).
struct AttentionCurve {
  Seconds startup = 0;
  double forward_efficiency = 1;   // of peak; FLOP halved for causal masks
  double backward_efficiency = 1;  // backward does 2.5 x the forward's FLOP
  double tail = 0;
  double forward_byte_efficiency = 0;   // 0: no such term
  double backward_byte_efficiency = 0;  // 0: no such term
  double small_head_factor = 1;         // on both efficiencies where head_dim <= 64
  Provenance provenance;
};

/// Time of a memory-bound kernel: max(floor, startup + bytes / (efficiency * memory bandwidth)).
struct MemoryCurve {
  Seconds floor = 0;
  Seconds startup = 0;
  double efficiency = 1;
  Provenance provenance;
};

/// The rate of kernels that follow each other for seconds over the rate of one alone, at most 1: a
/// device that reaches its limit of power lowers its clock. Curves are of short measurements.
struct Sustained {
  double products = 1;
  double attention = 1;  // flash attention, which keeps fewer units busy
  Provenance provenance;
};

/// How many times longer the arithmetic of a product takes than its curve says where rows of its
/// matrices do not begin at multiples of 16 bytes: kernels then read a few bytes at a time. Of
/// types of 16 bits, where a row is no multiple of 8 elements; unaligned_rows.h has the rule.
struct UnalignedRows {
  double even = 1;        // all rows are multiples of 2
  double odd = 1;         // a row that is read is odd
  double odd_result = 1;  // rows of the result alone are
  Provenance provenance;
  bool any() const { return even != 1 || odd != 1 || odd_result != 1; }
};

/// How many times longer an op takes while ops of the other sort run on the same device:
/// communication takes multiprocessors, memory bandwidth, cores.
struct Slowdown {
  double compute_by_communication = 1;  // a kernel, while its device sends or receives
  double communication_by_compute = 1;  // a message, while a kernel runs on one of its devices
  Provenance provenance;
  bool any() const { return compute_by_communication != 1 || communication_by_compute != 1; }
};

/// Copies between the device and the memory of its host, pinned: latency + bytes / bandwidth, one
/// direction.
struct HostLink {
  BytesPerSecond bandwidth = 0;  // 0: not known
  Seconds latency = 0;
  Provenance provenance;
};

/// Kernels as `trainyard calibrate` timed them, form by form, while so many processes of the
/// machine worked at the same time: on a CPU they share cores, caches and memory. What is here goes
/// before the forms above.
struct MeasuredKernels {
  std::int64_t ranks = 1;
  OpCurves curves;
  std::map<KernelForm, Provenance> forms;  // that were measured
  Seconds launch = 0;                      // as HardwareProfile::launch
  Provenance launch_provenance;
  Slowdown slowdown;
  Provenance repeatability;    // its interval: of the machine as a whole, which all kernels share
  double interval_factor = 1;  // on the intervals of the curves: OpCurves::interval_factor()
};

/// Entry of layer norms that keep a row in registers, where SoftwareProfile has them.
inline constexpr std::string_view kPersistentLayerNorm = "persistent_layer_norm";

struct HardwareProfile {
  // Compiled once, in hardware_profile.cpp: hundreds of files copy, move and destroy it.
  HardwareProfile();
  HardwareProfile(const HardwareProfile&);
  HardwareProfile(HardwareProfile&&) noexcept;
  HardwareProfile& operator=(const HardwareProfile&);
  HardwareProfile& operator=(HardwareProfile&&) noexcept;
  ~HardwareProfile();

  std::string name;         // a100-sxm-80g
  std::string capacity_of;  // the shipped profile that all but the memory is of; empty: it is one
  std::string description;
  std::string architecture;             // volta, ampere, hopper, blackwell, cpu
  std::map<DType, FlopPerSecond> peak;  // dense, with fp32 accumulation
  Provenance peak_provenance;
  Bytes memory_capacity = 0;  // nominal
  Bytes memory_reserved = 0;  // context, libraries: what a job cannot use
  Provenance memory_provenance;
  BytesPerSecond memory_bandwidth = 0;  // nominal
  Provenance bandwidth_provenance;
  MatmulCurve matmul;              // dense linear layers
  MatmulCurve fp8_matmul;          // those of FP8
  MatmulCurve batched_matmul;      // GEMMs inside unfused attention
  MatmulCurve convolution;         // on tensor cores; of a device without such all
  MatmulCurve plain_convolution;   // of fp32 and fp64 where there are tensor cores
  AttentionCurve flash_attention;  // the device's best kernel
  std::map<std::string, AttentionCurve> other_flash_attention;  // by SoftwareProfile::flash_kernel
  // By op kind, "default", or kPersistentLayerNorm.
  std::map<std::string, MemoryCurve, std::less<>> memory_bound;
  MemoryCurve optimizer;
  Seconds launch = 0;  // host time to issue one op
  Provenance launch_provenance;
  Sustained sustained;
  Slowdown slowdown;
  HostLink host_link;
  /// A CPU: the thread that issues ops is the one that computes them, so that nothing is issued
  /// ahead.
  bool host_computes = false;
  std::vector<std::shared_ptr<const MeasuredKernels>>
      measured;  // by ascending number of ranks; empty: none
  std::shared_ptr<const MeasuredKernels>
      kernels;              // of `measured`, what on_ranks() chose; may be null
  bool more_ranks = false;  // more ranks work at the same time than were measured
  UnalignedRows unaligned;
};

/// The profile of a device that works beside others of its node, `ranks` in all: what was measured
/// of the largest number of them that is not above. Launch and slowdown are that entry's, and a
/// CPU's memory is shared equally. Without measured kernels the profile itself.
HardwareProfile on_ranks(HardwareProfile hardware, std::int64_t ranks);

/// The type whose rate products of `type` have: of e4m3 and e5m2 fp8, which a CPU emulates by casts
/// and products of fp32.
DType product_type(const HardwareProfile& hardware, DType type);

/// Why this device cannot multiply matrices of this type (a V100 and bf16); nullopt where it can.
/// kernel_time() requires nullopt for the type of every GEMM.
std::optional<std::string> unsupported(const HardwareProfile& hardware, DType type);

}  // namespace trainyard
