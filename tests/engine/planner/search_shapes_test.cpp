// The search of whole pipelines on costs that are written by hand: all there are where they are
// few, never slower than a start, and within what is given.
#include "engine/planner/search_shapes.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace trainyard::search_shapes_test {

namespace {

/// A step of gpipe: pieces of so much time and memory for a sample, a stage's sequences shared by
/// its replicas; recomputation is a third more and keeps nothing.
struct Machine {
  std::vector<double> time, memory;
  double limit = 0, batch = 8;

  std::optional<Seconds> step(const PipelineShape& shape) const {
    double slowest = 0;
    for (std::size_t s = 0; s < shape.replicas.size(); ++s) {
      const auto at = [&](std::int64_t piece) { return static_cast<std::ptrdiff_t>(piece); };
      const std::int64_t first = s == 0 ? 0 : shape.begins[s - 1];
      const std::int64_t end =
          s < shape.begins.size() ? shape.begins[s] : static_cast<std::int64_t>(time.size());
      const auto sum = [&](const std::vector<double>& of) {
        return std::accumulate(of.begin() + at(first), of.begin() + at(end), 0.0);
      };
      const bool full = shape.recompute == ShapeRecompute::kFull;
      if (!full && sum(memory) * batch / shape.replicas[s] > limit) return std::nullopt;
      slowest = std::max(slowest, sum(time) / shape.replicas[s] * (full ? 4.0 / 3 : 1));
    }
    const auto slots = static_cast<double>(shape.microbatches + std::ssize(shape.replicas) - 1);
    constexpr double kLaunch = 0.2;  // of a microbatch, so that more of them do not always help
    const auto each = batch / static_cast<double>(shape.microbatches);
    return slots * (slowest * each + kLaunch);
  }
};

Machine machine(unsigned seed, int pieces) {
  std::mt19937 random(seed);
  Machine out;
  for (int p = 0; p < pieces; ++p) {
    out.time.push_back(1 + static_cast<double>(random() % 9));
    out.memory.push_back(1 + static_cast<double>(random() % 5));
  }
  out.limit = std::accumulate(out.memory.begin(), out.memory.end(), 0.0) * out.batch / 3;
  return out;
}

ShapeSpace space_of(const Machine& of, int devices, int budget) {
  ShapeSpace space;
  space.pieces = static_cast<std::int64_t>(of.time.size());
  space.devices = devices;
  space.batch = 8;
  space.recompute = {ShapeRecompute::kNone, ShapeRecompute::kFull};
  space.starts = {{{}, {devices}, 1, ShapeRecompute::kFull}};
  space.budget = budget;
  return space;
}

SearchedShape searched(const ShapeSpace& space, const Machine& of) {
  auto found = search_shapes(space, [&](const PipelineShape& shape) { return of.step(shape); });
  REQUIRE(std::holds_alternative<SearchedShape>(found));
  return std::get<SearchedShape>(std::move(found));
}

struct Least {
  Seconds step = std::numeric_limits<double>::infinity();
  int shapes = 0;
};
/// The least step of all shapes, tried one by one in another order than the search's: those of
/// which every replica has a sequence of each microbatch.
Least least(const Machine& of, int devices) {
  Least best;
  const int pieces = static_cast<int>(of.time.size());
  for (int cuts = 0; cuts < 1 << (pieces - 1); ++cuts) {
    PipelineShape shape;
    for (int p = 1; p < pieces; ++p) {
      if ((cuts & (1 << (p - 1))) != 0) shape.begins.push_back(p);
    }
    // Where the devices are cut, likewise.
    for (int deal = 0; deal < 1 << (devices - 1); ++deal) {
      shape.replicas = {1};
      for (int d = 1; d < devices; ++d) {
        if ((deal & (1 << (d - 1))) != 0)
          shape.replicas.push_back(1);
        else
          ++shape.replicas.back();
      }
      if (shape.replicas.size() != shape.begins.size() + 1) continue;
      const int most = *std::max_element(shape.replicas.begin(), shape.replicas.end());
      for (shape.microbatches = 1; shape.microbatches * most <= 8; shape.microbatches *= 2) {
        for (const auto recompute : {ShapeRecompute::kNone, ShapeRecompute::kFull}) {
          shape.recompute = recompute;
          ++best.shapes;
          if (const auto step = of.step(shape)) best.step = std::min(best.step, *step);
        }
      }
    }
  }
  return best;
}

}  // namespace

TEST_CASE("a small model's pipelines are all tried") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Machine of = machine(seed, 5);
    const SearchedShape found = searched(space_of(of, 4, 2000), of);
    CAPTURE(seed);
    const Least expected = least(of, 4);
    CHECK(found.all_tried);
    CHECK(found.evaluations == expected.shapes);
    CHECK(found.step == Approx(expected.step));
    CHECK(of.step(found.shape) == found.step);
  }
}

