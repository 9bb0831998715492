#include "tests/support/mutated_text.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>
#include <utility>

namespace trainyard {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kMostBytes = 1 << 20;

constexpr std::array<std::string_view, 44> kNumbers = {"0",
                                                       "-0",
                                                       "1",
                                                       "-1",
                                                       "2",
                                                       "3",
                                                       "7",
                                                       "0.5",
                                                       "-0.5",
                                                       "1e-300",
                                                       "-1e-300",
                                                       "1e30",
                                                       "1e308",
                                                       "1e400",
                                                       "-1e400",
                                                       "nan",
                                                       ".nan",
                                                       "NaN",
                                                       "inf",
                                                       ".inf",
                                                       "-.inf",
                                                       "Infinity",
                                                       "127",
                                                       "128",
                                                       "255",
                                                       "256",
                                                       "32768",
                                                       "65536",
                                                       "1048576",
                                                       "2147483647",
                                                       "2147483648",
                                                       "-2147483648",
                                                       "4294967296",
                                                       "1099511627776",
                                                       "9007199254740993",
                                                       "9223372036854775807",
                                                       "9223372036854775808",
                                                       "-9223372036854775808",
                                                       "-9223372036854775809",
                                                       "18446744073709551615",
                                                       "18446744073709551616",
                                                       "1e5",
                                                       "0x10",
                                                       "1_000"};

constexpr std::array<std::string_view, 38> kPieces = {"null",
                                                      "true",
                                                      "false",
                                                      "~",
                                                      "\"\"",
                                                      "''",
                                                      "[]",
                                                      "{}",
                                                      "[1, 2]",
                                                      "{a: 1}",
                                                      "{\"a\": 1}",
                                                      "&a ",
                                                      "*a",
                                                      "!!x ",
                                                      "\t",
                                                      "\n",
                                                      "\r\n",
                                                      "\"",
                                                      "'",
                                                      "{",
                                                      "}",
                                                      "[",
                                                      "]",
                                                      ": ",
                                                      ", ",
                                                      "#",
                                                      "\xc3",
                                                      "\xff\xfe",
                                                      std::string_view("\0", 1),
                                                      "\x1b[2J",
                                                      "|\n",
                                                      "- ",
                                                      "---\n",
                                                      "../",
                                                      "/",
                                                      "%",
                                                      "\\",
                                                      "\\ud800"};

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string run(std::string text, const std::string& other) {
    const bool values_only = below(2) == 0;  // such get past the parsers
    const std::size_t times = 1 + below(4);
    for (std::size_t i = 0; i < times && !text.empty(); ++i) {
      values_only ? change_value(text) : change_text(text, other);
    }
    if (text.size() > kMostBytes) text.resize(kMostBytes);
    return text;
  }

  void run(Json& json) {
    for (std::size_t i = 0, times = 1 + below(3); i < times; ++i) change_node(json);
  }

 private:
  using Range = std::pair<std::size_t, std::size_t>;

  std::size_t below(std::size_t bound) { return static_cast<std::size_t>(random_() % bound); }

  template <typename Items>
  auto one_of(const Items& items) {
    return items[below(items.size())];
  }

  void change_value(std::string& text) {
    switch (below(4)) {
      case 0: return replace_token(text, true, std::string(one_of(kNumbers)));
      case 1: return scale_number(text);
      case 2: return replace_token(text, false, std::string(one_of(kPieces)));
      default: return swap_tokens(text);
    }
  }

  void change_text(std::string& text, const std::string& other) {
    const std::size_t at = below(text.size());
    switch (below(12)) {
      case 0: text[at] = static_cast<char>(below(256)); return;
      case 1: text[at] = static_cast<char>(text[at] ^ static_cast<char>(1U << below(8))); return;
      case 2: text.erase(at, 1 + below(12)); return;
      case 3: text.insert(at, text.substr(below(text.size()), below(40))); return;
      case 4: text.insert(at, one_of(kPieces)); return;
      case 5: text.resize(at); return;
      case 6: return change_line(text, at);
      case 7: return nest(text, at);
      case 8: text.insert(at, other.substr(below(other.size() + 1), below(200))); return;
      case 9:
        text.replace(at, below(200), other.substr(below(other.size() + 1), below(200)));
        return;
      default: return change_value(text);
    }
  }

  /// A random word or number near a random place: looking at all of a long text takes long.
  Range token(const std::string& text, bool number) {
    const auto is_part = [&](std::size_t i) {
      const auto c = static_cast<unsigned char>(text[i]);
      return std::isalnum(c) != 0 || c == '_' || c == '.' || c == '-';
    };
    for (int tries = 0; tries < 50; ++tries) {
      std::size_t begin = below(text.size());
      if (!is_part(begin)) continue;
      std::size_t end = begin;
      while (begin > 0 && is_part(begin - 1)) --begin;
      while (end < text.size() && is_part(end)) ++end;
      const bool is_number =
          std::isdigit(static_cast<unsigned char>(text[begin])) != 0 || text[begin] == '-';
      if (is_number == number) return {begin, end};
    }
    return {0, 0};
  }

