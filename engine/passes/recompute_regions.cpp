#include "engine/passes/recompute_regions.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "engine/passes/given_modules.h"
#include "engine/recompute/checkpoint_groups.h"
#include "engine/recompute/stage_aware.h"

namespace trainyard {

namespace {

using Region = std::vector<std::size_t>;  // indices into TrainingGraph::forward, ascending

constexpr std::string_view kAttentionCore = "core-attn";
constexpr std::string_view kNorms = "layernorm";

bool connects_stages(const Instruction& op) {
  const bool flat = op.attrs->dim < 0;
  return op.kind == OpKind::kLoad || op.kind == OpKind::kSend ||
         (flat && (op.kind == OpKind::kSlice || op.kind == OpKind::kAllGather));
}

/// The ops between the qkv projection and the output projection, but for those that `taken` has.
std::vector<Region> attention_cores(const TrainingGraph& training, const std::vector<bool>& taken) {
  // By layer, module, chunk and stage.
  std::map<std::tuple<std::int32_t, PathId, int, std::int32_t>, Region> by_module;
  for (std::size_t i = 0; i < training.forward.size(); ++i) {
    if (taken[i]) continue;
    const Instruction& op = training.forward[i];
    const bool core = op.attrs->heads > 0 && op.kind != OpKind::kRope &&
                      op.kind != OpKind::kHeadNorm && op.kind != OpKind::kRelativeBias &&
                      op.kind != OpKind::kFlashAttention && op.kind != OpKind::kBlockAttention &&
                      op.attrs->states == 0 &&
                      !(op.kind == OpKind::kSplit && op.attrs->packed && op.writes.size() == 2);
    if (core) by_module[{op.layer, op.module, op.chunk, op.stage}].push_back(i);
  }
  std::vector<Region> regions;
  regions.reserve(by_module.size());
  for (auto& [key, region] : by_module) regions.push_back(std::move(region));
  return regions;
}

/// What an embedding found, summed over the tensor group where it lies: not to be done again when
/// the embedding itself is kept, since its storage holds the sum already.
bool sums_embedding(const TrainingGraph& training, const Instruction& op) {
  if (op.kind != OpKind::kAllReduce) return false;
  const OpId producer = training.graph.tensors[op.reads[0]].producer;
  return producer != kNoIndex && training.graph.ops[producer].kind == OpKind::kEmbedding;
}

/// Neither data, nor what connects stages, nor what an embedding found.
bool may_recompute(const TrainingGraph& training, const Instruction& op) {
  return !connects_stages(op) && op.kind != OpKind::kEmbedding && !sums_embedding(training, op);
}

/// What is outside of layers, in front of a stage's and behind them; none is empty.
std::vector<Region> model_ends(const TrainingGraph& training) {
  Numbered<bool> behind(training.num_stages, false);
  std::map<std::pair<std::int32_t, bool>, Region> found;
  for (std::size_t i = 0; i < training.forward.size(); ++i) {
    const Instruction& op = training.forward[i];
    if (op.layer >= 0) behind[op.stage] = true;
    if (op.layer < 0 && may_recompute(training, op))
      found[{op.stage, behind[op.stage]}].push_back(i);
  }
  std::vector<Region> out;
  for (auto& [where, region] : found) out.push_back(std::move(region));
  return out;
}

/// Whole layers, or their sublayers, as far as one stage has them; none is empty.
std::vector<Region> units(const TrainingGraph& training, RecomputeConfig::Unit unit) {
  const bool whole = unit == RecomputeConfig::Unit::kLayer;
  std::map<std::tuple<std::int32_t, int, std::int32_t>, Region> found;  // layer, sublayer, stage
  for (std::size_t i = 0; i < training.forward.size(); ++i) {
    const Instruction& op = training.forward[i];
    if (op.layer < 0 || !may_recompute(training, op)) continue;
    found[{op.layer, whole ? 0 : op.sublayer, op.stage}].push_back(i);
  }
  std::vector<Region> out;
  for (auto& [where, region] : found) out.push_back(std::move(region));
  return out;
}

std::int32_t stage_of(const TrainingGraph& training, const Region& region) {
  return training.forward[region.front()].stage;
}

/// [stage]: how many of `regions` it has.
Numbered<int> count_by_stage(const TrainingGraph& training, const std::vector<Region>& regions) {
  Numbered<int> out(training.num_stages, 0);
  for (const Region& region : regions) ++out[stage_of(training, region)];
  return out;
}

/// Units that their stages recompute: the first ones of each, or every second, third, ... of them.
std::vector<Region> recomputed_units(const TrainingGraph& training, const RecomputeConfig& config,
                                     const Numbered<double>& kept) {
  std::vector<Region> all = units(training, config.unit);
  Numbered<int> left = count_by_stage(training, all);
  Numbered<int> seen(left.size(), 0);
  for (const std::int64_t stage : kept.keys())
    left[stage] = num_recomputed(left[stage], kept[stage]);
  std::vector<Region> out;
  for (Region& region : all) {
    const std::int32_t stage = stage_of(training, region);
    const bool in_turn = ++seen[stage] % config.every == 0;
    if (left[stage]-- > 0 && in_turn) out.push_back(std::move(region));
  }
  return out;
}

/// "encoder" of an op of "encoder.layers.3.mlp.fc1".
std::string_view stack_of(const TrainingGraph& training, const Instruction& op) {
  const std::string_view module = training.graph.modules[op.module];
  return module.substr(0, module.find('.'));
}

/// Layers joined to groups, each within one stage and one stack.
std::vector<Region> grouped(const TrainingGraph& training, const std::vector<Region>& layers,
                            int most) {
  std::vector<int> run;  // [layer]: one number for layers of one stage and stack
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const Instruction& op = training.forward[layers[i].front()];
    const Instruction& before = training.forward[layers[i == 0 ? 0 : i - 1].front()];
    const bool same =
        op.stage == before.stage && stack_of(training, op) == stack_of(training, before);
    run.push_back(i == 0 ? 0 : run.back() + (same ? 0 : 1));
  }
  std::vector<Region> groups;
  for (const auto& members : checkpoint_groups(run, most)) {
    Region& group = groups.emplace_back();
    for (const std::size_t i : members)
      group.insert(group.end(), layers[i].begin(), layers[i].end());
    std::sort(group.begin(),
              group.end());  // chunks of a microbatch go on to the next layer in turn
  }
  return groups;
}

/// Rows of a product that PyTorch would have as several, and of these those that "by op" keeps: the
/// first, third, ... product of a layer. `before`: products of the layer in front of it.
struct ProductRows {
  std::int64_t all = 0, kept = 0;
  std::int32_t products = 0;
};

ProductRows rows_of_product(const TrainingGraph& training, const Instruction& op,
                            std::int32_t before) {
  ProductRows rows;
  for (const TensorId read : op.reads) {
    const ParameterId parameter = training.graph.tensors[read].parameter;
    if (parameter == kNoIndex) continue;
    if (!holds_weights(training.graph.parameters[parameter])) break;
    for (const ParameterPart& part : training.graph.parameters[parameter].parts) {
      rows.all += part.rows;
      if ((before + rows.products) % 2 == 0) rows.kept += part.rows;
      ++rows.products;
    }
    break;  // the weight; a bias goes with it
  }
  if (rows.products == 0) return {1, before % 2 == 0 ? 1 : 0, 1};
  return rows;
}

/// [Note: by op], for one layer after the other.
class KeptOps {
 public:
  explicit KeptOps(const TrainingGraph& training) : training_(training) {}

