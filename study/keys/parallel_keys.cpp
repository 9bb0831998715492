// The keys of `parallel:`, in the order of study.resolved.yaml.
#include "engine/plan/plan_limits.h"
#include "study/study_keys.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

using P = ParallelConfig;

template <auto member>
constexpr KeyField of_parallel() {
  return field<&Study::parallel, member>();
}

template <auto... members>
constexpr KeyField of_zero() {
  return field<&Study::parallel, &P::zero, members...>();
}

constexpr std::array<std::string_view, 1> kUnitWords = {kLayerUnits};
constexpr IntegerForm kDegree{1, kMaxRanks};
constexpr IntegerForm kOnlyOne{1, 1};

}  // namespace

const KeyTable& context_keys() {
  static const KeyTable keys = {
      {"degree", {kDegree}, "ranks that share a sequence"},
      {.name = "method",
       .forms = {WordForm{kContextMethodWords, {}, "method of context parallelism"}},
       .help = "how attention meets the keys of other ranks: they go round, are gathered, or heads "
               "are exchanged for positions",
       .fallback = "ring"},
      {.name = "balance",
       .forms = {WordForm{kContextBalanceWords, {}, "balance"}},
       .help = "zig-zag: rank c of n has the pieces c and 2n-1-c of 2n, so that all attend to as "
               "many keys; none: the c-th run, as ulysses has it",
       .fallback = "zig-zag; with ulysses none"}};
  return keys;
}

const KeyTable& split_rule_keys() {
  static const KeyTable keys = {
      {"dim", {IntegerForm{0, 1}}, "of the weight: 0 outputs or rows of a table, 1 the other one"},
      {.name = "collective",
       .forms = {WordForm{kSplitCollectiveWords, {}, "collective"}},
       .help = "behind it: summands are added up, pieces are gathered, or outputs stay split"}};
  return keys;
}

const KeyTable& tensor_method_keys() {
  static const KeyTable keys = {
      {.name = "name",
       .forms = {WordForm{tensor_method_words(), {}, "tensor_method"}},
       .help = "as the word by itself"},
      {.name = "mesh",
       .forms = {WordForm{kChosenWords}, ListForm{kDegree, 1, kMaxTensorAxes}},
       .help = "ranks along the axes, the last the closest ones; atp has two",
       .fallback = "auto: atp of least communication time, map the levels of the cluster's links",
       .matters = "atp, map"},
      {.name = "measured",
       .forms = {EntriesForm{"mesh", "^[1-9][0-9]*x[1-9][0-9]*$", ListForm{NumberForm{}, 2, 2},
                             "measured_meshes"}},
       .help =
           "{2x4: [1.2, 4.95]}: all-reduce bandwidths along the axes of meshes in GB/s, 0 of an "
           "axis of one rank; auto chooses among these",
       .fallback = "what the cluster's links say",
       .matters = "atp"},
      {.name = "chunks",
       .forms = {IntegerForm{1, kMaxTensorChunks}},
       .help = "the same as parallel.tensor_overlap: {chunks: N}; 1: none",
       .fallback = "1",
       .matters = "atp"},
      {.name = "table",
       .forms = {EntriesForm{"modules", "^.+$", MapForm{split_rule_keys, "", {"dim", "collective"}},
                             "split_table"}},
       .help =
           "{\"*.mlp.fc1\": {dim: 0, collective: none}}: how products and tables of modules are "
           "split, before the entries that the models' families have",
       .fallback = "the families'",
       .matters = "auto"},
      {.name = "optimize",
       .forms = {WordForm{kOptimizeWords, {}, "optimize"}},
       .help = "memory: features are split between ops, too; speed: as Megatron-LM splits layers",
       .fallback = "memory",
       .matters = "smp"},
      {.name = "prescaled_batch",
       .forms = {FlagForm{}},
       .help = "the ranks of a tensor group are given the same samples; false: each its own",
       .fallback = "false",
       .matters = "smp"},
      {.name = "memory_budget",
       .forms = {QuantityForm{"60 GiB"}},
       .help = "of a device, within which the splits of ops are chosen",
       .fallback = "what the device has",
       .matters = "map"},
      {.name = "ops",
       .forms = {ShardingForm{}},
       .help = "what was chosen: by the name of what an op makes, {strategy: {o: [tp1]}, result: "
               "SPEC}; with it nothing is",
       .fallback = "chosen by cost",
       .matters = "map"}};
  return keys;
}

