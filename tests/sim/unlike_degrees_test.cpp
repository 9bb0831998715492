// Steps of pipeline ranks with unlike tensor degrees: ranks that are looked at as one take as long
// as when each is looked at by itself, with and without contention.
#include "tests/support/unlike_degrees.h"

#include <catch2/catch.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "app/simulation.h"
#include "engine/exec/analytic_executor.h"
#include "engine/memory/memory.h"
#include "engine/passes/unlike_degrees.h"
#include "engine/program/program_text.h"
#include "report/report.h"
#include "report/timeline.h"
#include "report/trace_json.h"
#include "sim/network_executor.h"
#include "study/study_writer.h"
#include "tests/support/random_draws.h"
#include "tests/support/timing.h"

namespace trainyard::unlike_degrees_test {

namespace {

using Degrees = std::vector<int>;

const std::string kStudy =
    "model: {family: llama, layers: 8, hidden: 256, heads: 8, vocab: 512, seq_len: 64}\n"
    "cluster: {preset: dgx-a100-80g, devices: 1}\n"
    "training: {global_batch: 24, microbatch: 1, clip_norm: 1}\n";

/// None: without contention.
Trace run_one(std::optional<Fidelity> fidelity, const Program& program, const Costs& costs,
              bool fold) {
  RunOptions options;
  options.fold = fold;
  const std::array<Job, 1> jobs = {Job{&program, 0}};
  if (!fidelity) return AnalyticExecutor().run(jobs, costs, options);
  return NetworkExecutor(*fidelity).run(jobs, costs, options);
}

}  // namespace

TEST_CASE("unlike tensor degrees take as long folded as unfolded") {
  const Degrees degrees = GENERATE(Degrees{1, 2}, Degrees{4, 2}, Degrees{2, 1, 4, 2});
  const std::string schedule = GENERATE("gpipe", "1f1b");
  const int data = GENERATE(1, 3);
  CAPTURE(degrees, schedule, data);
  std::vector<std::string> sets = sets_of_degrees(degrees, data, "cluster.devices");
  sets.push_back("schedule=" + schedule);
  const Prepared prepared = prepare_text(kStudy, sets);
  const Program program = unlike_degrees_program(prepared, degrees);
  SourceLog log;
  const Costs costs =
      make_costs(program, prepared.hardware, prepared.software, prepared.study.cluster, log);
  double least = 0;  // links that are shared make nothing faster
  for (const std::optional<Fidelity> fidelity :
       std::vector<std::optional<Fidelity>>{{}, Fidelity::kFluid, Fidelity::kStep}) {
    CAPTURE(fidelity.has_value(), fidelity == Fidelity::kStep);
    const Trace folded = run_one(fidelity, program, costs, true);
    const Trace unfolded = run_one(fidelity, program, costs, false);
    CHECK(folded.period > least * (1 - 1e-9));
    CHECK(unfolded.period == Approx(folded.period).epsilon(1e-9));
    CHECK(std::ssize(unfolded.ranks) == program.mesh.num_ranks());
    if (fidelity) continue;
    least = folded.period;
    // Two of four ranks send to nobody, and behave alike.
    if (degrees == Degrees{4, 2}) CHECK(folded.ranks.size() < unfolded.ranks.size());
  }
}

namespace {

/// A plan with degrees at random. None where the study refuses it, or the plan cannot run.
struct RandomDegrees {
  Degrees degrees;
  std::string yaml;
  std::vector<std::string> sets;
};

RandomDegrees random_degrees(std::uint64_t seed) {
  RandomDraws draws(seed);
  RandomDegrees out;
  const std::int64_t stages = draws.one_of({2, 2, 3, 4});
  for (std::int64_t stage = 0; stage < stages; ++stage)
    out.degrees.push_back(draws.one_of({1, 2, 4}));
  const std::string family = draws.word({"gpt", "llama", "bert", "t5"});
  const std::int64_t layers = stages * draws.one_of({2, 4});
  out.yaml = "model: {family: " + family + ", layers: " + std::to_string(layers) +
             (family == "t5" ? ", decoder_layers: " + std::to_string(layers) +
                                   ", decoder_seq_len: 32, head_dim: 8"
                             : "") +
             ", hidden: 64, heads: 8, vocab: 512, seq_len: 64}\n"
             "cluster: {preset: dgx-a100-80g, devices: 1}\n"
             "training: {global_batch: 48, clip_norm: 1}\n";
  const int data = draws.chance(40) ? static_cast<int>(draws.one_of({2, 3})) : 1;
  out.sets = sets_of_degrees(out.degrees, data, "cluster.devices");
  const auto set = [&](const std::string& text) { out.sets.push_back(text); };
  set("training.microbatch=" + draws.word({"1", "2", "4"}));
  set("schedule=" + draws.word({"gpipe", "1f1b", "zb-h1", "opportunistic"}));
  if (draws.chance(30)) set("recompute=" + draws.word({"full", "selective"}));
  if (draws.chance(30)) set("parallel.sequence_parallel=true");
  if (draws.chance(30)) set("parallel.scatter_gather=false");
  if (draws.chance(20)) set("model.tied_embeddings=false");
  if (data > 1 && draws.chance(50)) set("parallel.zero=" + draws.word({"1", "2", "3"}));
  if (draws.chance(15)) set("framework=" + draws.word({"megatron-lm", "torchtitan", "nemo"}));
  return out;
}

}  // namespace

TEST_CASE("random plans of unlike tensor degrees verify, fold and read back") {
  constexpr std::uint64_t kFirstSeed = 20'261'127'000;
  int compared = 0, refused = 0;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 120; ++seed) {
    const RandomDegrees plan = random_degrees(seed);
    CAPTURE(seed, plan.yaml, plan.degrees, plan.sets);
    std::optional<Prepared> prepared;
    try {
      prepared = prepare_text(plan.yaml, plan.sets);
    } catch (const std::runtime_error&) {  // not every family or framework has every key
      continue;
    }
    PassLog passes;
    const auto compiled =
        compile_unlike_degrees(prepared->model, program_inputs(prepared->study), plan.degrees,
                               prepared->software, passes, {.verify = true});
    if (std::holds_alternative<Infeasible>(compiled)) {
      ++refused;
      continue;
    }
    const Program& program = std::get<Program>(compiled);  // verified
    const std::string text = to_text(program);
    CHECK(to_text(parse_program(text, "program.txt")) == text);
    SourceLog log;
    const Costs costs =
        make_costs(program, prepared->hardware, prepared->software, prepared->study.cluster, log);
    const double analytic = run_one({}, program, costs, true).period;
    CHECK(analytic > 0);
    CHECK(run_one({}, program, costs, false).period == Approx(analytic).epsilon(1e-9));
    const double fluid = run_one(Fidelity::kFluid, program, costs, true).period;
    Costs at_pace = costs;  // what a message slows is another kernel where it takes longer
    at_pace.slowdown = {};
    CHECK(run_one(Fidelity::kFluid, program, at_pace, true).period >=
          run_one({}, program, at_pace, true).period * (1 - 1e-9));
    CHECK(run_one(Fidelity::kFluid, program, costs, false).period == Approx(fluid).epsilon(1e-9));
    ++compared;
  }
  CHECK(compared > 50);
  CHECK(refused > 0);
}

