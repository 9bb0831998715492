// Optimizer post-validation in Programs: what a step's end and the next one's begin say, that every
// schedule has an order of communication with it, what stays in memory, and what consecutive steps
// gain.
#include "engine/passes/post_validation.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "engine/memory/memory.h"
#include "engine/program/program_text.h"
#include "engine/program/verify.h"
#include "study/study_writer.h"
#include "tests/support/random_plan.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/simulated.h"
#include "tests/support/studies.h"
#include "tests/support/study_outcome.h"
#include "tests/support/timing.h"

namespace trainyard::post_validation_test {

namespace {

const std::vector<std::string> kSchedules = {
    "gpipe",        "1f1b",  "interleaved",      "zb-h1",
    "zb-1p",        "zb-2p", "interleaved-zb1p", "zb-v",
    "dualpipe-v",   "scp",   "pre-recompute",    "last-no-recompute",
    "opportunistic"};

int stages_per_rank(const std::string& schedule) {
  return schedule.starts_with("interleaved") || schedule.ends_with("-v") ? 2 : 1;
}

bool recomputes(const std::string& schedule) {
  return schedule == "scp" || schedule.ends_with("recompute");
}

std::string with_validation(const std::string& schedule, bool on) {
  return "schedule={method: " + schedule + ", post_validation: " + (on ? "true" : "false") + "}";
}

/// One layer for each stage; no weights are tied, which would make the first rank wait for the last
/// one anyway.
std::string study(const std::string& schedule, int p, int m, const std::string& parallel = "") {
  const int v = stages_per_rank(schedule);
  return "model: {family: llama, layers: " + std::to_string(p * v) +
         ", hidden: 8, heads: 2, ffn: 8, vocab: 16, seq_len: 4}\n"
         "cluster: {preset: dgx-a100-80g, nodes: 4}\n"
         "parallel: {pipeline: " +
         std::to_string(p) + ", virtual_stages: " + std::to_string(v) +
         (parallel.empty() ? ", data: 1" : ", " + parallel) +
         "}\ntraining: {global_batch: " + std::to_string(m) +
         ", microbatch: 1}\nrecompute: " + (recomputes(schedule) ? "full" : "none") + "\n";
}

/// Searched schedules are those for unit times, not for the cluster's.
Program program(const std::string& yaml, const std::string& schedule, bool on) {
  Prepared prepared = prepare_text(yaml, {with_validation(schedule, on)});
  prepared.study.schedule.rows.clear();
  return compiled_program(prepared);
}

/// The lines of a segment or class, without its head.
std::string lines_of(const std::string& text, const std::string& head) {
  const auto at = text.find("\n" + head);
  REQUIRE(at != std::string::npos);
  std::string out;
  for (auto line = text.find('\n', at + 1) + 1; text.compare(line, 2, "  ") == 0;) {
    const auto end = text.find('\n', line) + 1;
    out += text.substr(line + 2, end - line - 2);
    line = end;
  }
  return out;
}

/// Actions take a unit each (F, I, W, R; B two, of a pair three), all else nothing.
Costs unit_costs(const Program& program) {
  Costs costs = zero_costs(program, free_links(program.mesh.num_ranks()));
  for (const SegmentId s : program.segments.keys()) {
    const Segment& segment = program.segments[s];
    if (segment.phase > Phase::kRecompute || segment.ops.empty()) continue;
    const bool whole = segment.phase == Phase::kBackward;
    costs.ops[1.0][s][0].kernel = whole ? 1 + segment.slots : 1;
  }
  return costs;
}

Seconds period(const Program& program, const Costs& costs) {
  const Trace trace = run(program, costs);
  CHECK(trace.steady);
  return trace.period;
}

}  // namespace

TEST_CASE("the norm goes from rank to rank and comes back in the next step") {
  const Program p = program(study("1f1b", 3, 3), "1f1b", true);
  const std::string text = to_text(p);
  // The first rank has no rank before it, the last one has the whole sum.
  CHECK(lines_of(text, "segment 0NORM()") ==
        "main zero -> norm_sq@0\n"
        "main sum_squares b0.grad +> norm_sq@0\n"
        "norm send:0 norm_sq@0\n"
        "main within_clip norm_sq@0 -> updated@0\n");
  CHECK(lines_of(text, "segment 1NORM()") ==
        "main zero -> norm_sq@1\n"
        "main sum_squares b1.grad +> norm_sq@1\n"
        "main add norm_before@1 norm_sq@1 -> norm_so_far@1\n"
        "norm send:0 norm_so_far@1\n"
        "main within_clip norm_so_far@1 -> updated@1\n");
  CHECK(lines_of(text, "segment 1RECV_NORM()") == "norm recv:1 -> norm_before@1\n");
  CHECK(lines_of(text, "segment 1UPDATE()") ==
        "main adamw b1.grad -> b1.param +> b1.master b1.exp_avg b1.exp_avg_sq guard updated@1\n");
  CHECK(lines_of(text, "segment 1VALIDATE()") == "norm recv:0 -> norm_all@1 host_sync\n");
  CHECK(lines_of(text, "segment 2VALIDATE()") ==
        "norm all_reduce:replicas{maximum} norm_so_far@2 -> norm_all@2 host_sync\n");
  CHECK(lines_of(text, "segment 1CORRECT()") ==
        "main beyond_clip norm_all@1 -> invalid@1\n"
        "main correct_adamw norm_all@1 updated@1 b1.grad -> b1.param +> b1.master b1.exp_avg "
        "b1.exp_avg_sq "
        "guard invalid@1\n");
  CHECK(lines_of(text, "segment 1PASS_NORM()") == "norm send:1 norm_all@1\n");
  // 1F1B, p = m = 3: first backwards begin at 5, 4 and 3 of the unit-time run. Rank 2 looks at 3,
  // rank 1 at 4, when rank 2 sends, and rank 0 at 5, when rank 1 sends.
  CHECK(lines_of(text, "class pp:0") ==
        "0F0 0SEND_F0 0F1 0SEND_F1 0F2 0FREE_F0 0SEND_F2 0RECV_B0 0VALIDATE 0CORRECT 0ZERO "
        "0RECV_B1 0B0 0FREE_F1 0RECV_B2 0B1 0FREE_F2 0B2 0NORM 0UPDATE\n");
  CHECK(lines_of(text, "class pp:2") ==
        "2ZERO_LOSS 2RECV_F0 2F0 2RECV_F1 2VALIDATE 2CORRECT 2ZERO 2B0 2SEND_B0 2PASS_NORM 2F1 "
        "2RECV_F2 2B1 2FREE_B0 2SEND_B1 2F2 2B2 2FREE_B1 2SEND_B2 2RECV_NORM 2FREE_B2 2LOSS 2NORM "
        "2UPDATE\n");
  CHECK(to_text(parse_program(text, "program.txt")) == text);
}

TEST_CASE("unlike replicas each hear the norm from one of the rank before, and of the one behind") {
  Prepared prepared = prepare_text(
      "model: {family: llama, layers: 2, hidden: 8, heads: 2, ffn: 8, vocab: 16, seq_len: 4}\n"
      "cluster: {preset: dgx-a100-80g, devices: 4}\n"
      "partition: {replicas: [1, 3]}\n"
      "training: {global_batch: 9, microbatch: 3}\n",
      {with_validation("1f1b", true)});
  const std::string text = to_text(compiled_program(prepared));
  // The one replica tells each of the three in a turn of its own; the first of them tells it.
  const std::string first = lines_of(text, "segment 0NORM()");
  std::size_t sends = 0;
  for (auto at = first.find("send:"); at != std::string::npos; at = first.find("send:", at + 1))
    ++sends;
  CHECK(sends == 3);
  for (const std::string segment : {"1RECV_NORM", "1RECV_NORM.1", "1RECV_NORM.2"})
    CHECK(lines_of(text, "segment " + segment + "()").find("-> norm_before@1") !=
          std::string::npos);
  // Each of the three adds up their squares before that.
  CHECK(lines_of(text, "segment 1NORM()").find("norm all_reduce:norm norm_sq@1") !=
        std::string::npos);
  CHECK(lines_of(text, "class pp:1 dp:0").find(" 1PASS_NORM ") != std::string::npos);
  CHECK(lines_of(text, "class pp:1 dp:1").find("PASS_NORM") == std::string::npos);
  CHECK(lines_of(text, "class pp:1 dp:2").find("PASS_NORM") == std::string::npos);
  CHECK(to_text(parse_program(text, "program.txt")) == text);
}

TEST_CASE("the norm of the ranks before is received ahead where nothing else is in its way") {
  // The last actions of ZB-2P are weight gradients, which nobody waits for: the rank before has
  // sent its sum, and goes on with the next step, while they run.
  const std::string zero_bubble =
      lines_of(to_text(program(study("zb-2p", 3, 6), "zb-2p", true)), "class pp:1");
  CHECK(zero_bubble.ends_with(" 1RECV_NORM 1W5 1NORM 1UPDATE\n"));
  // The sum over tied weights comes before it, and the first rank takes part in that before it
  // sends.
  std::string yaml = study("zb-2p", 3, 6);
  yaml.replace(yaml.find("llama"), 5, "gpt");
  const std::string tied = to_text(program(yaml, "zb-2p", true));
  CHECK(lines_of(tied, "class pp:1").find("1RECV_NORM") != std::string::npos);
  CHECK(lines_of(tied, "class pp:2").find("2RECV_NORM") == std::string::npos);
  // Both update their copies unless what they know is not finite, and correct them by one formula.
  // VALIDATE writes where the last rank's sum lies.
  CHECK(lines_of(tied, "segment 0UPDATE()").find("guard norm_sq@0") != std::string::npos);
  CHECK(lines_of(tied, "segment 2UPDATE()").find("guard norm_known@2") != std::string::npos);
  CHECK(lines_of(tied, "segment 2CORRECT()").find("correct_adamw norm_all@2 norm_known@2") !=
        std::string::npos);
  CHECK(lines_of(tied, "segment 2NORM()").find("norm recv:1 -> norm_before@2\n") !=
        std::string::npos);
}

TEST_CASE(
    "ranks that share the norm add it up first, and a correction gathers as the update does") {
  const std::string text =
      to_text(program(study("1f1b", 2, 2, "tensor: 2, data: 2, zero: 1"), "1f1b", true));
  CHECK(text.find("group norm[dp,tp]") != std::string::npos);
  const std::string norm = lines_of(text, "segment 1NORM()");
  const auto shared = norm.find("norm all_reduce:norm norm_sq@1 -> norm_sq@1.all\n");
  REQUIRE(shared != std::string::npos);
  CHECK(norm.find("main add norm_before@1 norm_sq@1.all -> norm_so_far@1\n") > shared);
  const std::string correct = lines_of(text, "segment 1CORRECT()");
  CHECK(correct.find("dp all_gather:dp b2.param_shard -> b2.param guard invalid@1\n") !=
        std::string::npos);
}

TEST_CASE(
    "post-validation changes nothing where one pipeline rank has the norm, and false is no word") {
  const std::string one = study("1f1b", 1, 2);
  CHECK(to_text(program(one, "1f1b", true)) == to_text(program(one, "1f1b", false)));
  const std::string two = study("1f1b", 2, 2);
  CHECK(to_text(program(two, "1f1b", false)) == to_text(compiled_program(prepare_text(two))));
}

TEST_CASE("every schedule with post-validation is a Program that runs, no slower than without") {
  const std::string schedule = GENERATE(from_range(kSchedules));
  const std::string parallel =
      GENERATE("", "tensor: 2, data: 2, zero: 1", "data: 2, zero: {stage: 1, by: parameter}");
  const int p = GENERATE(2, 4);
  CAPTURE(schedule, parallel, p);
  const std::string yaml = study(schedule, p, 16, parallel);
  // find_violation() has looked at both: compile() does.
  const Program late = program(yaml, schedule, true), synchronous = program(yaml, schedule, false);
  CHECK(period(late, unit_costs(late)) <=
        period(synchronous, unit_costs(synchronous)) * (1 + 1e-9));
  // The gradients lived through all of the step before, too: what stays is some numbers of 4 bytes
  // and 1 byte.
  const auto peaks = memory_peaks(late, {}), before = memory_peaks(synchronous, {});
  for (std::size_t rank = 0; rank < peaks.size(); ++rank) {
    CHECK(peaks[rank].total <= before[rank].total + 32);
  }
}

TEST_CASE("ZB-2P with post-validation has no bubble at all") {
  // F = I = W = 1 and m >= 2p - 1: rank r works from r to r + 3m without a pause (the schedule's
  // own law). Its norm needs that of rank r - 1, which ended one unit before; the next step's first
  // forward on rank 0 begins at 3m, and rank r gets it at r + 3m, when it has ended. The whole sum
  // is there at p - 1 + 3m, and rank r looks at it when a first backward begins, at p + 3m or
  // later. So steps follow each other every 3m. With one norm for all, everybody waits until p - 1
  // + 3m.
  const int p = GENERATE(2, 3, 4, 6);
  const int m = 2 * p - 1 + GENERATE(0, 1, 5);
  CAPTURE(p, m);
  const std::string yaml = study("zb-2p", p, m);
  const Program late = program(yaml, "zb-2p", true), synchronous = program(yaml, "zb-2p", false);
  CHECK(period(late, unit_costs(late)) == Approx(3 * m).epsilon(1e-9));
  CHECK(period(synchronous, unit_costs(synchronous)) == Approx(3 * m + p - 1).epsilon(1e-9));
}

TEST_CASE("corrections take no time in a simulation, whatever they would cost") {
  const Program late = program(study("zb-2p", 3, 6), "zb-2p", true);
  Costs costs = unit_costs(late);
  const Seconds without = period(late, costs);
  for (const SegmentId s : late.segments.keys()) {
    if (late.segments[s].phase != Phase::kCorrect) continue;
    for (OpCost& cost : costs.ops[1.0][s]) cost.kernel = cost.launch = 1000;
  }
  CHECK(period(late, costs) == without);
}

TEST_CASE("a gradient that outlives its step is still not added to behind its reduction") {
  Program broken = program(study("1f1b", 2, 4, "data: 2"), "1f1b", true);
  REQUIRE_FALSE(find_violation(broken));
  // The reduction of a bucket, which follows the last backward, is called behind the first one as
  // well.
  std::vector<Call>& calls = broken.body[0].calls;
  const auto named = [&](const std::string& name) {
    return std::find_if(calls.begin(), calls.end(), [&](const Call& call) {
      return broken.segments[call.segment].name.starts_with(name);
    });
  };
  Call reduction;
  for (const SegmentId s : broken.segments.keys()) {
    if (broken.segments[s].name == "0REDUCE_GRAD.0") reduction.segment = s;
  }
  calls.insert(named("0B") + 1, reduction);
  const auto violation = find_violation(broken);
  REQUIRE(violation);
  CHECK(violation->find("has reduced") != std::string::npos);
}

namespace {

/// The study with post-validation; empty: its schedule is said in another form than a word.
std::string validating_late(std::string yaml) {
  const auto at = yaml.find("schedule: ");
  REQUIRE(at != std::string::npos);
  const auto end = yaml.find('\n', at);
  const std::string word = yaml.substr(at + 10, end - at - 10);
  if (word.find('{') != std::string::npos) return "";
  return yaml.replace(at, end - at, "schedule: {method: " + word + ", post_validation: true}");
}

struct LateRuns {
  int ran = 0, validated = 0;
};

/// Runs the study, folded and unfolded, where it can run; its text is read back.
void run_late(const std::string& yaml, LateRuns& runs) {
  const Outcome outcome = run_study(yaml);
  CAPTURE(outcome.reason);
  REQUIRE(find_implausible(outcome) == "");
  if (!outcome.simulation) return;
  ++runs.ran;
  const auto& segments = outcome.simulation->program.segments;
  const bool validates = std::any_of(segments.begin(), segments.end(),
                                     [](const Segment& s) { return s.phase == Phase::kCorrect; });
  runs.validated += validates ? 1 : 0;
  const Summary& summary = outcome.simulation->summary;
  if (!validates || summary.num_ranks > 64) return;
  RunOptions unfold;
  unfold.fold = false;
  const Outcome whole = run_study(yaml, {}, unfold);
  REQUIRE(whole.simulation);
  CHECK(whole.simulation->summary.iteration_time ==
        Approx(summary.iteration_time).epsilon(1e-9).margin(0));
  const std::string text = to_text(outcome.simulation->program);
  CHECK(to_text(parse_program(text, "program.txt")) == text);
}

}  // namespace

TEST_CASE("random plans run with post-validation, the same folded and unfolded") {
  constexpr std::uint64_t kFirstSeed = 20'261'122'000;
  LateRuns runs;
  for (std::uint64_t seed = kFirstSeed; seed < kFirstSeed + 150; ++seed) {
    const std::string yaml = validating_late(random_study(seed));
    CAPTURE(seed, yaml);
    if (!yaml.empty()) run_late(yaml, runs);
  }
  CHECK(runs.ran > 80);
  CHECK(runs.validated > 30);
}

TEST_CASE("random plans of unlike replicas run with post-validation, folded and unfolded") {
  LateRuns runs;
  for (std::uint64_t seed = 20'261'127'000; runs.validated < 25; ++seed) {
    const std::string drawn = random_study(seed);
    if (drawn.find("replicas: [") == std::string::npos) continue;
    const std::string yaml = validating_late(drawn);
    CAPTURE(seed, yaml);
    if (!yaml.empty()) run_late(yaml, runs);
  }
  CHECK(runs.ran < 200);  // most plans have several pipeline ranks and take the norm
}

TEST_CASE("a study says whether it validates late, and its resolved form says so too") {
  const std::string text = study("zb-2p", 2, 4);
  const Prepared prepared = prepare_text(text, {with_validation("zb-2p", true)});
  const std::string resolved = resolved_study_text(prepared.study);
  CHECK(resolved.find("  post_validation: true  # ") != std::string::npos);
  CHECK(prepare_text(resolved).study.schedule == prepared.study.schedule);
  CHECK(std::any_of(prepared.study.warnings.begin(), prepared.study.warnings.end(),
                    [](const std::string& warning) {
                      return warning.starts_with(
                          "schedule.post_validation: times assume that every validation succeeds");
                    }));
  CHECK(error_of([&] {
          prepare_text(text + "schedule: {method: zb-2p, post_validation: maybe}\n");
        }).find("schedule.post_validation: ") != std::string::npos);
  CHECK(error_of([&] {
          prepare_text(text + "schedule: {post_validation: true}\n");
        }).find("schedule: missing required key 'method'") != std::string::npos);
}

}  // namespace trainyard::post_validation_test
