// RaNNC's stage level: golden vectors, the paper's counterexamples, brute force on small cases.
#include "engine/partition/stage_search.h"

#include <algorithm>
#include <bit>
#include <functional>
#include <random>

#include "tests/support/golden.h"

namespace trainyard::stage_search_test {

namespace {

using Json = nlohmann::json;

struct Block {
  double forward, backward, memory, activation;
};

std::vector<Block> blocks_of(const Json& rows) {
  std::vector<Block> out;
  for (const Json& row : rows) out.push_back({row.at(0), row.at(1), row.at(2), row.at(3)});
  return out;
}

StageCosts costs_of(const std::vector<Block>& blocks) {
  return [&blocks](std::size_t first, std::size_t end, std::int64_t samples, std::int64_t) {
    StageCost out;
    const auto count = static_cast<double>(samples);
    for (std::size_t b = first; b < end; ++b) {
      out.forward += blocks[b].forward * count;
      out.backward += blocks[b].backward * count;
      out.memory += blocks[b].memory + blocks[b].activation * count;
    }
    return out;
  };
}

StageProblem problem_of(const Json& given, std::size_t num_blocks, StageRule rule) {
  StageProblem out;
  out.num_blocks = num_blocks;
  out.stages = given.at("S");
  out.devices = given.at("D");
  out.batch = given.at("BS");
  out.replicas = given.value("R", 1);
  out.microbatches = given.value("MB", 1);
  out.memory = given.value("M", 1e18);
  out.rule = rule;
  out.round_up = out.powers_of_two = rule == StageRule::kCode;
  return out;
}

double value_of(const StageProblem& problem, const StageCosts& costs) {
  const auto found = divide_into_stages(problem, costs);
  const auto* division = std::get_if<StageDivision>(&found);
  return division == nullptr ? -1 : division->value;
}

double golden_value(const Json& answer) {
  return answer.is_null() ? -1 : answer.at(0).get<double>();
}

/// The least value of all divisions, -1: there is none.
double brute_force(const StageProblem& problem, const StageCosts& costs) {
  double best = -1;
  const std::function<void(std::int64_t, std::size_t, std::int64_t, double, double)> go =
      [&](std::int64_t stages, std::size_t first, std::int64_t devices, double forward,
          double backward) {
        if (stages == 0) {
          if (first < problem.num_blocks || devices > 0) return;
          if (best < 0 || forward + backward < best) best = forward + backward;
          return;
        }
        for (std::size_t end = first + 1; end <= problem.num_blocks; ++end) {
          for (std::int64_t k = 1; k <= devices; ++k) {
            const std::int64_t parts = problem.replicas * problem.microbatches * k;
            const std::int64_t whole = problem.replicas * problem.microbatches;
            if (problem.powers_of_two && !std::has_single_bit(static_cast<std::uint64_t>(k)))
              continue;
            const std::int64_t samples =
                problem.round_up ? (problem.batch + parts - 1) / parts : problem.batch / parts;
            if (samples < 1 || (problem.round_up && k > (problem.batch + whole - 1) / whole))
              continue;
            const StageCost cost = costs(first, end, samples, k);
            if (cost.memory > problem.memory) continue;
            go(stages - 1, end, devices - k, std::max(forward, cost.forward + cost.send_forward),
               std::max(backward, cost.backward + cost.send_backward));
          }
        }
      };
  go(problem.stages, 0, problem.devices, 0, 0);
  return best;
}

/// Whether a division is one, and its value what its stages make it.
void check_division(const StageProblem& problem, const StageCosts& costs,
                    const StageDivision& division) {
  REQUIRE(std::ssize(division.ends) == problem.stages);
  CHECK(division.ends.back() == problem.num_blocks);
  std::int64_t devices = 0;
  double forward = 0, backward = 0;
  std::size_t first = 0;
  for (std::size_t s = 0; s < division.ends.size(); ++s) {
    REQUIRE(division.ends[s] > first);
    const std::int64_t parts = problem.replicas * problem.microbatches * division.devices[s];
    const StageCost cost =
        costs(first, division.ends[s],
              problem.round_up ? (problem.batch + parts - 1) / parts : problem.batch / parts,
              division.devices[s]);
    CHECK(cost.memory <= problem.memory);
    forward = std::max(forward, cost.forward + cost.send_forward);
    backward = std::max(backward, cost.backward + cost.send_backward);
    devices += division.devices[s];
    first = division.ends[s];
  }
  CHECK(devices == problem.devices);
  CHECK(division.value == forward + backward);
}

int draw(std::mt19937& random, int least, int most) {
  return std::uniform_int_distribution(least, most)(random);
}

StageProblem random_problem(std::mt19937& random, std::vector<Block>& blocks) {
  blocks.resize(static_cast<std::size_t>(draw(random, 1, 5)));
  for (Block& block : blocks) {
    block = {static_cast<double>(draw(random, 0, 9)), static_cast<double>(draw(random, 0, 9)),
             static_cast<double>(draw(random, 0, 4)), static_cast<double>(draw(random, 0, 2))};
  }
  StageProblem out;
  out.num_blocks = blocks.size();
  out.stages = draw(random, 1, static_cast<int>(blocks.size()));
  out.devices = draw(random, static_cast<int>(out.stages), 6);
  out.batch = draw(random, 1, 40);
  out.microbatches = draw(random, 1, 3);
  out.replicas = draw(random, 1, 2);
  out.memory = draw(random, 5, 60);
  out.round_up = draw(random, 0, 1) == 1;
  out.powers_of_two = draw(random, 0, 3) == 0;
  return out;
}

}  // namespace

TEST_CASE("stages of the golden cases: paper, code and exact") {
  const Json golden = golden_json("rannc_dp_and_memory.json");
  REQUIRE(golden.at("cases").size() == 12);
  for (const Json& given : golden.at("cases")) {
    const std::vector<Block> blocks = blocks_of(golden.at("sets").at(given.at("blocks")));
    const StageCosts costs = costs_of(blocks);
    CAPTURE(given.dump());
    const auto value = [&](StageRule rule) {
      return value_of(problem_of(given, blocks.size(), rule), costs);
    };
    CHECK(value(StageRule::kPaper) == golden_value(given.at("paper_dp")));
    CHECK(value(StageRule::kExact) == golden_value(given.at("bruteforce_floor")));
    CHECK(value(StageRule::kCode) == golden_value(given.at("bruteforce_code_rule_pow2_ceil")));
    const auto paper =
        divide_into_stages(problem_of(given, blocks.size(), StageRule::kPaper), costs);
    if (const auto* division = std::get_if<StageDivision>(&paper)) {
      CHECK(Json(division->ends) == given.at("paper_dp").at(1));
      CHECK(Json(division->devices) == given.at("paper_dp").at(2));
    }
  }
}

TEST_CASE("the paper's table is not optimal: largest forward and backward are two maxima") {
  const Json given = golden_json("rannc_dp_and_memory.json").at("dp_not_optimal_counterexample");
  const std::vector<Block> blocks = blocks_of(given.at("blocks"));
  const StageCosts costs = costs_of(blocks);
  CHECK(value_of(problem_of(given, 3, StageRule::kPaper), costs) == 240);
  const auto exact = divide_into_stages(problem_of(given, 3, StageRule::kExact), costs);
  REQUIRE(std::holds_alternative<StageDivision>(exact));
  CHECK(std::get<StageDivision>(exact).value == 192);
  CHECK(std::get<StageDivision>(exact).devices == std::vector<std::int64_t>{2, 1, 1});
}

TEST_CASE("d_min that is kept over stage counts loses divisions") {
  const Json given = golden_json("rannc_dp_and_memory.json").at("dmin_persistence_counterexample");
  const std::vector<Block> blocks = blocks_of(given.at("blocks"));
  const StageCosts costs = costs_of(blocks);
  StageProblem problem = problem_of(given, 4, StageRule::kPaper);
  CHECK(value_of(problem, costs) == 396);
  problem.keep_least_devices = true;
  const auto kept = divide_into_stages(problem, costs);
  REQUIRE(std::holds_alternative<StageDivision>(kept));
  const auto& division = std::get<StageDivision>(kept);
  CHECK(std::vector<double>{division.value, division.forward, division.backward} ==
        given.at("persistent").get<std::vector<double>>());
  CHECK(value_of(problem_of(given, 4, StageRule::kExact), costs) == 396);
}

TEST_CASE("exact is the least of all divisions, on 10,000 small cases") {
  std::mt19937 random(2103);
  int feasible = 0, better = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::vector<Block> blocks;
    StageProblem problem = random_problem(random, blocks);
    const StageCosts costs = costs_of(blocks);
    problem.rule = StageRule::kExact;
    const double least = brute_force(problem, costs);
    const auto found = divide_into_stages(problem, costs);
    const auto* division = std::get_if<StageDivision>(&found);
    REQUIRE((division == nullptr ? -1 : division->value) == least);
    if (division == nullptr) {
      CHECK_FALSE(std::get<Infeasible>(found).reason.empty());
      continue;
    }
    ++feasible;
    check_division(problem, costs, *division);
    // The paper's is a division, too, where it finds one.
    problem.rule = StageRule::kPaper;
    const auto by_table = divide_into_stages(problem, costs);
    const auto* paper = std::get_if<StageDivision>(&by_table);
    if (paper == nullptr) continue;
    check_division(problem, costs, *paper);
    CHECK(paper->value >= division->value);
    better += paper->value > division->value ? 1 : 0;
  }
  CHECK(feasible > 3000);
  CHECK(better > 0);
}