  RecomputeRegion region_of(const Region& layer) {
    RecomputeRegion region;
    std::map<int, std::int32_t> products;  // by chunk: of this layer so far
    std::set<TensorId> kept;               // written by ops that are
    for (const std::size_t i : layer) {
      const Instruction& op = training_.forward[i];
      // A sum over the tensor group lies where its operand does: what is kept is summed already.
      const bool sums_kept = op.kind == OpKind::kAllReduce && kept.contains(op.reads[0]);
      if (!sums_kept && !is_kept(op, products[op.chunk])) {
        region.ops.push_back(i);
        continue;
      }
      region.kept.push_back(i);
      kept.insert(op.writes.begin(), op.writes.end());
    }
    return region;
  }

 private:
  bool is_kept(const Instruction& op, std::int32_t& products) {
    if (op.kind == OpKind::kFlashAttention || op.kind == OpKind::kBlockAttention ||
        op.kind == OpKind::kReduceScatter)
      return true;
    if (op.kind != OpKind::kLinear) return false;
    const ProductRows rows = rows_of_product(training_, op, products);
    std::int64_t& owed = owed_[{op.chunk, products}];
    products += rows.products;
    owed += rows.kept;
    if (owed < rows.all) return false;
    owed -= rows.all;
    return true;
  }

