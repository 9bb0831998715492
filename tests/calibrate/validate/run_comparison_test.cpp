// A run against its simulation, on traces made by hand: what each kind of op does to the step, and
// what is left that no instruction explains.
#include "calibrate/validate/run_comparison.h"

#include <catch2/catch.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "calibrate/validate/measured_costs.h"
#include "engine/program/program_text.h"
#include "study/profile_reader.h"
#include "tests/support/example_program.h"
#include "tests/support/source_root.h"
#include "tests/support/timing.h"

namespace trainyard::run_comparison_test {

namespace {

RunOptions every_rank() {
  RunOptions options;
  options.fold = false;
  options.record_rows = true;
  options.trace_ranks = {0, 1, 2, 3};
  return options;
}

/// The simulated rows of one step as if a machine had recorded them: frees too, in issue order, own
/// starts.
RunMeasurement as_measured(const Program& program, const Costs& costs) {
  const Trace trace = run(program, costs, every_rank());
  RunMeasurement out;
  out.program_digest = program_digest(program);
  out.device = "cpu";
  out.cores = 4;
  out.ranks_on_machine = 4;
  out.threads_per_rank = 1;
  for (int i = 0; i < 2; ++i) {
    MeasuredStep step{i + 1, false, {}};
    for (const RankTrace& rank : trace.ranks) {
      RankTrace own;
      own.rank = rank.rank;
      own.list = rank.list;
      own.rows = issued_rows(program, program.body[rank.list]);
      Seconds main = trace.ranks[0].rows.front().start;
      for (TraceRow& row : own.rows) {
        for (const TraceRow& timed : rank.rows) {
          if (timed.segment != row.segment || timed.mb != row.mb || timed.op != row.op) continue;
          row.start = row.ready = timed.ready;
          row.end = timed.end;
        }
        const ProgramOp& op = program.segments[row.segment].ops[row.op];
        if (row.end == 0) row.start = row.ready = row.end = main;  // a free: no time
        row.issued = main;  // the thread that computes issues what it comes to
        if (op.stream == StreamId::kMain) main = std::max(main, row.end);
        for (Seconds* time : {&row.issued, &row.ready, &row.start, &row.end})
          *time += trace.period * i;
      }
      step.ranks.push_back(std::move(own));
    }
    out.steps.push_back(std::move(step));
  }
  return out;
}

/// Forward kernels of 1 s, linear_dx of 2 s; all else takes no time.
Costs predicted_costs(const Program& program) {
  Costs costs = zero_costs(program, free_links(4));
  for (const char* segment : {"0F", "1F"}) {
    for (const std::size_t op : {0, 2}) cost_of(costs, program, segment, op).kernel = 1;
  }
  cost_of(costs, program, "0F", 1).kernel = 1, cost_of(costs, program, "0F", 3).kernel = 1;
  cost_of(costs, program, "0B", 0).kernel = 2;
  cost_of(costs, program, "1B", 0).kernel = 2, cost_of(costs, program, "1B", 5).kernel = 2;
  return costs;
}

RunComparison compare(const Program& program, const Costs& predicted,
                      const RunMeasurement& measured) {
  const Trace trace = run(program, predicted, every_rank());
  return compare_run({program, predicted, trace, measured,
                      [&](const Costs& other) { return run(program, other).period; }});
}

const KindComparison& kind(const RunComparison& comparison, const std::string& name) {
  for (const KindComparison& one : comparison.kinds) {
    if (one.kind == name) return one;
  }
  throw std::logic_error("no kind " + name);
}

}  // namespace

TEST_CASE("a run that takes as long as predicted has nothing to explain") {
  const Program program = verified(kExampleProgram);
  const Costs costs = predicted_costs(program);
  const RunComparison comparison = compare(program, costs, as_measured(program, costs));
  CHECK(comparison.measured == Approx(comparison.predicted).epsilon(1e-9));
  CHECK(comparison.with_measured == Approx(comparison.predicted).epsilon(1e-9));
  for (const KindComparison& one : comparison.kinds) {
    CAPTURE(one.kind);
    CHECK(one.effect == Approx(0).margin(1e-9));
    CHECK(one.measured == Approx(one.predicted).margin(1e-9));
  }
}

TEST_CASE("a kind that takes longer explains by how much the step does") {
  const Program program = verified(kExampleProgram);
  const Costs predicted = predicted_costs(program);
  Costs real = predicted;
  cost_of(real, program, "1F", 1).kernel = 0.5;  // gelu of the second stage, twice a step
  cost_of(real, program, "0B", 0).kernel = 5;    // linear_dx of the first stage, twice a step
  const RunComparison comparison = compare(program, predicted, as_measured(program, real));
  const Seconds with_gelu = [&] {
    Costs costs = predicted;
    cost_of(costs, program, "1F", 1).kernel = 0.5;
    return run(program, costs).period;
  }();
  const Seconds with_linear = [&] {
    Costs costs = predicted;
    cost_of(costs, program, "0B", 0).kernel = 5;
    return run(program, costs).period;
  }();
  CHECK(comparison.kinds.front().kind == "linear_dx");
  CHECK(kind(comparison, "linear_dx").effect ==
        Approx(with_linear - comparison.predicted).epsilon(1e-9));
  CHECK(kind(comparison, "linear_dx").effect > 0);
  CHECK(kind(comparison, "gelu").effect == Approx(with_gelu - comparison.predicted).margin(1e-9));
  CHECK(kind(comparison, "linear").effect == Approx(0).margin(1e-9));
  CHECK(comparison.with_measured == Approx(comparison.measured).epsilon(1e-9));
  // linear_dx, per rank: predicted (2 x 2 s on the two ranks of stage 0, 2 x 4 s on those of stage
  // 1) / 4 ranks = 6 s; measured stage 0: 2 x 5 s, so (2 x 10 + 2 x 8) / 4 = 9 s.
  CHECK(kind(comparison, "linear_dx").predicted == Approx(6));
  CHECK(kind(comparison, "linear_dx").measured == Approx(9));
  CHECK(kind(comparison, "linear_dx").count ==
        Approx(3));  // two calls of 1 op on stage 0, of 2 ops on stage 1
}

TEST_CASE("kernels are held against the intervals that the profile states for them") {
  const Program program = verified(kExampleProgram);
  const Costs predicted = predicted_costs(program);
  Costs real = predicted;
  // The first GEMM of both stages a tenth longer than the 1 s that is predicted.
  cost_of(real, program, "0F", 1).kernel = cost_of(real, program, "1F", 0).kernel = 1.1;
  HardwareProfile device = find_hardware_profile(source_root(), "a100-sxm-80g").value();
  const auto linear = [&](double interval) {
    device.matmul.provenance.interval = interval;
    const CostUncertainty uncertainty(program, device, SoftwareProfile{}, free_links(4));
    const Trace trace = run(program, predicted, every_rank());
    const RunMeasurement measured = as_measured(program, real);
    const RunComparison comparison =
        compare_run({program, predicted, trace, measured,
                     [&](const Costs& other) { return run(program, other).period; }, &uncertainty});
    for (const OpComparison& op : comparison.ops) {
      // x [16, 4] times w [8, 4]: m 16, n 8, k 4.
      if (op.work.kind == OpKind::kLinear && op.work.part == OpPart::kForward && op.work.n == 8)
        return op;
    }
    throw std::logic_error("no such product");
  };
  CHECK(linear(0.2).predicted == Approx(1));
  CHECK(linear(0.2).measured == Approx(1.1));
  CHECK(linear(0.2).count == Approx(8));  // a call each for two microbatches on four ranks
  CHECK(linear(0.2).interval == Approx(0.2));
  CHECK(linear(0.2).inside());
  CHECK_FALSE(linear(0.05).inside());
}

TEST_CASE("a collective's time counts from when its last member is ready") {
  const Program program = verified(kExampleProgram);
  const Costs predicted = predicted_costs(program);
  Costs real = predicted;
  const Lanes lanes = find_lanes(program);
  real.messages.resize(lanes.messages.size());
  SegmentId forward = SegmentId(0);
  while (program.segments[forward].name != "0F") ++forward;
  real.messages[lanes.of_op[forward][4]] = 0.25;
  // The second stage waits for the first: what its ranks wait together is in no collective's time.
  const RunComparison comparison = compare(program, predicted, as_measured(program, real));
  // all_reduce:tp of one size: 0F and 1F and 1B, two microbatches: stage 0 has 2 of them, stage 1
  // has 4.
  CHECK(kind(comparison, "all_reduce:tp").measured == Approx(0.25 * 3).epsilon(1e-6));
  CHECK(kind(comparison, "all_reduce:tp").predicted == Approx(0).margin(1e-9));
  const auto link =
      std::find_if(comparison.links.begin(), comparison.links.end(), [](const LinkComparison& one) {
        return one.kind == "all_reduce:tp" && one.ranks == std::vector<std::int64_t>{2, 3};
      });
  REQUIRE(link != comparison.links.end());
  CHECK(link->count == 4);
  CHECK(link->measured == Approx(1.0).epsilon(1e-6));
  CHECK(link->bytes == 4 * 16 * 4 * 4);  // fp32[16,4]
}

TEST_CASE("time between instructions and frees are the host's, waiting is not") {
  const Program program = verified(kExampleProgram);
  std::vector<TraceRow> rows;
  const auto add = [&](const std::string& name, std::uint32_t op, Seconds issued, Seconds start,
                       Seconds end) {
    TraceRow row;
    while (program.segments[++row.segment].name != name) {
    }
    row.op = op;
    row.issued = issued;
    row.start = start;
    row.end = end;
    rows.push_back(row);
  };
  add("0B", 0, 1.0, 1.0, 2.0);       // linear_dx
  add("0B", 1, 2.1, 2.1, 3.0);       // linear_dw, 0.1 after it
  add("0B", 2, 3.2, 3.5, 3.6);       // a free 0.2 after that, waits 0.3, takes 0.1
  add("0SEND_F", 0, 3.7, 3.9, 4.5);  // another stream's, issued 0.1 later
  add("0B", 3, 3.8, 4.5, 5.0);       // gelu_dx, issued 0.1 later, waits for it
  const std::vector<Seconds> host = host_times(program, rows, true);
  CHECK(host[0] == 0);
  CHECK(host[1] == Approx(0.1));
  CHECK(host[4] == Approx(0.2 + 0.1 + 0.1 + 0.1));
  CHECK(host[2] + host[3] == 0);
  // Where the host runs ahead, it is the time to the next issue.
  const std::vector<Seconds> launches = host_times(program, rows, false);
  CHECK(launches[0] == Approx(1.1));
  CHECK(launches[4] == 0);
}

TEST_CASE("the answer flags more ranks than cores, in words and in JSON") {
  const Program program = verified(kExampleProgram);
  const Costs costs = predicted_costs(program);
  RunMeasurement measured = as_measured(program, costs);
  measured.cores = 2;
  const RunComparison comparison = compare(program, costs, measured);
  CHECK_THAT(run_comparison_text(comparison),
             Catch::Contains("warning: 4 ranks ran on 2 cores: the scheduler decided"));
  const auto json = nlohmann::json::parse(run_comparison_json(comparison));
  CHECK(json.at("more_ranks_than_cores") == true);
  CHECK(json.at("step_time").at("measured_s").get<double>() == Approx(comparison.measured));
  CHECK(json.at("ranks").size() == 4);
  // All parts of the explanation add up to the difference.
  double sum = 0;
  for (const auto& part : json.at("explanation")) sum += part.at("effect_s").get<double>();
  CHECK(sum == Approx(comparison.measured - comparison.predicted).margin(1e-9));
}

TEST_CASE("where few steps have a time it is said why") {
  const Program program = verified(kExampleProgram);
  const Costs costs = predicted_costs(program);
  const RunMeasurement two = as_measured(program, costs);
  // The first of six steps has none before it; `again` ran twice, `saved` behind a checkpoint.
  const auto warnings = [&](const std::vector<int>& again, const std::vector<int>& saved) {
    RunMeasurement six = two;
    six.steps.clear();
    for (int i = 0; i < 6; ++i) {
      six.steps.push_back(two.steps.front());
      six.steps.back().step = i + 1;
    }
    for (const int i : again) six.steps[static_cast<std::size_t>(i)].after_void = true;
    for (const int i : saved) six.steps[static_cast<std::size_t>(i)].after_checkpoint = true;
    return compare(program, costs, six).warnings;
  };
  CHECK(compare(program, costs, two).warnings ==
        std::vector<std::string>{"measured 2 steps only; train --steps 20 has 16"});
  CHECK(warnings({}, {0}).empty());
  CHECK(warnings({1, 3}, {0}).empty());  // steps 3, 5 and 6 are timed
  CHECK(
      warnings({1, 3, 5}, {0}) ==
      std::vector<std::string>{
          "measured 2 steps only: of 6 that were recorded, 3 ran twice, because the one before was "
          "clipped or not finite (schedule.post_validation); a larger training.clip_norm clips "
          "fewer"});
  CHECK(
      warnings({1, 3, 5}, {0, 2}) ==
      std::vector<std::string>{
          "measured 1 step only: of 6 that were recorded, 3 ran twice, because the one before was "
          "clipped or not finite (schedule.post_validation); a larger training.clip_norm clips "
          "fewer; "
          "1 ran behind a checkpoint; a larger checkpoint.every writes fewer"});
  CHECK(warnings({}, {0, 1, 2, 3, 4, 5}) ==
        std::vector<std::string>{
            "no step has a time from the end of the one before, only from its own start: of 6 that "
            "were "
            "recorded, 5 ran behind a checkpoint; a larger checkpoint.every writes fewer"});
}

TEST_CASE(
    "what was measured of an op holds for ops that do the same, and scales others of its kind") {
  const Program program = verified(kExampleProgram);
  MeasuredCosts measured;
  for (const Segment& segment : program.segments) {
    measured.kernel.emplace_back(segment.ops.size());
    measured.host.emplace_back(segment.ops.size());
  }
  const auto at = [&](MeasuredCosts& costs, const std::string& name,
                      std::size_t op) -> std::optional<Seconds>& {
    std::size_t s = 0;
    while (program.segments[SegmentId(s)].name != name) ++s;
    return costs.kernel[SegmentId(s)][op];
  };
  at(measured, "0F", 1) = 3;  // linear of [16,4] by [8,4]
  at(measured, "0F", 2) = 5;  // gelu of [16,8]
  at(measured, "0B", 1) = 2;  // linear_dw of [16,8] and [16,4] onto [4,8]
  Costs predicted = zero_costs(program, free_links(4));
  cost_of(predicted, program, "0F", 1).kernel = 1;
  cost_of(predicted, program, "1F", 2).kernel = 7;
  const MeasuredCosts before = measured;
  MeasuredCosts spread = spread_to_like_ops(program, measured, predicted.ops.at(1.0));
  CHECK(at(spread, "0F", 1) == 3.0);
  CHECK(at(spread, "1F", 0) == 3.0);
  CHECK(at(spread, "1F", 1) == 5.0);
  CHECK(at(spread, "1B", 1) == 2.0);
  // linear of [16,8] by [4,8]: the one that was measured took 3 times what was predicted.
  CHECK(at(spread, "1F", 2) == 21.0);
  // linear_dw of other shapes: nothing was predicted of the one that was measured. linear_dx: none
  // was measured.
  CHECK_FALSE(at(spread, "1B", 7));
  CHECK_FALSE(at(spread, "1B", 0));
  // Another rank's measurement wins over what was there, and leaves the rest.
  MeasuredCosts more = before;
  for (auto& segment : more.kernel) segment.assign(segment.size(), std::nullopt);
  at(more, "0F", 1) = 4;
  add_measured(measured, more);
  CHECK(at(measured, "0F", 1) == 4.0);
  CHECK(at(measured, "0F", 2) == 5.0);
}

}  // namespace trainyard::run_comparison_test
