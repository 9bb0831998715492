// Which orders static mode tries, and which it keeps; trials are made up.
#include "real/command/static_order.h"

#include <catch2/catch.hpp>
#include <set>
#include <string>
#include <vector>

#include "tests/support/scratch_folder.h"

namespace trainyard::static_order_test {

namespace {

class Orders {
 public:
  explicit Orders(const std::string& schedule) {
    write_text(folder_ / "study.yaml",
               "model: {family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 64, seq_len: 16}\n"
               "cluster: {preset: local, ranks: 4}\n"
               "parallel: {pipeline: 4}\n"
               "training: {global_batch: 8, microbatch: 1, precision: fp32, dropout: 0}\n"
               "schedule: " +
                   schedule + "\n");
    TrainOptions options;
    options.study = folder_ / "study.yaml";
    options.out = folder_ / "out";
    plan = plan_training(options);
  }
  const ScheduleConfig& schedule() const { return plan.prepared.study.schedule; }

  TrainingPlan plan;

 private:
  ScratchFolder folder_;
};

/// As measured on a machine where every call of a stage takes another time.
ActionTimes uneven_times(int number) {
  ActionTimes times(4);
  for (std::int32_t stage = 0; stage < 4; ++stage) {
    for (int call = 1; call <= 4; ++call) {
      times.of_stage[stage][Phase::kForward].push_back(
          call * call * (1.0 + static_cast<double>(stage)) + number);
      times.of_stage[stage][Phase::kBackward].push_back(20.0 / call);
    }
  }
  times.transfers = {0.25, 3};
  return times;
}

}  // namespace

TEST_CASE("static mode tries five orders, no two alike, and keeps the fastest") {
  const Orders orders("{method: opportunistic, mode: static}");
  REQUIRE(tries_orders(orders.plan.prepared.study));
  for (const int best : {0, 2, 4}) {
    CAPTURE(best);
    std::vector<std::string> tried;
    const TrainingPlan kept = fastest_order(orders.plan, [&](const TrainingPlan& plan, int number) {
      CHECK(number == static_cast<int>(tried.size()));
      tried.push_back(plan.prepared.study.schedule.rows);
      return OrderTrial{number == best ? 0.5 : 1.0 + number, uneven_times(number)};
    });
    REQUIRE(tried.size() == 5);
    CHECK(tried[0] == orders.schedule().rows);  // the one for the profile's durations
    CHECK(std::set<std::string>(tried.begin(), tried.end()).size() == 5);
    CHECK(kept.prepared.study.schedule.rows == tried[static_cast<std::size_t>(best)]);
    // Its program is that of the order, not of the first one.
    CHECK((kept.digest == orders.plan.digest) == (best == 0));
    CHECK(kept.digest ==
          plan_with_order(orders.plan, tried[static_cast<std::size_t>(best)], "").digest);
  }
}

TEST_CASE("static mode stops where measured durations give no other order") {
  // Two microbatches on two stages whose every call takes the same: draws cannot differ.
  const Orders orders("{method: opportunistic, mode: static}");
  int trials = 0;
  fastest_order(orders.plan, [&](const TrainingPlan&, int) {
    ++trials;
    ActionTimes times(4);
    for (auto& of_stage : times.of_stage)
      of_stage = {{Phase::kForward, {1, 1}}, {Phase::kBackward, {2, 2}}};
    return OrderTrial{1, times};
  });
  // The first, for the profile's durations, and the one for these, which may be the same.
  CHECK(trials <= 2);
}

TEST_CASE("orders are tried where the study leaves them to trials") {
  CHECK(tries_orders(Orders("{method: zb-2p, mode: fast}").plan.prepared.study));
  CHECK_FALSE(tries_orders(Orders("opportunistic").plan.prepared.study));
  CHECK_FALSE(tries_orders(Orders("1f1b").plan.prepared.study));
  std::string rows = Orders("opportunistic").schedule().rows;  // a line for each rank
  std::string list;
  for (std::size_t at = 0, end; (end = rows.find('\n', at)) != std::string::npos; at = end + 1)
    list += (list.empty() ? "\"" : ", \"") + rows.substr(at, end - at) + "\"";
  CHECK_FALSE(tries_orders(
      Orders("{method: opportunistic, mode: static, rows: [" + list + "]}").plan.prepared.study));
}

TEST_CASE("a trial read from its text is the same to the last bit") {
  OrderTrial trial{0.1 + 0.2, uneven_times(3)};
  trial.times.transfers = {1.0 / 3};
  trial.times.sends_by_host = {2.0 / 3, 1};
  trial.times.copies_from_host = {1.0 / 7};
  const OrderTrial again = order_trial_from(to_text(trial));
  CHECK(again.step == trial.step);
  CHECK(again.times.of_stage == trial.times.of_stage);
  CHECK(again.times.transfers == trial.times.transfers);
  CHECK(again.times.sends_by_host == trial.times.sends_by_host);
  CHECK(again.times.copies_from_host == trial.times.copies_from_host);
}

}  // namespace trainyard::static_order_test
