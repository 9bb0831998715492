#include "real/exec/loopback.h"

#include <functional>
#include <utility>

#include "engine/base/error.h"

namespace trainyard {

struct LoopbackHub::Group {
  explicit Group(std::size_t size) : members(size) {}

  std::mutex mutex;
  std::condition_variable changed;
  std::string aborted;
  // One collective at a time: members arrive, the last computes, all leave.
  std::vector<at::Tensor> members;
  std::size_t arrived = 0, leaving = 0;
  std::uint64_t generation = 0;
  std::map<std::pair<int, int>, std::deque<at::Tensor>> mail;  // by (from, to)

  void wait(std::unique_lock<std::mutex>& lock, const std::function<bool()>& ready) {
    changed.wait(lock, [&] { return ready() || !aborted.empty(); });
    if (!ready()) throw BackendError(aborted);
  }

  /// Brings `own`, waits for all, lets `take` read what they brought, and holds the tensors until
  /// every member has read.
  void meet(int member, const at::Tensor& own, const std::function<void(const std::vector<at::Tensor>&)>& take) {
    std::unique_lock lock(mutex);
    wait(lock, [&] { return leaving == 0; });
    members[static_cast<std::size_t>(member)] = own;
    const std::uint64_t turn = generation;
    if (++arrived == members.size()) {
      arrived = 0;
      leaving = members.size();
      ++generation;
      changed.notify_all();
    } else {
      wait(lock, [&] { return generation != turn; });
    }
    const std::vector<at::Tensor> all = members;
    lock.unlock();
    take(all);
    lock.lock();
    if (--leaving == 0) {
      for (at::Tensor& tensor : members) tensor.reset();
      changed.notify_all();
    } else {
      // In-place results are written only after everybody has read.
      wait(lock, [&] { return leaving == 0 || generation != turn + 1; });
    }
  }
};

namespace {

class LoopbackCommunicator final : public Communicator {
 public:
  LoopbackCommunicator(std::shared_ptr<LoopbackHub::Group> group, int member)
      : group_(std::move(group)), member_(member) {}

  void all_reduce(at::Tensor& tensor, bool maximum) override {
    at::Tensor result;
    group_->meet(member_, tensor, [&](const std::vector<at::Tensor>& all) { result = sum_of(all, maximum); });
    tensor.copy_(result);
  }

  void all_gather(const at::Tensor& part, at::Tensor& whole) override {
    at::Tensor result;
    group_->meet(member_, part, [&](const std::vector<at::Tensor>& all) {
      std::vector<at::Tensor> flat;
      for (const at::Tensor& one : all) flat.push_back(one.reshape({-1}));
      result = at::cat(flat);
    });
    whole.view({-1}).copy_(result);
  }

  void reduce_scatter(const at::Tensor& whole, at::Tensor& part) override {
    at::Tensor result;
    group_->meet(member_, whole, [&](const std::vector<at::Tensor>& all) {
      std::vector<at::Tensor> mine;
      for (const at::Tensor& one : all) {
        mine.push_back(one.reshape({-1}).narrow(0, member_ * part.numel(), part.numel()));
      }
      result = sum_of(mine, false);
    });
    part.view({-1}).copy_(result);
  }

  void all_to_all(const at::Tensor& from, at::Tensor& to) override {
    at::Tensor result;
    group_->meet(member_, from, [&](const std::vector<at::Tensor>& all) {
      const std::int64_t size = from.numel() / static_cast<std::int64_t>(all.size());
      std::vector<at::Tensor> mine;
      for (const at::Tensor& one : all) mine.push_back(one.reshape({-1}).narrow(0, member_ * size, size));
      result = at::cat(mine);
    });
    to.view({-1}).copy_(result);
  }

  void broadcast(at::Tensor& tensor, int root) override {
    at::Tensor result;
    group_->meet(member_, tensor, [&](const std::vector<at::Tensor>& all) {
      if (member_ != root) result = all[static_cast<std::size_t>(root)].clone();
    });
    if (member_ != root) tensor.copy_(result);
  }

  void reduce(at::Tensor& tensor, int root) override {
    at::Tensor result;
    group_->meet(member_, tensor, [&](const std::vector<at::Tensor>& all) {
      if (member_ == root) result = sum_of(all, false);
    });
    if (member_ == root) tensor.copy_(result);
  }

  void send(const at::Tensor& tensor, int member) override {
    const std::lock_guard lock(group_->mutex);
    group_->mail[{member_, member}].push_back(tensor.clone());
    group_->changed.notify_all();
  }

  void receive(at::Tensor& tensor, int member) override {
    std::unique_lock lock(group_->mutex);
    auto& box = group_->mail[{member, member_}];
    group_->wait(lock, [&] { return !box.empty(); });
    const at::Tensor got = std::move(box.front());
    box.pop_front();
    lock.unlock();
    tensor.copy_(got.view(tensor.sizes()));
  }

 private:
  /// In the order of the members, on every one of them: all get the same bits.
  static at::Tensor sum_of(const std::vector<at::Tensor>& all, bool maximum) {
    at::Tensor result = all[0].clone();
    for (std::size_t i = 1; i < all.size(); ++i) {
      if (maximum) {
        at::maximum_out(result, result, all[i]);
      } else {
        result.add_(all[i]);
      }
    }
    return result;
  }

  std::shared_ptr<LoopbackHub::Group> group_;
  int member_;
};

class LoopbackTransport final : public Transport {
 public:
  explicit LoopbackTransport(LoopbackHub& hub) : hub_(hub) {}
  std::unique_ptr<Communicator> make(const std::string& name, const std::vector<std::int64_t>& ranks,
                                     int member) override {
    return std::make_unique<LoopbackCommunicator>(hub_.group(name, ranks), member);
  }

 private:
  LoopbackHub& hub_;
};

}  // namespace

std::unique_ptr<Transport> LoopbackHub::transport() { return std::make_unique<LoopbackTransport>(*this); }

std::shared_ptr<LoopbackHub::Group> LoopbackHub::group(const std::string& name,
                                                       const std::vector<std::int64_t>& ranks) {
  const std::string key = group_key(name, ranks);
  const std::lock_guard lock(mutex_);
  auto& group = groups_[key];
  if (!group) {
    group = std::make_shared<Group>(ranks.size());
    group->aborted = aborted_;
  }
  return group;
}

void LoopbackHub::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  aborted_ = why;
  for (auto& [key, group] : groups_) {
    const std::lock_guard group_lock(group->mutex);
    group->aborted = why;
    group->changed.notify_all();
  }
}

}  // namespace trainyard