TEST_CASE("a step of unlike tensor degrees has a summary, a trace and a page") {
  const Prepared prepared = prepare_text(kStudy, sets_of_degrees({1, 2}, 1, "cluster.devices"));
  const Program program = unlike_degrees_program(prepared, {1, 2});
  RunOptions options;
  options.record_rows = true;
  TimedStep step = StepTimer().time(prepared, program, {}, options);
  CHECK(step.summary.num_ranks == 3);
  const Timeline timeline = make_timeline(program, std::move(step.trace), {});
  REQUIRE(timeline.ranks.size() == 3);
  CHECK(timeline.axes == std::vector<std::string>{"pp", "tp"});
  CHECK(timeline.ranks[2].at == Coordinate{1, 1});
  // The first stage sends to both ranks of the second one, in turn.
  std::set<std::int64_t> peers;
  for (const TimelineOp& op : timeline.ranks[0].ops) {
    if (timeline.names[position(op.name)] == "send") peers.insert(op.peer);
  }
  CHECK(peers == std::set<std::int64_t>{1, 2});
  std::string trace;
  write_trace_json(timeline, [&](std::string_view piece) { trace += piece; });
  CHECK(trace.find("1RECV_F.b0") != std::string::npos);
  RunFiles files;
  files.folder = "unlike";
  files.study = resolved_study_text(prepared.study);
  files.summary = summary_json(step.summary, 0);
  CHECK(report_html(files, &timeline).find("1RECV_F.b") != std::string::npos);
  CHECK(summary_text(step.summary, prepared.study, 0).find("3") != std::string::npos);
}

TEST_CASE("of two tensor degrees the larger one leaves less on each rank") {
  const Prepared prepared = prepare_text(kStudy, sets_of_degrees({1, 4}, 1, "cluster.devices"));
  const std::vector<MemoryPeak> peaks = memory_peaks(unlike_degrees_program(prepared, {1, 4}), {});
  REQUIRE(peaks.size() > 1);
  // Parameters, gradients and state of the first stage are whole, of the second a quarter, but for
  // the norms.
  CHECK(peaks.back().total < peaks.front().total / 2);
}

}  // namespace trainyard::unlike_degrees_test
