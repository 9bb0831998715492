#include "app/solve/partition_problems.h"

#include <nlohmann/json.hpp>
#include <string>

namespace trainyard {

namespace {

constexpr std::string_view kSmpKeys =
    "tree           {name, cost, own, children: [...]}: cost with all below it, own without; or "
    "{module: [children]}\n"
    "               with cost: {module: cost}. A cost that is not given is own and the children's\n"
    "modules        instead of tree: [{name, parent, parameters, activation, time, shares: [...]}, "
    "...] in execution\n"
    "               order, parents first; figures are a module's own, default 0; without any time "
    "the modules below\n"
    "               count. Modules with the same word in shares, or with a module's name, share a "
    "parameter\n"
    "study, set     instead of both: a file's name or a study as a map, and [path=value, ...]; "
    "times: "
    "model or descendants\n"
    "inclusive      true: figures of modules have those of the modules below in them. Default "
    "false\n"
    "memory_weight  of parameters and activation, the rest of time: default 0.8; costs of a tree "
    "are mixed already\n"
    "devices        how many\n"
    "assign         {pattern: device}: no search; * stands for any characters, modules below go "
    "along\n"
    "default        with assign: the device of the others, default 0\n";

constexpr std::string_view kStageKeys =
    "blocks         [[forward, backward, memory, activation memory], ...]; all but memory of a "
    "sample\n"
    "stages, devices, batch, memory\n"
    "replicas, microbatches  that share the batch with the devices of a stage; default 1\n"
    "rule           exact (default): the least value; paper: algorithm 1; code: RaNNC's, which "
    "rounds samples up\n"
    "               and gives a stage a power of two of devices\n"
    "samples        floor or ceil: of a device, where they do not divide evenly; default by rule\n"
    "powers_of_two  true or false; default by rule\n"
    "d_min          of paper: reset for each stage count (default), or kept as line 6 has it\n";

/// A graph of tasks.
const std::string kTaskKeys =
    "nodes    [{name, forward, backward: times of a sample, default twice the forward; memory: "
    "bytes "
    "whatever the\n"
    "         batch; activation: bytes of a sample; parameters: bytes}, ...]; a name's default is "
    "its "
    "number\n"
    "edges    [{from, to: a node or a list, bytes: of a sample}, ...], a value each, or [from, to, "
    "bytes]; without\n"
    "         from the model's input, without to its output. Or nodes have {reads: [nodes], bytes: "
    "of what they make}\n";

const std::string kBlockKeys =
    kTaskKeys +
    "blocks   how many, default 32; none: one for each node that depends on the model's input\n"
    "uncoarsening  default true\n"
    "memory   that a block may take, bytes: default any; for so many samples: default 1; "
    "state_factor: of rannc\n"
    "samples\n";

const std::string kRanncKeys =
    kTaskKeys +
    "num_nodes, devices_per_node, batch\n"
    "memory   of a device, bytes; margin of it stays free: default 0.1\n"
    "rule     exact (default), paper or code; blocks, uncoarsening: as of rannc-blocks\n"
    "bandwidth, all_reduce_bandwidth  bytes per unit of time; default 20 and 10 GiB/s, times in "
    "us\n"
    "state_factor  optimizer state in parameters, default 2; precision: fp32 (default), amp-half "
    "(with fp32 masters\n"
    "         and gradients) or amp-float (with stashed gradients); shard_state: true over a "
    "stage's replicas\n";

const std::string kShardKeys =
    kTaskKeys +
    "         beside them nodes have parameters, any unit, and input, embedding, in_place: true\n"
    "method   farthest (default), nearest, or layer\n"
    "bound    of farthest: a subgraph has more than 1/bound of the parameters; default 2 layers + "
    "4\n"
    "layers   of the model, for that default\n"
    "common   of farthest: what more nodes read may pass any cut; default 5\n"
    "points   of layer: names, or beginnings of them up to a dot, where subgraphs begin\n";

}  // namespace

const std::vector<SolveProblem>& partition_problems() {
  static const std::vector<SolveProblem> kProblems = {
      {"smp-partition", "smp_partition", "a tree of modules on devices, as SageMaker divides it",
       kSmpKeys,
       "problem: smp-partition\ndevices: 4\ntree:\n  name: model\n  children:\n    - {name: "
       "encoder, children: [{name: e0, cost: 0.2}, {name: e1, cost: 0.2}]}\n    - {name: decoder, "
       "children: [{name: d0, cost: 0.3}, {name: d1, cost: 0.2}]}\n    - {name: head, cost: 0.1}\n",
       solve_smp_partition},
      {"rannc-stages", "rannc_stages", "blocks as stages with replicas of their own, as RaNNC does",
       kStageKeys,
       "problem: rannc-stages\nblocks: [[2, 2, 1, 0], [1, 3, 1, 0], [1, 3, 1, 0]]\nstages: "
       "3\ndevices: 4\nbatch: 48\nmemory: 100\n",
       solve_rannc_stages},
      {"rannc-blocks", "rannc_blocks",
       "a graph of tasks as blocks of like time, as RaNNC makes them", kBlockKeys,
       "problem: rannc-blocks\nblocks: 2\nnodes: [{name: embed, forward: 1}, {name: attention, "
       "forward: 3}, {name: mlp, forward: 4},\n        {name: head, forward: 2}]\nedges: [[embed, "
       "attention, 8], [attention, mlp, 8], [mlp, head, 8]]\n",
       solve_rannc_blocks},
      {"rannc", "", "RaNNC's whole search: blocks, nodes, replicas, stages, microbatches",
       kRanncKeys,
       "problem: rannc\nnum_nodes: 1\ndevices_per_node: 2\nbatch: 8\nmemory: 100\nnodes: "
       "[{name: a, forward: 1, parameters: 16}, {name: b, forward: 1, parameters: 16}]\nedges: "
       "[[a, "
       "b, 1]]\n",
       solve_rannc},
      {"graph-shard", "graph_shard",
       "a traced graph cut into a sequence of subgraphs, as Merak does", kShardKeys,
       "problem: graph-shard\nbound: 3\nnodes: [{name: x, input: true}, {name: fc1, reads: [x], "
       "parameters: 6}, {name: add1, reads: [fc1, x]},\n        {name: fc2, reads: [add1], "
       "parameters: 6}, {name: add2, reads: [fc2, add1]}]\n",
       solve_graph_shard},
      {"autopipe", "", "a sequence of subgraphs as stages of least load, as Merak's AutoPipe does",
       "weights   forward of each subgraph, any unit\n"
       "backward  of each; default three times the forward, which has a recomputation in it\n"
       "stages    how many\n"
       "rule      exact (default): the least largest load; code: from there on Merak's search for "
       "the shortest step\n",
       "problem: autopipe\nweights: [0, 5, 10, 5, 10, 5, 10, 25]\nstages: 3\n", solve_autopipe},
      {"placement", "", "coordinates and groups of ranks by the order of the degrees",
       "degrees  {tensor, pipeline, data}, default 1\n"
       "order    letters of D, P, T, the rightmost the fastest; default DPT, which is cluster; "
       "spread is TPD\n",
       "problem: placement\ndegrees: {tensor: 2, pipeline: 2, data: 2}\norder: cluster\n",
       solve_placement}};
  return kProblems;
}

}  // namespace trainyard
