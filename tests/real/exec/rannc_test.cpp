// Pipelines that RaNNC or a search decides train as one device does: unlike replicas, cuts within
// layers, whole stages recomputed.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/real/layouts.h"
#include "tests/real/parity.h"
#include "tests/support/studies.h"

namespace trainyard::rannc_test {

namespace {

/// Two microbatches of `microbatch` samples on one rank; what RaNNC decides keeps to them.
std::string one_rank(const std::string& model, int microbatch, const std::string& more = "") {
  return "model: " + model +
         "\ncluster: {preset: local, ranks: 1, device: cpu-avx512-bf16}\ntraining: "
         "{global_batch: " +
         std::to_string(2 * microbatch) + ", microbatch: " + std::to_string(microbatch) +
         ", precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}" + more +
         "}\nschedule: gpipe\ndata: {path: generated}\n";
}

struct Planned {
  int microbatch;
  int blocks;  // few make unlike stages, which replicas have to even out
  std::vector<int> replicas;
};

void check_trains(const std::string& model, const Planned& planned, const std::string& more = "") {
  int ranks = 0;
  for (const int count : planned.replicas) ranks += count;
  const std::string study = one_rank(model, planned.microbatch, more);
  const Sets sets = {"cluster.ranks=" + std::to_string(ranks),
                     "parallel.pipeline=" + std::to_string(planned.replicas.size()),
                     "partition={method: rannc, blocks: " + std::to_string(planned.blocks) + "}"};
  const Study decided = prepare_text(study, sets).study;
  CAPTURE(study, sets, decided.planned);
  CHECK(decided.partition.replicas == planned.replicas);
  CHECK(decided.recompute.ends);
  check_same(run_loopback(study, {}, {.steps = 2}), run_loopback(study, sets, {.steps = 2}), kFp64);
}

}  // namespace

TEST_CASE("a BERT whose pipeline RaNNC decides trains as one device does") {
  const auto bert = [](int vocab) {
    return "{family: bert, layers: 4, hidden: 32, heads: 4, seq_len: 8, vocab: " +
           std::to_string(vocab) + "}";
  };
  check_trains(bert(62), {6, 3, {1, 3}}, ", dropout: 0.1");
  // With 62 words stages on as many ranks each have the shorter step.
  check_trains(bert(500), {15, 6, {3, 5}}, ", dropout: 0.1");
}

TEST_CASE("a ResNet whose pipeline RaNNC decides trains as one device does") {
  const std::string resnet =
      "{family: resnet, depth: 18, image_size: 48, classes: 5, batch_norm: synchronised}";
  check_trains(resnet, {15, 6, {5, 3}});
  check_trains(resnet, {6, 8, {2, 1, 1}});
}

TEST_CASE("a pipeline that is searched trains as one device does") {
  const std::string bert = "{family: bert, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 8}";
  const std::string study = one_rank(bert, 6, ", dropout: 0.1");
  const LoopbackRun one = run_loopback(study, {}, {.steps = 2});
  for (const std::string stages : {"2", "3"}) {
    for (const std::string recompute : {"none", "stage-aware"}) {
      const Sets sets = {"cluster.ranks=4", "parallel.pipeline=" + stages,
                         "partition={method: search-pipeline, budget: 2 s}",
                         "recompute=" + recompute};
      const Study decided = prepare_text(study, sets).study;
      CAPTURE(sets, decided.planned);
      CHECK(decided.partition.method == "cuts");
      check_same(one, run_loopback(study, sets, {.steps = 2}), kFp64);
    }
  }
}

TEST_CASE("a U-Net whose pipeline RaNNC decides trains as one device does") {
  const std::string unet =
      "{family: unet, depth: 2, hidden: 8, image_size: 16, channels: 3, classes: 5}";
  check_trains(unet, {6, 4, {3, 1}});
  check_trains(unet, {15, 8, {3, 5}});
}

TEST_CASE("a stage that recomputes all that it can trains as one that keeps it") {
  for (const std::string family : {"gpt", "bert-next", "t5", "llama"}) {
    const std::string dropout = family == "llama" ? "" : ", dropout: 0.1";
    const std::string study =
        parity_study(family, "precision: fp64, clip_norm: 0.01, lr: {peak: 0.01}" + dropout);
    const LoopbackRun one = run_loopback(study, {}, {.steps = 2});
    const Sets ends = {"recompute={method: full, ends: true}"};
    for (const Sets& layout :
         {Sets{}, Sets{"cluster.ranks=2", "parallel.pipeline=2"},
          Sets{"cluster.ranks=2", "parallel.pipeline=2", "schedule=zb-h1"},
          Sets{"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"}}) {
      CAPTURE(family, layout);
      check_same(one, run_loopback(study, joined(layout, ends), {.steps = 2}), kFp64);
    }
  }
}

}  // namespace trainyard::rannc_test
