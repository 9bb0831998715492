// How a model is trained on a cluster: degrees, batch, stages, schedule, what is recomputed or kept
// in the host's memory. All that a Program depends on beside the model's graph, the links between
// its pipeline ranks and the software profile; nothing of where a value came from (study.h has
// that).
#pragma once

#include <array>
#include <cstdint>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/dtype.h"
#include "engine/base/indexed.h"
#include "engine/base/units.h"
#include "engine/plan/documents.h"
#include "engine/plan/fp8_config.h"
#include "engine/plan/model_config.h"

namespace trainyard {

/// What replicas divide among them: of stage 1 the optimizer's state, of 2 gradients too, of 3
/// (FSDP) parameters as well.
struct ZeroConfig {
  int stage = 0;
  enum class By : std::uint8_t {
    kShard,      // runs of buckets, in stage 3 of units (FSDP1's flat parameters)
    kParameter,  // whole parameters, of stage 1
    kRows        // rows of each parameter, of stage 3: copied out of what is gathered (FSDP2)
  } by = By::kShard;
  /// Gradients are reduced in each microbatch, or once in a step (PyTorch's no_sync). Stages 2, 3.
  enum class Reduce : std::uint8_t { kEach, kLast } reduce = Reduce::kEach;
  bool reduces_whole_each = false;    // of stage 0: whole gradients, in each microbatch
  std::optional<DType> reduce_dtype;  // of a microbatch's gradients; nullopt: as they add up
  // Stage 3 beside FP8 by the tensor: weights that its products alone read are gathered in 8 bits,
  // by the largest elements of a unit's, or of all at once at the begin of a step.
  bool gathers_fp8 = false, precomputes_scales = false;
  int replicate = 1;  // groups of ranks that each divide all among themselves (HSDP)
  /// Where it lies.
  enum class Place : std::uint8_t { kDevice, kHost, kNvme };
  struct Offload {
    Place optimizer = Place::kDevice;   // its state, which the host updates (ZeRO-Offload)
    Place parameters = Place::kDevice;  // of stage 3: shards, from which a rank fetches its part of
                                        // what is gathered (ZeRO-Infinity)
    friend bool operator==(const Offload&, const Offload&) = default;
  } offload;
  // Stage 3:
  std::vector<std::string> units;  // patterns of modules gathered together; empty: layers
  int prefetch = 1;                // units ahead of the one that computes, a gather is issued
  int gathers_in_flight = 2;       // units gathered at once, that which computes among them
  static constexpr int kAllShards = 0;
  /// Neighbours among which a unit's parameters lie from its forward to its backward: all that
  /// divide them, n of them, or 1: they stay gathered.
  int reshard_after_forward = kAllShards;
  bool reshards_to_some() const { return stage >= 3 && reshard_after_forward > 1; }
  bool reduces_each() const {
    return stage == 0 ? reduces_whole_each : stage >= 2 && reduce == Reduce::kEach;
  }
  bool offloads_state() const { return offload.optimizer != Place::kDevice; }
  bool offloads_parameters() const { return offload.parameters != Place::kDevice; }
  bool uses_nvme() const {
    return offload.optimizer == Place::kNvme || offload.parameters == Place::kNvme;
  }
  friend bool operator==(const ZeroConfig&, const ZeroConfig&) = default;
};

/// Context parallelism: ranks that share the sequences of a microbatch.
struct ContextConfig {
  int degree = 1;
  enum class Method : std::uint8_t {
    kRing,       // keys and values go from rank to rank
    kAllGather,  // every rank gathers all of them
    kUlysses     // heads are exchanged for positions, and back
  } method = Method::kRing;
  enum class Balance : std::uint8_t {
    kZigZag,  // rank c of n has the pieces c and 2n - 1 - c of 2n: all attend to as many keys
    kNone     // rank c has the c-th run of the sequence
  } balance = Balance::kZigZag;
  friend bool operator==(const ContextConfig&, const ContextConfig&) = default;
};

/// What all-reduces of a mesh d1 x d2 of ranks reached along its first axis and its second: the
/// algorithm's bandwidth, of one all-reduce while those beside it run too.
struct MeasuredMesh {
  int d1 = 1, d2 = 1;
  BytesPerSecond b1 = 0, b2 = 0;  // 0: an axis of one rank
  friend bool operator==(const MeasuredMesh&, const MeasuredMesh&) = default;
};

/// How method auto splits the weights of some modules, and what its collective makes of the result.
struct SplitRule {
  std::string modules;  // a pattern: * stands for any characters
  int dim = 0;          // of the weight: 0 outputs of a product, rows of a table; 1 the other one
  enum class Collective : std::uint8_t {
    kNone,       // what it makes stays split
    kAllReduce,  // summands are added up
    kAllGather   // pieces are gathered
  } collective = Collective::kNone;
  friend bool operator==(const SplitRule&, const SplitRule&) = default;
};

/// Method smp: SageMaker's, whose tensor ranks have samples of their own.
struct SmpConfig {
  enum class Optimize : std::uint8_t {
    kMemory,  // features are split between ops, too
    kSpeed    // as Megatron splits them
  } optimize = Optimize::kMemory;
  bool prescaled_batch = false;  // a tensor group's ranks are given the same samples
  friend bool operator==(const SmpConfig&, const SmpConfig&) = default;
};

/// What a study says of the sharding of some modules' tensors and ops.
struct GivenSharding {
  std::string modules;  // a pattern: * stands for any characters
  /// By a parameter's name, "input", "input.N" or "output": a spec as `compile` prints it. Axes
  /// that it does not name stay as parallel.tensor_method has them.
  std::vector<std::pair<std::string, std::string>> specs;
  /// How ops use axes: by an index of the op (o), "entered" or "passed" the axes.
  std::vector<std::pair<std::string, std::string>> strategy;
  friend bool operator==(const GivenSharding&, const GivenSharding&) = default;
};

struct ParallelConfig {
  // Compiled once, in plan.cpp: hundreds of files copy, move and destroy it.
  ParallelConfig();
  ParallelConfig(const ParallelConfig&);
  ParallelConfig(ParallelConfig&&) noexcept;
  ParallelConfig& operator=(const ParallelConfig&);
  ParallelConfig& operator=(ParallelConfig&&) noexcept;
  ~ParallelConfig();