  const TrainingGraph& training_;
  std::map<std::pair<int, std::int32_t>, std::int64_t>
      owed_;  // by chunk and number within the layer: kept rows less those of layers that kept it
};

std::vector<RecomputeRegion> by_op(const TrainingGraph& training, const Numbered<double>& kept) {
  KeptOps ops(training);
  std::vector<RecomputeRegion> regions;
  for (const Region& layer : units(training, RecomputeConfig::Unit::kLayer)) {
    if (kept[stage_of(training, layer)] < 1) regions.push_back(ops.region_of(layer));
  }
  return regions;
}

/// The outermost module around `path`, or itself, that one of the patterns matches; "": none.
std::string_view matched_module(std::string_view path, const std::vector<std::string>& modules) {
  for (std::size_t end = path.find('.');; end = path.find('.', end + 1)) {
    const std::string_view around = path.substr(0, end);
    for (const std::string& entry : modules) {
      if (!is_word_of_modules(entry) && matches_pattern(entry, around)) return around;
    }
    if (end == std::string_view::npos) return {};
  }
}

/// Each module of a layer that a pattern of recompute.modules matches, from its input.
std::vector<Region> matched_modules(const TrainingGraph& training, const RecomputeConfig& config) {
  // By layer, path, chunk and stage.
  std::map<std::tuple<std::int32_t, std::string_view, int, std::int32_t>, Region> by_module;
  for (std::size_t i = 0; i < training.forward.size(); ++i) {
    const Instruction& op = training.forward[i];
    if (op.layer < 0 || connects_stages(op) || op.kind == OpKind::kEmbedding) continue;
    const std::string_view module =
        matched_module(training.graph.modules[op.module], config.modules);
    if (!module.empty()) by_module[{op.layer, module, op.chunk, op.stage}].push_back(i);
  }
  std::vector<Region> regions;
  regions.reserve(by_module.size());
  for (auto& [key, region] : by_module) regions.push_back(std::move(region));
  return regions;
}

bool has_module(const RecomputeConfig& config, std::string_view word) {
  return std::find(config.modules.begin(), config.modules.end(), word) != config.modules.end();
}

/// [index into forward]: whether a region has it.
std::vector<bool> taken_by(const TrainingGraph& training, const std::vector<Region>& regions) {
  std::vector<bool> taken(training.forward.size(), false);
  for (const Region& region : regions) {
    for (const std::size_t i : region) taken[i] = true;
  }
  return taken;
}

/// Without modules the attention core.
std::vector<Region> selected(const TrainingGraph& training, const RecomputeConfig& config) {
  std::vector<Region> regions = matched_modules(training, config);
  if (config.modules.empty() || has_module(config, kAttentionCore)) {
    for (Region& core : attention_cores(training, taken_by(training, regions)))
      regions.push_back(std::move(core));
  }
  return regions;
}

/// Those of stages that recompute.
std::vector<RecomputeRegion> where_recomputed(const TrainingGraph& training,
                                              std::vector<Region> regions,
                                              const Numbered<double>& kept) {
  std::vector<RecomputeRegion> out;
  for (Region& region : regions) {
    if (kept[stage_of(training, region)] < 1) out.push_back({std::move(region)});
  }
  return out;
}

}  // namespace

bool is_word_of_modules(std::string_view entry) {
  return entry == kAttentionCore || entry == kNorms;
}

std::vector<RecomputeRegion> sequence_gathers(const TrainingGraph& training) {
  std::vector<RecomputeRegion> regions;
  std::unordered_map<TensorId, std::size_t> region_of;  // of what is gathered
  for (std::size_t i = 0; i < training.forward.size(); ++i) {
    const Instruction& op = training.forward[i];
    if (op.kind == OpKind::kAllGather && op.attrs->partial_gradient) {
      region_of.emplace(op.writes[0], regions.size());
      regions.push_back({{i}});
    } else if (op.kind == OpKind::kQuantize) {
      const auto gathered = region_of.find(op.reads[0]);
      if (gathered != region_of.end()) regions[gathered->second].ops.push_back(i);
    }
  }
  return regions;
}

std::vector<RecomputeRegion> attention_cores(const TrainingGraph& training) {
  std::vector<RecomputeRegion> out;
  for (Region& core : attention_cores(training, std::vector<bool>(training.forward.size(), false)))
    out.push_back({std::move(core)});
  return out;
}

Numbered<int> num_units(const TrainingGraph& training, RecomputeConfig::Unit unit) {
  return count_by_stage(training, units(training, unit));
}

std::vector<RecomputeRegion> recomputed_regions(const TrainingGraph& training,
                                                const RecomputeConfig& config,
                                                const Numbered<double>& kept) {
  switch (config.method) {
    case RecomputeConfig::Method::kNone:
    case RecomputeConfig::Method::kRotor: return {};
    case RecomputeConfig::Method::kSelective:
      return where_recomputed(training, selected(training, config), kept);
    case RecomputeConfig::Method::kByOp: return by_op(training, kept);
    case RecomputeConfig::Method::kFull:
    case RecomputeConfig::Method::kStageAware:
    case RecomputeConfig::Method::kGroup: {
      std::vector<RecomputeRegion> regions;
      for (Region& group :
           grouped(training, recomputed_units(training, config, kept), config.group))
        regions.push_back({std::move(group)});
      if (!config.ends) return regions;
      for (RecomputeRegion& end : where_recomputed(training, model_ends(training), kept))
        regions.push_back(std::move(end));
      return regions;
    }
  }
  return {};
}

std::vector<RecomputeRegion> discarded_norms(const TrainingGraph& training,
                                             const RecomputeConfig& config,
                                             const Numbered<double>& kept) {
  if (config.method != RecomputeConfig::Method::kSelective || !has_module(config, kNorms))
    return {};
  const std::vector<bool> taken = taken_by(training, matched_modules(training, config));
  std::vector<Region> norms;
  for (std::size_t i = 0; i < training.forward.size(); ++i) {
    const Instruction& op = training.forward[i];
    const bool norm = op.kind == OpKind::kLayerNorm || op.kind == OpKind::kRmsNorm ||
                      op.kind == OpKind::kNormalize;
    if (norm && op.layer >= 0 && !taken[i]) norms.push_back({i});
  }
  return where_recomputed(training, std::move(norms), kept);
}

}  // namespace trainyard
