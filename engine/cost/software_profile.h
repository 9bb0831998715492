// What a training framework does with the same model: which kernels it fuses, what it keeps for the
// backward, what it overlaps. One YAML file per framework and version under calibrate/software/.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/units.h"
#include "engine/cost/hardware_profile.h"
#include "engine/plan/fp8_config.h"

namespace trainyard {

/// Bytes per logit that the loss's kernels read and write, where they are many; 0: one kernel.
struct LossTraffic {
  double forward = 0;
  double backward = 0;
};

struct SoftwareProfile {
  // Compiled once, in software_profile.cpp: hundreds of files copy, move and destroy it.
  SoftwareProfile();
  SoftwareProfile(const SoftwareProfile&);
  SoftwareProfile(SoftwareProfile&&) noexcept;
  SoftwareProfile& operator=(const SoftwareProfile&);
  SoftwareProfile& operator=(SoftwareProfile&&) noexcept;
  ~SoftwareProfile();

  std::string name = "trainyard";
  std::string version;
  std::string description;

  // Kernels: they change which ops the Program holds and what they save.
  bool fused_bias_gelu = false;         // the bias is added inside the activation's kernel
  bool fused_bias_dropout_add = false;  // bias, dropout and residual in one kernel
  bool saves_dropout_mask = false;      // one byte per element; else the mask is drawn again
  bool persistent_layer_norm = false;   // where persistent_layer_norm_has(width)
  bool casts_logits = false;          // the loss is of a copy of the logits in fp32 (memory alone)
  bool attention_transposes = false;  // unfused attention copies q, k, v and its output
  bool triangular_softmax = false;    // causal: reads what is attended, of at most 2,048 keys
  // Kernels beside the one that the Program has: the gradient of a bias is a sum of its own, and
  // those of q, k and v are copied into the packed tensor's.
  bool sums_bias_gradients = false;
  bool copies_split_gradients = false;
  // GELU and softmax of 16-bit tensors op by op, in fp32: autocast around unfused source.
  bool autocast_kernels = false;
  bool image_copies = false;    // tensor cores' convolutions copy images to channels last
                                // and back; false: images are so already
  bool flash_attention = true;  // false: the framework has none
  // Blocks of attention round a ring are merged by kernels of their own, in fp32.
  bool merges_blocks = false;
  std::string flash_kernel;  // "flash-attention-2"; empty or unknown: the device's best

  bool selective_by_op = false;  // recompute: selective is by op, not of the attention core
  // FP8, where the study does not say it.
  Fp8Recipe fp8_recipe = Fp8Recipe::kTensorwise;
  bool fp8_gathers = false;
  AmaxFusion fuses_amax = AmaxFusion::kNone;  // tensorwise, but of weights
  // A tensor's largest element is that of all ranks; false: of the tensor group's, so that replicas
  // have scales of their own.
  bool fp8_amax_of_replicas = false;

  bool recompute_runs_all_ops =
      false;  // full recompute repeats a layer's ops whose result nobody reads

  // Gradients and overlap.
  std::optional<DType> grad_dtype;                 // nullopt: training.grad_dtype
  std::map<DType, DType> grad_dtype_by_precision;  // by training.precision; wins over grad_dtype
  std::map<DType, DType>
      gradient_copies;  // by training.precision: a microbatch's gradients, beside the accumulators
  std::map<DType, DType>
      step_gradient_copies;  // the same: of the gradients that a rank updates by, while it does
  bool fused_gradient_accumulation = true;  // the weight-gradient GEMM adds into the accumulator
  bool overlap_data_parallel = true;        // buckets are reduced during the backward
  bool overlap_tensor_gradient = true;      // input-gradient all-reduce behind the weight gradient
  // Collectives in pieces beside products (piece_times.h): Transformer Engine's user buffers; has
  // asynchronous tensor parallelism; runs it.
  bool user_buffers = false;
  bool async_tensor = false;
  bool runs_async_tensor = false;
  // Collectives know a tensor's first dim alone: one along another is of a copy, in pieces.
  bool copies_moved_dims = false;
  // q, k and v, gate and up are products apart: the gradients of what they read are added up, and
  // no reduction comes right behind one of them.
  bool separate_projections = false;
  bool clip_reads_norm = false;        // the host waits for the gradient norm
  bool always_norm = false;            // the update is guarded by a finite norm, clipped or not
  bool synchronous_transfers = false;  // the host waits for the device at every pipeline transfer
  bool timed_passes = false;  // timers make the host wait behind every forward and backward
  // But what runs these waits in streams: split backwards, several stages per rank.
  bool streams_wait_where_split = false;
  bool streams_wait_where_interleaved = false;
  bool scatter_gather = true;  // pipeline sends are split over the tensor group
  // PyTorch's allocator, and what lies in it.
  bool expandable_segments = false;   // its setting of that name is on
  bool per_parameter_shards = false;  // parallel.zero.layout, where the study does not say it
  bool reduces_weight_type = false;   // parallel.zero.reduce_dtype, where the study does not say it
  std::int32_t bucket_elements = 0;   // gradients reduced together; 0: training.bucket_elements
  std::string placement = "DPT";
  std::vector<std::string>
      schedules;  // words of study_words.h that the framework has; empty: all of them

