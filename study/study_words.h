// The words that a study's keys take, and the words of the contract that this version does not
// have yet. The reader, the writer and the JSON schema share these lists.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "engine/base/indexed.h"
#include "engine/plan/plan.h"
#include "engine/plan/tensor_overlap.h"

namespace trainyard {

// In the order of the enumerators that they name.
inline constexpr std::array<std::string_view, 14> kFamilyWords = {
    "gpt",      "bert", "t5",   "llama", "vit",    "resnet", "vgg",
    "densenet", "swin", "unet", "ncf",   "mamba2", "clip",   "onnx"};
inline constexpr std::array<std::string_view, 3> kImportedLossWords = {
    "cross_entropy", "mean_square", "binary_cross_entropy"};
inline constexpr std::array<std::string_view, 1> kAutoWords = {"auto"};
inline constexpr std::array<std::string_view, 2> kLossDivisorWords = {"elements", "samples"};
inline constexpr std::array<std::string_view, 4> kPositionsWords = {"learned", "rotary", "alibi",
                                                                    "scaled-alibi"};
inline constexpr std::array<std::string_view, 3> kResidualWords = {"sequential", "parallel",
                                                                   "parallel-one-norm"};
inline constexpr std::array<std::string_view, 2> kBatchNormWords = {"replica", "synchronised"};
inline constexpr std::array<std::string_view, 5> kActivationWords = {"gelu", "gelu-tanh", "relu",
                                                                     "swiglu", "geglu"};
inline constexpr std::array<std::string_view, 2> kKernelWords = {"cpu", "cuda"};
inline constexpr std::array<std::string_view, 2> kOptimizerWords = {"adamw", "sgd"};
inline constexpr IndexedArray<ZeroConfig::By, std::string_view, 2> kZeroByWords = {"shard",
                                                                                   "parameter"};
inline constexpr IndexedArray<ZeroConfig::Reduce, std::string_view, 2> kZeroReduceWords = {"each",
                                                                                           "last"};
/// How a unit is laid out: By::kShard and By::kRows.
inline constexpr std::array<std::string_view, 2> kZeroLayoutWords = {"flat", "per-parameter"};
/// What parallel.zero.offload has on the host, where one word says it.
inline constexpr std::array<std::string_view, 3> kZeroOffloadWords = {"none", "optimizer",
                                                                      "parameters"};
inline constexpr IndexedArray<ZeroConfig::Place, std::string_view, 3> kPlaceWords = {
    "device", "host", "nvme"};
inline constexpr std::array<std::string_view, 3> kReduceTypeWords = {"fp32", "bf16", "fp16"};
inline constexpr std::string_view kLayerUnits = "layer";  // of parallel.zero.units
inline constexpr IndexedArray<ContextConfig::Method, std::string_view, 3> kContextMethodWords = {
    "ring", "all-gather", "ulysses"};
inline constexpr IndexedArray<ContextConfig::Balance, std::string_view, 2> kContextBalanceWords = {
    "zig-zag", "none"};
inline constexpr IndexedArray<RecomputeConfig::Unit, std::string_view, 2> kRecomputeUnitWords = {
    "layer", "sublayer"};  // of RecomputeConfig::Unit
inline constexpr IndexedArray<RecomputeConfig::Method, std::string_view, 7> kRecomputeWords = {
    "none", "selective", "by-op", "full", "stage-aware", "group", "rotor"};

inline constexpr std::array<std::string_view, 6> kPrecisionWords = {"fp32", "tf32", "fp16",
                                                                    "bf16", "fp8",  "fp64"};
inline constexpr std::array<std::string_view, 5> kFp8RecipeWords = {
    "tensorwise", "delayed", "rowwise", "blockwise-128", "mx"};  // of Fp8Recipe, from kTensorwise
inline constexpr IndexedArray<AmaxFusion, std::string_view, 3> kAmaxFusionWords = {
    "none", "norms-and-activations", "all"};
inline constexpr std::array<std::string_view, 2> kFp8GatherWords = {"bf16", "fp8"};
inline constexpr std::array<std::string_view, 4> kGradientWords = {"fp32", "fp16", "bf16", "fp64"};
inline constexpr std::array<std::string_view, 3> kScheduleModeWords = {"dynamic", "static", "fast"};
/// Names and short names of schedule_names(), whose rows say the rest.
std::span<const std::string_view> schedule_words();
inline constexpr std::array<std::string_view, 9> kPartitionWords = {
    "uniform", "uniform-floor",   "cost",  "parameters", "autopipe",
    "search",  "search-pipeline", "rannc", "smp"};
inline constexpr IndexedArray<PartitionConfig::Times, std::string_view, 2> kModuleTimeWords = {
    "model", "descendants"};
/// The same, and a study's own: what TimesOfOps says.
inline constexpr std::array<std::string_view, 3> kPartitionTimesWords = {"model", "descendants",
                                                                         "emulate"};
inline constexpr IndexedArray<PartitionConfig::Routing, std::string_view, 2> kRoutingWords = {
    "parent", "direct"};
inline constexpr IndexedArray<PartitionConfig::Rule, std::string_view, 3> kRuleWords = {
    "paper", "code", "exact"};
inline constexpr IndexedArray<PartitionConfig::Shards, std::string_view, 3> kShardWords = {
    "farthest", "nearest", "layer"};
inline constexpr IndexedArray<PartitionConfig::Between, std::string_view, 2> kBetweenWords = {
    "layers", "ops"};
/// Those of tensor_methods().
std::span<const std::string_view> tensor_method_words();
inline constexpr IndexedArray<SplitRule::Collective, std::string_view, 3> kSplitCollectiveWords = {
    "none", "all_reduce", "all_gather"};
inline constexpr IndexedArray<SmpConfig::Optimize, std::string_view, 2> kOptimizeWords = {"memory",
                                                                                          "speed"};
inline constexpr std::array<std::string_view, 1> kChosenWords = {"auto"};
inline constexpr IndexedArray<TensorOverlap::Scope, std::string_view, 4> kTensorOverlapWords = {
    "none", "linear", "block", "across-blocks"};
inline constexpr std::array<std::string_view, 3> kFidelityWords = {"analytic", "fluid", "step"};
// Inside a node, then between nodes. Files of calibrate/links/ begin with one of them.
inline constexpr std::array<std::string_view, 18> kLinkWords = {
    "nvswitch",       "nvlink",      "nvlink-bridge",  "nvlink-cube-mesh",
    "pcie",           "pcie-switch", "pcie-host",      "loopback",
    "nvlink-network", "infiniband",  "infiniband-edr", "infiniband-hdr",
    "infiniband-ndr", "roce",        "ethernet",       "efa",
    "omni-path",      "none"};
inline constexpr std::string_view kLocalCluster = "local";  // the preset that is this machine
inline constexpr std::array<std::string_view, 1> kLocalWords = {kLocalCluster};
inline constexpr std::array<std::string_view, 5> kFabricWords = {
    "single-switch", "fat-tree", "rail-optimised", "dragonfly", "torus"};
inline constexpr std::array<std::string_view, 2> kLearningRateWords = {"constant", "cosine"};
inline constexpr std::array<std::string_view, 4> kDataKindWords = {"tokens", "images", "pairs",
                                                                   "tensors"};
inline constexpr std::string_view kFileDocuments = "file";  // of data.documents.lengths
inline constexpr std::array<std::string_view, 4> kDataFormatWords = {"megatron", "u16", "u32",
                                                                     "text"};
inline constexpr std::array<std::string_view, 4> kProvenanceWords = {"measured", "fitted",
                                                                     "datasheet", "derived"};
inline constexpr std::array<std::string_view, 6> kCollectives = {
    "all_reduce", "all_gather", "reduce_scatter", "all_to_all", "broadcast", "reduce"};
/// Words of cluster.collectives; an all_reduce's are those of cost/all_reduce_algorithm.h.
std::span<const std::string_view> collective_words(std::string_view collective);
inline constexpr std::array<std::string_view, 7> kAnnotations = {
    "id", "source", "confidence", "note", "suspect", "era", "measured"};

}  // namespace trainyard
