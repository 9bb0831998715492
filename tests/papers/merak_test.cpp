// What configs/papers/README.md says of Merak's figures (arXiv:2206.04959), where it meets the
// paper. The paper's figure is in each expectation; the tolerances are what the tables are held to:
// 5 points of a time, 15 % of a ratio of memories.
#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <variant>
#include <vector>

#include "app/simulation.h"
#include "tests/support/source_root.h"

namespace trainyard {

namespace {

Summary simulated(std::vector<std::string> sets) {
  const Prepared prepared =
      prepare(source_root() + "/configs/papers/merak-gpt-2.5b.yaml", sets, "analytic");
  RunOptions options;
  options.record_rows = false;
  return std::get<Simulation>(simulate(prepared, options)).summary;
}

std::string share(const std::string& first) {
  return "recompute={method: stage-aware, first: " + first + "}";
}

/// The most of any stage, as PyTorch counts it: without context and communicators.
double peak_mib(const Summary& summary) {
  constexpr double kContextMib = 0.55 * 1024;  // calibrate/software/merak.yaml
  double peak = 0;
  for (const MemoryPeak& stage : summary.peak_memory)
    peak = std::max(peak, static_cast<double>(stage.total) / (1 << 20));
  return peak - kContextMib;
}

}  // namespace

TEST_CASE("Merak, figure 9a: the shifted critical path takes 18.6 to 22.0 % less time than 1F1B") {
  for (const int stages : {4, 16, 64}) {
    const std::string text = std::to_string(stages), twice = std::to_string(2 * stages);
    const std::vector<std::string> sets = {
        "parallel.pipeline=" + text,
        "cluster.gpus=" + text,
        "partition=uniform",
        "training.global_batch=" + twice,
        "recompute=full",
        "model={family: gpt, layers: " + twice +
            ", hidden: 3072, heads: 32, vocab: 50257, seq_len: 1024}"};
    std::vector<std::string> one_f_one_b = sets;
    one_f_one_b.emplace_back("schedule=1f1b");
    const double less = 1 - simulated(sets).iteration_time / simulated(one_f_one_b).iteration_time;
    CAPTURE(stages, less);
    CHECK(less > 0.186 - 0.05);
    CHECK(less < 0.220 + 0.05);
  }
}

TEST_CASE("Merak, table 3: what stage-aware recompute gains, and what it takes") {
  struct Row {
    std::string stages, microbatch, first;  // of shares 0.1, 0.2, ... the last that fits
    double default_mib, aware_mib, default_speed, aware_speed;
  };
  for (const Row& row :
       {Row{"4", "1", "0.3", 16720, 21150, 6.81, 7.61},
        Row{"4", "2", "0", 21262, 21922, 6.84, 7.01}, Row{"8", "1", "0.6", 9066, 21872, 6.39, 7.72},
        Row{"8", "4", "0", 21438, 21818, 6.21, 6.39}}) {
    const std::vector<std::string> plan = {"parallel.pipeline=" + row.stages,
                                           "training.microbatch=" + row.microbatch};
    const auto with = [&](const std::string& recompute) {
      return simulated({plan[0], plan[1], recompute});
    };
    const Summary kept = with("recompute=full"), aware = with(share(row.first));
    CAPTURE(row.stages, row.microbatch);
    CHECK(kept.fits);
    CHECK(aware.fits);
    CHECK_FALSE(with(share(std::to_string(std::stod(row.first) + 0.1))).fits);
    CHECK(kept.samples_per_s == Approx(row.default_speed).epsilon(0.05));
    CHECK(peak_mib(kept) == Approx(row.default_mib).epsilon(0.11));
    CHECK(aware.samples_per_s / kept.samples_per_s ==
          Approx(row.aware_speed / row.default_speed).margin(0.05));
    CHECK(peak_mib(aware) / peak_mib(kept) ==
          Approx(row.aware_mib / row.default_mib).epsilon(0.15));
  }
  CHECK_FALSE(simulated({"parallel.pipeline=4", "training.microbatch=4", "recompute=full"}).fits);
}

TEST_CASE("Merak, figure 9b: 1.21 times as fast before a share of 0.7 runs out of memory") {
  const Summary none = simulated({"recompute=full"}), most = simulated({share("0.6")});
  CHECK(most.samples_per_s / none.samples_per_s == Approx(1.21).margin(0.05));
  CHECK(most.fits);
  CHECK_FALSE(simulated({share("0.7")}).fits);
}

}  // namespace trainyard
