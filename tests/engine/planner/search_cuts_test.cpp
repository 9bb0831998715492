// Cuts for the shortest step.
#include "engine/planner/search_cuts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "engine/exec/analytic_executor.h"
#include "engine/exec/costs.h"
#include "engine/partition/stage_partition.h"
#include "engine/passes/one_stage_graph.h"
#include "engine/planner/choose_cuts.h"
#include "tests/support/studies.h"

namespace trainyard::search_cuts_test {

namespace {

std::string gpt(int layers, const std::string& vocab) {
  return "model: {family: gpt, layers: " + std::to_string(layers) +
         ", hidden: 1024, heads: 16, seq_len: 1024, vocab: " + vocab +
         "}\ncluster: dgx-a100-80g\nparallel: {pipeline: 4}\ntraining: {global_batch: 16}\n";
}

Seconds step_of(const Prepared& prepared) {
  const Program program = compiled_program(prepared);
  SourceLog log;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  const std::vector<Job> jobs = {Job{&program, 0}};
  return AnalyticExecutor().run(jobs, costs, {}).period;
}

Seconds step_with(const std::string& study, const std::vector<std::string>& sets) {
  return step_of(prepare_text(study, sets));
}

const std::vector<std::string> kOthers = {"cost",       "{method: cost, between: ops}",
                                          "parameters", "uniform-floor",
                                          "autopipe",   "{method: autopipe, shards: layer}"};

}  // namespace

TEST_CASE("no other partition has a shorter step") {
  for (const std::string schedule : {"1f1b", "gpipe", "zb-h1"}) {
    for (const std::string vocab : {"1024", "256000"}) {
      CAPTURE(schedule, vocab);
      const std::string set = "schedule=" + schedule;
      const Seconds found =
          step_with(gpt(10, vocab), {set, "partition={method: search, budget: 5 s}"});
      for (const std::string& other : kOthers)
        CHECK(found <= step_with(gpt(10, vocab), {set, "partition=" + other}));
    }
  }
}

TEST_CASE("where the budget has room for all ways to cut, the best of all is found") {
  // Against a step that is not made of stages' loads at all: any order of the ways to cut will do.
  const Prepared prepared = prepare_text(gpt(2, "1024"), {"parallel.pipeline=1"});
  const TrainingGraph training =
      std::get<TrainingGraph>(one_stage_graph(prepared.model, prepared.study, prepared.software));
  const auto profile = profile_ops(training, prepared.hardware, prepared.software);
  const auto pieces = pieces_between(training.graph, profile, PartitionConfig::Between::kOps);
  const auto made_up = [&](const std::vector<StageCut>& cuts) {
    double sum = 0;
    for (const StageCut& cut : cuts)
      sum = std::fmod(7.31 * sum + 13.7 * op_of_cut(training.graph, cut).number(), 97.0);
    return std::optional(EvaluatedCuts{sum, 0});
  };
  CutSearch search;
  search.num_stages = 3;
  search.budget = 1000;
  const auto found = std::get<SearchedCuts>(search_cuts(training.graph, profile, search, made_up));
  CHECK(found.all_tried);
  Seconds least = std::numeric_limits<double>::infinity();
  int ways = 0;
  for (std::size_t a = 1; a < pieces.size(); ++a) {
    for (std::size_t b = a + 1; b < pieces.size(); ++b, ++ways) {
      const std::vector<StageCut> cuts = {*cut_at(training.graph, pieces[a]),
                                          *cut_at(training.graph, pieces[b])};
      least = std::min(least, made_up(cuts)->period);
    }
  }
  CHECK(found.evaluations == ways);
  CHECK(found.step.period == least);
}

TEST_CASE("more stages than places to cut end at once, and what has no Program in its reason") {
  CHECK_THROWS_AS(prepare_text(gpt(4, "1024"), {"parallel.pipeline=57", "cluster.nodes=25",
                                                "parallel.data=1", "partition=search"}),
                  ConfigError);
  const Prepared prepared =
      prepare_text(gpt(4, "1024"), {"parallel={}", "partition={method: search, replicas: [1, 3]}"});
  PassLog log;
  const auto compiled = compile(prepared.model, prepared.study, prepared.software, log);
  REQUIRE(std::holds_alternative<Infeasible>(compiled));
  CHECK(std::get<Infeasible>(compiled).key == "training.microbatch");
}

TEST_CASE("cuts whose kernels alone take longer are not evaluated, and change nothing") {
  const Prepared prepared = prepare_text(gpt(6, "1024"), {"parallel.pipeline=1"});
  const TrainingGraph training =
      std::get<TrainingGraph>(one_stage_graph(prepared.model, prepared.study, prepared.software));
  const auto profile = profile_ops(training, prepared.hardware, prepared.software);
  // A step of 8 microbatches by kernels, and something for each cut, as transfers are.
  constexpr double kMicrobatches = 8;
  int calls = 0;
  const auto evaluate = [&](const std::vector<StageCut>& cuts) {
    ++calls;
    std::vector<Seconds> stages(1, 0);
    std::size_t next = 0;
    for (const OpId op : profile.keys()) {
      if (next < cuts.size() && op_of_cut(training.graph, cuts[next]) == op) {
        stages.push_back(0);
        ++next;
      }
      stages.back() += profile[op].forward + profile[op].backward;
    }
    const Seconds sent = 1e-6 * op_of_cut(training.graph, cuts.front()).number();
    return std::optional(EvaluatedCuts{stages_bound(stages, kMicrobatches) + sent, 0});
  };
  CutSearch search;
  search.num_stages = 3;
  search.num_ranks = 3;
  search.num_microbatches = kMicrobatches;
  search.budget = 1000;
  search.starts = {{{1, ""}, {4, ""}}};
  for (const int budget : {1000, 200}) {  // all ways to cut, and moves
    search.budget = budget;
    search.one_stage_per_rank = false;
    const auto all = std::get<SearchedCuts>(search_cuts(training.graph, profile, search, evaluate));
    search.one_stage_per_rank = true;
    calls = 0;
    const auto found =
        std::get<SearchedCuts>(search_cuts(training.graph, profile, search, evaluate));
    CAPTURE(budget);
    CHECK(all.ruled_out == 0);
    CHECK(found.cuts == all.cuts);
    CHECK(found.step.period == all.step.period);
    CHECK(found.evaluations == calls);
    CHECK(found.evaluations + found.ruled_out == all.evaluations);
    CHECK(found.evaluations < all.evaluations);
  }
}

TEST_CASE("the budget is kept, and what fits goes before what is fast") {
  const Prepared prepared = prepare_text(gpt(10, "1024"), {"parallel.pipeline=1"});
  const TrainingGraph training =
      std::get<TrainingGraph>(one_stage_graph(prepared.model, prepared.study, prepared.software));
  const auto profile = profile_ops(training, prepared.hardware, prepared.software);
  CutSearch search;
  search.num_stages = 4;
  search.starts = {{{2, ""}, {4, ""}, {6, ""}}, {{3, ""}, {5, ""}, {7, ""}}};
  search.budget = 37;
  int calls = 0;
  // The nearer the first cut is to the end of layer 4, the less is too much; shorter is what is
  // further away.
  const auto evaluate = [&](const std::vector<StageCut>& cuts) {
    ++calls;
    const int at = op_of_cut(training.graph, cuts.front()).number();
    const int goal = op_of_cut(training.graph, {4, ""}).number();
    return std::optional(EvaluatedCuts{1.0 * at, std::max<Bytes>(0, goal - at)});
  };
  const auto found = std::get<SearchedCuts>(search_cuts(training.graph, profile, search, evaluate));
  CHECK(calls == found.evaluations);
  CHECK(calls <= 37);
  CHECK(found.step.excess == 0);
  CHECK(found.step.period == op_of_cut(training.graph, {4, ""}).number());
}

TEST_CASE("no step is shorter than its bound") {
  // W = 3, m = 4, p = 2 where each rank has a stage: T = 3 / (1 - (3/4)^2) = 6.857; a first stage
  // of T / m = 1.714 and a second of 1.286 reach it: 4 x 1.714, and 1.714 + 4 x 1.286.
  Indexed<OpId, OpProfile> ops(3, OpProfile{0.5, 0.5, 0, 0, 0});
  CutSearch search;
  search.num_stages = 2;
  search.num_ranks = 2;
  search.num_microbatches = 4;
  CHECK(step_bound(ops, search) == Approx(48.0 / 7));
  search.one_stage_per_rank = false;
  CHECK(step_bound(ops, search) == Approx(6));
  ops[OpId(1)].forward = 2;  // 4 x 2.5 of the longest
  CHECK(step_bound(ops, search) == Approx(10));

  // The first is done at 4 x 2, the second at 2 + 4 x 3, the last at 5 + 4 x 1.
  CHECK(stages_bound({2, 3, 1}, 4) == Approx(14));
  CHECK(stages_bound({2, 1.5, 1}, 4) == Approx(8));

  for (const std::string schedule : {"1f1b", "gpipe", "zb-h1"}) {
    for (const std::string batch : {"4", "16", "64"}) {
      const Prepared prepared =
          prepare_text(gpt(8, "51200"), {"training.global_batch=" + batch, "schedule=" + schedule,
                                         "parallel.data=1", "partition=cost"});
      const TrainingGraph training = std::get<TrainingGraph>(
          one_stage_graph(prepared.model, prepared.study, prepared.software));
      CutSearch of_study;
      of_study.num_stages = 4;
      of_study.num_ranks = 4;
      of_study.num_microbatches = std::stod(batch);
      of_study.one_stage_per_rank = schedule != "zb-h1";
      CAPTURE(schedule, batch);
      CHECK(step_of(prepared) >=
            step_bound(profile_ops(training, prepared.hardware, prepared.software), of_study));
    }
  }
}

}  // namespace trainyard::search_cuts_test