TEST_CASE("what a bound rules out changes nothing but the number of evaluations") {
  for (unsigned seed = 0; seed < 40; ++seed) {
    const Machine of = machine(seed, 5);
    ShapeSpace space = space_of(of, 4, 2000);
    const SearchedShape all = searched(space, of);
    // Without the slots in which a pipeline fills, and what a microbatch costs beside its pieces.
    Machine free = of;
    free.limit = std::numeric_limits<double>::infinity();
    space.bound = [&](const PipelineShape& shape) {
      const auto slots = static_cast<double>(shape.microbatches + std::ssize(shape.replicas) - 1);
      return (*free.step(shape) / slots - 0.2) * static_cast<double>(shape.microbatches);
    };
    const SearchedShape found = searched(space, of);
    CAPTURE(seed);
    CHECK(found.all_tried);
    CHECK(found.step == all.step);
    CHECK(found.evaluations + found.ruled_out == all.evaluations);
    CHECK(found.evaluations < all.evaluations);
    REQUIRE(!found.best_of_degrees.empty());
    CHECK(found.best_of_degrees.front().first == found.step);
  }
}

TEST_CASE("a search by moves is no slower than its starts, and seldom far from the best") {
  double worst = 1;
  for (unsigned seed = 0; seed < 20; ++seed) {
    const Machine of = machine(seed, 9);
    ShapeSpace space = space_of(of, 6, 400);
    space.starts.push_back({{3, 6}, {2, 2, 2}, 4, ShapeRecompute::kFull});
    space.starts.push_back({{4}, {3, 3}, 4, ShapeRecompute::kNone});
    const SearchedShape found = searched(space, of);
    CAPTURE(seed);
    CHECK_FALSE(found.all_tried);
    CHECK(found.evaluations <= 400);
    for (const PipelineShape& start : space.starts) {
      if (const auto step = of.step(start)) CHECK(found.step <= *step);
    }
    worst = std::max(worst, found.step / least(of, 6).step);
    CHECK(std::accumulate(found.shape.replicas.begin(), found.shape.replicas.end(), 0) == 6);
  }
  CHECK(worst < 1.1);
}

TEST_CASE("cuts go with the devices that are handed on") {
  // 16 like pieces, 8 of them on two devices are 4 each, and on one 8: handing a device on alone
  // costs twice the time, and moving the cut alone up to twice. Both together leave 4 to each
  // device.
  Machine of;
  of.time = std::vector<double>(16, 1);
  of.memory = std::vector<double>(16, 0);
  const auto step = [&](const PipelineShape& shape) -> std::optional<Seconds> {
    // Unlike devices pay here: a quarter less of all where the first stage has one.
    const auto found = of.step(shape);
    return found && shape.replicas.front() == 1 ? *found * 0.75 : found;
  };
  ShapeSpace space = space_of(of, 4, 100);
  space.stages = space.microbatches = false;
  space.recompute = {ShapeRecompute::kNone};
  space.starts = {{{8}, {2, 2}, 1, ShapeRecompute::kNone}};
  const auto by_moves = std::get<SearchedShape>(search_shapes(space, step));
  CHECK(by_moves.shape.replicas == std::vector<int>{2, 2});
  space.work = of.time;
  const auto by_both = std::get<SearchedShape>(search_shapes(space, step));
  CHECK(by_both.shape.replicas == std::vector<int>{1, 3});
  CHECK(by_both.shape.begins == std::vector<std::int64_t>{4});
  CHECK(by_both.step == Approx(0.75 * by_moves.step));
}

TEST_CASE("what is given stays") {
  const Machine of = machine(7, 9);
  ShapeSpace space = space_of(of, 6, 300);
  space.starts = {{{3, 6}, {2, 2, 2}, 4, ShapeRecompute::kFull}};
  space.stages = space.replicas = space.microbatches = false;
  const SearchedShape found = searched(space, of);
  CHECK(found.shape.replicas == std::vector<int>{2, 2, 2});
  CHECK(found.shape.microbatches == 4);
  CHECK(found.step <= *of.step(space.starts.front()));
  space.replicas = true;
  const SearchedShape dealt = searched(space, of);
  CHECK(dealt.shape.replicas.size() == 3);
  CHECK(dealt.step <= found.step);
}

TEST_CASE("where nothing fits there is a reason") {
  Machine of = machine(3, 9);
  of.limit = 0;
  ShapeSpace space = space_of(of, 6, 300);
  space.recompute = {ShapeRecompute::kNone};
  space.starts = {{{4}, {3, 3}, 4, ShapeRecompute::kNone}};
  CHECK(std::holds_alternative<Infeasible>(
      search_shapes(space, [&](const PipelineShape& shape) { return of.step(shape); })));
}

}  // namespace trainyard::search_shapes_test
