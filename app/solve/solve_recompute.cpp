// solve: problem `recompute-chain`.
#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "app/solve/automatic_problems.h"
#include "app/solve/named_nodes.h"
#include "app/solve/problem_keys.h"
#include "engine/recompute/merge_groups.h"
#include "engine/recompute/rotor.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostSlots = 1'000'000;
constexpr double kMostSteps = 1e9;    // a second
constexpr double kMostEntries = 4e7;  // of the table of times
constexpr std::size_t kMostGroups = 20'000;

/// Numbers >= 0, as many as `count`.
std::vector<double> read_numbers(const YamlNode& list, std::size_t count) {
  std::vector<double> out;
  for (const YamlNode& item : list.items()) out.push_back(read_least_zero(item));
  if (out.size() != count) {
    list.fail("expected " + std::to_string(count) + " numbers, got " + std::to_string(out.size()));
  }
  return out;
}

std::vector<double> numbers_or_zeros(const YamlNode& map, const char* key, std::size_t count) {
  const auto list = given(map, key);
  return list ? read_numbers(*list, count) : std::vector<double>(count, 0);
}

/// The chain with sizes in the unit in which they are written.
struct WrittenChain {
  std::vector<double> forward, backward, input, saved, forward_extra, backward_extra;
};

WrittenChain read_chain(const YamlNode& problem) {
  WrittenChain out;
  const YamlNode forward = problem.at("ftime");
  const std::size_t groups = forward.items().size();
  if (groups == 0) forward.fail("expected at least one group");
  if (groups > kMostGroups)
    forward.fail("expected at most " + std::to_string(kMostGroups) + " groups");
  out.forward = read_numbers(forward, groups);
  out.backward = read_numbers(problem.at("btime"), groups + 1);
  out.input = read_numbers(problem.at("x"), groups + 1);
  const YamlNode saved = problem.at("xbar");
  out.saved = read_numbers(saved, groups + 1);
  out.saved.erase(out.saved.begin());
  for (std::size_t i = 0; i < groups; ++i) {
    if (out.saved[i] < out.input[i + 1]) {
      saved.items()[i + 1].fail(
          "what group " + std::to_string(i) + " keeps has its result in it, of size " +
          number_text(out.input[i + 1]) + ", got " + number_text(out.saved[i]));
    }
  }
  out.forward_extra = numbers_or_zeros(problem, "ftmp", groups);
  out.backward_extra = numbers_or_zeros(problem, "btmp", groups + 1);
  const auto moved = given(problem, "communication");
  if (!moved) return out;
  const auto add = [&](std::vector<double>& to, const char* key) {
    const std::vector<double> of_groups = numbers_or_zeros(*moved, key, groups);
    for (std::size_t i = 0; i < groups; ++i) to[i] += of_groups[i];
  };
  add(out.forward, "ftime");
  add(out.backward, "btime");
  add(out.forward_extra, "ftmp");
  add(out.backward_extra, "btmp");
  moved->finish();
  return out;
}

std::vector<std::int64_t> in_slots(const std::vector<double>& sizes, double unit,
                                   std::int64_t most) {
  std::vector<std::int64_t> out;
  for (const double size : sizes) {
    // What is larger than the memory does not fit, however much larger it is.
    out.push_back(size > unit * static_cast<double>(most)
                      ? most + 1
                      : static_cast<std::int64_t>(std::ceil(size / unit)));
  }
  return out;
}

/// The groups that can be searched with so many slots.
int most_groups(int groups, std::int64_t slots) {
  const auto can = [&](int count) {
    return rotor_steps(count, slots) <= kMostSteps &&
           static_cast<double>(slots + 1) * (count + 1) * (count + 2) / 2 <= kMostEntries;
  };
  while (groups > 1 && !can(groups)) --groups;
  return groups;
}

}  // namespace

Json solve_recompute_chain(const YamlNode& problem) {
  const WrittenChain written = read_chain(problem);
  const YamlNode of_slots = problem.at("slots");
  const std::int64_t slots = of_slots.as_integer(1, kMostSlots);
  double unit = 1;
  if (const auto memory = given(problem, "memory")) {
    unit = read_least_zero(*memory) / static_cast<double>(slots);
    if (unit == 0) memory->fail("expected more than 0, got 0");
  }
  RecomputeChain chain;
  chain.forward = written.forward;
  chain.backward = written.backward;
  chain.input = in_slots(written.input, unit, kMostSlots);
  chain.saved = in_slots(written.saved, unit, kMostSlots);
  chain.forward_extra = in_slots(written.forward_extra, unit, kMostSlots);
  chain.backward_extra = in_slots(written.backward_extra, unit, kMostSlots);
  int most = most_groups(chain.num_groups(), slots);
  if (const auto groups = given(problem, "groups"))
    most = static_cast<int>(groups->as_integer(1, most));
  const MergedChain merged = merge_groups(chain, most);
  const bool whole = merged.chain.num_groups() == chain.num_groups();
  const auto found = rotor(merged.chain, slots);
  if (const auto* none = std::get_if<Infeasible>(&found)) {
    return {{"feasible", false},
            {"time", nullptr},
            {"sequence", nullptr},
            {"infeasible", whole ? none->reason
                                 : none->reason + ", in " +
                                       std::to_string(merged.chain.num_groups()) + " groups"},
            {"least_slots", least_slots(merged.chain)}};
  }
  const auto& plan = std::get<RecomputePlan>(found);
  const std::vector<ChainOp> sequence = whole_sequence(merged, plan.sequence);
  const auto outcome = std::get<ChainOutcome>(run_sequence(chain, sequence));
  double once = 0;
  for (const double time : chain.forward) once += time;
  for (const double time : chain.backward) once += time;
  return {{"feasible", true},
          {"time", plan.time},
          {"sequence", to_text(sequence)},
          {"peak_slots", outcome.peak},
          {"least_slots", plan.least_slots},
          {"time_without_recomputation", once},
          {"groups", merged.chain.num_groups()},
          {"bound", whole ? plan.time : once}};
}

}  // namespace trainyard
