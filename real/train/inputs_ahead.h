// Inputs of the next step, drawn by a thread of their own while the device runs this one.
//
// Every step asks for the same inputs, of samples that are as many further on. So what is taken is
// queued again for the next step, in the order of this one, and drawn into memory of the host as
// far as there is room. What was not foreseen (a first step; one that runs again) is drawn when it
// is asked for.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <exception>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

#include "real/train/input_drawer.h"

namespace trainyard {

class InputsAhead {
 public:
  using Draw = std::function<void(const WantedInput&, void* to, const std::atomic<bool>& given_up)>;

  struct Limits {
    std::int64_t per_step = 0;                  // samples from a step to the next
    std::int64_t end = 0;                       // sample: none is drawn ahead from there on
    std::int64_t room = std::int64_t{1} << 29;  // bytes that are drawn or being drawn; one input
                                                // may have more
    bool pinned = false;
  };

  /// `draw` is called by the thread alone, and may throw.
  InputsAhead(Draw draw, const Limits& limits);
  /// Gives up what is being drawn.
  ~InputsAhead();
  InputsAhead(const InputsAhead&) = delete;
  InputsAhead& operator=(const InputsAhead&) = delete;

  /// What has been drawn, once it has; undefined: it was not. Throws what drawing it threw. The
  /// same input of the next step is queued. Called by one thread.
  at::Tensor take(const WantedInput& wanted);

 private:
  struct Entry {
    WantedInput input;
    at::Tensor memory;   // of the thread that takes; undefined: there was no room yet
    void* to = nullptr;  // in it: the thread that draws touches no tensor
    bool is_drawn = false;
    std::exception_ptr failure;
  };

  void queue_next(const WantedInput& wanted);
  void give_memory();
  void run();

  const Draw draw_;
  const Limits limits_;
  std::int64_t held_ = 0;  // bytes
  std::mutex mutex_;       // of all below
  std::condition_variable changed_;
  std::list<Entry> queue_;  // an entry stays where it is until it is taken
  std::atomic<bool> over_ = false;
  std::thread thread_;
};

}  // namespace trainyard
