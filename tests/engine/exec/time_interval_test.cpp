// Intervals of iteration times from stated uncertainties, on one rank, whose step is the sum of its
// kernels: what they have to be follows from that sum.
#include "engine/exec/time_interval.h"

#include <catch2/catch.hpp>
#include <cmath>
#include <nlohmann/json.hpp>
#include <variant>

#include "app/simulation.h"
#include "engine/exec/analytic_executor.h"
#include "tests/support/studies.h"

namespace trainyard::time_interval_test {

namespace {

constexpr double kSigmas = 1.645;  // of half a 90 % interval

const char* const kStudy = R"(
model: {family: gpt, layers: 2, hidden: 256, heads: 4, vocab: 512, seq_len: 128}
cluster: {preset: dgx-a100-80g, nodes: 1, devices: 1}
parallel: {data: 1}
training: {global_batch: 2, microbatch: 1, precision: bf16, dropout: 0}
)";

/// A device of which only the entries that `state` fills in are uncertain. Launches take no time.
struct Case {
  Prepared prepared;
  Program program;
  Costs costs;

  template <typename State>
  explicit Case(const State& state) : prepared(prepare_text(kStudy)) {
    prepared.hardware.launch = 0;
    state(prepared.hardware);
    program = compiled_program(prepared);
    SourceLog log;
    costs = make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  }

  Seconds step_time(const Costs& other) const {
    const std::array<Job, 1> jobs = {Job{&program, 0}};
    return AnalyticExecutor().run(jobs, other, {}).period;
  }
  CostUncertainty uncertainty() const {
    return {program, prepared.hardware, prepared.software, prepared.study.cluster};
  }
  TimeInterval interval() const {
    return find_time_interval(program, uncertainty(), costs, step_time(costs), 100,
                              [&](const Costs& other) { return step_time(other); });
  }
  /// Seconds per step of kernels whose op is called `kind`.
  Seconds seconds_of(const std::string& kind) const {
    Seconds sum = 0;
    for (const KindTime& one : uncertainty().kinds(program, costs))
      sum += one.kind == kind ? one.time : 0;
    return sum;
  }
};

void all_alike(HardwareProfile& device, double interval) {
  auto kernels = std::make_shared<MeasuredKernels>();
  kernels->repeatability = {"measured", "by hand", interval};
  device.kernels = kernels;
}

}  // namespace

TEST_CASE("a profile that states no intervals leaves nothing uncertain") {
  const Case exact([](HardwareProfile&) {});
  CHECK_FALSE(exact.uncertainty().any());
}

TEST_CASE("what all kernels share makes the step as uncertain as itself") {
  // All kernels times f: the step times f, and ln f is normal with a deviation of 0.2 / 1.645.
  const Case all([](HardwareProfile& device) { all_alike(device, 0.2); });
  const Seconds step = all.step_time(all.costs);
  const TimeInterval interval = all.interval();
  CHECK(interval.low * interval.high ==
        Approx(step * step).epsilon(1e-9));  // every draw and its mirror image
  // The deviation of 50 pairs of draws is known to 1 / sqrt(2 50), 10 %: three of those.
  CHECK(std::log(interval.high / step) == Approx(0.2).epsilon(0.3));
  REQUIRE(interval.next.size() == 1);
  CHECK(interval.next[0].effect == Approx(step * std::expm1(0.2)).epsilon(1e-6));
  CHECK(interval.next[0].share == Approx(1));
}

TEST_CASE("one entry matters by what rests on it") {
  const Case products([](HardwareProfile& device) { device.matmul.provenance.interval = 0.3; });
  const TimeInterval interval = products.interval();
  const Seconds at_stake = products.seconds_of("linear") + products.seconds_of("linear_dx") +
                           products.seconds_of("linear_dw");
  REQUIRE(at_stake > 0);
  REQUIRE(interval.next.size() == 1);
  CHECK(interval.next[0].entry == "a100-sxm-80g.matmul");
  CHECK(interval.next[0].effect == Approx(at_stake * std::expm1(0.3)).epsilon(1e-6));
  for (const KindTime& kind : interval.kinds) {
    CAPTURE(kind.kind);
    CHECK(kind.interval == Approx(kind.kind.starts_with("linear") ? 0.3 : 0).margin(1e-6));
  }
}

