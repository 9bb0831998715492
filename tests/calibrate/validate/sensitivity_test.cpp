// What fitted numbers rest on, on problems whose least squares can be solved by eye.
#include "calibrate/validate/sensitivity.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace trainyard::sensitivity_test {

namespace {

const Bounds kWide{std::log(0.01), std::log(100)};

FittedNumber number(const std::string& name, double value, Prior prior = {0, 0},
                    Bounds bounds = kWide) {
  return {name, {"made"}, value, bounds, prior};
}

SensitiveRow row(const std::string& id, const std::string& family, double error,
                 std::vector<double> derivatives) {
  return {id, family, false, error, std::move(derivatives)};
}

}  // namespace

TEST_CASE("a number moves by the mean of its rows' errors, and without a family by the others'") {
  const Sensitivity found =
      find_sensitivity({number("n", 2)}, {row("a1", "a", 0.05, {1}), row("a2", "a", 0.05, {1}),
                                          row("b1", "b", -0.04, {1}), row("c1", "c", 0.09, {0})});
  REQUIRE(found.numbers.size() == 1);
  const NumberSensitivity& n = found.numbers[0];
  // Least squares of e + x: x = -(0.05 + 0.05 - 0.04) / 3, of the logarithm.
  CHECK(n.refitted == Approx(2 * std::exp(-0.02)));
  REQUIRE(n.held.size() == 3);  // c1 does not depend on it
  CHECK(n.held[0].share == Approx(1.0 / 3));
  REQUIRE(n.families.size() == 2);
  CHECK(n.families[0].family == "a");
  CHECK(n.families[0].rows == 2);
  CHECK(n.families[0].share == Approx(2.0 / 3));
  CHECK(n.families[0].without == Approx(2 * std::exp(0.04)));
  CHECK(n.families[1].without == Approx(2 * std::exp(-0.05)));
}

TEST_CASE("errors beyond Huber's threshold count less, and the largest share comes first") {
  // Weights min(1, 0.1 / |e|): 0.5 and 1; derivatives 1 and 0.5: 0.5 and 0.25 of 0.75.
  const Sensitivity found = find_sensitivity(
      {number("n", 1)}, {row("small", "a", 0.05, {0.5}), row("large", "b", 0.2, {1})});
  const NumberSensitivity& n = found.numbers[0];
  REQUIRE(n.held.size() == 2);
  CHECK(found.rows[n.held[0].row].id == "large");
  CHECK(n.held[0].share == Approx(2.0 / 3));
  CHECK(n.held[1].share == Approx(1.0 / 3));
  // 0.5 (0.2 + x) + 0.25 (0.05 / 0.5 + x) = 0: x = -0.125 / 0.75.
  CHECK(n.refitted == Approx(std::exp(-0.125 / 0.75)));
}

TEST_CASE("a number that one family alone holds stays while that family is away") {
  const Sensitivity found =
      find_sensitivity({number("shared", 1), number("own", 3)},
                       {row("a1", "a", 0.06, {1, 0}), row("b1", "b", 0.02, {1, 1})});
  const NumberSensitivity& own = found.numbers[1];
  REQUIRE(own.families.size() == 1);
  CHECK(own.families[0].held_alone);
  CHECK(own.families[0].without == 3);
  // With both rows: shared takes a1's error, own what that leaves of b1's, +0.04 less 0.
  CHECK(found.numbers[0].refitted == Approx(std::exp(-0.06)));
  CHECK(own.refitted == Approx(3 * std::exp(0.04)));
  CHECK_FALSE(found.numbers[0].families[0].held_alone);
}

TEST_CASE("a prior holds what rows say little of, and bounds stop it") {
  // The prior's residual is (x - 0.3) 1; the row's 0.1 + x: x = (0.3 - 0.1) / 2 from 0.
  const Sensitivity found =
      find_sensitivity({number("n", 1, {0.3, 1})}, {row("a1", "a", 0.1, {1})});
  CHECK(found.numbers[0].refitted == Approx(std::exp(0.1)));
  const Sensitivity bound = find_sensitivity(
      {number("n", 1, {0, 0}, {std::log(0.95), std::log(1.05)})}, {row("a1", "a", 0.1, {1})});
  CHECK(bound.numbers[0].refitted == Approx(0.95));
}

TEST_CASE("the text names what a number rests on") {
  const Sensitivity found =
      find_sensitivity({number("made.product_factor", 1)},
                       {row("a1", "a", 0.05, {0.5}), row("b1", "b", 0.01, {0.01})});
  const std::string text = sensitivity_text(found);
  CHECK(text.find("made.product_factor: 1; one step with all rows: ") != text.npos);
  CHECK(text.find("2 rows of made") != text.npos);
  CHECK(text.find("and 1 more, below 2 % each") != text.npos);
  CHECK(text.find("most: a1 (+0.50), b1 (+0.01)") != text.npos);
}

}  // namespace trainyard::sensitivity_test
