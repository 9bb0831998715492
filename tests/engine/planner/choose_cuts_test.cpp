// Stages by cost: what ops take, and the least largest stage.
#include "engine/planner/choose_cuts.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/exec/costs.h"
#include "engine/passes/one_stage_graph.h"
#include "study/study_writer.h"
#include "tests/support/studies.h"

namespace trainyard::choose_cuts_test {

namespace {

std::string gpt(const std::string& vocab) {
  return "model: {family: gpt, layers: 12, hidden: 1024, heads: 16, seq_len: 1024, vocab: " +
         vocab +
         "}\ncluster: dgx-a100-80g\nparallel: {pipeline: 4}\ntraining: {global_batch: 16}\n";
}

struct Profiled {
  TrainingGraph training;
  Indexed<OpId, OpProfile> ops;
};

Profiled profiled(const Prepared& prepared) {
  Profiled out{
      std::get<TrainingGraph>(one_stage_graph(prepared.model, prepared.study, prepared.software)),
      {}};
  out.ops = profile_ops(out.training, prepared.hardware, prepared.software);
  return out;
}

/// Layers that begin stages 1, 2, ...; -1: in the midst of one.
std::vector<std::int64_t> layers_of(const Prepared& prepared) {
  std::vector<std::int64_t> layers;
  for (const StageCut& cut : prepared.study.partition.cuts)
    layers.push_back(cut.at.empty() ? cut.layer : -1);
  return layers;
}

}  // namespace

TEST_CASE("ops take what the kernels of a Program of one stage take") {
  for (const std::string recompute : {"none", "full", "selective"}) {
    const Prepared prepared = prepare_text(
        gpt("51200"), {"parallel.pipeline=1", "training.global_batch=1", "parallel.data=1",
                       "training.flash_attention=false", "recompute=" + recompute});
    const Profiled found = profiled(prepared);
    Seconds of_ops = 0;
    for (const OpProfile& op : found.ops) of_ops += op.forward + op.backward;
    const Program program = compiled_program(prepared);
    SourceLog log;
    const Costs costs =
        make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
    Seconds of_segments = 0;
    for (const SegmentId id : program.segments.keys()) {
      const Phase phase = program.segments[id].phase;
      if (phase != Phase::kForward && phase != Phase::kBackward) continue;
      for (const OpCost& cost : costs.ops.at(1)[id]) of_segments += cost.kernel;
    }
    CAPTURE(recompute);
    // A Program of one microbatch clears its gradients by writing them, which costs less.
    CHECK(of_ops == Approx(of_segments).epsilon(0.02));
  }
}

TEST_CASE("what crosses in front of a layer is the sum of residuals") {
  const Profiled found = profiled(prepare_text(gpt("51200")));
  const OpId layer = op_of_cut(found.training.graph, {3, ""});
  // 1024 tokens of 1024 numbers in 2 bytes, and their gradients.
  CHECK(found.ops[layer].crossing == 2 << 20);
  CHECK(found.ops[layer].back_crossing == 2 << 20);
  CHECK(found.ops[OpId(0)].crossing == 0);
}

TEST_CASE("stages by cost weigh embedding and head; uniform ones do not") {
  // The head of 256,000 words takes as long as several layers: its stage has fewer of them.
  const Prepared heavy = prepare_text(gpt("256000"), {"partition=cost"});
  const std::vector<std::int64_t> cuts = layers_of(heavy);
  REQUIRE(cuts.size() == 3);
  CHECK(12 - cuts[2] < 3);
  CHECK(cuts[0] >= 3);
  CHECK(heavy.study.partition.method == "cuts");
  CHECK(heavy.study.origins.at("partition").note.starts_with("cost: the largest of 4 stages"));
}

TEST_CASE("no cuts between layers have a smaller largest stage") {
  for (const std::string vocab : {"1024", "51200", "256000"}) {
    const Prepared prepared = prepare_text(gpt(vocab));
    const Profiled found = profiled(prepared);
    std::vector<double> load(12, 0);
    double transfer = 0;
    const TransferRate rate{5e-6, 1e-11};
    for (const OpId i : found.ops.keys()) {
      // The ends go with the layers beside them.
      const std::int32_t layer = found.training.graph.ops[i].layer;
      const bool head = layer < 0 && i > op_of_cut(found.training.graph, {11, ""});
      load[static_cast<std::size_t>(head ? 11 : std::max(layer, 0))] +=
          found.ops[i].forward + found.ops[i].backward;
    }
    transfer = 2 * (5e-6 + 1e-11 * (2 << 20));
    double least = 1e9;
    const auto sum = [&](int begin, int end) {
      double total = (begin > 0 ? transfer : 0) + (end < 12 ? transfer : 0);
      for (int i = begin; i < end; ++i) total += load[static_cast<std::size_t>(i)];
      return total;
    };
    for (int a = 1; a < 10; ++a) {
      for (int b = a + 1; b < 11; ++b) {
        for (int c = b + 1; c < 12; ++c)
          least = std::min(least, std::max({sum(0, a), sum(a, b), sum(b, c), sum(c, 12)}));
      }
    }
    PartitionConfig partition;
    partition.method = "cost";
    const auto choice =
        std::get<CutChoice>(choose_cuts(found.training.graph, found.ops, partition, 4, rate));
    std::vector<int> at = {0};
    for (const StageCut& cut : choice.cuts) at.push_back(static_cast<int>(cut.layer));
    at.push_back(12);
    double largest = 0;
    for (std::size_t s = 0; s < 4; ++s) largest = std::max(largest, sum(at[s], at[s + 1]));
    CAPTURE(vocab);
    CHECK(largest == Approx(least).epsilon(1e-12));
  }
}

TEST_CASE("between ops no stage is larger than between layers") {
  const auto largest = [](const std::string& between) {
    const Prepared prepared =
        prepare_text(gpt("256000"), {"partition={method: cost, between: " + between + "}"});
    const std::string note = prepared.study.origins.at("partition").note;
    return std::stod(note.substr(note.find("has ") + 4));
  };
  CHECK(largest("ops") < largest("layers"));
}

TEST_CASE("a resolved study has the cuts, and leads to them again") {
  for (const std::string between : {"layers", "ops"}) {
    const Prepared prepared =
        prepare_text(gpt("256000"), {"partition={method: cost, between: " + between + "}"});
    const Prepared again = prepare_text(resolved_study_text(prepared.study));
    CAPTURE(between);
    CHECK(again.study.partition == prepared.study.partition);
  }
}

TEST_CASE("stages by parameters have the least largest number of them") {
  // Layers of 12.6 million; the embedding's 52.4 and the tied head count where they are first read.
  const Prepared prepared = prepare_text(gpt("51200"), {"partition=parameters"});
  // 5 layers' worth in front: stages of 12.6 x {1 + 4.25, 4, 4, 3} or {.., 5.25}: at least 52.4 +
  // 12.6 = 65 of stage 0, and 11 other layers on three stages are at most 4 each, 50.4.
  CHECK(layers_of(prepared).front() == 1);
}

TEST_CASE("too many stages for layers are refused; between ops they are not") {
  const std::vector<std::string> sets = {"parallel.pipeline=8", "model.layers=6"};
  const auto with = [&](const std::string& between) {
    auto all = sets;
    all.push_back("partition={method: cost, between: " + between + "}");
    return all;
  };
  CHECK_THROWS_AS(prepare_text(gpt("1024"), with("layers")), ConfigError);
  CHECK(prepare_text(gpt("1024"), with("ops")).study.partition.cuts.size() == 7);
}

}  // namespace trainyard::choose_cuts_test