  // Global factors, each with its source in `provenance`.
  double product_factor = 1;   // on linear layers: a step's clocks and caches are not a table's
  double kernel_floor_us = 0;  // an op takes sqrt(floor^2 + kernel^2): it is several small kernels
  double memory_bound_factor = 1;  // on bytes of memory-bound ops (eager frameworks > 1)
  double launch_factor = 1;        // on the device profile's launch time per op
  double launch_growth = 0;        // launches take 1 + launch_growth x min(tensor, 8)^3 as long
  // Modules that are called by messages (partition smp, schedule.mode dynamic): host time on either
  // side of a transfer between stages, and more of each tensor in it, whose shape is told first.
  double request_us = 0;
  double metadata_us = 0;
  double batch_us = 0;                    // host time of a stage that reads a microbatch's inputs
  double tensor_update_us = 0;            // host time of each parameter tensor around the update
  double unaligned_attention_factor = 1;  // on unfused attention's GEMMs where head_dim % 8 != 0
  double attention_factor = 1;            // on softmax, dropout and GEMMs of unfused attention
  double gradient_traffic = 0;  // bytes per gradient element and microbatch, beside accumulating it
  std::map<DType, double> update_traffic;  // by the weights' type: bytes per element that kernels
                                           // around the update move
  LossTraffic loss_traffic;
  double context_gib = 0;  // context, workspaces, communicators per rank
  // Memory that the caching allocator holds though nothing lives there, and gives back where the
  // device is full.
  double cached_gib = 0;
  std::map<DType, DType>
      cached_weights;  // by training.precision: the weights' storage before they were laid out flat
  double activation_factor =
      1;  // on bytes of activations: copies that are not values of the Program
  std::map<std::string, Provenance, std::less<>>
      provenance;  // by field name; "description" for the rest
  /// The vocabulary is padded to a multiple of this on each rank that shares it, where the study
  /// does not say to how much.
  std::int32_t pads_vocabulary = 1;

  /// Whether the host waits for pipeline transfers under a schedule that splits backwards or gives
  /// a rank several stages.
  bool host_waits_for_transfers(bool splits, bool interleaved) const {
    return synchronous_transfers && !(splits && streams_wait_where_split) &&
           !(interleaved && streams_wait_where_interleaved);
  }

  /// Whether it waits for every forward and backward.
  bool host_waits_for_passes(bool splits) const {
    return timed_passes && !(splits && streams_wait_where_split);
  }

  /// `method`: a word of study_words.h.
  bool has_schedule(std::string_view method) const {
    return schedules.empty() ||
           std::find(schedules.begin(), schedules.end(), method) != schedules.end();
  }
};

/// The numbers of a software profile under the names that its file gives them.
struct SoftwareNumber {
  std::string_view name;
  double SoftwareProfile::*value;
  double most;  // above it: refused
};
inline constexpr std::array kSoftwareNumbers = {
    SoftwareNumber{"product_factor", &SoftwareProfile::product_factor, 100},
    SoftwareNumber{"kernel_floor_us", &SoftwareProfile::kernel_floor_us, 1e6},
    SoftwareNumber{"memory_bound_factor", &SoftwareProfile::memory_bound_factor, 100},
    SoftwareNumber{"launch_factor", &SoftwareProfile::launch_factor, 1000},
    SoftwareNumber{"launch_growth", &SoftwareProfile::launch_growth, 1},
    SoftwareNumber{"request_us", &SoftwareProfile::request_us, 1e6},
    SoftwareNumber{"metadata_us", &SoftwareProfile::metadata_us, 1e6},
    SoftwareNumber{"batch_us", &SoftwareProfile::batch_us, 1e6},
    SoftwareNumber{"tensor_update_us", &SoftwareProfile::tensor_update_us, 1e6},
    SoftwareNumber{"attention_factor", &SoftwareProfile::attention_factor, 100},
    SoftwareNumber{"unaligned_attention_factor", &SoftwareProfile::unaligned_attention_factor, 100},
    SoftwareNumber{"gradient_traffic", &SoftwareProfile::gradient_traffic, 1000},
    SoftwareNumber{"context_gib", &SoftwareProfile::context_gib, 1000},
    SoftwareNumber{"cached_gib", &SoftwareProfile::cached_gib, 1000},
    SoftwareNumber{"activation_factor", &SoftwareProfile::activation_factor, 100},
};

/// Type in which this framework accumulates and reduces gradients, nullopt where the study says.
inline std::optional<DType> gradient_dtype(const SoftwareProfile& software, DType precision) {
  const auto found = software.grad_dtype_by_precision.find(precision);
  return found != software.grad_dtype_by_precision.end() ? found->second : software.grad_dtype;
}

/// Whether Apex's FastLayerNorm is compiled for the width (apex/contrib/csrc/layer_norm; the list
/// in Megatron-LM's fused_layer_norm.py). Others take the kernel that reads a row twice.
bool persistent_layer_norm_has(std::int64_t width);

}  // namespace trainyard
