#include "app/rotor_text.h"

#include <algorithm>
#include <numeric>

#include "engine/base/readable.h"

namespace trainyard {

namespace {

/// [group] how often it runs forward behind L.
std::vector<int> runs_again(const std::vector<ChainOp>& sequence, std::size_t groups) {
  std::vector<int> out(groups, 0);
  bool behind = false;
  for (const ChainOp& op : sequence) {
    if (op.kind == ChainOp::Kind::kLoss) behind = true;
    const bool backward = op.kind == ChainOp::Kind::kBackward;
    if (behind && !backward && op.kind != ChainOp::Kind::kLoss) ++out[op.group];
  }
  return out;
}

std::string module_of(const RotorFacts& facts, std::size_t stage, std::size_t group) {
  const Instruction& op =
      facts.training.forward[facts.groups.of_stage.begin()[stage][group].front()];
  return facts.training.graph.modules[op.module];
}

/// "decoder.layers.0.norm_1 to decoder.layers.3.mlp": runs of groups that run again.
std::string ranges_text(const RotorFacts& facts, std::size_t stage, const std::vector<int>& runs) {
  constexpr int kMostRanges = 3;
  std::string text;
  int ranges = 0;
  for (std::size_t g = 0; g < runs.size(); ++g) {
    if (runs[g] == 0) continue;
    std::size_t last = g;
    while (last + 1 < runs.size() && runs[last + 1] > 0) ++last;
    const std::string from = module_of(facts, stage, g), to = module_of(facts, stage, last);
    if (++ranges <= kMostRanges)
      text += (text.empty() ? "" : ", ") + from + (last > g && to != from ? " to " + to : "");
    g = last;
  }
  if (ranges > kMostRanges) text += " and " + std::to_string(ranges - kMostRanges) + " more";
  return text;
}

std::string stage_text(const RotorFacts& facts, std::size_t stage) {
  const SizedChain& chain = facts.chains[stage];
  const std::size_t groups = chain.num_groups();
  const std::vector<int> runs = runs_again(facts.sequences[stage], groups);
  const auto again = std::count_if(runs.begin(), runs.end(), [](int n) { return n > 0; });
  const auto often = std::count_if(runs.begin(), runs.end(), [](int n) { return n > 1; });
  const std::size_t rank = facts.schedule.rank_of(static_cast<int>(stage));
  const std::string takes = bytes_text(facts.peaks[rank].total);
  const std::string head = "  stage " + std::to_string(stage) + ": ";
  const bool cores = std::any_of(facts.sequences[stage].begin(), facts.sequences[stage].end(),
                                 [](const ChainOp& op) { return op.but_cores; });
  const std::string but = cores ? ", all but the cores of attention" : "";
  if (again == 0)
    return head + "keeps all of " + std::to_string(groups) + " groups of ops" + but + ", for " +
           takes + " on its rank are within the budget";
  const std::size_t searched = facts.searched[stage];
  const std::string merged =
      searched > 0 ? " (searched as " + std::to_string(searched) + ")" : std::string();
  Seconds more = 0;
  for (std::size_t g = 0; g < groups; ++g) more += runs[g] * chain.forward[g];
  const Seconds once = std::accumulate(chain.forward.begin(), chain.forward.end(), 0.0);
  return head + "runs " + std::to_string(again) + " of " + std::to_string(groups) +
         " groups of ops" + merged + " again" +
         (often > 0 ? ", " + std::to_string(often) + " more than once" : "") + ", " +
         duration_text(more) + " a microbatch beside a forward of " + duration_text(once) + ": " +
         ranges_text(facts, stage, runs) + "; its rank takes " + takes + ", and with all kept " +
         bytes_text(facts.whole[rank].total);
}

}  // namespace

std::vector<std::string> rotor_text(const RotorFacts& facts) {
  std::vector<std::string> lines = {"recompute rotor: the fastest sequences within " +
                                    bytes_text(facts.budget) + " a device"};
  for (std::size_t stage = 0; stage < facts.sequences.size(); ++stage)
    lines.push_back(stage_text(facts, stage));
  return lines;
}

}  // namespace trainyard
