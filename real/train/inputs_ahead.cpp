#include "real/train/inputs_ahead.h"

#include <algorithm>
#include <utility>

#include "system/interrupt.h"

namespace trainyard {

InputsAhead::InputsAhead(Draw draw, const Limits& limits)
    : draw_(std::move(draw)),
      limits_(limits) {
  const HeldSignals not_for_the_thread;  // which begins with the mask of its maker
  thread_ = std::thread([this] { run(); });
}

InputsAhead::~InputsAhead() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

at::Tensor InputsAhead::take(const WantedInput& wanted) {
  std::unique_lock lock(mutex_);
  const auto entry = std::find_if(queue_.begin(), queue_.end(),
                                  [&](const Entry& one) { return one.input == wanted; });
  at::Tensor drawn;
  std::exception_ptr failure;
  if (entry != queue_.end()) {
    if (entry->memory.defined()) {
      changed_.wait(lock, [&] { return entry->is_drawn; });
      held_ -= entry->input.bytes();
      drawn = std::move(entry->memory);
      failure = std::move(entry->failure);
    }
    queue_.erase(entry);
  }
  if (failure) std::rethrow_exception(failure);
  queue_next(wanted);
  give_memory();
  lock.unlock();
  changed_.notify_all();
  return drawn;
}

void InputsAhead::queue_next(const WantedInput& wanted) {
  WantedInput next = wanted;
  next.first += limits_.per_step;
  if (next.first + wanted.extents[0] > limits_.end) return;
  const auto is_next = [&](const Entry& one) { return one.input == next; };
  if (std::none_of(queue_.begin(), queue_.end(), is_next))
    queue_.push_back({std::move(next), {}, nullptr, false, {}});
}

void InputsAhead::give_memory() {
  for (Entry& entry : queue_) {
    if (entry.memory.defined()) continue;
    const std::int64_t bytes = entry.input.bytes();
    if (held_ > 0 && held_ + bytes > limits_.room) return;
    entry.memory = host_memory(entry.input, limits_.pinned);
    entry.to = entry.memory.mutable_data_ptr();
    held_ += bytes;
  }
}

void InputsAhead::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    Entry* next = nullptr;
    changed_.wait(lock, [&] {
      const auto found = std::find_if(queue_.begin(), queue_.end(), [](const Entry& one) {
        return one.to != nullptr && !one.is_drawn;
      });
      next = found == queue_.end() ? nullptr : &*found;
      return over_ || next != nullptr;
    });
    if (over_) return;
    lock.unlock();
    std::exception_ptr failure;
    try {
      draw_(next->input, next->to, over_);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    next->failure = failure;
    next->is_drawn = true;
    changed_.notify_all();
  }
}

}  // namespace trainyard
