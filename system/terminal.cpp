#include "system/terminal.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>
#include <nlohmann/json.hpp>

#include "engine/base/error.h"
#include "engine/base/mistakes.h"
#include "engine/base/plain_text.h"
#include "system/exit_code.h"

namespace trainyard {

namespace {

/// `code`: errno of what failed; 0: that was some calls ago.
[[noreturn]] void fail(int code) {
  throw BackendError("cannot write the answer to stdout" +
                     (code == 0 ? "" : ": " + std::string(std::strerror(code))));
}

void print(std::string_view text) {
  errno = 0;
  if (std::fwrite(text.data(), 1, text.size(), stdout) < text.size()) fail(errno);
  finish_answer();
}

}  // namespace

void print_answer(std::string_view json) { print(plain_json(json)); }

void print_text(std::string_view text) { print(plain_lines(text)); }

void finish_answer() {
  errno = 0;
  std::cout.flush();  // where CLI11 writes
  const bool flushed = std::fflush(stdout) == 0;
  if (!flushed || std::ferror(stdout) != 0 || !std::cout.good()) fail(errno);
}

void print_warnings(const std::vector<std::string>& warnings) {
  for (const std::string& warning : warnings)
    std::fprintf(stderr, "warning: %s\n", plain_text(warning).c_str());
}

void say(std::string_view message) {
  std::fprintf(stderr, "trainyard: %s\n", plain_lines(message).c_str());
}

void print_error_answer(int exit, const std::string& message, const std::string& where,
                        const std::vector<Mistake>& mistakes) {
  nlohmann::ordered_json answer = {
      {"error", {{"exit", exit}, {"message", message}, {"where", where}}}};
  for (const Mistake& mistake : mistakes)
    answer["errors"].push_back({{"message", mistake.what}, {"where", to_string(mistake.where)}});
  const std::string text = answer.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
  std::printf("%s\n", plain_json(text).c_str());
  std::fflush(stdout);
}

int report_error(int exit, const std::string& message, const std::string& where, bool json) {
  say(message);
  if (json) print_error_answer(exit, message, where);
  return exit;
}

int report_error(const ConfigError& error, const std::string& where, bool json) {
  constexpr std::size_t kMostLines = 20;
  if (error.others().empty()) return report_error(kWrongInput, error.what(), where, json);
  const std::vector<Mistake> mistakes = mistakes_in_order(error);
  for (std::size_t i = 0; i < mistakes.size() && i < kMostLines; ++i) say(mistakes[i].what);
  if (mistakes.size() > kMostLines)
    say("and " + std::to_string(mistakes.size() - kMostLines) + " more");
  if (json) print_error_answer(kWrongInput, error.what(), where, mistakes);
  return kWrongInput;
}

int with_answer_out(int exit) {
  try {
    finish_answer();
    return exit;
  } catch (const BackendError& error) {
    return exit == kDone || exit == kCannotRun
               ? report_error(kBackendFailed, error.what(), "", false)
               : exit;
  }
}

}  // namespace trainyard
