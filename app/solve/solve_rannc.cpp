// solve: rannc-stages, rannc-blocks and rannc.
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/solve/graph_keys.h"
#include "app/solve/problem_keys.h"
#include "app/solve/solve.h"
#include "engine/partition/batch_split.h"
#include "engine/partition/block_costs.h"
#include "engine/partition/pipeline_search.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostOfAKind = 1'000'000;  // samples, devices, microbatches
constexpr double kMostSearchSteps = 4e9;          // of a search for stages
constexpr double kMostTrialSteps = 2e11;          // of all of them
constexpr std::size_t kMostStageBlocks = 1'000;   // whose ranges are listed
constexpr std::int64_t kMostListed = 100'000;     // samples per microbatch and rank

StageRule read_rule(const YamlNode& problem) {
  const auto node = given(problem, "rule");
  if (!node) return StageRule::kExact;
  const std::string name = node->as_string();
  if (name == "paper") return StageRule::kPaper;
  if (name == "code") return StageRule::kCode;
  if (name != "exact") node->fail("expected paper, code or exact, got " + in_quotes(name));
  return StageRule::kExact;
}

/// One block: [forward, backward, static memory, activation memory].
struct SampleCost {
  double forward = 0, backward = 0, memory = 0, activation = 0;
};

std::vector<SampleCost> read_blocks(const YamlNode& list) {
  std::vector<SampleCost> out;
  for (const YamlNode& row : list.items()) {
    const std::vector<YamlNode> parts = row.items();
    if (parts.size() != 4) {
      row.fail("expected [forward, backward, static memory, activation memory], got " +
               std::to_string(parts.size()) + " numbers");
    }
    out.push_back({read_least_zero(parts[0]), read_least_zero(parts[1]), read_least_zero(parts[2]),
                   read_least_zero(parts[3])});
  }
  if (out.empty()) list.fail("expected at least one block");
  if (out.size() > kMostStageBlocks)
    list.fail("expected at most " + std::to_string(kMostStageBlocks) + " blocks");
  return out;
}

std::int64_t integer_at(const YamlNode& problem, const char* key, const char* other,
                        std::int64_t otherwise) {
  if (const auto node = given(problem, key)) return node->as_integer(1, kMostOfAKind);
  if (const auto node = given(problem, other)) return node->as_integer(1, kMostOfAKind);
  return otherwise;
}

StageProblem read_stage_problem(const YamlNode& problem, std::size_t num_blocks) {
  StageProblem out;
  out.num_blocks = num_blocks;
  out.stages = at_either(problem, "stages", "S").as_integer(1, kMostOfAKind);
  out.devices = at_either(problem, "devices", "D").as_integer(1, kMostOfAKind);
  out.batch = at_either(problem, "batch", "BS").as_integer(1, kMostOfAKind);
  out.replicas = integer_at(problem, "replicas", "R", 1);
  out.microbatches = integer_at(problem, "microbatches", "MB", 1);
  const auto memory = problem.find("M");
  out.memory = read_least_zero(memory ? *memory : problem.at("memory"));
  out.rule = read_rule(problem);
  out.round_up = out.powers_of_two = out.rule == StageRule::kCode;
  if (const auto node = given(problem, "samples")) {
    const std::string word = node->as_string();
    if (word != "floor" && word != "ceil")
      node->fail("expected floor or ceil, got " + in_quotes(word));
    out.round_up = word == "ceil";
  }
  if (const auto node = given(problem, "powers_of_two")) out.powers_of_two = node->as_bool();
  if (const auto node = given(problem, "d_min")) {
    const std::string word = node->as_string();
    if (word != "reset" && word != "kept")
      node->fail("expected reset or kept, got " + in_quotes(word));
    out.keep_least_devices = word == "kept";
  }
  if (stage_search_steps(out) > kMostSearchSteps)
    problem.at("problem").fail("too many blocks, stages and devices to try all divisions");
  return out;
}

