// Rotor with several microbatches in flight: rotor where there is one, and otherwise the best of
// every way to keep or drop what a forward makes.
#include "engine/recompute/rotor_in_flight.h"

#include <catch2/catch.hpp>
#include <functional>
#include <random>

#include "engine/base/units.h"
#include "engine/recompute/rotor.h"
#include "engine/recompute/sized_chain.h"

namespace trainyard::rotor_in_flight_test {

namespace {

/// Whole sizes, so that a slot of 1 rounds nothing; all that is saved is under 64.
SizedChain random_chain(std::mt19937& random, int groups) {
  const auto draw = [&](int least, int most) {
    return static_cast<double>(least + static_cast<int>(random() % (most - least + 1)));
  };
  SizedChain out;
  out.input.push_back(draw(1, 3));
  for (int g = 0; g < groups; ++g) {
    out.forward.push_back(draw(1, 9));
    out.backward.push_back(draw(1, 9));
    out.input.push_back(draw(1, 3));
    out.saved.push_back(out.input.back() + draw(0, 6));
    out.forward_extra.push_back(draw(0, 2));
    out.backward_extra.push_back(draw(0, 4));
  }
  out.backward.push_back(0);
  out.backward_extra.push_back(draw(0, 2));
  return out;
}

/// What stays behind the forward: the input, what groups keep, and what follows on a stretch that
/// is dropped.
double kept_behind(const SizedChain& chain, const std::vector<ChainOp>& sequence) {
  double sum = chain.input[0];
  for (std::size_t at = 0; sequence[at].kind != ChainOp::Kind::kLoss; ++at) {
    const ChainOp& op = sequence[at];
    const bool ends = sequence[at + 1].kind != ChainOp::Kind::kForward;
    if (op.kind == ChainOp::Kind::kForwardSaving) {
      sum += chain.saved[op.group];
    } else if (ends) {
      sum += chain.input[op.group + 1];
    }
  }
  return sum;
}

/// Every way to cut a forward into groups that are kept and stretches that are not; of a stretch
/// rotor's table is asked.
double best_of_all(const SizedChain& chain, int microbatches, double memory) {
  const int groups = chain.num_groups();
  double best = kForever;
  const RecomputeChain slots = in_slots(chain, 1, Rounding::kUp);
  const LeastMemory<std::int64_t> least(slots);
  const RotorTable table(slots, least, static_cast<std::int64_t>(memory));
  struct Cut {
    int begin, end;
    bool kept;
  };
  std::vector<Cut> cuts;
  const auto rate = [&] {
    double behind = chain.input[0];
    for (const Cut& cut : cuts) behind += cut.kept ? chain.saved[cut.begin] : chain.input[cut.end];
    const double own = memory - (microbatches - 1) * behind;
    double used = chain.input[0], time = 0;
    for (const Cut& cut : cuts) {
      const double beside = own - used;
      if (cut.kept) {
        const int g = cut.begin;
        const double needs =
            chain.saved[g] +
            std::max(chain.forward_extra[g], chain.input[g + 1] + chain.backward_extra[g]);
        if (needs > beside) return;
        time += chain.forward[g] + chain.backward[g];
        used += chain.saved[g];
        continue;
      }
      for (int g = cut.begin; g < cut.end; ++g) {
        const double passing = (g > cut.begin ? chain.input[g] : 0) + chain.input[g + 1];
        if (passing + chain.forward_extra[g] > beside) return;
        time += chain.forward[g];
      }
      if (beside < 0) return;
      time += table.time(cut.begin, cut.end - 1, static_cast<std::int64_t>(beside));
      used += chain.input[cut.end];
    }
    if (chain.backward_extra[groups] > own - used) return;
    best = std::min(best, time);
  };
  const std::function<void(int)> go_on = [&](int begin) {
    if (begin == groups) return rate();
    cuts.push_back({begin, begin + 1, true});
    go_on(begin + 1);
    cuts.pop_back();
    for (int end = begin + 1; end <= groups; ++end) {
      cuts.push_back({begin, end, false});
      go_on(end);
      cuts.pop_back();
    }
  };
  go_on(0);
  return best;
}

}  // namespace

TEST_CASE("with one microbatch in flight it is rotor") {
  std::mt19937 random(1);
  for (int n = 0; n < 60; ++n) {
    const SizedChain chain = random_chain(random, 1 + n % 7);
    RotorTables tables;
    for (std::int64_t slots = 4; slots < 70; slots += 3) {
      const auto expected = rotor(in_slots(chain, 1, Rounding::kUp), slots);
      const RotorInFlight one({{chain, 1}}, 80, 80, tables);
      const auto found = one.solve(static_cast<double>(slots));
      CAPTURE(n, slots);
      REQUIRE(found.has_value() == std::holds_alternative<RecomputePlan>(expected));
      if (!found) continue;
      CHECK(plan_of(chain, found->front()).time == std::get<RecomputePlan>(expected).time);
    }
  }
}

TEST_CASE("with several in flight it is the best of every way to keep and to drop") {
  std::mt19937 random(2);
  int solved = 0;
  for (int n = 0; n < 40; ++n) {
    const SizedChain chain = random_chain(random, 1 + n % 5);
    const int microbatches = 2 + n % 3;
    RotorTables tables;
    for (std::int64_t memory = 10; memory <= 120; memory += 11) {
      const RotorInFlight several({{chain, microbatches}}, 120, 120, tables);
      const auto found = several.solve(static_cast<double>(memory));
      const double best = best_of_all(chain, microbatches, static_cast<double>(memory));
      CAPTURE(n, memory);
      REQUIRE(found.has_value() == (best < kForever));
      if (!found) continue;
      ++solved;
      const SizedPlan plan = plan_of(chain, found->front());
      CHECK(plan.time == Approx(best));
      const double others = kept_behind(chain, found->front()) * (microbatches - 1);
      CHECK(others + plan.peak <= static_cast<double>(memory));
    }
  }
  CHECK(solved > 100);
}

TEST_CASE("chains of like groups share a table, whenever they were timed") {
  std::mt19937 random(4);
  const SizedChain chain = random_chain(random, 4);
  RotorTables tables;
  const auto first = tables.of(chain, 1, 40);
  SizedChain later = chain;
  for (double& time : later.forward) time *= 1 + 1e-12;  // as an end minus a begin is rounded
  CHECK(tables.of(later, 1, 40) == first);
  later.forward[2] *= 1.001;
  CHECK(tables.of(later, 1, 40) != first);
  SizedChain larger = chain;
  larger.saved[1] += 1;
  CHECK(tables.of(larger, 1, 40) != first);
  CHECK(tables.of(chain, 2, 40) != first);
  CHECK(tables.of(chain, 1, 80) != first);
}

TEST_CASE("stages of one rank share its memory, and more of it costs no time") {
  std::mt19937 random(3);
  const std::vector<ChainInFlight> stages = {{random_chain(random, 6), 3},
                                             {random_chain(random, 6), 2}};
  RotorTables tables;
  const RotorInFlight rotor(stages, 400, 400, tables);
  double before = kForever;
  int sequences = 0;
  for (double memory = 20; memory <= 400; memory += 20) {
    const auto found = rotor.solve(memory);
    if (!found) {
      CHECK(before == kForever);
      continue;
    }
    ++sequences;
    double time = 0, behind = 0, most = 0;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const SizedChain& chain = stages[s].chain;
      const SizedPlan plan = plan_of(chain, (*found)[s]);
      const double kept = kept_behind(chain, (*found)[s]);
      time += plan.time;
      behind += kept * stages[s].microbatches;
      most = std::max(most, plan.peak - kept);
    }
    CHECK(behind + most <= memory);
    CHECK(time <= before);
    before = time;
  }
  CHECK(sequences > 5);
}

