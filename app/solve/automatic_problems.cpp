#include "app/solve/automatic_problems.h"

#include <nlohmann/json.hpp>

namespace trainyard {

namespace {

constexpr std::string_view kMeshKeys =
    "devices  a list of numbers, or how many; at most 350. Of a cluster or a file default all\n"
    "pairs    {\"0,1\": [alpha, beta], ...}: of every pair, in time per message and time per "
    "byte; or a file that\n"
    "         calibrate --pairs wrote\n"
    "cluster  instead of pairs: as in a study, whose links are asked\n"
    "rules    levels (default): betas within 10 % make a level, and levels axes, the slowest "
    "first; "
    "two axes where\n"
    "         they do not nest, or all pairs are alike. colossal: Colossal-AI's, two axes always\n";

constexpr std::string_view kLineariseKeys =
    "nodes    [{name, reads: [nodes], and of these what is true: input, output, common, in_place,\n"
    "         communication}, ...]; outputs and the loss are in no group. edges too, as of "
    "rannc-blocks\n"
    "study    instead of nodes: a study's file, or a study as a map, whose model it is; set: "
    "[path=value, ...] as after\n"
    "         --set\n";

constexpr std::string_view kChainKeys =
    "ftime, btime  forward and backward of each group, any unit; btime has the loss's (both ways) "
    "behind them\n"
    "x             size of what each group reads, and of what the loss reads\n"
    "xbar          size of the model's input, as in x, and of what each group keeps for its "
    "backward, its "
    "result among it\n"
    "ftmp, btmp    what each holds beside that while it runs; btmp with the loss's; default 0\n"
    "slots         of memory, the model's input among them\n"
    "memory        in the unit of the sizes, in at most so many slots: of a unit that all sizes "
    "share, or sizes are\n"
    "              rounded up to slots. Default: a size is a number of slots\n"
    "communication {ftime, btime, ftmp, btmp}: of each group's collectives, added both ways; "
    "default none\n"
    "groups        at most so many, made of consecutive ones; default: as many as can be "
    "searched\n";

constexpr std::string_view kMemoryKeys =
    "study  a study's file, or a study as a map: one microbatch of its model on a rank of its "
    "tensor "
    "group, all in one\n"
    "       stage, with its recomputation\n"
    "set    [path=value, ...], as after --set\n"
    "nodes  instead of study: [{name, bytes (that it makes), reads: [nodes], saves: [of these, or "
    "itself, what its backward\n"
    "       reads; default all that it reads], tmp, backward_tmp (bytes while it runs), input, "
    "in_place: true, gradient:\n"
    "       false}, ...], each behind what it reads; the last is the loss\n";

constexpr std::string_view kStrategyKeys =
    "nodes          [{name, costs: [of each strategy], memory: [of each; default 0]}, ...]; a "
    "name's default is its number\n"
    "edges          [{from, to, cost: [[...], ...]}, ...]: a row for each strategy of from, a "
    "column for each of to\n"
    "memory_budget  of the sum of all nodes' memory; default: any\n";

constexpr std::string_view kJointKeys =
    "nodes    [{name, group, and lists, one number for each strategy: forward, backward (default "
    "twice that), held\n"
    "         (memory all the time, default 0), saved (for the backward, the output included), "
    "output (default saved),\n"
    "         ftmp, btmp (beside that while it runs; default 0)}, ...] in order. group: of the "
    "chain "
    "that is recomputed,\n"
    "         from 0 on; default one for each node\n"
    "edges    [{from, to, forward: [[...], ...], backward (default the same)}, ...]: times, a row "
    "for each strategy of\n"
    "         from\n"
    "memory_budget  of a device\n"
    "input    size of the model's input, default 0; loss: {time, btmp}, default 0\n"
    "slots    for rotor at most, default 500: of a unit that all sizes share, or sizes are rounded "
    "up "
    "to them\n"
    "budgets, growth  strategies are chosen at memory_budget (1 + growth)^n, n below budgets; "
    "default 10 and 0.3;\n"
    "         then around the best\n";

}  // namespace

const std::vector<SolveProblem>& automatic_problems() {
  static const std::vector<SolveProblem> kProblems = {
      {"device-mesh", "device_mesh", "which mesh devices form, from alpha and beta of their pairs",
       kMeshKeys,
       "problem: device-mesh\ndevices: [0, 1, 4, 5]\npairs: {\"0,1\": [2.0e-5, 4.7e-12], "
       "\"4,5\": [1.9e-5, 4.8e-12], \"0,4\": [2.0e-5, 7.0e-11],\n        \"0,5\": [2.3e-5, "
       "7.1e-11], \"1,4\": [1.9e-5, 7.1e-11], \"1,5\": [2.0e-5, 6.9e-11]}\n",
       solve_device_mesh},
      {"linearise", "", "a graph as a chain of groups that each hand on one value, as MAP does",
       kLineariseKeys,
       "problem: linearise\nnodes: [{name: mask, common: true}, {name: conv}, {name: norm, reads: "
       "[conv]},\n        {name: relu, reads: [norm], in_place: true}, {name: masked, reads: "
       "[relu, "
       "mask]},\n        {name: add, reads: [masked, relu]}, {name: loss, reads: [add], output: "
       "true}]\n",
       solve_linearise},
      {"recompute-chain", "recompute_chain",
       "the fastest way to train a chain of groups in given memory: rotor", kChainKeys,
       "problem: recompute-chain\nftime: [1, 1, 1, 1]\nbtime: [2, 2, 2, 2, 0]\nx: [1, 1, 1, 1, "
       "1]\nxbar: [1, 2, 2, 2, 2]\nslots: 7\n",
       solve_recompute_chain},
      {"memory-profile", "memory_profile",
       "what each op of a model keeps, makes and hands back, in bytes, and the peak", kMemoryKeys,
       "problem: memory-profile\nstudy: {model: {preset: gpt2, layers: 2}, cluster: {preset: "
       "dgx-a100-80g, nodes: 1},\n        parallel: {data: 8}, training: {global_batch: 8}}\n",
       solve_memory_profile},
      {"strategy", "", "a strategy for each node of a graph, the cheapest within a memory budget",
       kStrategyKeys,
       "problem: strategy\nmemory_budget: 5\nnodes: [{name: a, costs: [1, 3], memory: [4, 1]}, "
       "{name: b, costs: [2, 4], memory: [4, 1]}]\nedges: [{from: a, to: b, cost: [[0, 2], [2, "
       "0]]}]\n",
       solve_strategy},
      {"plan-joint", "plan_joint",
       "strategies and recomputation together, the fastest that memory allows", kJointKeys,
       "problem: plan-joint\nmemory_budget: 16\nnodes: [{name: a, forward: [1, 2], held: [2, 1], "
       "saved: [6, 3], output: [1, 1]},\n        {name: b, forward: [1, 2], held: [2, 1], saved: "
       "[6, 3], output: [1, 1]},\n        {name: c, forward: [1, 2], held: [2, 1], saved: [6, 3], "
       "output: [1, 1]}]\nedges: [{from: a, to: b, forward: [[0, 1], [1, 0]]}, {from: b, to: c, "
       "forward: [[0, 1], [1, 0]]}]\n",
       solve_plan_joint}};
  return kProblems;
}

}  // namespace trainyard