Json names_of(const NamedNodes& names, const std::vector<std::size_t>& tasks) {
  Json out = Json::array();
  for (const std::size_t task : tasks) out.push_back(names.name(task));
  return out;
}

struct WrittenBlocks {
  WrittenGraph written;
  TaskBlocks blocks;
};

/// The graph and its blocks; `of_device`: what limits them.
WrittenBlocks read_blocks_of_graph(const YamlNode& problem, const BlockOptions& of_device) {
  WrittenBlocks out;
  out.written = read_graph(problem);
  for (const YamlNode& node : out.written.nodes) node.finish();
  const std::vector<TaskAtom> atoms = atoms_of(out.written.graph, order_of(out.written, problem));
  if (atoms.empty()) problem.at("nodes").fail("no node depends on the model's input");
  BlockOptions options = of_device;
  bool none = false;
  if (const auto node = given(problem, "blocks")) {
    none = node->is_scalar() && node->as_string() == "none";
    if (!none) options.count = node->as_integer(1, kMostOfAKind);
  }
  if (const auto node = given(problem, "uncoarsening")) options.uncoarsen = node->as_bool();
  out.blocks = none ? atoms_as_blocks(out.written.graph, atoms)
                    : blocks_of(out.written.graph, atoms, options);
  return out;
}

Json blocks_json(const WrittenBlocks& found) {
  Json blocks = Json::array();
  for (const TaskBlock& block : found.blocks.blocks)
    blocks.push_back(names_of(found.written.names, block.tasks));
  return blocks;
}

double read_share_at(const YamlNode& problem, const char* key, double otherwise) {
  const auto node = given(problem, key);
  if (!node) return otherwise;
  const double share = node->as_number();
  if (!(share >= 0 && share < 1))
    node->fail("expected a share from 0 to less than 1, got " + number_text(share));
  return share;
}

double positive_at(const YamlNode& problem, const char* key, double otherwise) {
  const auto node = given(problem, key);
  if (!node) return otherwise;
  const double value = read_least_zero(*node);
  if (value == 0) node->fail("expected more than 0, got 0");
  return value;
}

BlockCostOptions read_cost_options(const YamlNode& problem, StageRule rule) {
  BlockCostOptions out;
  out.bandwidth = positive_at(problem, "bandwidth", out.bandwidth);
  out.all_reduce_bandwidth = positive_at(problem, "all_reduce_bandwidth", out.all_reduce_bandwidth);
  if (const auto node = given(problem, "state_factor")) out.state_factor = read_least_zero(*node);
  if (const auto node = given(problem, "shard_state")) out.shard_state = node->as_bool();
  if (const auto node = given(problem, "precision")) {
    const std::string word = node->as_string();
    if (word == "amp-half")
      out.copies = ParameterCopies::kHalf;
    else if (word == "amp-float")
      out.copies = ParameterCopies::kStashed;
    else if (word != "fp32")
      node->fail("expected fp32, amp-half or amp-float, got " + in_quotes(word));
  }
  out.model_ends = rule == StageRule::kCode;
  return out;
}

/// Whether a search for a pipeline could take longer than anyone waits.
bool too_large(const PipelineProblem& search) {
  if (search.num_blocks > kMostStageBlocks) return true;
  StageProblem largest;
  largest.num_blocks = search.num_blocks;
  largest.devices = search.nodes * search.devices_per_node;
  largest.stages = std::min<std::int64_t>(largest.devices, largest.num_blocks);
  largest.rule = search.rule;
  const double steps = stage_search_steps(largest);
  const double trials =
      static_cast<double>(largest.stages) * (1 + std::log2(static_cast<double>(search.batch)));
  return steps > kMostSearchSteps || steps * trials > kMostTrialSteps;
}

