// What one layout wrote, any other layout reads: random tensors, random splits on both sides.
#include <catch2/catch.hpp>
#include <random>

#include "real/checkpoint/checkpoint.h"
#include "tests/real/checkpoint/checkpoint_fixture.h"
#include "tests/support/scratch_folder.h"

namespace trainyard::relayout_test {

namespace {

using Random = std::mt19937;

std::int64_t pick(Random& random, std::int64_t least, std::int64_t most) {
  return std::uniform_int_distribution<std::int64_t>(least, most)(random);
}

/// 0 = cuts[0] <= ... <= cuts[n] = size; parts may be empty.
std::vector<std::int64_t> random_cuts(Random& random, std::int64_t size, std::int64_t parts) {
  std::vector<std::int64_t> cuts = {0, size};
  while (static_cast<std::int64_t>(cuts.size()) <= parts) cuts.push_back(pick(random, 0, size));
  std::sort(cuts.begin(), cuts.end());
  return cuts;
}

/// Rectangles along one dim, as tensor parallelism cuts, then ranges of each, as ZeRO-1 does.
std::vector<Piece> random_split(Random& random, const Piece& whole) {
  std::vector<Piece> rectangles = {whole};
  if (!whole.shape.empty()) {
    const auto rank = static_cast<std::int64_t>(whole.shape.size());
    const auto dim = static_cast<std::size_t>(pick(random, 0, std::min<std::int64_t>(rank, 3) - 1));
    const auto cuts = random_cuts(random, whole.shape[dim], pick(random, 1, 4));
    rectangles.clear();
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      std::vector<std::int64_t> start(whole.shape.size(), 0);
      std::vector<std::int64_t> extent = whole.shape;
      start[dim] = cuts[i];
      extent[dim] = cuts[i + 1] - cuts[i];
      rectangles.push_back(rectangle(whole.tensor, whole.dtype, whole.shape, start, extent));
    }
  }
  std::vector<Piece> pieces;
  for (const Piece& part : rectangles) {
    const auto cuts = random_cuts(random, num_elements(part), pick(random, 1, 4));
    for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
      pieces.push_back(part);
      pieces.back().flat_begin = cuts[i];
      pieces.back().flat_end = cuts[i + 1];
    }
  }
  return pieces;
}

}  // namespace

TEST_CASE("any layout reads what any other wrote") {
  for (std::uint32_t seed = 0; seed < 60; ++seed) {
    CAPTURE(seed);
    Random random(seed);
    const ScratchFolder scratch;
    std::vector<Piece> wholes;
    Values values;
    for (std::int64_t i = pick(random, 1, 6); i-- > 0;) {
      std::vector<std::int64_t> shape;
      for (std::int64_t d = pick(random, 0, 4); d-- > 0;) shape.push_back(pick(random, 1, 9));
      const std::string name = "tensor." + std::to_string(i);
      wholes.push_back(whole_tensor(name, DType::kFp32, shape));
      std::vector<float>& elements = values[name];
      for (std::int64_t e = num_elements(wholes.back()); e-- > 0;) {
        elements.push_back(static_cast<float>(pick(random, -1000, 1000)));
      }
    }
    std::vector<std::vector<Piece>> ranks(static_cast<std::size_t>(pick(random, 1, 5)));
    for (const Piece& whole : wholes) {
      for (Piece& piece : random_split(random, whole)) {
        ranks[static_cast<std::size_t>(pick(random, 0, 99)) % ranks.size()].push_back(piece);
      }
    }
    write_checkpoint(scratch.path(), at_step(seed), ranks, values);

    const Checkpoint checkpoint =
        Checkpoint::open(latest_complete(scratch.path()).value(), Verify::kChecksums);
    for (const Piece& whole : wholes) {
      for (const Piece& piece : random_split(random, whole)) {
        CAPTURE(to_string(piece));
        std::vector<std::byte> read(static_cast<std::size_t>(num_bytes(piece)));
        checkpoint.read(piece, read);
        REQUIRE(read == cut(piece, values.at(piece.tensor)));
      }
    }
  }
}

TEST_CASE("a rectangle with cuts in every dim is read from parts cut along one") {
  const ScratchFolder scratch;
  const std::vector<std::int64_t> shape = {5, 6, 7};
  std::vector<float> elements(std::size_t{5} * 6 * 7);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i);
  write_checkpoint(scratch.path(), at_step(1),
                   {{rectangle("w", DType::kFp32, shape, {0, 0, 0}, {5, 2, 7})},
                    {rectangle("w", DType::kFp32, shape, {0, 2, 0}, {5, 4, 7})}},
                   {{"w", elements}});
  const Checkpoint checkpoint = Checkpoint::open(scratch / "step-00000001", Verify::kChecksums);
  const Piece wanted = rectangle("w", DType::kFp32, shape, {1, 1, 2}, {3, 3, 4});
  std::vector<float> expected;
  for (int i = 1; i < 4; ++i) {
    for (int j = 1; j < 4; ++j) {
      for (int k = 2; k < 6; ++k) expected.push_back(static_cast<float>((i * 6 + j) * 7 + k));
    }
  }
  CHECK(read_floats(checkpoint, wanted) == expected);
}

}  // namespace trainyard::relayout_test