TEST_CASE("exact with times to send, where forwards and backwards pull apart") {
  std::mt19937 random(77);
  for (int round = 0; round < 500; ++round) {
    const std::size_t num_blocks = 7;
    std::vector<std::vector<StageCost>> table(num_blocks, std::vector<StageCost>(num_blocks + 1));
    for (auto& row : table) {
      for (StageCost& cost : row) {
        cost = {static_cast<double>(draw(random, 0, 20)), static_cast<double>(draw(random, 0, 20)),
                static_cast<double>(draw(random, 0, 5)), static_cast<double>(draw(random, 0, 5)),
                static_cast<double>(draw(random, 0, 10))};
      }
    }
    const StageCosts costs = [&](std::size_t first, std::size_t end, std::int64_t samples,
                                 std::int64_t) {
      StageCost cost = table[first][end];
      cost.forward *= static_cast<double>(samples);
      return cost;
    };
    StageProblem problem;
    problem.num_blocks = num_blocks;
    problem.stages = draw(random, 2, 5);
    problem.devices = draw(random, 5, 7);
    problem.batch = 12;
    problem.memory = 9;
    CHECK(value_of(problem, costs) == brute_force(problem, costs));
  }
}

TEST_CASE("what cannot be divided has a reason") {
  const std::vector<Block> blocks = {{1, 1, 5, 0}, {1, 1, 9, 0}};
  const auto reason = [&](const auto& change) {
    StageProblem problem;
    problem.num_blocks = 2;
    problem.memory = 100;
    problem.batch = 8;
    change(problem);
    const auto found = divide_into_stages(problem, costs_of(blocks));
    const auto* none = std::get_if<Infeasible>(&found);
    return none == nullptr ? std::string("none") : none->reason;
  };
  CHECK(reason([](StageProblem& p) { p.num_blocks = 0; }) == "there are no blocks to divide");
  CHECK(reason([](StageProblem& p) { p.stages = p.devices = 3; }) ==
        "2 blocks cannot make 3 stages");
  CHECK(reason([](StageProblem& p) { p.stages = 2; }) ==
        "1 device cannot have 2 stages, each at least one");
  CHECK(reason([](StageProblem& p) { p.microbatches = 9; }) ==
        "a batch of 8 has no sample for each of 1 replica x 9 microbatches");
  CHECK(reason([](StageProblem& p) { p.memory = 8; }) ==
        "block 1 alone needs memory of 9, and a device has 8");
  CHECK(reason([](StageProblem& p) { p.memory = 13; }) ==
        "no division into 1 stage on 1 device fits in memory of 13 with a sample for every device");
  CHECK(reason([](StageProblem& p) { p.devices = 20; }).starts_with("no division"));
  CHECK(reason([](StageProblem& p) { p.stages = p.devices = 2; }) == "none");
}

}  // namespace trainyard::stage_search_test
