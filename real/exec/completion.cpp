#include "real/exec/completion.h"

namespace trainyard {

void Completion::finish(Clock::time_point start, Clock::time_point end) {
  {
    const std::lock_guard lock(mutex_);
    start_ = start;
    end_ = end;
    done_ = true;
  }
  changed_.notify_all();
}

void Completion::fail(std::exception_ptr error) {
  {
    const std::lock_guard lock(mutex_);
    error_ = std::move(error);
    done_ = true;
  }
  changed_.notify_all();
}

void Completion::wait() const {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return done_; });
  if (error_) std::rethrow_exception(error_);
}

bool Completion::done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

}  // namespace trainyard