Json tried_json(const std::vector<PipelineTrial>& tried) {
  Json out = Json::array();
  for (const PipelineTrial& trial : tried) {
    Json row = {{"nodes", trial.nodes},
                {"replicas", trial.replicas},
                {"stages", trial.stages},
                {"microbatches", trial.microbatches}};
    if (trial.reason.empty())
      row["time"] = trial.time;
    else
      row["infeasible"] = trial.reason;
    out.push_back(std::move(row));
  }
  return out;
}

/// Per stage of a plan: its blocks, devices, times and memory.
Json stages_json(const PipelinePlan& plan, const BlockCosts& costs, std::int64_t batch) {
  Json out = Json::array();
  std::size_t first = 0;
  for (std::size_t s = 0; s < plan.stages.ends.size(); ++s) {
    const std::size_t end = plan.stages.ends[s];
    const std::int64_t parts = plan.replicas[s] * plan.chosen.microbatches;
    const std::int64_t samples = (batch + parts - 1) / parts;
    const StageCost cost =
        costs.stage(first, end, samples, plan.replicas[s], plan.chosen.recompute);
    const StageMemory memory = costs.memory(first, end, samples, plan.replicas[s]);
    out.push_back({{"blocks", {first, end}},
                   {"replicas", plan.replicas[s]},
                   {"ranks", plan.ranks[s]},
                   {"samples", samples},
                   {"forward", cost.forward},
                   {"backward", cost.backward},
                   {"all_reduce", costs.all_reduce(first, end)},
                   {"in_bytes", costs.inputs(first, end) * static_cast<double>(samples)},
                   {"out_bytes", costs.outputs(first, end) * static_cast<double>(samples)},
                   {"memory",
                    {{"total", memory.total()},
                     {"forward_backward", memory.forward_backward},
                     {"optimizer", memory.optimizer},
                     {"transfers", memory.transfers}}}});
    first = end;
  }
  return out;
}

}  // namespace

Json solve_rannc_stages(const YamlNode& problem) {
  const std::vector<SampleCost> blocks = read_blocks(problem.at("blocks"));
  const StageProblem stages = read_stage_problem(problem, blocks.size());
  // [first * blocks + end - 1]: by themselves, not as differences, which would round otherwise.
  std::vector<SampleCost> sums(blocks.size() * blocks.size());
  for (std::size_t first = 0; first < blocks.size(); ++first) {
    SampleCost sum;
    for (std::size_t b = first; b < blocks.size(); ++b) {
      sum.forward += blocks[b].forward;
      sum.backward += blocks[b].backward;
      sum.memory += blocks[b].memory;
      sum.activation += blocks[b].activation;
      sums[first * blocks.size() + b] = sum;
    }
  }
  const auto found = divide_into_stages(
      stages,
      [&](std::size_t first, std::size_t end, std::int64_t samples, std::int64_t) -> StageCost {
        const auto count = static_cast<double>(samples);
        const SampleCost& sum = sums[first * blocks.size() + end - 1];
        return {sum.forward * count, sum.backward * count, 0, 0,
                sum.memory + sum.activation * count};
      });
  if (const auto* none = std::get_if<Infeasible>(&found))
    return {{"feasible", false}, {"value", nullptr}, {"infeasible", none->reason}};
  const auto& division = std::get<StageDivision>(found);
  return {{"feasible", true},
          {"value", division.value},
          {"forward", division.forward},
          {"backward", division.backward},
          {"stage_ends", division.ends},
          {"devices_per_stage", division.devices}};
}

