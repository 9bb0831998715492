// A stream of communication on a CPU: a thread that runs its work first in, first out, beside the
// thread that computes, so that overlap is real there too.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "real/exec/completion.h"

namespace trainyard {

class CommunicationStream {
 public:
  explicit CommunicationStream(std::string name);
  /// Waits for what is queued.
  ~CommunicationStream();
  CommunicationStream(const CommunicationStream&) = delete;
  CommunicationStream& operator=(const CommunicationStream&) = delete;

  /// Runs `work` once all of `after` have ended. What it throws, the completion's waiters get; work
  /// behind it fails with the same error, since its peers will not come.
  CompletionPtr enqueue(std::vector<CompletionPtr> after, std::function<void()> work);

 private:
  struct Item {
    std::vector<CompletionPtr> after;
    std::function<void()> work;
    CompletionPtr completion;
  };
  void run();

  std::string name_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> queue_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace trainyard