const KeyTable& zero_offload_keys() {
  static const KeyTable keys = {
      {.name = "optimizer",
       .forms = {WordForm{kPlaceWords, {}, "place"}},
       .help = "where its state lies; the host updates what does not lie on the device",
       .field = of_zero<&ZeroConfig::offload, &ZeroConfig::Offload::optimizer>(),
       .matters = "stages 1 to 3"},
      {.name = "parameters",
       .forms = {WordForm{kPlaceWords, {}, "place"}},
       .help = "where shards lie, from which units are fetched one further ahead than prefetch",
       .field = of_zero<&ZeroConfig::offload, &ZeroConfig::Offload::parameters>(),
       .matters = "stage 3"}};
  return keys;
}

const KeyTable& tensor_overlap_keys() {
  static const KeyTable keys = {
      {.name = "scope",
       .forms = {WordForm{kTensorOverlapWords, {}, "tensor_overlap"}},
       .help = "behind what chunks are joined: every product and its collective (linear), every "
               "layer (block), all layers of a stage (across-blocks)",
       .fallback = "block"},
      {.name = "chunks",
       .forms = {IntegerForm{2, kMaxTensorChunks}},
       .help = "of a microbatch, alike in size",
       .fallback = "2"}};
  return keys;
}

const KeyTable& zero_keys() {
  static const KeyTable keys = {
      {"stage",
       {IntegerForm{0, 3}},
       "what the replicas divide: 0 nothing, 1 optimizer state, 2 gradients too, 3 parameters too"},
      {.name = "by",
       .forms = {WordForm{kZeroByWords, {}, "way to divide"}},
       .help = "what each replica keeps the state of: shards, or whole parameters",
       .fallback = "shard",
       .matters = "stage 1"},
      {.name = "replicate",
       .forms = {kDegree},
       .help = "groups of replicas that each divide all among themselves (HSDP); with "
               "partition.replicas, groups of each pipeline rank's",
       .field = of_zero<&ZeroConfig::replicate>(),
       .matters = "stages 1 to 3"},
      {.name = "reduce",
       .forms = {WordForm{kZeroReduceWords, {}, "time to reduce"}},
       .help = "gradients are reduced in each microbatch, or in the last one of a step",
       .field = of_zero<&ZeroConfig::reduce>(),
       .fallback = "each; last of stage 0, and in a pipeline of stage 2 and of FSDP2",
       .matters = "stages 0, 2 and 3"},
      {.name = "reduce_dtype",
       .forms = {WordForm{kReduceTypeWords, {}, "type"}},
       .help = "of the gradients of a microbatch, and of their reduction",
       .fallback = "training.grad_dtype; under pytorch-fsdp the weights' type",
       .matters = "stages 2 and 3"},
      {.name = "offload",
       .forms = {WordForm{kZeroOffloadWords, {}, "part of the training state"},
                 MapForm{zero_offload_keys, "where each part lies"}},
       .help = "what lies in the host's memory: the optimizer's state, which the host updates "
               "(ZeRO-Offload), or parameters (ZeRO-Infinity); {optimizer: nvme, parameters: "
               "host}: where each of them lies",
       .fallback = "none",
       .matters = "stages 1 to 3"},
      {.name = "units",
       .forms = {WordForm{kUnitWords}, ListForm{TextForm{}}},
       .help = "what is gathered together: layers, or the modules that patterns match",
       .fallback = "layer",
       .matters = "stage 3"},
      {.name = "layout",
       .forms = {WordForm{kZeroLayoutWords, {}, "layout"}},
       .help =
           "how a unit is divided: all its parameters in one run, padded at its end (FSDP1), or "
           "each by its rows, with copies out of what is gathered and into what is reduced "
           "(FSDP2)",
       .fallback = "the framework's; trainyard's flat",
       .matters = "stage 3"},
      {.name = "gather_dtype",
       .forms = {WordForm{kFp8GatherWords, {}, "type of gathers"}},
       .help = "of weights that FP8 products alone read: as others, or cast before they are "
               "gathered (recipe tensorwise)",
       .fallback = "bf16",
       .matters = "stage 3, fp8"},
      {.name = "precompute_scales",
       .forms = {FlagForm{}},
       .help = "largest elements of all weights that are gathered in 8 bits are reduced at once "
               "at the begin of a step; false: of each unit's in front of each gather",
       .field = of_zero<&ZeroConfig::precomputes_scales>(),
       .matters = "stage 3, fp8"},
      {.name = "prefetch",
       .forms = {IntegerForm{0, kMaxLayers}},
       .help = "units ahead of the one that computes that a gather is issued",
       .field = of_zero<&ZeroConfig::prefetch>(),
       .matters = "stage 3"},
      {.name = "gathers_in_flight",
       .forms = {IntegerForm{1, kMaxLayers}},
       .help = "units gathered at once, the one that computes among them",
       .field = of_zero<&ZeroConfig::gathers_in_flight>(),
       .matters = "stage 3"},
      {.name = "reshard_after_forward",
       .forms = {FlagForm{}, kDegree},
       .help = "gathered parameters are freed behind the forward; false: behind the backward; n: "
               "they are divided by n neighbours between the two",
       .fallback = "true",
       .matters = "stage 3"}};
  return keys;
}

