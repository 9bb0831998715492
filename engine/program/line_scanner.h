// Reads one line of text from left to right and says where it is when something is wrong.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace trainyard {

class LineScanner {
 public:
  /// `number` counts from 1. All three must outlive the scanner.
  LineScanner(const std::string& file, int number, std::string_view line)
      : file_(file),
        number_(number),
        line_(line) {}

  bool at_end() const { return at_ == line_.size(); }
  bool at_word_end() const { return at_end() || line_[at_] == ' '; }
  std::size_t position() const { return at_; }
  /// The text up to the next space, which may be empty; nothing is stepped over.
  std::string_view peek() const { return line_.substr(at_, line_.find(' ', at_) - at_); }
  std::string_view rest() const { return line_.substr(at_); }
  void move_to(std::size_t position) { at_ = position; }

  /// Steps over `literal` if it comes next.
  bool accept(std::string_view literal) {
    if (line_.substr(at_, literal.size()) != literal) return false;
    at_ += literal.size();
    return true;
  }
  void expect(std::string_view literal) {
    if (!accept(literal)) fail_expected(literal);
  }
  void expect_end();

  /// The text up to the next space or character of `stops`; not empty, `what` says what it names.
  std::string_view take(std::string_view what, std::string_view stops = {});
  std::int64_t number(std::int64_t low, std::int64_t high, std::string_view what);
  float real(std::string_view what);

  /// What later messages are about, before the problem: "segment 3B".
  void set_subject(std::string subject) { subject_ = std::move(subject); }

  [[noreturn]] void fail(const std::string& problem) const { fail_at(at_, problem); }
  [[noreturn]] void fail_at(std::size_t position, const std::string& problem) const;

 private:
  [[noreturn]] void fail_expected(std::string_view literal) const;
  std::string found() const;  // what comes instead of what was expected

  const std::string& file_;
  int number_;
  std::string_view line_;
  std::size_t at_ = 0;
  std::string subject_;
};

}  // namespace trainyard
