// Rotor: golden sequences, the best of all persistent sequences on small chains, communication.
#include "engine/recompute/rotor.h"

#include <map>
#include <queue>
#include <random>

#include "engine/base/units.h"
#include "engine/recompute/sized_chain.h"
#include "tests/support/golden.h"

namespace trainyard::rotor_test {

namespace {

RecomputeChain chain_of(const nlohmann::json& given) {
  RecomputeChain chain;
  chain.forward = given.at("ftime").get<std::vector<double>>();
  chain.backward = given.at("btime").get<std::vector<double>>();
  chain.input = given.at("x").get<std::vector<std::int64_t>>();
  chain.saved = given.at("xbar").get<std::vector<std::int64_t>>();
  chain.saved.erase(chain.saved.begin());
  chain.forward_extra = given.at("ftmp").get<std::vector<std::int64_t>>();
  chain.backward_extra = given.at("btmp").get<std::vector<std::int64_t>>();
  return chain;
}

/// Every persistent sequence, by the shortest way through what may be in memory. It shares nothing
/// with rotor() but the chain: no groups s to t, no memory left over.
class AllSequences {
 public:
  AllSequences(const RecomputeChain& chain, std::int64_t slots) : chain_(chain), slots_(slots) {}

  double best() {
    push(State{}, 0);
    while (!queue_.empty()) {
      const auto [time, state] = queue_.top();
      queue_.pop();
      if (time > seen_.at(state)) continue;
      const auto& [kept, saved, passing, gradient] = state;
      if (gradient == 0) return time;
      go_on(state, time);
    }
    return kForever;
  }

 private:
  // Checkpoints and saved groups as bits, the activation that passes (-1: none), the gradient.
  struct State {
    unsigned kept = 1, saved = 0;
    int passing = -1, gradient = 1000;
    friend auto operator<=>(const State&, const State&) = default;
  };

  std::int64_t held(const State& state) const {
    const auto& [kept, saved, passing, gradient] = state;
    std::int64_t sum = passing >= 0 ? chain_.input[passing] : 0;
    if (gradient <= groups()) sum += chain_.input[gradient];
    for (int i = 0; i <= groups(); ++i) {
      if ((kept >> i & 1U) != 0) sum += chain_.input[i];
      if (i > 0 && (saved >> i & 1U) != 0) sum += chain_.saved[i - 1];
    }
    return sum;
  }
  int groups() const { return chain_.num_groups(); }

  void push(const State& state, double time) {
    const auto [at, is_new] = seen_.emplace(state, time);
    if (!is_new && at->second <= time) return;
    at->second = time;
    queue_.emplace(time, state);
  }

  void go_on(const State& state, double time) {
    const auto& [kept, saved, passing, gradient] = state;
    for (int i = 0; i < groups(); ++i) {
      const bool in_memory = ((kept | saved) >> i & 1U) != 0;
      if (passing >= 0 ? passing != i : !in_memory) continue;
      const bool separate = (saved >> i & 1U) == 0;
      const unsigned with_input = separate ? kept | 1U << i : kept;
      if (gradient <= i) continue;  // its backward is done
      const double after = time + chain_.forward[i];
      const std::int64_t dropped = held(state) + chain_.input[i + 1] + chain_.forward_extra[i];
      const std::int64_t keeping = held(state) + chain_.saved[i] + chain_.forward_extra[i];
      if (dropped <= slots_) {
        push(State{with_input, saved, i + 1, gradient}, after);
        if (passing == i) push(State{kept, saved, i + 1, gradient}, after);
      }
      if (keeping <= slots_ && (saved >> (i + 1) & 1U) == 0)
        push(State{with_input, saved | 1U << (i + 1), -1, gradient}, after);
    }
    const int next = gradient > groups() ? groups() : gradient - 1;
    const unsigned bit = 1U << next;
    if (passing >= 0 && passing != next) return;
    if (passing < 0 && ((kept | saved) & bit) == 0) return;
    if (next < groups() && (saved >> (next + 1) & 1U) == 0) return;
    if (held(state) + chain_.backward_extra[next] > slots_) return;
    push(State{kept & ~bit, next < groups() ? saved & ~(bit << 1) : saved, -1, next},
         time + chain_.backward[next]);
  }