const KeyTable& parallel_keys() {
  static const KeyTable keys = {
      {.name = "tensor",
       .forms = {kDegree, EntriesForm{"axis", "^tp[0-3]$", kDegree, "tensor_axes"}},
       .help = "ranks that share each layer; {tp0: 2, tp1: 4}: on several axes, the last fastest",
       .field = of_parallel<&P::tensor>(),
       .aliases = {"tp"}},
      {.name = "pipeline",
       .forms = {kDegree},
       .help = "ranks that share the stack of layers",
       .field = of_parallel<&P::pipeline>(),
       .aliases = {"pp"}},
      {.name = "data",
       .forms = {kDegree},
       .help = "replicas",
       .field = of_parallel<&P::data>(),
       .fallback = "devices / (tensor x pipeline x context)",
       .aliases = {"dp"}},
      {.name = "virtual_stages",
       .forms = {IntegerForm{1, kMaxLayers}},
       .help = "stages per pipeline rank",
       .field = of_parallel<&P::virtual_stages>(),
       .fallback = "1; those that the schedule has, where it has a number of its own",
       .aliases = {"vpp"},
       .matters = "interleaved"},
      {.name = "context",
       .forms = {kDegree, MapForm{context_keys, "context parallelism", {"degree"}, {}, "degree"}},
       .help = "ranks that share a sequence",
       .fallback = "1",
       .aliases = {"cp"}},
      {.name = "expert",
       .forms = {kOnlyOne},
       .help = "ranks that share the experts; 1 in this version",
       .field = of_parallel<&P::expert>(),
       .aliases = {"ep"}},
      {.name = "sequence_parallel",
       .forms = {FlagForm{}},
       .help = "activations between layers are split over the tensor group",
       .field = of_parallel<&P::sequence_parallel>(),
       .aliases = {"sp"}},
      {.name = "zero",
       .forms = {IntegerForm{0, 3}, MapForm{zero_keys, "ZeRO", {"stage"}, {}, "stage"}},
       .help = "stage of ZeRO",
       .fallback = "0"},
      {.name = "fsdp", .forms = {FlagForm{}}, .help = "true: stage 3 of ZeRO", .fallback = "false"},
      {.name = "placement",
       .forms = {TextForm{R"(^(cluster|spread|stages|flat|(?!.*(.).*\2)[DPCET]+)$)"}},
       .help = "letters D, P, C, E, T, rightmost fastest, such as DPT; or cluster (DPT), spread "
               "(TPD), stages (PDT), flat (DPT); with partition.replicas stages or flat",
       .field = of_parallel<&P::placement>(),
       .fallback = "the framework's"},
      {.name = "scatter_gather",
       .forms = {FlagForm{}},
       .help = "pipeline sends are split over the tensor group",
       .field = of_parallel<&P::scatter_gather>(),
       .fallback = "the framework's"},
      {.name = "tensor_method",
       .forms = {WordForm{tensor_method_words()},
                 MapForm{tensor_method_keys, "how layers are split", {"name"}, {}, "name"}},
       .help =
           "how layers are split: as Megatron-LM splits them, on a mesh of two axes (atp), by a "
           "table (auto), over ranks with samples of their own (smp), op by op as costs least "
           "(map), "
           "or activations and weights both in two (summa-2d, summa-2.5d) or three dimensions (3d)",
       .field = of_parallel<&P::tensor_method>()},
      {.name = "tensor_modules",
       .forms = {ListForm{TextForm{}}},
       .help = "patterns of the modules that are split; all in them are",
       .fallback = "all"},
      {.name = "tensor_overlap",
       .forms = {WordForm{kTensorOverlapWords},
                 MapForm{tensor_overlap_keys, "a microbatch in chunks", {}, {}, "scope"}},
       .help = "chunks of a microbatch, two unless said, hide each other's collectives: within a "
               "product, within each layer or across all of a stage",
       .fallback = "none"},
      {.name = "d2d_buffer",
       .forms = {QuantityForm{"1 GiB"}},
       .help = "of a rank, for pipeline transfers between devices",
       .fallback = "they need no buffer"}};
  return keys;
}

}  // namespace trainyard
