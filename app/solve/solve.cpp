#include "app/solve/solve.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "app/solve/automatic_problems.h"
#include "app/solve/partition_problems.h"
#include "app/solve/tensor_problems.h"
#include "engine/base/near_names.h"
#include "engine/base/user_text.h"
#include "engine/schedule/schedule_names.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

/// That there is no such problem, and which are.
std::string no_problem(const std::string& name) {
  std::vector<std::string> names;
  for (const SolveProblem& problem : solve_problems()) names.emplace_back(problem.name);
  return "no problem is called " + in_quotes(name) + did_you_mean(name, names) +
         "; this version has " + join_words(names);
}

/// The names of schedules, in lines of a key's text.
std::string names_of_schedules() {
  constexpr std::size_t kWidth = 80;
  std::string text, line;
  for (const ScheduleName& schedule : schedule_names()) {
    const std::string name(schedule.name);
    const bool first = text.empty() && line.empty();
    if (!first) line += ",";
    if (line.size() + name.size() > kWidth) {
      text += line + "\n                 ";
      line.clear();
    } else if (!first) {
      line += " ";
    }
    line += name;
  }
  return text + line;
}

/// A problem's keys as `solve --help` prints them.
std::string keys_text(const SolveProblem& problem) {
  constexpr std::string_view kSchedules = "{schedules}";
  std::string text(problem.keys);
  const std::size_t at = text.find(kSchedules);
  return at == std::string::npos ? text : text.replace(at, kSchedules.size(), names_of_schedules());
}

}  // namespace

const std::vector<SolveProblem>& solve_problems() {
  static const std::vector<SolveProblem> kOthers = {
      {"schedule", "", "a pipeline schedule: order, times, idle time, activations",
       "schedule         {schedules}\n"
       "ranks            pipeline ranks\n"
       "stages_per_rank  default 1; or stages, of the whole pipeline\n"
       "microbatches     of a step\n"
       "durations        {F: 1, B: 2, I: 1, W: 1, R: 1}: numbers, or a list per stage; R makes "
       "gpipe, 1f1b and\n"
       "                 interleaved recompute inside the backward. B without I and W: each is "
       "half of it; I and W\n"
       "                 without B: it is their sum\n"
       "transfer         time between stages on different ranks; default 0\n"
       "microbatch_group     interleaved: microbatches that go through a rank's stages together\n"
       "memory_limit         zb-1p, zb-2p: microbatches in flight on a rank; default ranks, 2 "
       "ranks\n"
       "active_microbatches  opportunistic: in the pipeline at once; default ranks + 2\n"
       "communication    true: sends and receives too, in an order that cannot lock up; a send "
       "and a receive in one\n"
       "                 are (0SEND_F3;0RECV_B0)P2P. Default false\n",
       "problem: schedule\nschedule: 1f1b\nranks: 4\nmicrobatches: 8\ndurations: {F: 1, B: 2}\n",
       solve_schedule},
      {"lower", "", "a schedule's actions with weights, reductions, sends and receives written out",
       "actions            per rank, a list of 0F0, 1B3, 1I3, 1W3, (0F7;7B3)OVERLAP_F_B, ...; \"\" "
       "is an idle slot\n"
       "stage_to_rank      the rank of each stage; default: stages go round the ranks\n"
       "microbatches       of a step, for add_reduce_grad; default: as many as there are\n"
       "passes             any of add_unshard, add_reduce_grad, merge_backward, add_send_recv, in "
       "order\n"
       "merge_p2p          true: sends and receives in an order for blocking calls, and in one "
       "where two ranks\n"
       "                   send to each other. Default false: a receive stands where its sender "
       "puts it\n"
       "max_active_stages  for add_unshard: how many stages are kept whole; default 3\n",
       "problem: lower\nactions: [[0F0, 0F1, \"\", 0B0, \"\", 0B1], [\"\", 1F0, 1B0, 1F1, 1B1, "
       "\"\"]]\nstage_to_rank: [0, 1]\nmicrobatches: 2\npasses: [add_send_recv]\n",
       solve_lower},
      {"subpipelined-tp", "subpipelined_tp",
       "tensor parallelism in chunks of a batch that hide their all-reduces",
       "layers      transformer layers\ncompute     of a layer's forward, any unit\n"
       "all_reduce  of a layer's forward, the same unit\n"
       "overlap     across-blocks (default); block: chunks join at the end of each layer\n"
       "chunks      of a microbatch; default 2\n",
       "problem: subpipelined-tp\nlayers: 12\ncompute: 4\nall_reduce: 6\n", solve_sub_pipelined},
      {"d-hondt", "dhondt", "devices in proportion to costs",
       "devices  a list, or how many\ncosts    of the segments\n",
       "problem: d-hondt\ndevices: 8\ncosts: [100, 80, 30, 20]\n", solve_d_hondt},
      {"segment", "segments", "consecutive segments whose largest sum is least",
       "costs     in order\nsegments  how many; never more than costs\n",
       "problem: segment\ncosts: [1, 2, 3, 4, 5]\nsegments: 3\n", solve_segment},
      {"batch-split", "batch_split",
       "a batch over microbatches and ranks that does not divide evenly",
       "global_batch  samples\nmicrobatches  how many\nranks         that share each\n",
       "problem: batch-split\nglobal_batch: 10\nmicrobatches: 4\nranks: 2\n", solve_batch_split},
      {"stage-recompute", "", "what each stage keeps under stage-aware recompute",
       "stages    of the pipeline\nfirst     share of its activations that stage 0 keeps; auto: as "
       "much as fits\n"
       "layers    of all stages, or a list with those of each\nschedule  scp, or 1f1b (default)\n"
       "memory    for auto, any unit: {kept, recomputed: of a layer and a microbatch, free: for "
       "activations, or a list\n"
       "          per stage}; microbatches of a step: default as many as stages\n",
       "problem: stage-recompute\nstages: 4\nfirst: 0.25\nlayers: 96\nschedule: scp\n",
       solve_stage_recompute},
      {"checkpoint-groups", "", "modules that are recomputed as one",
       "modules   [{name, stage}, ...] of a sequential module, in order\nstrategy  each, "
       "contiguous, or group_2, group_3, ...\n",
       "problem: checkpoint-groups\nstrategy: group_3\n"
       "modules: [{name: a, stage: 0}, {name: b, stage: 0}, {name: c, stage: 1}, {name: d, stage: "
       "1}, {name: e, stage: 1}]\n",
       solve_checkpoint_groups},
      {"reshard", "", "the cheapest moves of a tensor from one sharding to another",
       "mesh           sizes of the axes, [4, 4], which are then called 0 and 1; or {tp0: 2, tp1: "
       "4}\n"
       "shape          of the tensor\n"
       "from, to       \"S01,R\", \"R,S1 P0\" (axes by number), or \"[tp0 tp1, R] P(dp)\" (by "
       "name; parts too)\n"
       "element_bytes  default 1\n"
       "alpha, beta    of a message and of a byte, any unit: a number, or one per axis; default 1\n"
       "search         optimal (default), or greedy: Colossal-AI's, on meshes of two axes\n"
       "cost_model     exact (default: bytes that the busiest rank receives), or colossal\n",
       "problem: reshard\nmesh: [4, 4]\nshape: [64, 32]\nalpha: 1\nbeta: 1\nfrom: \"S0,R\"\nto: "
       "\"R,S0\"\n",
       solve_reshard},
      {"op-strategies", "", "every way to split an op over a mesh",
       "op            linear, bmm, conv, batch_norm, pooling, where, embedding, layer_norm, "
       "binary; "
       "scores, rope, ...\n"
       "shapes        of the operands, in order\n"
       "mesh          as of reshard, at most 3 axes\n"
       "extents       of indices that shapes do not say: {g: 8, r: 4}, key-value heads and query "
       "heads of each\n"
       "rules         exact (default): all of them; colossal: those of Colossal-AI, by its names\n"
       "shard_option  of Colossal-AI: standard (default), shard, full-shard, shard-last-axis\n",
       "problem: op-strategies\nop: linear\nshapes: [[4, 16], [32, 16]]\nmesh: [2, 2]\nrules: "
       "colossal\n",
       solve_op_strategies},
      {"propagate", "", "a sharding through an op that only carries elements",
       "op       permute (dims: [0, 2, 1, 3]), view (to: [32, 4, 64]), split (size, dim) or sum "
       "(dims, keepdim)\n"
       "mesh     as of reshard, at most 3 axes\n"
       "shape    of the input\n"
       "input    its spec, as of reshard\n"
       "rules    exact (default), or colossal\n",
       "problem: propagate\nop: permute\ndims: [0, 2, 1, 3]\nmesh: [2, 2]\nshape: [8, 16, 64, "
       "64]\ninput: \"R,S0,R,S1\"\n",
       solve_propagate}};
  static const std::vector<SolveProblem> kProblems = [] {
    std::vector<SolveProblem> all = kOthers;
    for (const auto* more : {&partition_problems(), &tensor_problems(), &automatic_problems()})
      all.insert(all.end(), more->begin(), more->end());
    return all;
  }();
  return kProblems;
}

