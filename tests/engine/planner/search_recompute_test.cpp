// `first: auto`: as much as the memory of the devices lets stage 0 keep.
#include "engine/planner/search_recompute.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/recompute/stage_aware.h"
#include "study/compile_study.h"
#include "study/study_writer.h"
#include "tests/support/studies.h"

namespace trainyard::search_recompute_test {

namespace {

using Sets = std::vector<std::string>;

/// 48 layers, of which GPUs of 24 GB can keep some.
const std::string kGpt =
    "model: {family: gpt, layers: 48, hidden: 1920, heads: 20, vocab: 50000, seq_len: 1024}\n"
    "cluster: {preset: pcie-8x-rtx-3090, devices: 4}\n"
    "parallel: {pipeline: 4}\ntraining: {global_batch: 32, flash_attention: false}\n"
    "recompute: stage-aware\n";

bool fits(const Prepared& prepared) {
  const Bytes capacity = prepared.hardware.memory_capacity - prepared.hardware.memory_reserved;
  const auto peaks =
      memory_peaks(compiled_program(prepared),
                   fixed_memory(prepared.software, prepared.study.training.precision));
  return std::all_of(peaks.begin(), peaks.end(),
                     [&](const MemoryPeak& peak) { return peak.total <= capacity; });
}

}  // namespace

TEST_CASE(
    "the share found is the largest that fits of all behind which a stage keeps another layer") {
  const std::vector<Sets> plans = {
      {"training.microbatch=2"},
      {"training.microbatch=2",
       "recompute={method: stage-aware, unit: sublayer, strategy: contiguous}"},
      {"training.microbatch=2", "schedule=scp"},
      {"training.microbatch=4"},
      {"training.microbatch=1", "schedule=gpipe", "training.global_batch=4"},
      {"training.microbatch=2", "schedule=zb-h1"},
      {"training.microbatch=2", "schedule=zb-v", "partition=[4, 10, 16, 22, 28, 34, 40]"},
      {"training.microbatch=2", "schedule=interleaved", "parallel.virtual_stages=3"},
      {"training.microbatch=4", "training.global_batch=4"},  // one in flight
      {"training.microbatch=2", "framework={name: megatron-lm, version: 2021}"}};
  int between = 0;
  for (const Sets& sets : plans) {
    CAPTURE(sets);
    const Prepared found = prepare_text(kGpt, sets);
    REQUIRE(found.study.recompute.first.has_value());
    const int stages = found.study.parallel.pipeline * found.study.parallel.virtual_stages;
    Numbered<int> layers(static_cast<std::size_t>(stages), 48 / stages);
    if (!found.study.partition.cuts.empty()) layers = {4, 6, 6, 6, 6, 6, 6, 8};
    if (found.study.recompute.unit == RecomputeConfig::Unit::kSublayer)
      for (int& units : layers) units *= 2;
    double largest = -1;
    for (const double first : first_share_steps(layers, found.study.schedule.method == "scp")) {
      Prepared tried = found;
      tried.study.recompute.first = first;
      if (fits(tried)) largest = std::max(largest, first);
    }
    CHECK(*found.study.recompute.first == largest);
    between += largest > 0 && largest < 1 ? 1 : 0;
  }
  CHECK(between >= 5);  // else this would say little
}

TEST_CASE("where all fits, all is kept; where nothing does, nothing") {
  const Prepared all = prepare_text(kGpt, {"model.layers=8"});
  CHECK(all.study.recompute.first == 1);
  const Prepared none = prepare_text(kGpt, {"training.microbatch=32"});
  CHECK(none.study.recompute.first == 0);
  CHECK_FALSE(fits(none));
  CHECK_THAT(resolved_study_text(none.study),
             Catch::Contains("\n  first: 0  # derived: auto: even a share of 0 takes "));
}

TEST_CASE("the resolved study says the share, and why it is no larger") {
  const Sets sets = {"training.microbatch=2"};
  const Prepared found = prepare_text(kGpt, sets);
  const std::string text = resolved_study_text(found.study);
  CAPTURE(text);
  CHECK_THAT(text, Catch::Contains("  # derived: auto: the largest share that fits, "));
  CHECK_THAT(text, Catch::Contains(" GiB on pipeline rank 0 of 23.45; ") &&
                       Catch::Contains(" would take "));
  // It is a study, and that of a share that was given.
  const Prepared again = prepare_text(text);
  CHECK(again.study.recompute == found.study.recompute);
}

// 4 stages of 8 layers; a share f of stage 0 needs 10 + 8 f bytes of 15, so of the shares k/8 the
// largest that fits is 5/8. Shares at which another stage keeps a layer more lie between them: the
// choice is the largest f <= 0.625 of first_share_steps().
TEST_CASE("the largest share that fits is found by bisection, for any way to evaluate") {
  const Numbered<int> units(4, 8);
  int evaluations = 0;
  const auto evaluate = [&](double first) -> std::optional<EvaluatedShare> {
    ++evaluations;
    return EvaluatedShare{units, 2, static_cast<Bytes>(1000 * (10 + 8 * first))};
  };
  const ShareChoice choice = search_recompute(evaluate, 15'000, false);
  double largest = 0;
  const auto steps = first_share_steps(units, false);
  for (const double step : steps) largest = step <= 0.625 ? std::max(largest, step) : largest;
  CHECK(choice.first == largest);
  CHECK(choice.reason.find("pipeline rank 2") != std::string::npos);
  CHECK((std::size_t{1} << (evaluations - 2)) <= 2 * steps.size());

  const auto no_program = [](double) { return std::optional<EvaluatedShare>(); };
  CHECK(search_recompute(no_program, 15'000, false).first == 0);
  CHECK(search_recompute(no_program, 15'000, false).reason == "auto: there is no Program");
}

}  // namespace trainyard::search_recompute_test
