// Random graphs of general ops that run by random sequences of recomputation train as LibTorch's
// autograd says: each group kept, or computed again from an input that is, once or several times.
#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "engine/passes/chain_groups.h"
#include "engine/recompute/chain.h"
#include "tests/real/exec/against_autograd.h"
#include "tests/support/random_graph.h"

namespace trainyard::random_sequences_test {

namespace {

constexpr double kWithin = 1e-12;

/// Behind the pass that recomputes.
TrainingGraph recomputed(const Graph& graph, const Plan& plan) {
  TrainingGraph out;
  CompileOptions options;
  bool seen = false;
  options.behind_pass = [&](const std::string& pass, PassResult result) {
    if (pass == "recompute" && !std::exchange(seen, true)) out = *std::get<TrainingGraph*>(result);
  };
  compile_graph(graph, plan, options);
  return out;
}

int num_recomputed(const TrainingGraph& training) {
  return static_cast<int>(std::count_if(training.backward.begin(), training.backward.end(),
                                        [](const Instruction& op) { return op.recomputed; }));
}

/// What ops make that run again for nobody.
std::vector<std::string> unread(const TrainingGraph& training) {
  Indexed<TensorId, bool> read(training.graph.tensors.size(), false);
  for (const Instruction& op : training.backward) {
    for (const TensorId id : op.reads) read[id] = true;
  }
  std::vector<std::string> out;
  for (const Instruction& op : training.backward) {
    const bool any = std::any_of(op.writes.begin(), op.writes.end(),
                                 [&](TensorId write) { return read[write]; });
    if (op.recomputed && !any) out.push_back(training.graph.tensors[op.writes[0]].name);
  }
  return out;
}

class RandomSequence {
 public:
  RandomSequence(std::mt19937& random, int groups, bool keep)
      : random_(random),
        groups_(groups),
        keep_(keep) {
    train(0, groups);
  }
  std::string text() const { return to_text(sequence_); }

 private:
  using Kind = ChainOp::Kind;

  /// Forward and backward of groups from `begin` to `end`; of the last, the loss between them where
  /// it is still to come.
  void train(int begin, int end) {
    if (begin == end) {
      if (std::exchange(loss_to_come_, false)) sequence_.push_back({Kind::kLoss, groups_});
      return;
    }
    const auto left = static_cast<unsigned>(end - begin);
    const bool last = loss_to_come_;
    if (keep_ || (left == 1 && !last) || random_() % 3 == 0) {
      sequence_.push_back({Kind::kForwardSaving, begin});
      train(begin + 1, end);
      sequence_.push_back({Kind::kBackward, begin});
      return;
    }
    const int cut = begin + 1 + static_cast<int>(random_() % (last ? left : left - 1));
    sequence_.push_back({Kind::kForwardFromCheckpoint, begin});
    for (int g = begin + 1; g < cut; ++g) sequence_.push_back({Kind::kForward, g});
    train(cut, end);
    train(begin, cut);
  }

  std::mt19937& random_;
  int groups_;
  bool keep_;
  bool loss_to_come_ = true;
  std::vector<ChainOp> sequence_;
};

/// [stage]; `plan` recomputes nothing.
std::vector<std::string> random_sequences(const Graph& graph, const Plan& plan, std::uint64_t seed,
                                          bool keep) {
  std::mt19937 random(static_cast<unsigned>(seed));
  std::vector<std::string> out;
  for (const auto& groups : chain_groups(recomputed(graph, plan)).of_stage)
    out.push_back(RandomSequence(random, static_cast<int>(groups.size()), keep).text());
  return out;
}

}  // namespace

TEST_CASE("random graphs train by random sequences of recomputation as autograd says") {
  const bool keep = GENERATE(true, false);
  int again = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    const Graph graph = random_graph(seed, {.ops = 1 + static_cast<int>(seed % 12)});
    Plan plan = plan_of_graph();
    plan.recompute.sequences = random_sequences(graph, plan, seed, keep);
    plan.recompute.method = RecomputeConfig::Method::kRotor;
    CAPTURE(seed, keep, plan.recompute.sequences);
    check_against_autograd(graph, plan, kWithin);
    const TrainingGraph training = recomputed(graph, plan);
    again += num_recomputed(training);
    CHECK(unread(training) == std::vector<std::string>());
  }
  CHECK((again == 0) == keep);
}

TEST_CASE("random graphs of images and in stages train by random sequences, too") {
  const bool images = GENERATE(true, false);
  const std::string schedule = GENERATE("1f1b", "zb-h1");
  for (std::uint64_t seed = 100; seed < 130; ++seed) {
    const Graph graph =
        random_graph(seed, {.ops = 4 + static_cast<int>(seed % 9), .layers = 2, .images = images});
    Plan plan = plan_of_graph();
    plan.parallel.pipeline = 2;
    plan.schedule.method = schedule;
    plan.recompute.sequences = random_sequences(graph, plan, seed, false);
    plan.recompute.method = RecomputeConfig::Method::kRotor;
    CAPTURE(seed, images, schedule, plan.recompute.sequences);
    check_against_autograd(graph, plan, kWithin);
    CHECK(unread(recomputed(graph, plan)) == std::vector<std::string>());
  }
}

}  // namespace trainyard::random_sequences_test