const SolveProblem* find_problem_kind(const std::string& name) {
  for (const SolveProblem& problem : solve_problems()) {
    if (problem.name == name || (!name.empty() && problem.other_name == name)) return &problem;
  }
  return nullptr;
}

Json solve(const YamlNode& document) {
  const YamlNode kind = document.at("problem");
  const SolveProblem* problem = find_problem_kind(kind.as_string());
  if (problem == nullptr) kind.fail(no_problem(kind.as_string()));
  Json answer = problem->solve(document);
  document.finish();
  return answer;
}

std::string solve_help(const std::string& name) {
  if (name.empty()) {
    std::string text =
        "trainyard solve PROBLEM.yaml [--json]; problems, each with solve --help NAME:\n";
    for (const SolveProblem& problem : solve_problems()) {
      text += "  " + std::string(problem.name) + std::string(20 - problem.name.size(), ' ') +
              std::string(problem.description) + "\n";
    }
    return text;
  }
  const SolveProblem* problem = find_problem_kind(name);
  if (problem == nullptr) throw ConfigError(no_problem(name));
  return std::string(problem->name) + ": " + std::string(problem->description) + "\n\n" +
         keys_text(*problem) + "\nExample:\n" + std::string(problem->example);
}

std::string solve_text(const Json& answer) {
  const auto flat = [](const Json& value) {
    if (!value.is_array()) return value.is_string() ? value.get<std::string>() : value.dump();
    std::string line;
    for (const Json& item : value) {
      line +=
          (line.empty() ? "" : " ") + (item.is_string() ? item.get<std::string>() : item.dump());
    }
    return line;
  };
  std::string text;
  for (const auto& [key, value] : answer.items()) {
    const bool lines = value.is_array() && !value.empty() && value.front().is_structured();
    text += key + ":" + (lines || value.is_object() ? "" : " " + flat(value)) + "\n";
    if (value.is_object()) {
      for (const auto& [name, entry] : value.items())
        text += "  " + name + ": " + flat(entry) + "\n";
    }
    if (!lines) continue;
    for (std::size_t i = 0; i < value.size(); ++i)
      text += "  " + std::to_string(i) + ": " + flat(value[i]) + "\n";
  }
  return text;
}

}  // namespace trainyard
