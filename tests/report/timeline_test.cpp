// The timeline and trace.json: what a file holds is what was written, memory points are those of
// the Program, and a file that is not ours is refused with the place.
#include "report/timeline.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "engine/program/program_text.h"
#include "report/memory_points.h"
#include "report/trace_json.h"
#include "tests/support/example_program.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/simulated.h"

namespace trainyard::timeline_test {

namespace {

std::string trace_text(const Timeline& timeline) {
  std::string text;
  write_trace_json(timeline, [&](std::string_view piece) { text += piece; });
  return text;
}

/// The example's rank 0 in two of its calls: 0F0, of which two GEMMs and the all-reduce, and
/// 0SEND_F0.
Timeline small_timeline() {
  const Program program = parse_program(kExampleProgram, "example");
  const auto segment = [&](const std::string& name) {
    const auto found = std::find_if(program.segments.begin(), program.segments.end(),
                                    [&](const Segment& s) { return s.name == name; });
    return SegmentId(found - program.segments.begin());
  };
  Trace trace;
  RankTrace& rank = trace.ranks.emplace_back();
  rank.rank = 0;
  rank.multiplicity = 2;
  rank.list = 0;
  const SegmentId forward = segment("0F"), send = segment("0SEND_F");
  // Seconds; the step begins at 10, op 4 (all_reduce) waits 0.25 us for a peer.
  rank.rows = {{0, forward, 0, 0, 9.5, 10, 10, 10 + 1e-6},
               {0, forward, 0, 1, 9.5, 10 + 1e-6, 10 + 1e-6, 10 + 3e-6},
               {0, forward, 0, 4, 9.5, 10 + 3e-6, 10 + 3.25e-6, 10 + 4e-6},
               {0, forward, 0, 2, 10, 10, 10, 10},  // takes no time: not shown
               {0, send, 0, 0, 9.5, 10 + 4e-6, 10 + 4e-6, 10 + 5e-6}};
  return make_timeline(program, trace, {.buffers = 1000});
}

}  // namespace

TEST_CASE("a timeline counts ticks from the earliest op and numbers names by first use") {
  const Timeline timeline = small_timeline();
  REQUIRE(timeline.ranks.size() == 1);
  const TimelineRank& rank = timeline.ranks[0];
  CHECK(timeline.names == std::vector<std::string>{"load", "linear", "all_reduce", "send"});
  CHECK(timeline.segments ==
        std::vector<TimelineSegment>{{"0F", 0, 'F', true}, {"0SEND_F", 0, 'C', true}});
  CHECK(timeline.groups == std::vector<TimelineGroup>{{"tp", "tp"}, {"pp", "pp"}});
  CHECK(rank.calls == std::vector<TimelineCall>{{0, 0}, {1, 0}});
  REQUIRE(rank.ops.size() == 4);
  // A tick is 0.1 ns: 1 us is 10,000. Issued half a second before the first start. Rounding of 10 s
  // in double leaves less than a tick.
  CHECK(rank.ops[0].issued == -5'000'000'000);
  CHECK(rank.ops[0].start == 0);
  CHECK(rank.ops[0].end == 10'000);
  CHECK(rank.ops[2].ready == 30'000);
  CHECK(rank.ops[2].start == 32'500);
  CHECK(rank.ops[3].end == 50'000);
  CHECK(rank.ops[3].peer == 2);  // pp+1: the placement's stride of pp is 2
  CHECK(timeline.end() == 50'000);
  // x0 [16, 4] times w1 [8, 4]: 2 x 16 x 8 x 4. The messages are p0 and y0, fp32 [16, 4].
  CHECK(rank.ops[1].flop == 1024);
  CHECK(rank.ops[1].bytes == 0);
  CHECK(rank.ops[2].bytes == 256);
  CHECK(rank.ops[3].bytes == 256);
}

TEST_CASE("what is alive is shown at the times of the ops that make it so") {
  const Timeline timeline = small_timeline();
  const std::vector<MemoryPoint>& memory = timeline.ranks[0].memory;
  REQUIRE(!memory.empty());
  // Before the step: w1 and w2, 2 x 8 x 4 fp32 = 256 bytes; the pool rb, 1 slot of dy0, 16 x 4 fp32
  // = 256, and the 1,000 fixed bytes. At the same time 0ZERO, which has no row, makes the
  // gradients, 256 bytes, and 0F0 loads x0, 256.
  CHECK(memory[0] == MemoryPoint{0, {256, 256, 0, 256, 1256}});
  // Its first GEMM makes h0, 512 bytes, from its start on. The next two ops have no row: a0 (512)
  // and p0 (256) are there where the last row on main before them ends; so is what the calls behind
  // it do, which have no row either: at most another 1,536 of 0F1, and da of 0B0, 512.
  REQUIRE(memory.size() > 2);
  CHECK(memory[1] == MemoryPoint{10'000, {256, 256, 0, 768, 1256}});
  CHECK(memory[2] == MemoryPoint{30'000, {256, 256, 0, 3584, 1256}});
  Bytes highest = 0;
  for (const MemoryPoint& point : memory) highest = std::max(highest, sum(point.bytes));
  const std::vector<MemoryPeak> peaks =
      memory_peaks(parse_program(kExampleProgram, "example"), {.buffers = 1000});
  CHECK(highest == peaks[0].total);
}

TEST_CASE("each rank's ops are of one step, which takes it a period wherever it begins") {
  // The first and the last stage have the table of a large vocabulary to update, and begin the next
  // step later than those between them: what they do behind the period is this step's update.
  const Simulated step = simulate_text(
      "model: {family: gpt, layers: 4, hidden: 512, heads: 8, vocab: 51200, seq_len: 512}\n"
      "cluster: {preset: dgx-a100-80g, nodes: 1}\n"
      "parallel: {pipeline: 4, data: 2}\ntraining: {global_batch: 16}\n",
      true);
  const auto period = static_cast<Ticks>(step.result.summary.iteration_time * kTicksPerSecond);
  REQUIRE(step.timeline.ranks.size() == 4);
  for (const TimelineRank& rank : step.timeline.ranks) {
    CAPTURE(rank.rank);
    Ticks first = rank.ops.front().start, last = 0;
    std::set<std::pair<std::uint32_t, Microbatch>> calls;
    for (const TimelineCall& call : rank.calls) calls.insert({call.segment, call.mb});
    CHECK(std::ssize(calls) == std::ssize(rank.calls));  // each once
    for (const TimelineOp& op : rank.ops) {
      first = std::min(first, op.start);
      last = std::max(last, op.end);
    }
    CHECK(last - first <= period + 2);  // whole ticks
    CHECK((last > period + 2) == (rank.pipeline_rank == 0 || rank.pipeline_rank == 3));
  }
}

TEST_CASE("activations grow op by op in a forward, and shrink so in a backward") {
  // One rank, one microbatch. Each of 8 layers keeps as much.
  const Timeline timeline =
      simulate_text(
          "model: {family: gpt, layers: 8, hidden: 512, heads: 8, vocab: 512, seq_len: 512}\n"
          "cluster: {preset: dgx-a100-80g, devices: 1}\n"
          "training: {global_batch: 2, microbatch: 2, precision: bf16}\n",
          true)
          .timeline;
  const std::vector<MemoryPoint>& memory = timeline.ranks.at(0).memory;
  const auto activations = [](const MemoryPoint& point) {
    return point.bytes[MemoryClass::kActivation];
  };
  const auto peak = std::max_element(
      memory.begin(), memory.end(),
      [&](const auto& a, const auto& b) { return activations(a) < activations(b); });
  // 8 layers of at least 8 ops each: more than 32 levels on either side of the peak, and half of
  // the peak is reached between a third and two thirds of the way up.
  CHECK(peak - memory.begin() > 32);
  CHECK(memory.end() - peak > 32);
  const auto half = std::find_if(memory.begin(), peak, [&](const MemoryPoint& point) {
    return activations(point) * 2 > activations(*peak);
  });
  CHECK(half->at > peak->at / 3);
  CHECK(half->at < peak->at * 2 / 3);
}

TEST_CASE("of many points the highest, the lowest and the last of each stretch stay") {
  // 12 points at 0, 1, ... 11 of a step of 12: for at most 6 there are two stretches.
  std::vector<MemoryPoint> points;
  for (const Bytes bytes : {5, 9, 9, 1, 1, 4, /* second */ 3, 8, 2, 7, 2, 6})
    points.push_back({std::ssize(points), {bytes, 0, 0, 0, 0}});
  std::vector<Ticks> kept;
  for (const MemoryPoint& point : thinned(points, 6, 12)) kept.push_back(point.at);
  CHECK(kept == std::vector<Ticks>{1, 3, 5, 7, 8, 11});
  CHECK(thinned(points, 12, 12) == points);
}

TEST_CASE("a forward and a backward that run together are two calls, each with its own ops") {
  const Timeline timeline = simulate_text(kPairsStudy, false).timeline;
  for (const TimelineRank& rank : timeline.ranks) {
    CAPTURE(rank.rank);
    // By segment, what its calls run: alone at the ends of the step, together in its middle.
    std::map<std::string, std::set<std::vector<std::string>>> runs;
    std::map<std::string, std::set<Microbatch>> microbatches;
    std::vector<std::vector<std::string>> ops(rank.calls.size());
    for (const TimelineOp& op : rank.ops) ops[op.call].push_back(timeline.names[op.name]);
    std::size_t together = 0;
    for (std::size_t c = 0; c < rank.calls.size(); ++c) {
      const TimelineCall& call = rank.calls[c];
      const TimelineSegment& segment = timeline.segments[call.segment];
      CHECK(segment.name.find('+') == std::string::npos);
      if (segment.phase != 'F' && segment.phase != 'B') continue;
      CHECK(segment.name == std::to_string(segment.stage) + segment.phase);
      runs[segment.name].insert(ops[c]);
      CHECK(microbatches[segment.name].insert(call.mb).second);
      if (call.with < 0) continue;
      ++together;
      const TimelineCall& other = rank.calls[static_cast<std::size_t>(call.with)];
      CHECK(other.with == static_cast<std::int32_t>(c));
      // A V of four stages: ranks have 0 and 3, 1 and 2. A microbatch is at one place at a time.
      const TimelineSegment& beside = timeline.segments[other.segment];
      CHECK(segment.phase + beside.phase == 'F' + 'B');
      CHECK((segment.stage == beside.stage || segment.stage + beside.stage == 3));
      CHECK(call.mb != other.mb);
    }
    CHECK(together > 0);
    for (const std::string stage :
         {rank.pipeline_rank == 0 ? "0" : "1", rank.pipeline_rank == 0 ? "3" : "2"}) {
      CAPTURE(stage);
      CHECK(microbatches[stage + "F"].size() == 8);  // 16 sequences on two replicas
      CHECK(runs[stage + "F"].size() == 1);
      // The gradients of a layer's norms, kernels, GEMMs: none in a forward, and all in
      // backwards.
      for (const std::string& name : *runs[stage + "F"].begin()) CHECK_FALSE(name.ends_with("_dx"));
      for (const auto& run : runs[stage + "B"])
        CHECK(std::count(run.begin(), run.end(), "linear_dx") >= 8);
    }
  }
}

TEST_CASE("trace.json gives back the timeline that was written") {
  const ScratchFolder folder;
  for (const std::string& study : kReportStudies) {
    for (const bool fold : {true, false}) {
      CAPTURE(study, fold);
      const Simulated simulated = simulate_text(study, fold);
      REQUIRE(!simulated.timeline.ranks.empty());
      write_text(folder / "trace.json", trace_text(simulated.timeline));
      CHECK(read_trace_json(folder / "trace.json") == simulated.timeline);
    }
  }
}

TEST_CASE("the highest point of memory is the Program's peak and the last is the first") {
  for (const std::string& study : kReportStudies) {
    CAPTURE(study);
    const Simulated simulated = simulate_text(study, true);
    for (const TimelineRank& rank : simulated.timeline.ranks) {
      Bytes highest = 0;
      for (const MemoryPoint& point : rank.memory) highest = std::max(highest, sum(point.bytes));
      CHECK(
          highest ==
          simulated.result.summary.peak_memory[static_cast<std::size_t>(rank.pipeline_rank)].total);
      CHECK(sum(rank.memory.back().bytes) <= highest);
      CHECK(std::is_sorted(rank.memory.begin(), rank.memory.end(),
                           [](const MemoryPoint& a, const MemoryPoint& b) { return a.at < b.at; }));
    }
  }
}

TEST_CASE("a trace that is damaged is refused with the place") {
  const ScratchFolder folder;
  const std::string path = folder / "trace.json";
  const std::string whole = trace_text(small_timeline());
  const auto problem = [&](const std::string& text) {
    write_text(path, text);
    return error_of([&] { read_trace_json(path); });
  };
  CHECK(problem(whole) == "none");
  // The text ends in line 2, behind its last character.
  CHECK(problem("{\"traceEvents\":[\n{\"ph\":\"M\"").starts_with(path + ":2:10: is not JSON: "));
  CHECK(problem("[]") == path + ":1:1: traceEvents: has no rank");
  CHECK(problem("{\"traceEvents\":[]}") == path + ":1:1: traceEvents: has no rank");
  CHECK(problem("{\"traceEvents\":[{\"name\":\"x\"}]}") ==
        path + ":1:17: traceEvents[0]: ph: missing");
  // Events of the file, from 0, a line each from line 2 on: 2 segments, 2 groups, the rank's name,
  // 8 threads, then the ops.
  CHECK(problem(with(whole, "\"dur\":1.0000", "\"dur\":-1")) ==
        path + ":15:1: traceEvents[13]: dur: expected a positive number");
  CHECK(problem(with(whole, "\"dur\":1.0000", "\"dur\":\"1\"")) ==
        path + ":15:1: traceEvents[13]: dur: expected a number");
  CHECK(problem(with(whole, "\"call\":\"0F0\"", "\"call\":\"0X0\"")) ==
        path +
            ":15:1: traceEvents[13]: args.call: no segment for '0X0'; the file is of another "
            "version or "
            "damaged, so run it again");
  CHECK(problem(with(whole, "\"tid\":0,\"ts\"", "\"tid\":13,\"ts\"")) ==
        path + ":15:1: traceEvents[13]: tid: expected a whole number from 0 to 12");
  CHECK(problem(with(whole, "\"group\":\"tp\"", "\"group\":\"xx\"")) ==
        path + ":17:1: traceEvents[15]: args.group: no group is called 'xx'");
}

TEST_CASE("calls of a trace that run together name each other") {
  const ScratchFolder folder;
  const std::string path = folder / "trace.json";
  const std::string whole = trace_text(simulate_text(kPairsStudy, true).timeline);
  const std::size_t at = whole.find("\"with\":\"");
  REQUIRE(at != std::string::npos);
  const std::size_t from = at + 8, to = whole.find('"', from);
  for (const std::string name : {"0F7777", "P", "SEND"}) {
    write_text(path, whole.substr(0, from) + name + whole.substr(to));
    CAPTURE(name);
    CHECK(error_of([&] { read_trace_json(path); }).find("args.with: '") != std::string::npos);
  }
}

}  // namespace trainyard::timeline_test