Json solve_rannc_blocks(const YamlNode& problem) {
  BlockOptions of_device;
  if (const auto node = given(problem, "memory")) of_device.memory = read_least_zero(*node);
  if (const auto node = given(problem, "samples")) of_device.samples = read_least_zero(*node);
  if (const auto node = given(problem, "state_factor"))
    of_device.state_per_parameter = read_least_zero(*node);
  const WrittenBlocks found = read_blocks_of_graph(problem, of_device);
  Json moves = Json::array(), times = Json::array();
  for (const BlockMove& move : found.blocks.moves) {
    moves.push_back({{"level", move.level},
                     {"nodes", names_of(found.written.names, move.tasks)},
                     {"bytes_before", move.bytes_before},
                     {"bytes_after", move.bytes_after}});
  }
  for (const TaskBlock& block : found.blocks.blocks) times.push_back(block.cost.time());
  Json answer = {{"levels", found.blocks.levels},
                 {"moves", moves},
                 {"compacted", found.blocks.compacted},
                 {"blocks", blocks_json(found)},
                 {"times", times}};
  if (found.blocks.blocks.size() > kMostStageBlocks) return answer;
  const BlockCosts costs(found.written.graph, found.blocks.blocks, {});
  Json sent = Json::array();
  for (std::size_t b = 0; b < found.blocks.blocks.size(); ++b)
    sent.push_back(costs.outputs(b, b + 1));
  answer["sent_bytes"] = sent;
  return answer;
}

Json solve_rannc(const YamlNode& problem) {
  PipelineProblem search;
  search.rule = read_rule(problem);
  const YamlNode of_nodes = at_either(problem, "num_nodes", "N");
  search.nodes = of_nodes.as_integer(1, kMostOfAKind);
  search.devices_per_node = problem.at("devices_per_node").as_integer(1, kMostOfAKind);
  search.batch = at_either(problem, "batch", "BS").as_integer(1, kMostOfAKind);
  const YamlNode of_memory = problem.at("memory");
  search.memory = read_least_zero(of_memory) * (1 - read_share_at(problem, "margin", 0.1));
  const auto devices =
      static_cast<double>(search.nodes) * static_cast<double>(search.devices_per_node);
  const BlockCostOptions options = read_cost_options(problem, search.rule);
  BlockOptions of_device;
  of_device.memory = search.memory;
  of_device.state_per_parameter =
      optimizer_bytes(1, options.state_factor, options.copies,
                      options.shard_state ? search.nodes * search.devices_per_node : 1);
  const WrittenBlocks found = read_blocks_of_graph(problem, of_device);
  search.num_blocks = found.blocks.blocks.size();
  if (too_large(search)) {
    of_nodes.fail(std::to_string(search.num_blocks) + " blocks on " + number_text(devices) +
                  " devices are too many to try all divisions");
  }
  const BlockCosts costs(found.written.graph, found.blocks.blocks, options);
  const PipelineCosts of_stages{
      [&](const StageOfBlocks& of) {
        return costs.stage(of.first, of.end, of.samples, of.replicas, of.recompute);
      },
      [&](std::size_t first, std::size_t end) { return costs.all_reduce(first, end); }};
  auto answer = search_pipeline(search, of_stages);
  if (const auto* none = std::get_if<Infeasible>(&answer))
    return {{"feasible", false}, {"infeasible", none->reason}, {"blocks", blocks_json(found)}};
  const auto& plan = std::get<PipelinePlan>(answer);
  Json out = {{"feasible", true},
              {"nodes", plan.chosen.nodes},
              {"replicas", plan.chosen.replicas},
              {"stages", plan.chosen.stages},
              {"microbatches", plan.chosen.microbatches},
              {"recompute", plan.chosen.recompute},
              {"time", plan.chosen.time},
              {"value", plan.stages.value},
              {"stage_ends", plan.stages.ends},
              {"devices_per_stage", plan.replicas},
              {"ranks", plan.ranks},
              {"stage", stages_json(plan, costs, search.batch)},
              {"tried", tried_json(plan.tried)},
              {"memory_limit", search.memory},
              {"blocks", blocks_json(found)}};
  if (plan.chosen.microbatches > kMostListed / static_cast<std::int64_t>(devices)) return out;
  Json local = Json::array();
  for (const std::int64_t replicas : plan.replicas) {
    const BatchSplit split = split_batch(search.batch, plan.chosen.microbatches, replicas);
    out["micro"] = split.micro;
    local.push_back(split.local);
  }
  out["local"] = local;
  return out;
}

}  // namespace trainyard
