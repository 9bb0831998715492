// The page's form of a timeline: patterns unpack to the ops that were packed, and what is too much
// is left out by a rule and counted.
#include "report/timeline_blob.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "report/report.h"
#include "study/study_writer.h"
#include "tests/support/simulated.h"

namespace trainyard::timeline_blob_test {

namespace {

using Json = nlohmann::ordered_json;
using Op = std::tuple<std::string, std::string, int>;  // call, op, stream

struct Times {
  std::int64_t start, end, wait;
};

/// All ops of a rank of the blob, as the page unpacks them.
std::multimap<Op, Times> unpacked(const Json& blob, const Json& rank) {
  std::multimap<Op, Times> ops;
  std::int64_t call_start = 0;
  const auto calls = rank["calls"].get<std::vector<std::int64_t>>();
  for (std::size_t c = 0; c < calls.size(); c += 5) {
    call_start += calls[c + 2];
    std::string call = blob["segments"][static_cast<std::size_t>(calls[c])][0];
    if (calls[c + 1] >= 0) call += std::to_string(calls[c + 1]);
    std::int64_t start = call_start;
    const auto pattern =
        blob["patterns"][static_cast<std::size_t>(calls[c + 3])].get<std::vector<std::int64_t>>();
    for (std::size_t k = 0; k < pattern.size(); k += 8) {
      start += pattern[k + 4];
      const std::string name =
          pattern[k] < 0 ? ""
                         : blob["names"][static_cast<std::size_t>(pattern[k])].get<std::string>();
      ops.insert({{call, name, static_cast<int>(pattern[k + 1])},
                  {start, start + pattern[k + 5], k == 0 ? calls[c + 4] : pattern[k + 6]}});
    }
  }
  return ops;
}

/// `ranks` pipeline ranks with `microbatches` forward and backward calls of `ops` ops and four
/// transfers each.
Timeline long_timeline(std::int32_t ranks, std::int32_t microbatches, int ops, bool irregular) {
  Timeline timeline;
  timeline.names = {"linear", "send"};
  timeline.modules = {"decoder.layers.0.mlp.fc1"};
  timeline.axes = {"pp"};
  timeline.groups = {{"pp", "pp"}};
  std::uint64_t state = 1;
  for (std::int32_t r = 0; r < ranks; ++r) {
    TimelineRank& rank = timeline.ranks.emplace_back();
    rank.rank = rank.pipeline_rank = r;
    rank.at = {r};
    const auto first = static_cast<std::uint32_t>(timeline.segments.size());
    for (const char* name : {"F", "B", "SEND_F", "RECV_F", "SEND_B", "RECV_B"}) {
      timeline.segments.push_back(
          {std::to_string(r) + name, r, name[1] == '\0' ? name[0] : 'C', true});
    }
    Ticks now = r * 1'000'000;
    for (std::int32_t m = 0; m < microbatches; ++m) {
      for (std::uint32_t s = 0; s < 6; ++s) {
        const int count = s < 2 ? ops : 1;
        for (int k = 0; k < count; ++k) {
          state = state * 6364136223846793005U + 1442695040888963407U;
          TimelineOp op;
          op.call = static_cast<std::uint32_t>(rank.calls.size());
          op.name = s < 2 ? 0 : 1;
          op.group = s < 2 ? -1 : 0;
          op.stream = s < 2 ? StreamId::kMain : StreamId::kFwd;
          op.start = now;
          op.ready = now - (s < 2 ? 0 : 123'456'789);
          op.issued = op.ready - 1;
          now += 20'000'000 + (irregular ? static_cast<Ticks>(state >> 40U) : 0);
          op.end = now;
          rank.ops.push_back(op);
        }
        rank.calls.push_back({first + s, m});
        rank.memory.push_back(
            {now, {1'000'000'000, 2'000'000'000, 6'000'000'000, now % 1'000'000'007, 12'345}});
      }
    }
  }
  return timeline;
}

}  // namespace

TEST_CASE("patterns unpack to the ops that were packed, within two units") {
  for (const std::string& study : kReportStudies) {
    CAPTURE(study);
    const Timeline timeline = simulate_text(study, false).timeline;
    const Json blob = timeline_blob(timeline);
    REQUIRE(blob["ranks"].size() == timeline.ranks.size());
    std::set<std::int32_t> seen;
    for (std::size_t r = 0; r < timeline.ranks.size(); ++r) {
      const TimelineRank& rank = timeline.ranks[r];
      const auto ops = unpacked(blob, blob["ranks"][r]);
      REQUIRE(ops.size() == rank.ops.size());
      std::size_t close = 0;
      for (const TimelineOp& op : rank.ops) {
        const TimelineCall& call = rank.calls[op.call];
        const auto [from, to] =
            ops.equal_range({call_name(timeline.segments[call.segment], call.mb),
                             timeline.names[op.name], static_cast<int>(op.stream)});
        // A unit is 1 ns, 10 ticks: half a unit from rounding, one from the pattern it shares.
        for (auto at = from; at != to; ++at) {
          const auto near = [](std::int64_t units, Ticks ticks) {
            return std::abs(10 * units - ticks) <= 20;
          };
          if (!near(at->second.start, op.start) || !near(at->second.end, op.end) ||
              !near(at->second.wait, op.start - op.ready))
            continue;
          ++close;
          break;
        }
      }
      CHECK(close == rank.ops.size());
      CHECK(blob["ranks"][r].contains("memory") == seen.insert(rank.pipeline_rank).second);
    }
    CHECK(blob["left_out"] ==
          Json({{"ranks", 0}, {"calls", 0}, {"calls_without_ops", 0}, {"memory_points", 0}}));
  }
}

TEST_CASE("microbatches that run alike share one pattern") {
  // Six segments on each of 4 ranks: as many patterns, however many microbatches.
  const Json blob = timeline_blob(long_timeline(4, 50, 10, false));
  CHECK(blob["patterns"].size() == 24);
  CHECK(blob["ranks"][0]["calls"].size() == 5 * 6 * 50);
  // No two calls of real runs are alike.
  CHECK(timeline_blob(long_timeline(2, 50, 10, true))["patterns"].size() > 2 * 50 * 2);
}

TEST_CASE(
    "ops beyond the limit become one box per stream, the same part of the step on all ranks") {
  TimelineLimits limits;
  limits.max_pattern_ops = 600;
  const Timeline timeline = long_timeline(2, 50, 10, true);
  const Json blob = timeline_blob(timeline, limits);
  // A microbatch of a rank has 10 + 10 + 4 ops: 2 ranks x 24 ops x 12 microbatches = 576 fit, 13 do
  // not.
  CHECK(blob["left_out"]["calls_without_ops"].get<int>() >= 2 * 2 * (50 - 13));
  CHECK(blob["left_out"]["calls_without_ops"].get<int>() <= 2 * 2 * (50 - 12));
  for (const Json& rank : blob["ranks"]) {
    std::size_t whole = 0;
    for (const auto& [op, times] : unpacked(blob, rank)) whole += std::get<1>(op) == "linear";
    CHECK(whole >= 12 * 20);
    CHECK(whole <= 13 * 20);
  }
  // The box goes from the first to the last op and says how many they are.
  const auto& last = timeline.ranks[0].calls.back();
  REQUIRE(last.mb == 49);
  const auto ops = unpacked(blob, blob["ranks"][0]);
  const auto box = ops.find({"0B49", "", 0});
  REQUIRE(box != ops.end());
  CHECK(box->second.end - box->second.start >= 10 * 2'000'000);
}

TEST_CASE("a pair without its ops is one row of boxes") {
  const Timeline timeline = simulate_text(kPairsStudy, false).timeline;
  TimelineLimits limits;
  limits.max_pattern_ops = 100;
  const Json blob = timeline_blob(timeline, limits);
  CHECK(blob["left_out"]["calls_without_ops"].get<int>() > 0);
  for (std::size_t r = 0; r < timeline.ranks.size(); ++r) {
    const Json& rank = blob["ranks"][r];
    REQUIRE(rank.contains("pairs"));
    // Every op is drawn or counted, and no box lies over another one of its stream.
    std::size_t ops = 0;
    std::map<int, std::vector<std::pair<std::int64_t, std::int64_t>>> boxes;
    const auto calls = rank["calls"].get<std::vector<std::int64_t>>();
    std::int64_t start = 0;
    for (std::size_t c = 0; c < calls.size(); c += 5) {
      start += calls[c + 2];
      std::int64_t at = start;
      const auto pattern =
          blob["patterns"][static_cast<std::size_t>(calls[c + 3])].get<std::vector<std::int64_t>>();
      for (std::size_t k = 0; k < pattern.size(); k += 8) {
        at += pattern[k + 4];
        ops += pattern[k] < 0 ? static_cast<std::size_t>(pattern[k + 3]) : 1;
        boxes[static_cast<int>(pattern[k + 1])].push_back({at, at + pattern[k + 5]});
      }
    }
    CHECK(ops == timeline.ranks[r].ops.size());
    auto& main = boxes[0];
    std::sort(main.begin(), main.end());
    for (std::size_t i = 1; i < main.size(); ++i) CHECK(main[i].first >= main[i - 1].second - 2);
    const auto pairs = rank["pairs"].get<std::vector<std::size_t>>();
    for (std::size_t i = 0; i < pairs.size(); i += 2) {
      const auto phase = [&](std::size_t call) {
        return blob["segments"][static_cast<std::size_t>(calls[5 * call])][2].get<std::string>();
      };
      CHECK(phase(pairs[i]) + phase(pairs[i + 1]) != "BB");
      CHECK(phase(pairs[i]) + phase(pairs[i + 1]) != "FF");
    }
  }
}

TEST_CASE("ranks and calls beyond the limit are left out evenly and counted") {
  TimelineLimits limits;
  limits.max_calls = 600;
  // 20 ranks x 60 calls = 1,200: half of the ranks, the first and the last among them.
  const Json some_ranks = timeline_blob(long_timeline(20, 10, 2, false), limits);
  CHECK(some_ranks["ranks"].size() == 10);
  CHECK(some_ranks["ranks"].front()["rank"] == 0);
  CHECK(some_ranks["ranks"].back()["rank"] == 19);
  CHECK(some_ranks["left_out"]["ranks"] == 10);
  // The first of two ranks of each of ten pipeline ranks stays.
  Timeline pairs = long_timeline(20, 10, 2, false);
  for (TimelineRank& rank : pairs.ranks) rank.pipeline_rank /= 2;
  const Json one_each = timeline_blob(pairs, limits);
  REQUIRE(one_each["ranks"].size() == 10);
  for (int r = 0; r < 10; ++r)
    CHECK(one_each["ranks"][static_cast<std::size_t>(r)]["rank"] == 2 * r);
  // 2 ranks x 6 x 100 = 1,200 calls: of each rank 300 of 600, from both ends of the step.
  const Json ends = timeline_blob(long_timeline(2, 100, 2, false), limits);
  REQUIRE(ends["ranks"].size() == 2);
  CHECK(ends["ranks"][0]["calls"].size() == 5 * 300);
  CHECK(ends["ranks"][0]["left_out"][2] == 300);
  CHECK(ends["left_out"]["calls"] == 600);
  CHECK(ends["ranks"][0]["calls"][1] == 0);  // microbatch of the first call
  CHECK(ends["ranks"][0]["calls"][5 * 299 + 1] == 99);
}

TEST_CASE("of too many memory points the highest of each slice stays") {
  TimelineLimits limits;
  limits.max_memory_points = 40;
  const Timeline timeline = long_timeline(1, 100, 2, false);
  const Json blob = timeline_blob(timeline, limits);
  const auto memory = blob["ranks"][0]["memory"].get<std::vector<std::int64_t>>();
  CHECK(memory.size() <= 6 * 41);
  Bytes highest = 0, shown = 0, now = 0;
  for (const MemoryPoint& point : timeline.ranks[0].memory)
    highest = std::max(highest, sum(point.bytes));
  for (std::size_t i = 0; i < memory.size(); i += 6) {
    for (std::size_t k = 1; k < 6; ++k) now += memory[i + k];
    shown = std::max(shown, now);
  }
  CHECK(shown == highest);
  CHECK(blob["left_out"]["memory_points"].get<std::size_t>() == 600 - memory.size() / 6);
}

TEST_CASE("a page of 1,024 recorded ranks and 96 microbatches is at most 10 MB, alike or not") {
  const Simulated any = simulate_text(kReportStudies[0], true);
  const RunFiles files = {"out", resolved_study_text(any.prepared.study),
                          summary_json(any.result.summary, 0), ""};
  for (const bool irregular : {false, true}) {
    CAPTURE(irregular);
    const Timeline timeline = long_timeline(1024, 96, 3, irregular);
    const std::size_t size = report_html(files, &timeline).size();
    CHECK(size <= kMaxReportBytes);
    CHECK(size > 5'000'000);  // what fits is there
  }
}

}  // namespace trainyard::timeline_blob_test
