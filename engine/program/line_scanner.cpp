#include "engine/program/line_scanner.h"

#include <charconv>
#include <cmath>

#include "engine/base/error.h"
#include "engine/base/place_of.h"
#include "engine/base/user_text.h"

namespace trainyard {

std::string LineScanner::found() const {
  if (at_end()) return "the line ends";
  if (line_[at_] == ' ') return "found a space";
  const std::size_t end = line_.find(' ', at_ + 1);
  return "found " + in_quotes(line_.substr(at_, end - at_));
}

void LineScanner::fail_expected(std::string_view literal) const {
  fail((literal == " " ? "expected a space" : "expected " + in_quotes(literal)) + "; " + found());
}

void LineScanner::expect_end() {
  if (!at_end()) fail("expected the line to end; " + found());
}

std::string_view LineScanner::take(std::string_view what, std::string_view stops) {
  const std::size_t begin = at_;
  for (; !at_word_end() && stops.find(line_[at_]) == std::string_view::npos; ++at_) {
    const auto byte = static_cast<unsigned char>(line_[at_]);
    if (byte < 0x20 || byte == 0x7F) fail("a control character in " + std::string(what));
  }
  if (at_ == begin) fail("expected " + std::string(what) + "; " + found());
  return line_.substr(begin, at_ - begin);
}

std::int64_t LineScanner::number(std::int64_t low, std::int64_t high, std::string_view what) {
  std::int64_t value = 0;
  const char* begin = line_.data() + at_;
  const auto [end, error] = std::from_chars(begin, line_.data() + line_.size(), value);
  const bool digits = end != begin;
  if (!digits) fail("expected " + std::string(what) + "; " + found());
  if (error != std::errc() || value < low || value > high) {
    fail(std::string(what) + " has to be from " + std::to_string(low) + " to " +
         std::to_string(high) + ", not " + printable(std::string(begin, end), 30));
  }
  at_ += length_between(begin, end);
  return value;
}

float LineScanner::real(std::string_view what) {
  float value = 0;
  const char* begin = line_.data() + at_;
  const auto [end, error] = std::from_chars(begin, line_.data() + line_.size(), value);
  if (error != std::errc() || !std::isfinite(value)) {
    fail("expected " + std::string(what) + "; " + found());
  }
  at_ += length_between(begin, end);
  return value;
}

void LineScanner::fail_at(std::size_t position, const std::string& problem) const {
  throw ConfigError({file_, number_, static_cast<int>(position) + 1}, subject_, problem);
}

}  // namespace trainyard
