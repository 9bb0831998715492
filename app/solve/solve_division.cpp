// solve: problems that deal something out: d-hondt, segment, batch-split, stage-recompute,
// checkpoint-groups.
#include <nlohmann/json.hpp>
#include <numeric>

#include "app/solve/problem_keys.h"
#include "app/solve/solve.h"
#include "engine/base/quantity.h"
#include "engine/partition/batch_split.h"
#include "engine/partition/d_hondt.h"
#include "engine/partition/min_max_segments.h"
#include "engine/recompute/checkpoint_groups.h"
#include "engine/recompute/stage_aware.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostItems = 100'000;
constexpr std::int64_t kMostSegmentSteps = 1'000'000'000;  // segments x costs^2

std::vector<double> read_costs(const YamlNode& problem) {
  const YamlNode node = problem.at("costs");
  std::vector<double> costs;
  for (const YamlNode& item : node.items()) {
    costs.push_back(item.as_number());
    if (!(costs.back() >= 0)) item.fail("expected at least 0, got " + number_text(costs.back()));
  }
  if (costs.empty()) node.fail("expected at least one cost");
  return costs;
}

double read_share(const YamlNode& node) {
  const double share = node.as_number("auto, or a share from 0 to 1");
  if (!(share >= 0 && share <= 1))
    node.fail("expected a share from 0 to 1, got " + number_text(share));
  return share;
}

double read_amount(const YamlNode& node) {
  const double amount = node.as_number();
  if (!(amount >= 0)) node.fail("expected at least 0, got " + number_text(amount));
  return amount;
}

/// `first: auto`: as much as `memory` has room for.
double automatic_first(const YamlNode& problem, const YamlNode& of_first,
                       const Numbered<int>& layers, bool shifted) {
  StageAwareMemory memory{layers, {}, static_cast<int>(layers.size()), 0, 0, shifted};
  if (const auto node = given(problem, "microbatches")) {
    memory.microbatches = static_cast<int>(node->as_integer(1, kMostItems));
    const int least = std::max(4, static_cast<int>(layers.size()));
    if (shifted && memory.microbatches < least)
      node->fail("scp needs at least as many microbatches as stages, and 4: " +
                 std::to_string(least) + " of them");
  }
  const YamlNode map = problem.at("memory");
  memory.kept = read_amount(map.at("kept"));
  const YamlNode of_input = map.at("recomputed");
  memory.recomputed = read_amount(of_input);
  if (memory.recomputed > memory.kept)
    of_input.fail("a recomputed layer holds no more than a kept one, " + number_text(memory.kept));
  const YamlNode of_free = map.at("free");
  if (of_free.is_sequence()) {
    for (const YamlNode& item : of_free.items()) memory.free.push_back(read_amount(item));
    if (memory.free.size() != layers.size())
      of_free.fail("expected a number, or one for each of " + std::to_string(layers.size()) +
                   " stages");
  } else {
    memory.free.assign(layers.size(), read_amount(of_free));
  }
  map.finish();
  if (std::accumulate(layers.begin(), layers.end(), std::size_t{0}) * layers.size() >
      100 * kMostItems)
    of_first.fail("too many layers x stages to try");
  const auto first = largest_first_share(memory);
  if (first) return *first;
  const std::vector<double> least = stage_aware_use(memory, 0);
  std::size_t i = 0;
  while (i < least.size() && least[i] <= memory.free[i]) ++i;
  if (i == least.size()) i = 0;
  const std::string what = i + 1 == least.size() ? ", all of it kept, as on any last stage"
                                                 : " with every layer recomputed";
  of_first.fail("stage " + std::to_string(i) + " needs " + number_text(least[i]) + what +
                ", and has " + number_text(memory.free[i]));
}

}  // namespace

Json solve_d_hondt(const YamlNode& problem) {
  const std::vector<double> costs = read_costs(problem);
  const YamlNode node = at_either(problem, "devices", "D");
  Numbered<std::int64_t> devices;
  if (node.is_sequence()) {
    for (const YamlNode& item : node.items()) devices.push_back(item.as_integer(0));
  } else {
    devices.resize(node.as_integer(0, kMostItems));
    std::iota(devices.begin(), devices.end(), 0);
  }
  const auto seats = d_hondt(costs, devices);
  Json loads = Json::array();
  for (std::size_t i = 0; i < costs.size(); ++i) {
    loads.push_back(seats[i].empty() ? Json()
                                     : Json(costs[i] / static_cast<double>(seats[i].size())));
  }
  return {{"seats", seats}, {"loads", loads}};
}

