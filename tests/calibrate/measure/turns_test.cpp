// Sets take turns until each has had its share.
#include "calibrate/measure/turns.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <vector>

namespace trainyard::turns_test {

TEST_CASE("sets take turns of a quarter of their time each, the one that has had least first") {
  Calibration calibration;
  Turns turns({1, 2}, 240);  // 120 s each, in turns of 30
  std::vector<std::int64_t> order;
  while (const auto turn = turns.next(calibration)) {
    CHECK(turn->seconds == Approx(30));
    MeasuredSet& set = calibration.set_of(turn->ranks);
    set.spent += turn->seconds;
    set.probes.push_back("p");
    order.push_back(turn->ranks);
  }
  CHECK(order == std::vector<std::int64_t>{1, 2, 1, 2, 1, 2, 1, 2});
}

TEST_CASE("what an interrupted calibration has spent counts") {
  Calibration calibration;
  calibration.set_of(1).spent = 118;
  calibration.set_of(1).probes = {"p"};
  calibration.set_of(2).spent = 100;
  calibration.set_of(2).probes = {"p"};
  Turns turns({1, 2}, 240);
  const auto turn = turns.next(calibration);
  REQUIRE(turn);
  CHECK(turn->ranks == 2);  // the other's 2 s are too few for a turn
  CHECK(turn->seconds == Approx(20));
}

TEST_CASE("a set that finds nothing to do with its turn gets no other") {
  Calibration calibration;
  Turns turns({1, 2}, 240);
  std::vector<std::int64_t> order;
  while (const auto turn = turns.next(calibration)) {
    MeasuredSet& set = calibration.set_of(turn->ranks);
    set.probes.push_back("p");
    if (turn->ranks == 1)
      set.spent += turn->seconds;
    else
      set.spent += 0.2;
    order.push_back(turn->ranks);
    REQUIRE(order.size() < 20);
  }
  CHECK(std::count(order.begin(), order.end(), 2) == 1);
  CHECK(std::count(order.begin(), order.end(), 1) == 4);
}

TEST_CASE("a set that load has kept from its turn gets another") {
  Calibration calibration;
  Turns turns({1}, 60);
  int num_turns = 0;
  while (const auto turn = turns.next(calibration)) {
    MeasuredSet& set = calibration.set_of(1);
    ++num_turns;
    if (num_turns <= 3) {
      set.set_aside.time += turn->seconds;  // nothing was kept
      continue;
    }
    set.spent += turn->seconds;
    set.probes.push_back("p");
    REQUIRE(num_turns < 20);
  }
  CHECK(num_turns == 7);  // four turns of 15 s, three in vain
}

TEST_CASE("with hardly any time every set still has one turn, and a complete one has none") {
  Calibration calibration;
  calibration.set_of(4).complete = true;
  Turns turns({1, 2, 4}, 3);
  std::vector<std::int64_t> order;
  while (const auto turn = turns.next(calibration)) {
    CHECK(turn->seconds == Approx(5));
    calibration.set_of(turn->ranks).spent += 6;
    calibration.set_of(turn->ranks).probes.push_back("p");
    order.push_back(turn->ranks);
  }
  CHECK(order == std::vector<std::int64_t>{1, 2});
}

}  // namespace trainyard::turns_test
