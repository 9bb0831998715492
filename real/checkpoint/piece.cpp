#include "real/checkpoint/piece.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

namespace trainyard {

namespace {

using Sizes = std::vector<std::int64_t>;

bool overlap(const Piece& a, const Piece& b) {
  for (std::size_t i = 0; i < a.shape.size(); ++i) {
    if (a.start[i] >= b.start[i] + b.extent[i] || b.start[i] >= a.start[i] + a.extent[i]) {
      return false;
    }
  }
  return true;
}

std::string count(std::int64_t n) {
  return std::to_string(n) + (n == 1 ? " element" : " elements");
}

/// The ranges of one rectangle, sorted, follow each other from its first element to its last.
std::string find_range_problem(const std::vector<const Piece*>& ranges) {
  std::int64_t reached = 0;
  const Piece* last = nullptr;
  for (const Piece* piece : ranges) {
    if (piece->flat_begin < reached) {
      return to_string(*last) + " and " + to_string(*piece) + " overlap";
    }
    if (piece->flat_begin > reached) {
      return count(piece->flat_begin - reached) + " before " + to_string(*piece) + " are missing";
    }
    reached = piece->flat_end;
    last = piece;
  }
  const std::int64_t size = product(last->extent);
  if (reached < size) {
    return count(size - reached) + " after " + to_string(*last) + " are missing";
  }
  return {};
}

}  // namespace

Piece rectangle(std::string tensor, DType dtype, Sizes shape, Sizes start, Sizes extent) {
  const std::int64_t size = product(extent);
  return {std::move(tensor), dtype, std::move(shape), std::move(start), std::move(extent), 0, size};
}

Piece whole_tensor(std::string tensor, DType dtype, Sizes shape) {
  Sizes start(shape.size(), 0);
  Sizes extent = shape;
  return rectangle(std::move(tensor), dtype, std::move(shape), std::move(start), std::move(extent));
}

std::int64_t product(const Sizes& sizes) {
  std::int64_t result = 1;
  bool overflows = false;
  for (const std::int64_t size : sizes) {
    if (size == 0) return 0;
    overflows |= __builtin_mul_overflow(result, size, &result);
  }
  return overflows ? -1 : result;
}

bool is_whole_rectangle(const Piece& piece) {
  return piece.flat_begin == 0 && piece.flat_end == product(piece.extent);
}

bool is_whole_tensor(const Piece& piece) {
  return piece.extent == piece.shape && is_whole_rectangle(piece);
}

bool is_storable(DType type) {
  return type != DType::kTf32 && type != DType::kFp8 && type != DType::kE8m0 && !is_fp8(type);
}

std::string find_problem(const Piece& piece) {
  constexpr std::int64_t kMaxElements = std::int64_t{1} << 55;  // bytes fit in 63 bits
  if (piece.tensor.empty()) return "a tensor without a name";
  if (!is_storable(piece.dtype)) {
    return piece.tensor + ": " + std::string(to_string(piece.dtype)) + " cannot be stored";
  }
  const std::size_t rank = piece.shape.size();
  if (piece.start.size() != rank || piece.extent.size() != rank) {
    return piece.tensor + ": start " + shape_text(piece.start) + " and extent " +
           shape_text(piece.extent) + " do not fit shape " + shape_text(piece.shape);
  }
  for (std::size_t i = 0; i < rank; ++i) {
    if (piece.shape[i] < 0 || piece.start[i] < 0 || piece.extent[i] < 0 ||
        piece.start[i] > piece.shape[i] || piece.extent[i] > piece.shape[i] - piece.start[i]) {
      return piece.tensor + ": start " + shape_text(piece.start) + " and extent " +
             shape_text(piece.extent) + " leave shape " + shape_text(piece.shape);
    }
  }
  const std::int64_t elements = product(piece.shape);
  if (elements < 0 || elements > kMaxElements) {
    return piece.tensor + ": shape " + shape_text(piece.shape) + " is too large";
  }
  const std::int64_t size = product(piece.extent);
  if (piece.flat_begin < 0 || piece.flat_begin > piece.flat_end || piece.flat_end > size) {
    return piece.tensor + ": range " + std::to_string(piece.flat_begin) + ":" +
           std::to_string(piece.flat_end) + " is not one of the " + count(size) +
           " of its rectangle";
  }
  return {};
}

std::string to_string(const Piece& piece) {
  std::string text = piece.tensor;
  if (is_whole_tensor(piece)) return text;
  text += '[';
  for (std::size_t i = 0; i < piece.start.size(); ++i) {
    if (i > 0) text += ", ";
    text += std::to_string(piece.start[i]) + ":" + std::to_string(piece.start[i] + piece.extent[i]);
  }
  text += ']';
  if (is_whole_rectangle(piece)) return text;
  return text + "(" + std::to_string(piece.flat_begin) + ":" + std::to_string(piece.flat_end) + ")";
}

std::string shape_text(const Sizes& shape) {
  std::string text = "[";
  for (const std::int64_t size : shape) {
    if (text.size() > 1) text += ", ";
    text += std::to_string(size);
  }
  return text + "]";
}

std::string find_cover_problem(const std::vector<const Piece*>& pieces) {
  if (pieces.empty()) return "no piece of it is there";
  std::map<std::pair<Sizes, Sizes>, std::vector<const Piece*>> rectangles;
  for (const Piece* piece : pieces) rectangles[{piece->start, piece->extent}].push_back(piece);

  for (auto& [where, ranges] : rectangles) {
    std::sort(ranges.begin(), ranges.end(), [](const Piece* a, const Piece* b) {
      return std::tie(a->flat_begin, a->flat_end) < std::tie(b->flat_begin, b->flat_end);
    });
    std::string problem = find_range_problem(ranges);
    if (!problem.empty()) return problem;
  }
  for (auto a = rectangles.begin(); a != rectangles.end(); ++a) {
    for (auto b = std::next(a); b != rectangles.end(); ++b) {
      if (overlap(*a->second.front(), *b->second.front())) {
        return to_string(*a->second.front()) + " and " + to_string(*b->second.front()) + " overlap";
      }
    }
  }
  // Disjoint rectangles inside the tensor cover it when their sizes add up to its own.
  std::int64_t covered = 0;
  for (const auto& [where, ranges] : rectangles) covered += product(where.second);
  const std::int64_t size = product(pieces.front()->shape);
  if (covered < size) {
    return count(size - covered) + " of " + std::to_string(size) + " are missing";
  }
  return {};
}

}  // namespace trainyard
