// Pieces of tensors: what they are called, when they cover a tensor, what two have in common.
#include "real/checkpoint/piece.h"

#include <catch2/catch.hpp>
#include <map>

#include "real/checkpoint/piece_runs.h"

namespace trainyard::piece_test {

namespace {

Piece part(std::vector<std::int64_t> start, std::vector<std::int64_t> extent) {
  return rectangle("w", DType::kFp32, {4, 6}, std::move(start), std::move(extent));
}

Piece range(Piece piece, std::int64_t begin, std::int64_t end) {
  piece.flat_begin = begin;
  piece.flat_end = end;
  return piece;
}

std::string cover_problem(const std::vector<Piece>& pieces) {
  std::vector<const Piece*> pointers;
  pointers.reserve(pieces.size());
  for (const Piece& piece : pieces) pointers.push_back(&piece);
  return find_cover_problem(pointers);
}

}  // namespace

TEST_CASE("a piece's name says which part it is") {
  CHECK(to_string(whole_tensor("w", DType::kFp32, {4, 6})) == "w");
  CHECK(to_string(part({0, 2}, {4, 2})) == "w[0:4, 2:4]");
  CHECK(to_string(range(part({0, 2}, {4, 2}), 3, 6)) == "w[0:4, 2:4](3:6)");
  CHECK(to_string(whole_tensor("scalar", DType::kFp32, {})) == "scalar");
}

TEST_CASE("a piece lies within its tensor") {
  CHECK(find_problem(part({0, 2}, {4, 4})).empty());
  CHECK(find_problem(part({4, 0}, {0, 6})).empty());
  CHECK(find_problem(part({0, 3}, {4, 4})) ==
        "w: start [0, 3] and extent [4, 4] leave shape [4, 6]");
  CHECK(find_problem(part({-1, 0}, {4, 6})) ==
        "w: start [-1, 0] and extent [4, 6] leave shape [4, 6]");
  CHECK(find_problem(part({0}, {4, 6})) ==
        "w: start [0] and extent [4, 6] do not fit shape [4, 6]");
  CHECK(find_problem(range(part({0, 0}, {2, 2}), 3, 5)) ==
        "w: range 3:5 is not one of the 4 elements of its rectangle");
  CHECK(find_problem(range(part({0, 0}, {2, 2}), 3, 2)) ==
        "w: range 3:2 is not one of the 4 elements of its rectangle");
  CHECK(find_problem(whole_tensor("w", DType::kFp8, {2})) == "w: fp8 cannot be stored");
  CHECK(find_problem(whole_tensor("w", DType::kE4m3, {2})) == "w: e4m3 cannot be stored");
  CHECK(find_problem(whole_tensor("w", DType::kFp32, {1LL << 40, 1LL << 40})) ==
        "w: shape [1099511627776, 1099511627776] is too large");
}

TEST_CASE("pieces cover a tensor when each element is in exactly one") {
  CHECK(cover_problem({part({0, 0}, {4, 6})}).empty());
  CHECK(cover_problem({part({0, 0}, {4, 2}), part({0, 2}, {4, 4})}).empty());
  CHECK(cover_problem({part({0, 0}, {4, 2}), range(part({0, 2}, {4, 4}), 5, 16),
                       range(part({0, 2}, {4, 4}), 0, 5)})
            .empty());
  CHECK(cover_problem({whole_tensor("scalar", DType::kFp32, {})}).empty());
  CHECK(cover_problem({}) == "no piece of it is there");
  CHECK(cover_problem({part({0, 0}, {4, 2}), part({0, 3}, {4, 3})}) ==
        "4 elements of 24 are missing");
  CHECK(cover_problem({part({0, 0}, {4, 3}), part({0, 2}, {4, 4})}) ==
        "w[0:4, 0:3] and w[0:4, 2:6] overlap");
  CHECK(cover_problem({part({0, 0}, {4, 6}), part({0, 0}, {4, 6})}) == "w and w overlap");
  CHECK(cover_problem({range(part({0, 0}, {4, 6}), 0, 9), range(part({0, 0}, {4, 6}), 8, 24)}) ==
        "w[0:4, 0:6](0:9) and w[0:4, 0:6](8:24) overlap");
  CHECK(cover_problem({range(part({0, 0}, {4, 6}), 0, 9), range(part({0, 0}, {4, 6}), 10, 24)}) ==
        "1 element before w[0:4, 0:6](10:24) are missing");
  CHECK(cover_problem({range(part({0, 0}, {4, 6}), 0, 22)}) ==
        "2 elements after w[0:4, 0:6](0:22) are missing");
}

TEST_CASE("the runs of the drawn example") {
  // 4 x 6, columns 2 and 3, elements 3 to 5: (1, 3) is 9 in the tensor, (2, 2) and (2, 3) are
  // 14, 15.
  const Piece piece = range(part({0, 2}, {4, 2}), 3, 6);
  RunCursor cursor(piece);
  CHECK((cursor.global() == 9 && cursor.local() == 0 && cursor.length() == 1));
  cursor.advance(1);
  CHECK((cursor.global() == 14 && cursor.local() == 1 && cursor.length() == 2));
  cursor.advance(1);
  CHECK((cursor.global() == 15 && cursor.local() == 2 && cursor.length() == 1));
  cursor.advance(1);
  CHECK(cursor.done());
}

TEST_CASE("full rows are one run, whatever the number of dims") {
  const Piece piece = rectangle("w", DType::kFp32, {3, 4, 5}, {1, 0, 0}, {2, 4, 5});
  RunCursor cursor(piece);
  CHECK((cursor.global() == 20 && cursor.length() == 40));
}

TEST_CASE("common runs are the elements that both pieces hold") {
  const std::vector<Piece> pieces = {part({0, 0}, {4, 6}),
                                     part({1, 2}, {2, 3}),
                                     range(part({0, 2}, {4, 2}), 3, 6),
                                     range(part({0, 0}, {4, 6}), 5, 17),
                                     part({0, 5}, {4, 1}),
                                     range(part({0, 0}, {4, 6}), 7, 7)};
  const auto elements = [](const Piece& piece) {  // global -> local, by counting
    std::map<std::int64_t, std::int64_t> result;
    std::int64_t at = 0;
    for (std::int64_t row = 0; row < piece.extent[0]; ++row) {
      for (std::int64_t column = 0; column < piece.extent[1]; ++column, ++at) {
        if (at < piece.flat_begin || at >= piece.flat_end) continue;
        result[(piece.start[0] + row) * 6 + piece.start[1] + column] = at - piece.flat_begin;
      }
    }
    return result;
  };
  for (const Piece& a : pieces) {
    for (const Piece& b : pieces) {
      CAPTURE(to_string(a), to_string(b));
      std::map<std::int64_t, std::int64_t> expected;
      const auto of_b = elements(b);
      for (const auto& [global, local] : elements(a)) {
        if (of_b.contains(global)) expected[local] = of_b.at(global);
      }
      std::map<std::int64_t, std::int64_t> visited;
      const std::int64_t common =
          for_common_runs(a, b, [&](std::int64_t x, std::int64_t y, std::int64_t length) {
            for (std::int64_t i = 0; i < length; ++i) visited[x + i] = y + i;
          });
      CHECK(visited == expected);
      CHECK(common == static_cast<std::int64_t>(expected.size()));
    }
  }
}

}  // namespace trainyard::piece_test
