#include "real/exec/communication_stream.h"

#include <pthread.h>

#include <utility>

#include "real/torch.h"

namespace trainyard {

CommunicationStream::CommunicationStream(std::string name)
    : name_(std::move(name)),
      thread_([this] { run(); }) {}

CommunicationStream::~CommunicationStream() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

CompletionPtr CommunicationStream::enqueue(std::vector<CompletionPtr> after,
                                           std::function<void()> work) {
  auto completion = std::make_shared<Completion>();
  {
    const std::lock_guard lock(mutex_);
    queue_.push_back({std::move(after), std::move(work), completion});
  }
  changed_.notify_all();
  return completion;
}

void CommunicationStream::run() {
  pthread_setname_np(pthread_self(), name_.substr(0, 15).c_str());
  const at::AutoDispatchBelowADInplaceOrView no_autograd;
  std::exception_ptr failed;
  for (;;) {
    Item item;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return stopping_ || !queue_.empty(); });
      if (queue_.empty()) return;
      item = std::move(queue_.front());
      queue_.pop_front();
    }
    if (failed) {
      item.completion->fail(failed);
      continue;
    }
    try {
      for (const CompletionPtr& before : item.after) before->wait();
      const auto start = Clock::now();
      item.work();
      item.work = nullptr;  // its tensors are given back before anyone hears that it is done
      item.completion->finish(start, Clock::now());
    } catch (...) {
      failed = std::current_exception();
      item.completion->fail(failed);
    }
  }
}

}  // namespace trainyard