  void replace_token(std::string& text, bool number, const std::string& with) {
    const auto [begin, end] = token(text, number);
    text.replace(begin, end - begin, with);
  }

  void scale_number(std::string& text) {
    const auto [begin, end] = token(text, true);
    const std::string whole = text.substr(begin, end - begin);
    if (whole.empty() || whole.size() > 15 ||
        whole.find_first_not_of("0123456789") != std::string::npos)
      return;
    const long long number = std::stoll(whole);
    const std::array<long long, 8> changed = {number + 1, number - 1,  number * 2, number / 2,
                                              -number,    number * 10, number * 7, number * 1000};
    text.replace(begin, end - begin, std::to_string(one_of(changed)));
  }

  void swap_tokens(std::string& text) {
    const bool numbers = below(2) == 0;
    Range a = token(text, numbers), b = token(text, numbers);
    if (a.first > b.first) std::swap(a, b);
    if (a.second > b.first) return;
    const std::string first = text.substr(a.first, a.second - a.first),
                      second = text.substr(b.first, b.second - b.first);
    text.replace(b.first, second.size(), first);
    text.replace(a.first, first.size(), second);
  }

  static Range line_at(const std::string& text, std::size_t at) {
    const std::size_t begin = text.rfind('\n', at == 0 ? 0 : at - 1) + 1;  // npos + 1 is 0
    return {std::min(begin, at), std::min(text.find('\n', at), text.size() - 1) + 1};
  }

  void change_line(std::string& text, std::size_t at) {
    const Range line = line_at(text, at), other = line_at(text, below(text.size()));
    const std::string piece = text.substr(line.first, line.second - line.first);
    switch (below(3)) {
      case 0: text.erase(line.first, piece.size()); return;
      case 1: text.insert(line.second, piece); return;
      default: text.insert(other.first, piece); return;
    }
  }

  void nest(std::string& text, std::size_t at) {
    const std::size_t times = one_of(std::array<std::size_t, 4>{1, 2, 40, 20'000});
    text.insert(at, std::string(times, one_of(std::array<char, 4>{'[', '{', '(', '-'})));
    if (below(2) == 0) text.insert(at + times, std::string(times, ']'));
  }

  Json value() {
    static const std::vector<Json> kValues = {nullptr,
                                              true,
                                              false,
                                              0,
                                              1,
                                              -1,
                                              2,
                                              3,
                                              0.5,
                                              -0.5,
                                              1e-300,
                                              1e30,
                                              1e308,
                                              1048576,
                                              2147483648,
                                              4294967296,
                                              9007199254740993,
                                              INT64_MIN,
                                              INT64_MAX,
                                              UINT64_MAX,
                                              "",
                                              "a",
                                              "1",
                                              "../x",
                                              "/",
                                              "\x1b[2J\n",
                                              Json::array(),
                                              Json::object(),
                                              Json::array({1, 2}),
                                              {{"a", 1}},
                                              std::string(300, 'x')};
    return one_of(kValues);
  }

  /// Down from the whole to a random value.
  Json* node(Json& json) {
    Json* at = &json;
    while (at->is_structured() && !at->empty() && below(8) != 0) {
      auto member = at->begin();
      std::advance(member, static_cast<std::ptrdiff_t>(below(at->size())));
      at = &*member;
    }
    return at;
  }

  void change_node(Json& json) {
    Json& at = *node(json);
    switch (below(6)) {
      case 0: at = value(); return;
      case 1: {
        Json copy = *node(json);
        at = std::move(copy);
        return;
      }
      case 2:
        if (at.is_number_integer())
          at = at.get<std::int64_t>() / 2 + static_cast<std::int64_t>(below(3));
        else
          at = value();
        return;
      case 3:
        if (at.is_structured() && !at.empty()) {
          auto member = at.begin();
          std::advance(member, static_cast<std::ptrdiff_t>(below(at.size())));
          at.erase(member);
        }
        return;
      case 4:
        if (at.is_array() && !at.empty()) at.push_back(Json(at[below(at.size())]));
        return;
      default:
        if (at.is_object()) at["unknown"] = value();
        return;
    }
  }

  std::mt19937_64 random_;
};

}  // namespace

std::string mutate_text(std::string text, const std::string& other, std::uint64_t seed) {
  return Mutator(seed).run(std::move(text), other);
}

void mutate_json(Json& json, std::uint64_t seed) { Mutator(seed).run(json); }

}  // namespace trainyard