Json solve_segment(const YamlNode& problem) {
  const std::vector<double> costs = read_costs(problem);
  const YamlNode node = at_either(problem, "segments", "l");
  const std::int64_t count = node.as_integer(1, kMostItems);
  const auto n = static_cast<std::int64_t>(costs.size());
  if (n > kMostItems || count > kMostSegmentSteps / n / n) {
    problem.fail(std::to_string(count) + " segments of " + std::to_string(n) +
                 " costs are too many to try");
  }
  const Segments segments = min_max_segments(costs, static_cast<std::size_t>(count));
  Json lists = Json::array();
  std::size_t begin = 0;
  for (const std::size_t end : segments.ends) {
    std::vector<std::size_t> indices(end - begin);
    std::iota(indices.begin(), indices.end(), begin);
    lists.push_back(indices);
    begin = end;
  }
  return {{"segments", lists}, {"minmax", segments.minmax}};
}

Json solve_batch_split(const YamlNode& problem) {
  const std::int64_t batch =
      at_either(problem, "global_batch", "BS").as_integer(0, std::int64_t{1} << 40);
  const YamlNode node = at_either(problem, "microbatches", "pipeline");
  const std::int64_t microbatches = node.as_integer(1, kMostItems);
  const YamlNode of_ranks = problem.at("ranks");
  const std::int64_t ranks = of_ranks.as_integer(1, kMostItems);
  if (ranks * microbatches > 10 * kMostItems)
    of_ranks.fail("too many ranks x microbatches to list");
  const BatchSplit split = split_batch(batch, microbatches, ranks);
  return {{"micro", split.micro}, {"local", split.local}};
}

Json solve_stage_recompute(const YamlNode& problem) {
  const auto stages = static_cast<int>(at_either(problem, "stages", "S").as_integer(1, kMostItems));
  const YamlNode of_first = problem.at("first");
  bool shifted = false;
  if (const auto node = problem.find("schedule"); node && !node->is_null()) {
    const std::string name = node->as_string();
    shifted = name == "scp" || name == "full_critical_path_1f1b";
    if (!shifted && name != "1f1b") node->fail("expected scp or 1f1b, got '" + name + "'");
  }
  const YamlNode of_layers = problem.at("layers");
  Numbered<int> layers;
  if (of_layers.is_sequence()) {
    for (const YamlNode& item : of_layers.items())
      layers.push_back(static_cast<int>(item.as_integer(0, kMostItems)));
    if (std::ssize(layers) != stages) {
      of_layers.fail("expected the layers of each of " + std::to_string(stages) + " stages, got " +
                     std::to_string(layers.size()));
    }
  } else {
    const auto total = static_cast<int>(of_layers.as_integer(0, kMostItems));
    if (total % stages != 0) {
      of_layers.fail(std::to_string(stages) + " stages do not divide " + std::to_string(total) +
                     " layers; write a list, one number per stage");
    }
    layers.assign(stages, total / stages);
  }
  const double first = of_first.is_scalar() && of_first.as_string() == "auto"
                           ? automatic_first(problem, of_first, layers, shifted)
                           : read_share(of_first);
  const Numbered<double> shares = stage_aware_shares(stages, first, shifted);
  std::vector<int> recomputed;
  for (std::size_t i = 0; i < shares.size(); ++i)
    recomputed.push_back(num_recomputed(layers[i], shares[i]));
  return {{"kept", shares}, {"recomputed_layers", recomputed}, {"first", first}};
}

Json solve_checkpoint_groups(const YamlNode& problem) {
  std::vector<std::string> names;
  std::vector<int> stages;
  for (const YamlNode& module : problem.at("modules").items()) {
    names.push_back(module.at("name").as_string());
    stages.push_back(static_cast<int>(module.at("stage").as_integer(0, kMostItems)));
    module.finish();
  }
  const YamlNode node = problem.at("strategy");
  const std::optional<int> most = group_of_strategy(node.as_string());
  if (!most) {
    node.fail("expected each, contiguous or group_2, group_3, ..., got '" + node.as_string() + "'");
  }
  Json groups = Json::array();
  for (const auto& group : checkpoint_groups(stages, *most)) {
    Json list = Json::array();
    for (const std::size_t module : group) list.push_back(names[module]);
    groups.push_back(list);
  }
  return {{"groups", groups}};
}

}  // namespace trainyard
