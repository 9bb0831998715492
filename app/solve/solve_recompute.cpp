// solve: problem `recompute-chain`.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>

#include "app/solve/automatic_problems.h"
#include "app/solve/named_nodes.h"
#include "app/solve/problem_keys.h"
#include "engine/recompute/merge_groups.h"
#include "engine/recompute/rotor.h"
#include "engine/recompute/sized_chain.h"

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::int64_t kMostSlots = 1'000'000;
constexpr double kStepsOfASecond = 1e9;  // of rotor
constexpr double kMostEntries = 4e7;     // of the table of times
constexpr std::size_t kMostGroups = 20'000;
constexpr int kMostGroupsAlone = 1'000;  // whose least memory is found without merging them

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
SizedChain read_chain(const YamlNode& problem) {
  SizedChain out;
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
  if (out.saved[0] != out.input[0]) {
    saved.items()[0].fail("the first is the model's input, of size " + number_text(out.input[0]) +
                          " in x, got " + number_text(out.saved[0]));
  }
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

/// The groups that can be searched with so many slots.
int most_groups(int groups, std::int64_t slots) {
  const auto can = [&](int count) {
    return rotor_steps(count, slots) <= kStepsOfASecond &&
           static_cast<double>(slots + 1) * (count + 1) * (count + 2) / 2 <= kMostEntries;
  };
  while (groups > 1 && !can(groups)) --groups;
  return groups;
}

/// The same chain in slots `times` as large.
RecomputeChain in_larger_slots(RecomputeChain chain, std::int64_t times) {
  for (auto* sizes : {&chain.input, &chain.saved, &chain.forward_extra, &chain.backward_extra}) {
    for (std::int64_t& size : *sizes) size = (size + times - 1) / times;
  }
  return chain;
}

struct Search {
  std::vector<ChainOp> sequence;  // of the whole chain; empty: none was found
  double time = 0;
  int groups = 0;
  bool exhaustive = false;       // of all sequences of the chain as it is rounded
  std::int64_t least_slots = 0;  // of the groups
};

/// Rotor in as many groups as can be searched, `limit` at most. Where merging them leaves no
/// sequence, in larger slots, with which more groups can be.
Search search(const RecomputeChain& chain, std::int64_t slots, int limit) {
  Search out;
  for (std::int64_t times = 1; times <= slots; times *= 2) {
    const int most = std::min(limit, most_groups(chain.num_groups(), slots / times));
    const MergedChain merged = merge_groups(in_larger_slots(chain, times), most);
    const bool whole = merged.chain.num_groups() == chain.num_groups();
    const auto found = rotor(merged.chain, slots / times);
    if (const auto* plan = std::get_if<RecomputePlan>(&found)) {
      return {whole_sequence(merged.ends, plan->sequence), plan->time, merged.chain.num_groups(),
              whole && times == 1, plan->least_slots * times};
    }
    if (times == 1) {
      out.groups = merged.chain.num_groups();
      out.least_slots = least_slots(merged.chain);
    }
    if (most >= std::min(limit, chain.num_groups())) break;
  }
  return out;
}

/// A number of slots, or null where it is too large to be told apart from the next.
Json slots_json(double slots) {
  constexpr double kMostTold = 9e15;
  return slots <= kMostTold ? Json(static_cast<std::int64_t>(slots)) : Json(nullptr);
}

Json none(const Json& feasible, const std::string& reason, const Json& least) {
  return {{"feasible", feasible},
          {"time", nullptr},
          {"sequence", nullptr},
          {"infeasible", reason},
          {"least_slots", least}};
}

/// `within`: "5 slots".
std::string no_sequence(const std::string& within, const Json& least) {
  const std::string text = "no sequence of operations fits " + within;
  return least.is_null() ? text : text + "; " + least.dump() + " are the fewest that work";
}

/// Memory that any sequence takes: the most that a group does alone, beside the input.
double least_alone(const SizedChain& chain) {
  double least = 0;
  for (int i = 0; i < chain.num_groups(); ++i) {
    const double extra = std::max(chain.forward_extra[i], chain.backward_extra[i]);
    least = std::max(least, chain.input[0] + chain.saved[i] + extra);
  }
  return least;
}

double sum(const std::vector<double>& times) {
  return std::accumulate(times.begin(), times.end(), 0.0);
}

}  // namespace

Json solve_recompute_chain(const YamlNode& problem) {
  const SizedChain chain = read_chain(problem);
  const YamlNode of_slots = problem.at("slots");
  Slots slots{of_slots.as_integer(1, kMostSlots), 1};
  std::string within = std::to_string(slots.count) + " slots";
  if (const auto memory = given(problem, "memory")) {
    const double size = read_least_zero(*memory);
    if (size == 0) memory->fail("expected more than 0, got 0");
    slots = slots_of(chain, size, slots.count);
    within = std::to_string(slots.count) + " slots of " + number_text(slots.size);
  }
  const int groups = chain.num_groups();
  int limit = groups;
  if (const auto most = given(problem, "groups"))
    limit = static_cast<int>(most->as_integer(1, most_groups(groups, slots.count)));
  const bool limited = limit < groups;
  const bool small = groups <= kMostGroupsAlone;
  const double memory = slots.size * static_cast<double>(slots.count);
  const double least = small ? least_memory(chain) : least_alone(chain);
  Json fewest = small ? slots_json(whole_slots(least, slots.size, Rounding::kUp)) : Json(nullptr);
  if (!is_within(least, memory)) return none(false, no_sequence(within, fewest), fewest);

  const RecomputeChain rounded = in_slots(chain, slots.size, Rounding::kUp);
  Search found = search(rounded, slots.count, limit);
  if (!small || limited) fewest = slots_json(static_cast<double>(found.least_slots));
  if (found.sequence.empty() && (limited || !small)) {
    if (limited) {
      return none(false,
                  no_sequence(within, fewest) + ", in " + std::to_string(found.groups) + " groups",
                  fewest);
    }
    return none(nullptr,
                no_sequence(within, nullptr) + " in " + std::to_string(found.groups) +
                    " merged groups; whether one of all " + std::to_string(groups) +
                    " does is not known",
                nullptr);
  }
  if (found.sequence.empty()) {
    found.sequence = least_sequence(chain);
    found.time = plan_of(chain, found.sequence).time;
    found.groups = groups;
  }
  const double once = sum(chain.forward) + sum(chain.backward);
  double bound = found.exhaustive && found.time <= once ? found.time : once;
  if (bound < found.time && !limited && most_groups(groups, slots.count) == groups) {
    const auto of_smaller = rotor(in_slots(chain, slots.size, Rounding::kDown), slots.count);
    if (const auto* fastest = std::get_if<RecomputePlan>(&of_smaller)) bound = fastest->time;
  }
  const SizedPlan plan = plan_of(chain, found.sequence);
  return {{"feasible", true},
          {"time", found.time},
          {"sequence", to_text(plan.sequence)},
          {"peak_slots", slots_json(whole_slots(plan.peak, slots.size, Rounding::kUp))},
          {"least_slots", fewest},
          {"slot", slots.size},
          {"time_without_recomputation", once},
          {"groups", found.groups},
          {"bound", bound}};
}

}  // namespace trainyard
