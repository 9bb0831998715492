// Many studies in one command: items of work spread over processes of this one.
//
// Processes, not threads: SimGrid has one engine per process, and an item that brings its process
// down takes no other with it. What an item answers does not depend on how many there are.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace trainyard {

struct PointsOptions {
  int jobs = 0;                // processes at once; 0: as many as this process may use cores
  std::string noun;            // "cases": what the progress on a terminal counts; "": no progress
  bool keep_finished = false;  // where a signal ends the work: throw Interrupted
};

/// What became of one item: its answer, or why there is none.
struct PointAnswer {
  std::string text;     // what `work` returned
  std::string failure;  // not empty: what `work` threw, or how its process ended
  bool finished = false;
};

/// A signal came: what is finished, and what is not.
struct Interrupted {
  int signal = 0;
  std::vector<PointAnswer> answers;
};

/// In `work`: it is to end soon, with what it has. Only where finished answers are kept.
bool told_to_stop();

/// Runs work(0) to work(count - 1), each once and in a forked process, and answers in their order.
///
/// `work` sees this process's memory as it was when run_points() was called, and what earlier items
/// of the same process left there (a cache may warm up, but may not change an answer). A process
/// that ends in the middle of an item fails that item alone. Ending this process, by Ctrl-C or
/// otherwise, ends all of them; with keep_finished, those that answer within two seconds may. A
/// second signal ends them at once. Throws BackendError where the system gives no process or
/// socket.
std::vector<PointAnswer> run_points(std::size_t count,
                                    const std::function<std::string(std::size_t)>& work,
                                    const PointsOptions& options);

/// Cores that this process may use.
int num_usable_cores();

}  // namespace trainyard
