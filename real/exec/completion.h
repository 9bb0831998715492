// Whether a piece of work that another thread does has ended, and how.
#pragma once

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>

namespace trainyard {

using Clock = std::chrono::steady_clock;

class Completion {
 public:
  void finish(Clock::time_point start, Clock::time_point end);
  void fail(std::exception_ptr error);
  /// Waits, and throws what the work threw.
  void wait() const;
  bool done() const;
  /// Times of finished work.
  Clock::time_point start() const { return start_; }
  Clock::time_point end() const { return end_; }

 private:
  mutable std::mutex mutex_;
  mutable std::condition_variable changed_;
  bool done_ = false;
  std::exception_ptr error_;
  Clock::time_point start_, end_;
};

using CompletionPtr = std::shared_ptr<Completion>;

}  // namespace trainyard
