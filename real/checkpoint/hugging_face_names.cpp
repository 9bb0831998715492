#include "real/checkpoint/hugging_face_names.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "engine/base/error.h"
#include "models/model.h"
#include "real/checkpoint/hugging_face_tables.h"
#include "real/checkpoint/name_pattern.h"
#include "real/checkpoint/stored_weights.h"

namespace trainyard {

namespace {

/// Those of the model's attention; 1 where it has none.
std::int64_t kv_heads_of(const Graph& graph) {
  for (const Op& op : graph.ops) {
    if (op.attrs->kv_heads > 0) return op.attrs->kv_heads;
  }
  return 1;
}

/// Rows of the q of a head, whose q, k and v are `stored`: a head each has a column of the table of
/// relative positions beside them.
std::int64_t rows_of_head(const StoredWeight& stored, const std::vector<StoredWeight>& all) {
  const std::string module = stored.name.substr(0, stored.name.rfind(".qkv."));
  const auto table = std::find_if(all.begin(), all.end(), [&](const StoredWeight& weight) {
    return weight.name == module + ".position_bias.weight";
  });
  check(table != all.end(), "heads have a table of relative positions");
  return stored.shape.front() / 3 / table->shape[1];
}

/// Layers of each stage, where theirs counts them by stage.
std::vector<std::int64_t> stages_of(HuggingFaceType type, std::int64_t layers) {
  if (type == HuggingFaceType::kSwin) return swin_stages(layers);
  if (type != HuggingFaceType::kResnet) return {};
  for (const std::int64_t depth : depths_of(Family::kResnet)) {
    std::vector<std::int64_t> blocks = blocks_by_stage(Family::kResnet, depth);
    // Networks of as many blocks have them in the same stages, whatever blocks are made of.
    if (std::accumulate(blocks.begin(), blocks.end(), std::int64_t{0}) == layers) return blocks;
  }
  bug("a residual network of no known depth");
}

/// What stacked weights have in common, once all are known: how many rows there are, and of those
/// that lie by groups, where a group's are.
void place_rows(std::vector<HuggingFaceWeight>& weights, std::int64_t groups) {
  std::map<std::string, std::int64_t> rows;  // of each tensor of theirs, so far
  for (HuggingFaceWeight& weight : weights) {
    std::int64_t& stacked = rows[weight.theirs];
    weight.first_row = stacked;
    stacked += held_rows(weight);
  }
  for (HuggingFaceWeight& weight : weights) {
    weight.rows = rows[weight.theirs];
    weight.their_shape.front() = weight.rows;
    if (weight.transposed) std::swap(weight.their_shape[0], weight.their_shape[1]);
    if (weight.boxed) weight.their_shape.insert(weight.their_shape.begin(), 1);
    if (weight.bare) weight.their_shape.erase(weight.their_shape.begin());
    if (weight.run == 0) continue;
    weight.first_row /= groups;
    weight.run = weight.shape.front() / groups;
    weight.stride = weight.rows / groups;
  }
}

}  // namespace

Graph graph_of_weights(const ModelConfig& config) {
  return build_model(config, {.microbatch = std::max<std::int64_t>(1, config.contrast)});
}

std::vector<HuggingFaceWeight> hugging_face_weights(HuggingFaceType type, const Graph& graph) {
  std::vector<HuggingFaceWeight> weights;
  bool is_untied = false;
  const std::vector<StoredWeight> stored = stored_weights(graph);
  for (const StoredWeight& weight : stored) is_untied |= weight.name == "mlm_head.weight";
  const auto all = name_tables(type);
  const std::vector<std::int64_t> stages = stages_of(type, graph.num_layers);
  for (const StoredWeight& weight : stored) {
    bool is_found = false;
    for (const std::span<const NameRow> table : all) {
      for (const NameRow& row : table) {
        if (row.untied ? !is_untied : is_found && row.of_heads <= 1) continue;
        const auto theirs = renamed(row.ours, row.theirs, weight.name, stages);
        if (!theirs) continue;
        is_found |= !row.untied;
        HuggingFaceWeight& one = weights.emplace_back();
        one.ours = weight.name, one.shape = weight.shape, one.theirs = *theirs;
        one.transposed = row.transposed && weight.shape.size() == 2;
        one.run = row.grouped ? 1 : 0;  // until all rows are known
        one.boxed = row.boxed, one.their_shape = weight.dims;
        if (row.lacks == 2) one.their_shape.erase(one.their_shape.begin() + 1);
        one.bare = row.lacks == 1, one.offset = row.offset;
        if (row.of_heads > 0) one.part = {row.of_heads - 1, 3, rows_of_head(weight, stored)};
      }
    }
    if (!is_found) bug("no name in Hugging Face's models for " + weight.name);
  }
  place_rows(weights, kv_heads_of(graph));
  return weights;
}

}  // namespace trainyard
