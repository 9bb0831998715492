// Pipeline schedules, checked three ways: the exact order at sizes that a reader can verify by eye
// and against golden tables, makespans and activations as formulas over many sizes, and what a
// schedule that cannot run says.
#include "engine/schedule/pipeline_schedule.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <charconv>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "engine/schedule/schedule_names.h"
#include "engine/schedule/schedule_timing.h"

namespace trainyard::pipeline_schedule_test {

namespace {

std::vector<std::string> to_rows(const PipelineSchedule& schedule) {
  std::vector<std::string> rows;
  for (const auto& actions : schedule.actions) {
    std::string& row = rows.emplace_back();
    for (const std::string& word : to_text(actions)) row += (row.empty() ? "" : " ") + word;
  }
  return rows;
}

constexpr std::string_view kLetters = "FBIWRR";  // [phase]

std::optional<std::int32_t> parse_number(std::string_view text) {
  std::int32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

/// "2F0" -> its action; none: not one.
std::optional<Action> parse_action(std::string_view text) {
  const std::size_t at = text.find_first_of(kLetters);
  if (at == std::string_view::npos || at == 0) return std::nullopt;
  auto phase = static_cast<ActionPhase>(kLetters.find(text[at]));
  if (phase == ActionPhase::kRecompute && text.ends_with("*")) {
    phase = ActionPhase::kEarlyRecompute;
    text.remove_suffix(1);
  }
  const auto stage = parse_number(text.substr(0, at));
  const auto microbatch = parse_number(text.substr(at + 1));
  if (!stage || !microbatch || *stage < 0 || *microbatch < 0) return std::nullopt;
  return Action{*stage, phase, *microbatch};
}

/// One row of actions per rank; `num_stages` and microbatches as the actions show them.
PipelineSchedule from_rows(const std::vector<std::string>& rows) {
  PipelineSchedule schedule;
  for (const std::string& row : rows) {
    auto& actions = schedule.actions.emplace_back();
    std::istringstream words(row);
    for (std::string word; words >> word;) {
      const auto action = parse_action(word);
      REQUIRE(action);
      actions.push_back(*action);
      schedule.num_stages = std::max(schedule.num_stages, action->stage + 1);
      schedule.num_microbatches = std::max(schedule.num_microbatches, action->microbatch + 1);
    }
  }
  return schedule;
}

ScheduleTiming timing(const PipelineSchedule& schedule, const ActionDurations& durations = {}) {
  const auto timed = time_schedule(schedule, durations);
  if (const auto* reason = std::get_if<Infeasible>(&timed)) FAIL(reason->reason);
  return std::get<ScheduleTiming>(timed);
}

std::string violation(const std::vector<std::string>& rows) {
  const auto timed = time_schedule(from_rows(rows), {});
  const auto* reason = std::get_if<Infeasible>(&timed);
  return reason == nullptr ? "none" : reason->reason;
}

PipelineSchedule named(const std::string& name, int ranks, int stages_per_rank, int microbatches) {
  auto made = schedule_by_name(name, ranks, stages_per_rank, microbatches, false);
  if (const auto* reason = std::get_if<Infeasible>(&made)) FAIL(reason->reason);
  return std::get<PipelineSchedule>(made);
}

}  // namespace

TEST_CASE("an action's text reads back, and nothing else reads as an action") {
  for (const char* text : {"0F0", "2F11", "13B7", "1I2", "1W2", "1R2", "1R2*"}) {
    CAPTURE(text);
    REQUIRE(parse_action(text));
    CHECK(to_string(*parse_action(text)) == text);
  }
  for (const char* text :
       {"", "F", "F0", "0F", "0X1", "0F-1", "-1F0", "0F1 ", "0F1*", "0FF1", "0F99999999999"}) {
    CAPTURE(text);
    CHECK_FALSE(parse_action(text));
  }
}

TEST_CASE("1F1B issues the published order for three stages and four microbatches") {
  // Narayanan et al., SC'21, figure 4 (top): one forward fewer of warmup on every later stage.
  CHECK(to_rows(one_f_one_b(3, 4)) == std::vector<std::string>{"0F0 0F1 0F2 0B0 0F3 0B1 0B2 0B3",
                                                               "1F0 1F1 1B0 1F2 1B1 1F3 1B2 1B3",
                                                               "2F0 2B0 2F1 2B1 2F2 2B2 2F3 2B3"});
}

TEST_CASE("schedules equal the golden tables: order, makespan, idle time, activations") {
  std::ifstream file(TRAINYARD_SOURCE_DIR "/tests/golden/schedule_tables.json");
  const auto golden = nlohmann::json::parse(file);
  const ActionDurations durations{golden["durations"]["F"], golden["durations"]["B"],
                                  golden["durations"]["I"], golden["durations"]["W"]};
  int cases = 0;
  for (const auto& expected : golden["cases"]) {
    const std::string name = expected["schedule"];
    const int ranks = expected["ranks"];
    const int stages = expected["stages"];
    const int microbatches = expected["microbatches"];
    CAPTURE(name, ranks, stages, microbatches);
    const auto schedule = named(name, ranks, stages / ranks, microbatches);
    const ScheduleTiming timed = timing(schedule, durations);
    CHECK(timed.makespan == expected["makespan"].get<double>());
    for (int rank = 0; rank < ranks; ++rank) {
      CAPTURE(rank);
      const auto r = static_cast<std::size_t>(rank);
      CHECK(timed.idle[r] == expected["bubble"][r].get<double>());
      CHECK(peak_in_flight(schedule, rank) == expected["peak_live"][r].get<int>());
    }
    if (!expected["table"].is_null()) {
      CHECK(to_rows(schedule) == expected["table"].get<std::vector<std::string>>());
    }
    ++cases;
  }
  CHECK(cases == 18);
}

TEST_CASE("GPipe and 1F1B take (m + p - 1)(F + B) when every stage takes equally long") {
  // The first microbatch reaches the last stage after (p-1) F; from its start there on, that stage
  // is busy for m (F + B); the last backward then returns in (p-1) B.
  const int p = GENERATE(1, 2, 3, 4, 7, 8);
  const int m = GENERATE(1, 2, 3, 4, 8, 17, 32);
  const ActionDurations durations{1.25, 2.5, 1, 1};  // binary fractions: sums are exact
  CAPTURE(p, m);
  for (const auto& schedule : {gpipe(p, m), one_f_one_b(p, m)}) {
    const ScheduleTiming timed = timing(schedule, durations);
    CHECK(timed.makespan == (m + p - 1) * (durations.forward + durations.backward));
    for (double idle : timed.idle)
      CHECK(idle == (p - 1) * (durations.forward + durations.backward));
  }
}

TEST_CASE("1F1B holds no more activations than stages remain, GPipe holds all") {
  const int p = GENERATE(1, 2, 4, 7);
  const int m = GENERATE(1, 3, 4, 16);
  for (int s = 0; s < p; ++s) {
    CAPTURE(p, m, s);
    CHECK(peak_in_flight(one_f_one_b(p, m), s) == std::min(m, p - s));
    CHECK(stages_in_flight(one_f_one_b(p, m))[s] == std::min(m, p - s));
    CHECK(peak_in_flight(gpipe(p, m), s) == m);
  }
}

TEST_CASE("the interleaved schedule's bubble is v times shorter") {
  // In units of one stage (f + b): every rank has m v of them to do; what 1F1B waits for p - 1
  // whole ranks' worth of layers is p - 1 single stages here.
  const int p = GENERATE(2, 3, 4, 8);
  const int v = GENERATE(2, 3, 4);
  const int rounds = GENERATE(1, 2, 5);
  const int m = p * rounds;
  const ActionDurations durations{1, 2, 1, 1};
  CAPTURE(p, v, m);
  const auto schedule = interleaved(p, v, m);
  CHECK(timing(schedule, durations).makespan == m * v * 3 + (p - 1) * 3);
  for (int rank = 0; rank < p; ++rank) {
    // By counting: forwards before the first backward, and the one that follows them.
    CAPTURE(rank);
    CHECK(peak_in_flight(schedule, rank) == std::min(m * v, (v - 1) * p + 2 * (p - 1 - rank) + 1));
  }
}

TEST_CASE("every schedule runs every action once, in an order that its ranks can keep") {
  const std::string method = GENERATE("gpipe", "1f1b", "interleaved");
  const int p = GENERATE(2, 3, 5);
  const int v = method == "interleaved" ? GENERATE(1, 2, 3) : 1;
  const int m = GENERATE(1, 2, 4, 6, 12);
  const auto made = make_schedule(method, p, v, m);
  CAPTURE(method, p, v, m);
  if (std::holds_alternative<Infeasible>(made)) {
    CHECK(m % std::max(1, m / p) != 0);  // only groups that cannot be equal are refused
    return;
  }
  const auto& schedule = std::get<PipelineSchedule>(made);
  std::vector<Action> all;
  for (int rank = 0; rank < p; ++rank) {
    for (const Action& action : schedule.actions[static_cast<std::size_t>(rank)]) {
      CHECK(schedule.rank_of(action.stage) == rank);
      all.push_back(action);
    }
  }
  CHECK(all.size() == static_cast<std::size_t>(2 * p * v * m));
  std::sort(all.begin(), all.end());
  CHECK(std::adjacent_find(all.begin(), all.end()) == all.end());
  CHECK(timing(schedule).makespan >= 3.0 * v * m);  // no rank has less to do
}

TEST_CASE("a schedule that cannot run says which action and why") {
  CHECK(violation({"0F0 0B0", "1F0 1B0"}) == "none");
  SECTION("a circular wait names both sides") {
    CHECK(violation({"0B0 0F0", "1F0 1B0"}) ==
          "rank 0 step 0: 0B0 waits for 1B0; rank 1 step 0: 1F0 waits for 0F0");
  }
  SECTION("an action twice") { CHECK(violation({"0F0 0F0 0B0"}) == "0F0 appears twice"); }
  SECTION("an action that is missing, even if nothing waits for it") {
    CHECK(violation({"0F0 0B0 0F1"}) == "0B1 is missing");
    CHECK(violation({"0B0"}) == "0F0 is missing");
    CHECK(violation({"0F0 0I0"}) == "0W0 is missing");
    CHECK(violation({"0F0 0W0"}) == "0I0 is missing");
  }
  SECTION("a backward in whole and in halves") {
    CHECK(violation({"0F0 0B0 0I0 0W0"}) == "0B0 is there in whole and in halves");
  }
  SECTION("an action of a stage or a microbatch that is not there") {
    PipelineSchedule schedule = one_f_one_b(2, 2);
    schedule.num_microbatches = 1;
    const auto timed = time_schedule(schedule, {});
    REQUIRE(std::holds_alternative<Infeasible>(timed));
    CHECK(std::get<Infeasible>(timed).reason == "rank 0: 0F1 is out of range");
  }
}

TEST_CASE("halves of a backward take their own durations, and only the input half is waited for") {
  // Stage 1: F at 1, I at 2 (ends 3), W at 3. Stage 0: F at 0, I when stage 1's I has ended, then
  // W.
  const auto timed = timing(from_rows({"0F0 0I0 0W0", "1F0 1I0 1W0"}), {1, 2, 1, 5});
  CHECK(timed.starts[0] == std::vector<double>{0, 3, 4});
  CHECK(timed.starts[1] == std::vector<double>{1, 2, 3});
  CHECK(timed.makespan == 9);  // 0W0 from 4 on
}

TEST_CASE("what a schedule cannot serve is blamed on a key of the plan") {
  const auto key = [](const std::string& name, int ranks, int stages_per_rank, int microbatches,
                      const ScheduleSettings& settings = {}) {
    const auto made = schedule_by_name(name, ranks, stages_per_rank, microbatches, false, settings);
    const auto* infeasible = std::get_if<Infeasible>(&made);
    return infeasible == nullptr ? "none" : infeasible->key;
  };
  CHECK(key("1f1b", 4, 1, 8) == "none");
  for (const std::string one_stage : {"1f1b", "gpipe", "zb-h1"})
    CHECK(key(one_stage, 4, 2, 8) == "parallel.virtual_stages");
  CHECK(key("zb-v", 4, 1, 8) == "parallel.virtual_stages");
  for (const std::string name : {"1f1b", "zb-h1"})
    CHECK(key(name, 4, 1, 0) == "training.global_batch");
  for (const std::string name : {"interleaved", "interleaved-zb1p"}) {
    CHECK(key(name, 1, 2, 8) == "parallel.pipeline");
    CHECK(key(name, 4, 2, 13) == "training.global_batch");
  }
  CHECK(key("dualpipe-v", 4, 2, 7) == "training.global_batch");
  CHECK(key("zigzag", 4, 1, 8) == "schedule");
  ScheduleSettings settings;
  settings.microbatch_group = 3;
  CHECK(key("interleaved", 4, 2, 12, settings) == "schedule.microbatch_group");
  CHECK(key("interleaved", 4, 2, 8, settings) == "schedule.microbatch_group");
  CHECK(key("gpipe", 4, 1, 8, settings) == "schedule.microbatch_group");
  const auto stuck = time_schedule(from_rows({"0B0 0F0", "1F0 1B0"}), {});
  CHECK(std::get<Infeasible>(stuck).key == "schedule");
}

TEST_CASE("a combination that a schedule cannot serve is refused with its reason") {
  const auto reason = [](const std::string& method, int ranks, int stages_per_rank,
                         int microbatches) {
    const auto made = make_schedule(method, ranks, stages_per_rank, microbatches);
    const auto* infeasible = std::get_if<Infeasible>(&made);
    return infeasible == nullptr ? "none" : infeasible->reason;
  };
  CHECK(reason("interleaved", 4, 2, 8) == "none");
  CHECK(reason("interleaved", 4, 2, 10) == "none");  // 2 groups of 5
  CHECK_THAT(reason("interleaved", 4, 2, 13),
             Catch::Contains("13 microbatches into 3 equal groups"));
  CHECK_THAT(reason("interleaved", 1, 2, 8), Catch::Contains("at least 2 pipeline ranks"));
  CHECK_THAT(reason("1f1b", 2, 2, 8), Catch::Contains("interleaved runs several"));
  CHECK_THAT(reason("gpipe", 2, 1, 0), Catch::Contains("no microbatch"));
  CHECK_THAT(reason("zigzag", 2, 1, 4), Catch::Contains("'zigzag'"));
}

}  // namespace trainyard::pipeline_schedule_test