TEST_CASE("sequences are read as they are written") {
  const std::string text = "CF0 Fn1 Fs2 L B2 Fe0 Fe1 B1 B0";
  const auto read = parse_sequence(text);
  REQUIRE(std::holds_alternative<std::vector<ChainOp>>(read));
  const auto& sequence = std::get<std::vector<ChainOp>>(read);
  CHECK(to_text(sequence) == text);
  CHECK(find_violation(sequence, 3) == std::nullopt);
  CHECK(find_violation(sequence, 2) == "it is of 3 groups, and there are 2");
  const auto wrong = [](const std::string& other) {
    const auto none = parse_sequence(other);
    return std::holds_alternative<Infeasible>(none) ? std::get<Infeasible>(none).reason : "";
  };
  CHECK(wrong("Fe0 B0") == "expected an L between forwards and backwards");
  CHECK(wrong("Fe0 L Bx") ==
        "expected Fe, Fs, CF, Fn or B with the number of a group, or one L, got 'Bx'");
  const auto violation = [](const std::string& other, int groups) {
    return find_violation(std::get<std::vector<ChainOp>>(parse_sequence(other)), groups).value();
  };
  CHECK(violation("Fe0 Fe0 L B0", 1) ==
        "in front of L forwards of all groups in turn are expected, "
        "got Fe0");
  CHECK(violation("CF0 L B0", 1) == "operation 2, B0: what it reads is not in memory");
  CHECK(violation("Fe0 L", 1) == "the backward of group 0 is missing");
}

}  // namespace trainyard::rotor_in_flight_test
