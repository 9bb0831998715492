#include "engine/program/line_pieces.h"

#include <array>
#include <cctype>
#include <span>

#include "engine/plan/plan_limits.h"
#include "engine/program/parser_state.h"
#include "engine/program/program_words.h"

namespace trainyard {

std::vector<std::int64_t> read_runs(LineScanner& line, std::string_view what) {
  std::vector<std::int64_t> numbers;
  do {
    const std::int64_t first = line.number(0, kMaxRanks, what);
    const std::int64_t last = line.accept("-") ? line.number(first, kMaxRanks, what) : first;
    for (std::int64_t number = first; number <= last; ++number) numbers.push_back(number);
    if (numbers.size() > kMaxRanks) line.fail("too many of them");
  } while (line.accept(","));
  return numbers;
}

std::vector<std::int64_t> read_numbers(LineScanner& line, std::string_view what) {
  std::vector<std::int64_t> numbers;
  do {
    numbers.push_back(line.number(1, kMaxTokens, what));
  } while (line.accept(","));
  return numbers;
}

void read_dims(LineScanner& line, Dims& dims) {
  std::array<std::int64_t, kMostDims> bounds{};
  line.expect("[");
  while (!line.accept("]")) {
    if (!dims.empty()) line.expect(",");
    if (dims.size() == bounds.size())
      line.fail("more than " + std::to_string(bounds.size()) + " dims");
    Dim dim;
    dim.expected = dim.bound = line.number(0, kMaxElements, "an extent");
    if (line.accept("~")) {
      dim.bound = line.number(dim.expected, kMaxElements, "the bound of an extent");
      line.expect("?");
      dim.symbol = static_cast<std::int16_t>(line.number(-1, kMaxInt16, "a symbol"));
    }
    bounds[dims.size()] = dim.bound;
    dims.push_back(dim);
  }
  if (product_exceeds(kMaxElements, std::span(bounds.data(), dims.size()))) {
    line.fail("more than 2^50 elements");
  }
}

std::string_view before_last(LineScanner& line, char mark, const std::string& problem) {
  const std::size_t at = line.position();
  const std::string_view word = line.take("a name");
  const std::size_t end = word.rfind(mark);
  if (end == std::string_view::npos || end == 0) line.fail_at(at, problem);
  line.move_to(at + end + 1);
  return word.substr(0, end);
}

std::string_view spec_at(LineScanner& line) {
  const std::size_t begin = line.position();
  const std::string_view rest = line.rest();
  std::size_t end = rest.find(']');
  const auto state_follows = [&] {
    return end + 2 < rest.size() && rest[end + 1] == ' ' && std::isupper(rest[end + 2]) != 0;
  };
  while (end != std::string_view::npos && state_follows()) end = rest.find(')', end + 1);
  if (end == std::string_view::npos) line.fail_at(begin, "the spec has no end");
  line.move_to(begin + end + 1);
  return rest.substr(0, end + 1);
}

Space read_space(LineScanner& line, const std::string& mark) {
  for (const Space space : {Space::kHost, Space::kNvme}) {
    if (line.accept(mark + std::string(program_words::kSpaces[space]))) return space;
  }
  return Space::kDevice;
}

}  // namespace trainyard
