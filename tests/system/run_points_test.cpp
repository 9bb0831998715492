// Items of work spread over processes: answers in order whatever their number, and an item that
// fails fails alone.
#include "system/run_points.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <cstdlib>
#include <stdexcept>
#include <string>

namespace trainyard::run_points_test {

TEST_CASE("answers come in the order of the items, however many processes there are") {
  const int jobs = GENERATE(0, 1, 2, 5, 40);
  CAPTURE(jobs);
  const auto answers = run_points(
      23, [](std::size_t i) { return std::string(i * 10'000, static_cast<char>('a' + i)); },
      {jobs, ""});
  REQUIRE(answers.size() == 23);
  for (std::size_t i = 0; i < answers.size(); ++i) {
    CHECK(answers[i].failure.empty());
    CHECK(answers[i].text == std::string(i * 10'000, static_cast<char>('a' + i)));
  }
}

TEST_CASE("no items, no answers") {
  CHECK(run_points(0, [](std::size_t) { return std::string(); }, {3, ""}).empty());
}

TEST_CASE("an item that throws or ends its process fails alone, and says how") {
  const int jobs = GENERATE(1, 3);
  const auto answers = run_points(12,
                                  [](std::size_t i) -> std::string {
                                    if (i == 2) throw std::runtime_error("two is odd");
                                    if (i == 4) kill(getpid(), SIGKILL);
                                    if (i == 5) _exit(7);
                                    if (i == 11) throw std::runtime_error("");
                                    return std::to_string(i * i);
                                  },
                                  {jobs, ""});
  REQUIRE(answers.size() == 12);
  CHECK(answers[2].failure == "two is odd");
  CHECK(answers[4].failure == "its process was ended by a signal: Killed");
  CHECK(answers[5].failure == "its process ended with exit code 7");
  CHECK(answers[11].failure == "an error without a message");
  for (const std::size_t i : {0, 1, 3, 6, 7, 8, 9, 10}) {
    CHECK(answers[i].failure.empty());
    CHECK(answers[i].text == std::to_string(i * i));
  }
}

TEST_CASE("no process outlives the one that started it, whether that can clean up or not") {
  const int signal_number = GENERATE(SIGKILL, SIGINT, SIGTERM);
  CAPTURE(signal_number);
  // The middle process forks workers that wait for ever, and is killed; each worker holds the write
  // end of a pipe, so the pipe ends when, and only when, all of them are gone.
  int ends[2];
  REQUIRE(pipe(ends) == 0);
  const pid_t middle = fork();
  if (middle == 0) {
    close(ends[0]);
    for (const int one : {SIGINT, SIGTERM}) signal(one, SIG_DFL);  // Catch has handlers of its own
    run_points(3,
               [&](std::size_t) -> std::string {
                 if (write(ends[1], "x", 1) != 1) _exit(1);
                 for (;;) pause();
               },
               {3, ""});
    _exit(0);
  }
  close(ends[1]);
  char byte = 0;
  for (int started = 0; started < 3; ++started) REQUIRE(read(ends[0], &byte, 1) == 1);
  kill(middle, signal_number);
  int status = 0;
  waitpid(middle, &status, 0);
  REQUIRE(WIFSIGNALED(status));
  CHECK(WTERMSIG(status) == signal_number);
  CHECK(read(ends[0], &byte, 1) == 0);
  close(ends[0]);
}

}  // namespace trainyard::run_points_test