  const RecomputeChain& chain_;
  std::int64_t slots_;
  std::map<State, double> seen_;
  std::priority_queue<std::pair<double, State>, std::vector<std::pair<double, State>>,
                      std::greater<>>
      queue_;
};

RecomputeChain random_chain(std::mt19937& random, int groups, std::int64_t most_extra) {
  const auto draw = [&](std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(random);
  };
  RecomputeChain chain;
  chain.input.push_back(draw(1, 3));
  for (int i = 0; i < groups; ++i) {
    chain.forward.push_back(static_cast<double>(draw(1, 5)));
    chain.backward.push_back(static_cast<double>(draw(1, 9)));
    chain.input.push_back(draw(1, 3));
    chain.saved.push_back(chain.input.back() + draw(0, 3));
    chain.forward_extra.push_back(draw(0, most_extra));
    chain.backward_extra.push_back(draw(0, most_extra));
  }
  chain.backward.push_back(static_cast<double>(draw(0, 2)));
  chain.backward_extra.push_back(draw(0, most_extra));
  return chain;
}

}  // namespace

TEST_CASE("rotor makes the golden sequences in the golden times") {
  int checked = 0;
  const auto golden = golden_json("rotor_small_chains.json");
  for (const auto& given : golden.at("cases")) {
    const RecomputeChain chain = chain_of(given);
    for (const auto& row : given.at("slots_time_sequence")) {
      const auto slots = row[0].get<std::int64_t>();
      CAPTURE(given.at("name").get<std::string>(), slots);
      const auto found = rotor(chain, slots);
      REQUIRE(std::holds_alternative<Infeasible>(found) == row[1].is_null());
      ++checked;
      if (row[1].is_null()) {
        CHECK(slots < least_slots(chain));
        continue;
      }
      const auto& plan = std::get<RecomputePlan>(found);
      CHECK(plan.time == row[1].get<double>());
      CHECK(to_text(plan.sequence) == row[2].get<std::string>());
      CHECK(plan.peak <= slots);
    }
  }
  CHECK(checked == 36);
}

TEST_CASE("rotor is as fast as the best persistent sequence of any kind") {
  std::mt19937 random(20);
  for (int trial = 0; trial < 60; ++trial) {
    const RecomputeChain chain = random_chain(random, 2 + trial % 4, trial % 3 * 2);
    const std::int64_t least = least_slots(chain);
    CHECK(AllSequences(chain, least - 1).best() == kForever);
    for (std::int64_t slots = least; slots < least + 24; slots += 1 + slots % 2) {
      CAPTURE(trial, slots, least);
      const auto found = rotor(chain, slots);
      REQUIRE(std::holds_alternative<RecomputePlan>(found));
      const auto& plan = std::get<RecomputePlan>(found);
      CHECK(plan.time == AllSequences(chain, slots).best());
      CHECK(std::get<ChainOutcome>(run_sequence(chain, plan.sequence)).time == plan.time);
    }
  }
}

TEST_CASE("the sequence of least memory takes the fewest slots that rotor says") {
  std::mt19937 random(7);
  for (int at = 0; at < 200; ++at) {
    CAPTURE(at);
    const RecomputeChain chain = random_chain(random, 1 + at % 9, at % 4);
    const auto sized = [](const std::vector<std::int64_t>& slots) {
      return std::vector<double>(slots.begin(), slots.end());
    };
    const SizedChain as_sizes = {chain.forward,
                                 chain.backward,
                                 sized(chain.input),
                                 sized(chain.saved),
                                 sized(chain.forward_extra),
                                 sized(chain.backward_extra)};
    const auto least = static_cast<double>(least_slots(chain));
    CHECK(least_memory(as_sizes) == least);
    const SizedPlan plan = plan_of(as_sizes, least_sequence(as_sizes));
    CHECK(plan.peak == least);
    // Rotor with as many slots is the fastest of those.
    CHECK(bound_within(as_sizes, least, 1000) <= plan.time);
    CHECK(fastest_within(as_sizes, least, 1000)->peak <= least);
    CHECK_FALSE(fastest_within(as_sizes, least - 0.5, 1000));
  }
}

TEST_CASE("a sequence that cannot run is refused at its operation") {
  using Kind = ChainOp::Kind;
  const RecomputeChain chain{{1, 1}, {2, 2, 0}, {1, 1, 1}, {2, 2}, {0, 0}, {0, 0, 0}};
  const auto reason = [&](const std::vector<ChainOp>& sequence) {
    const auto outcome = run_sequence(chain, sequence);
    const auto* none = std::get_if<Infeasible>(&outcome);
    return none == nullptr ? "none" : none->reason;
  };
  CHECK(reason({{Kind::kForwardSaving, 1}}) == "operation 0, Fe1: its input is not in memory");
  CHECK(reason({{Kind::kForwardSaving, 0},
                {Kind::kForward, 1},
                {Kind::kLoss, 2},
                {Kind::kBackward, 1}}) == "operation 3, B1: what it reads is not in memory");
  CHECK(reason({{Kind::kForward, 0}, {Kind::kForward, 0}}) ==
        "operation 1, Fn0: a forward's result would be lost");
  CHECK(reason({{Kind::kForwardSaving, 0}, {Kind::kForwardSaving, 1}, {Kind::kLoss, 2}}) ==
        "the backward of group 0 is missing");
}

}  // namespace trainyard::rotor_test