TEST_CASE(
    "the entry with the largest effect is to be measured next, and independent ones add by their "
    "squares") {
  const Case two([](HardwareProfile& device) {
    device.matmul.provenance.interval = 0.1;
    device.memory_bound.at("default").provenance.interval = 0.4;
  });
  const TimeInterval interval = two.interval();
  REQUIRE(interval.next.size() >= 2);
  CHECK(interval.next[0].effect >= interval.next[1].effect);
  double shares = 0, squares = 0;
  for (const Contribution& one : interval.next) {
    shares += one.share;
    squares += one.effect * one.effect;
  }
  CHECK(shares == Approx(1).epsilon(1e-9));  // no more entries than are named
  // To first order the interval is the root of the summed squares; 0.4 is not small: its upper end
  // is e^0.4 - 1.
  const Seconds step = two.step_time(two.costs);
  CHECK((interval.high - interval.low) / 2 / step ==
        Approx(std::sqrt(squares) / step).epsilon(0.35));
}

TEST_CASE("drawn costs are those of the entries, and nothing else") {
  const Case products([](HardwareProfile& device) { device.matmul.provenance.interval = 0.3; });
  const CostUncertainty uncertainty = products.uncertainty();
  REQUIRE(uncertainty.num_entries() == 1);
  const std::vector<double> draws = {-2};
  const Costs drawn = uncertainty.drawn(products.costs, draws);
  for (const SegmentId s : products.program.segments.keys()) {
    for (std::size_t k = 0; k < products.program.segments[s].ops.size(); ++k) {
      const bool product = products.program.segments[s].ops[k].kind == OpKind::kLinear;
      const double factor = product ? std::exp(-2 * 0.3 / kSigmas) : 1;
      CHECK(drawn.ops.at(1.0)[s][k].kernel ==
            Approx(products.costs.ops.at(1.0)[s][k].kernel * factor).margin(1e-15));
    }
  }
}

TEST_CASE("links that say how uncertain they are make transfers longer by that") {
  const Case links([](HardwareProfile&) {});
  Cluster cluster = links.prepared.study.cluster;
  cluster.intra.collective.provenance.interval = 0.5;
  cluster.intra.collective.startup = 1e-6;
  const CostUncertainty uncertainty(links.program, links.prepared.hardware, links.prepared.software,
                                    cluster);
  REQUIRE(uncertainty.num_entries() == 1);
  CHECK(uncertainty.is_link(0));
  Costs costs = links.costs;
  costs.cluster = cluster;
  const std::vector<double> draws = {kSigmas};
  const LinkCurve drawn = uncertainty.drawn(costs, draws).cluster.intra.collective;
  const double factor = std::exp(0.5);
  CHECK(drawn.startup == Approx(1e-6 * factor));
  CHECK(drawn.latency == Approx(cluster.intra.collective.latency * factor));
  CHECK(drawn.efficiency == Approx(cluster.intra.collective.efficiency / factor));
}

TEST_CASE("larger steps are drawn less often") {
  CHECK(draws_for(1) == 100);
  CHECK(draws_for(400'000) == 50);
  CHECK(draws_for(1'000'000'000) == 20);
}

TEST_CASE("calls are counted per rank") {
  // Two microbatches: each forward and backward segment of the one stage runs twice, the update
  // once.
  const Case one([](HardwareProfile&) {});
  const Indexed<SegmentId, double> calls = calls_per_rank(one.program);
  for (const SegmentId s : calls.keys()) {
    const Phase phase = one.program.segments[s].phase;
    if (phase == Phase::kForward || phase == Phase::kBackward) CHECK(calls[s] == 2);
    if (phase == Phase::kUpdate) CHECK(calls[s] == 1);
  }
}

TEST_CASE(
    "simulate answers with the interval where the profile states one, and says nothing where not") {
  Prepared prepared = prepare_text(kStudy);
  const auto answer = [&] {
    auto result = simulate(prepared, {});
    return nlohmann::json::parse(summary_json(std::get<Simulation>(result).summary, 0));
  };
  CHECK_FALSE(answer().contains("iteration_time_interval_s"));
  prepared.hardware.matmul.provenance.interval = 0.2;
  const nlohmann::json json = answer();
  const double time = json.at("iteration_time_s");
  CHECK(json.at("iteration_time_interval_s").at(0) < time);
  CHECK(json.at("iteration_time_interval_s").at(1) > time);
  CHECK(json.at("measure_next").at(0).at("entry") == "a100-sxm-80g.matmul");
  double kernels = 0;
  for (const auto& kind : json.at("op_kinds")) {
    CHECK(kind.at("interval_s").at(0) <= kind.at("time_s"));
    CHECK(kind.at("interval_s").at(1) >= kind.at("time_s"));
    kernels += kind.at("time_s").get<double>();
  }
  // One rank: what it computes is what its kernels take.
  const auto& classes = json.at("time");
  CHECK(kernels ==
        Approx(classes.at("compute").get<double>() + classes.at("optimizer").get<double>())
            .epsilon(1e-6));
  CHECK(answer() == json);  // the same draws again
}

}  // namespace trainyard::time_interval_test