  int tensor = 1;
  std::vector<int>
      tensor_axes;  // tp0, tp1, ..., the last fastest; product `tensor`. Empty: one, tp
  int pipeline = 1;
  int data = 1;               // default: devices / (tensor x pipeline x context)
  std::vector<int> replicas;  // of each pipeline rank, `data` the most; empty: all have `data`
  int virtual_stages = 1;     // stages per pipeline rank; zb-v, dualpipe-v: 2
  ContextConfig context;
  int expert = 1;
  bool sequence_parallel = false;
  bool own_samples = false;    // each rank of a tensor group brings some, as its method's row says
  bool divides_alike = false;  // ZeRO divides what a tensor group's ranks have alike among them,
                               // too, as the row says
  ZeroConfig zero;
  std::string placement = "DPT";  // letters D P C E T, rightmost fastest, missing ones left of T
  bool scatter_gather = true;     // pipeline sends are split over the tensor group
  std::string tensor_method = "megatron";
  /// Ranks of the axes: method atp's d1 x d2; method map's, each of several ranks, or [1]. Empty:
  /// not chosen yet, or another method.
  std::vector<int> tensor_mesh;
  Bytes tensor_memory = 0;  // method map: of a device, within which it chooses; 0: all it has
  /// Method map's choice: by the name of what an op makes, a strategy and the spec of its "result".
  std::vector<GivenSharding> tensor_ops;
  std::vector<MeasuredMesh> measured_meshes;  // of method atp, by which the mesh is chosen
  std::vector<SplitRule> split_table;         // of method auto, before its own
  SmpConfig smp;                              // of method smp
  std::vector<std::string> tensor_modules;    // patterns of those that are split; empty: all
  std::string tensor_overlap = "none";        // as to_string(TensorOverlap) says it
  Bytes d2d_buffer =
      0;  // of a rank, for pipeline transfers between devices (passes/transfer_routes.h); 0: none
  /// Sizes of tp0, tp1, ...; empty: one axis, tp. On N x 1 ranks atp is megatron's.
  std::vector<int> sizes_of_tensor_axes() const {
    if (tensor_mesh.empty()) return tensor_axes;
    return tensor_mesh.size() > 1 && tensor_mesh.back() > 1 ? tensor_mesh : std::vector<int>{};
  }
  /// Ranks of a tensor group that each bring the samples of a microbatch, and compute those of all.
  int batch_ranks() const { return own_samples ? tensor : 1; }
  /// Ranks of a tensor group that divide what ZeRO divides of what all of them have.
  int dividing_ranks() const { return divides_alike ? tensor : 1; }
  /// Ranks that have the same parameters, and add up their gradients.
  std::int64_t gradient_ranks() const { return std::int64_t{data} * context.degree; }
  /// Those of them that divide what ZeRO divides; HSDP has several such groups.
  int shards() const { return static_cast<int>(gradient_ranks()) / zero.replicate; }
  /// Replicas in a group of zero.reshard_after_forward, which has all ranks that share their
  /// sequences; 1: it has these alone, or there is none.
  int resharded_replicas() const {
    return zero.reshards_to_some() ? zero.reshard_after_forward / context.degree : 1;
  }
  int replicas_at(std::int32_t pipeline_rank) const {
    return replicas.empty() ? data : replicas[pipeline_rank];
  }
  std::int64_t num_ranks() const {
    const std::int64_t of_all = replicas.empty()
                                    ? std::int64_t{pipeline} * data
                                    : std::accumulate(replicas.begin(), replicas.end(), 0LL);
    return std::int64_t{tensor} * of_all * context.degree;
  }
  friend bool operator==(const ParallelConfig&, const ParallelConfig&);
};

enum class FlashAttention : std::uint8_t { kOff, kOn, kAuto };
enum class KernelSet : std::uint8_t { kCpu, kCuda };
enum class Optimizer : std::uint8_t { kAdamW, kSgd };

struct LearningRate {
  double peak = 3e-4;
  std::string schedule = "constant";  // constant | cosine
  std::int64_t warmup = 0;            // steps
  friend bool operator==(const LearningRate&, const LearningRate&) = default;
};

struct TrainingConfig {
  std::int64_t global_batch = 0;  // sequences per optimizer step
  /// Sequences per microbatch and data-parallel replica, or rank of a tensor group that brings some
  /// (ParallelConfig::batch_ranks()); of unequal ones the largest. With replicas
  /// of each pipeline rank (ParallelConfig::replicas), of a microbatch over all of them.
  std::int64_t microbatch = 1;
  std::vector<std::int64_t> microbatches =
      {};  // of each, where the study lists them (microbatch_sizes.h); else empty
  DType precision = DType::kBf16;  // with fp8 what is not in 8 bits: bf16
  Fp8Config fp8;
  Optimizer optimizer = Optimizer::kAdamW;
  FlashAttention flash_attention = FlashAttention::kAuto;
  DType grad_dtype = DType::kFp32;  // accumulation and reduction; framework profiles may say other
  double clip_norm = 1.0;           // 0: off
  std::int64_t bucket_elements = 40'000'000;  // gradients reduced together
  double dropout = 0.0;                       // default 0.1 for gpt, bert, t5; 0 for llama
  KernelSet kernels = KernelSet::kCuda;
  std::int64_t steps = 100;
  LearningRate lr;
  std::array<double, 2> betas = {0.9, 0.95};
  double eps = 1e-8;
  double weight_decay = 0.1;
  std::int64_t seed = 1;
  std::string loss_scale = "dynamic";  // fp16 only; or a number
  double timeout_s = 300;
  bool cpu_offload = false;  // another word for ZeroConfig::offload, and always says the same
  bool compiled = false;     // torch.compile: the framework's version that fuses
  bool async_tp = false;     // tensor-parallel collectives go in pieces beside their products
  friend bool operator==(const TrainingConfig&, const TrainingConfig&) = default;
};

/// Where a stage begins.
struct StageCut {
  std::int64_t layer = 0;  // at the first op of this layer, unless `at` says it
  std::string at = {};     // a module, at its first op, or what the first op writes
  friend bool operator==(const StageCut&, const StageCut&) = default;
};

struct PartitionConfig {
  std::string method = "uniform";  // a word of partition, or cuts
  bool ends = false;               // embedding and head count as layers
  bool uneven = false;             // ceil(L / stages) layers each, the rest on the last
  /// Where the methods that weigh may cut.
  enum class Between : std::uint8_t { kLayers, kOps } between = Between::kLayers;
  /// Method autopipe: the subgraphs that stages are made of, and of the farthest how many at least.
  enum class Shards : std::uint8_t { kFarthest, kNearest, kLayer } shards = Shards::kFarthest;
  std::int64_t bound = 0;  // 0: 2 x layers + 4
  /// Method search: how long it may take, counted in steps that it evaluates, so that the clock of
  /// no machine decides.
  Seconds budget = 30;
  static constexpr double kEvaluationsPerSecond = 20;
  /// Method rannc: what its paper or its code does, or the best stages that there are.
  enum class Rule : std::uint8_t { kPaper, kCode, kExact } rule = Rule::kExact;
  std::int64_t blocks = 32;  // method rannc: that stages are made of; 0: of single pieces
  double margin = 0.1;       // method rannc: of a device's memory, left free
  /// Method smp: modules on devices, which are pipeline ranks, and how they call each other.
  double memory_weight = 0.8;  // of memory in a module's cost; the rest is its time's
  enum class Times : std::uint8_t { kModel, kDescendants } times = Times::kModel;
  enum class Routing : std::uint8_t {
    kParent,  // what a module answers goes to the one that called it, and on from there
    kDirect   // to the modules that read it
  } routing = Routing::kParent;
  std::vector<std::pair<std::string, std::int32_t>> assign;  // patterns of modules; chosen or given
  std::int32_t fallback = 0;                                 // of what no pattern matches
  std::vector<StageCut> cuts;  // of stage 1, 2, ...; empty unless given or chosen
  Numbered<std::int32_t> on;   // pipeline rank of each stage; empty: where the schedule has it;
                               // method smp: it follows from where modules lie
  std::vector<double> work;   // of each stage of `on`, method smp: its forward's FLOP over the most
  std::vector<int> replicas;  // of each pipeline rank; empty: parallel.data of all
  /// Left to a planner, which puts its cuts in their place.
  bool chooses_cuts() const {
    return method == "cost" || method == "parameters" || method == "autopipe" || method == "search";
  }
  friend bool operator==(const PartitionConfig&, const PartitionConfig&) = default;
};

struct ScheduleConfig {
  std::string method = "1f1b";  // of schedule_names(), or file
  int microbatch_group = 0;     // of interleaved; 0: about one microbatch per rank
  std::string file;             // the CSV of method file
  std::string rows;  // what it holds: schedule/schedule_csv.h; of searched schedules what was found
  int memory_limit = 0;         // zb-1p, zb-2p: microbatches in flight on a rank; 0: ranks, 2 ranks
  int active_microbatches = 0;  // opportunistic: in the pipeline; 0: ranks + 2
  std::string mode =
      "dynamic";  // of searched ones; static: `train` times several orders and keeps the fastest
  bool post_validation =
      false;  // the norm of all ranks is looked at after the update (passes/post_validation.h)
  friend bool operator==(const ScheduleConfig&, const ScheduleConfig&) = default;
};

struct RecomputeConfig {
  enum class Method : std::uint8_t {
    kNone,
    kSelective,
    kByOp,
    kFull,
    kStageAware,
    kGroup,
    kRotor
  } method = Method::kNone;
  std::optional<double>
      first;  // stage-aware: share of its layers that stage 0 keeps; nullopt: auto, not chosen yet
  /// What is recomputed from its own input, and counted by `first`: a layer, or each of its
  /// sublayers (attention, cross-attention, MLP), as Merak's subgraphs are.
  enum class Unit : std::uint8_t { kLayer, kSublayer } unit = Unit::kLayer;
  int group = 1;  // of kGroup: layers checkpointed as one, at most (recompute/checkpoint_groups.h)
  int every = 1;  // of kFull: 2 recomputes every second unit of a stage, and keeps the others
  bool ends = false;  // of kFull: what is outside of a stage's layers is recomputed, too
  /// What kSelective takes: core-attn, layernorm, or patterns of module paths. Empty: the core.
  std::vector<std::string> modules;
  Bytes memory_budget = 0;  // of kRotor: of a device, within which it is chosen; 0: all it has
  /// What kRotor has each stage do with its groups of ops (passes/chain_groups.h), in the text of
  /// recompute/chain.h. Empty: not chosen yet.
  std::vector<std::string> sequences;
  friend bool operator==(const RecomputeConfig&, const RecomputeConfig&) = default;
};

/// What recomputation keeps waits in the host's memory (passes/offload.h).
struct OffloadConfig {
  bool activations = false;
  int horizon = 4;  // layers before the one that reads it, a copy back is issued
  friend bool operator==(const OffloadConfig&, const OffloadConfig&) = default;
};

struct FrameworkConfig {
  std::string name = "trainyard";
  std::string version;    // chosen by the rule of the contract unless said
  std::string like;       // whose profile a framework without one takes: "megatron-lm-current"
  std::int64_t year = 0;  // settles the version where it is not said; 0: not said
  friend bool operator==(const FrameworkConfig&, const FrameworkConfig&) = default;
};

struct Plan {
  // Compiled once, in plan.cpp: hundreds of files copy, move and destroy it.
  Plan();
  Plan(const Plan&);
  Plan(Plan&&) noexcept;
  Plan& operator=(const Plan&);
  Plan& operator=(Plan&&) noexcept;
  ~Plan();

  ModelConfig model;  // the graph made of it is given beside the plan
  ParallelConfig parallel;
  std::vector<GivenSharding> sharding;  // in the order of the study
  TrainingConfig training;
  PartitionConfig partition;
  ScheduleConfig schedule;
  RecomputeConfig recompute;
  OffloadConfig offload;
  FrameworkConfig framework;
  DocumentConfig documents;  // of the training data

  std::int64_t num_stages() const {
    return partition.on.empty() ? std::int64_t{parallel.pipeline} * parallel.virtual_stages
                                : std::ssize(partition.on);
  }
  /// Replicas, and ranks of them, for each of which a microbatch has its sequences.
  std::int64_t batch_replicas() const {
    return std::int64_t{partition.replicas.empty() ? parallel.data : 1} * parallel.batch_ranks();
  }
  std::int64_t num_microbatches() const {
    if (!training.microbatches.empty())
      return static_cast<std::int64_t>(training.microbatches.size());
    return training.global_batch / (training.microbatch * batch_replicas());
  }
  friend bool operator==(const Plan&, const Plan&);
};

}  // namespace trainyard
