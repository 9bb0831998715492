#include "real/exec/loopback.h"

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <functional>
#include <utility>

#include "engine/base/error.h"
#include "engine/base/indexed.h"

namespace trainyard {

/// When data was last moved between any two ranks.
struct LoopbackHub::Movement {
  using Clock = std::chrono::steady_clock;
  explicit Movement(std::chrono::milliseconds most) : patience(most) { note(); }
  void note() { last = Clock::now().time_since_epoch().count(); }
  Clock::time_point end_of_patience() const {
    return Clock::time_point(Clock::duration(last.load())) + patience;
  }

  const std::chrono::milliseconds patience;
  std::atomic<Clock::rep> last{0};
};

struct LoopbackHub::Group {
  Group(LoopbackHub& its_hub, std::string its_key, std::vector<std::int64_t> its_ranks)
      : hub(its_hub),
        key(std::move(its_key)),
        ranks(std::move(its_ranks)),
        members(ranks.size()),
        here(ranks.size()) {}

  /// What a member waits in, and for which others.
  struct Wait {
    const char* call;
    std::function<bool(std::size_t member)> lacks;
  };

  LoopbackHub& hub;
  const std::string key;
  const Numbered<std::int64_t> ranks;
  std::mutex mutex;
  std::condition_variable changed;
  std::string aborted;
  std::map<int, Wait> waits;  // [member]
  // One collective at a time: members arrive, the last computes, all leave.
  Numbered<at::Tensor> members;
  Numbered<bool> here;
  std::size_t arrived = 0, leaving = 0;
  std::uint64_t generation = 0;
  std::map<std::pair<int, int>, std::deque<at::Tensor>> mail;  // by (from, to)

  void move() {
    hub.movement_->note();
    changed.notify_all();
  }

  void wait(std::unique_lock<std::mutex>& lock, int member, Wait what,
            const std::function<bool()>& ready) {
    const auto over = [&] { return ready() || !aborted.empty(); };
    if (!over()) waits.insert_or_assign(member, std::move(what));
    for (;;) {
      if (changed.wait_until(lock, hub.movement_->end_of_patience(), over)) break;
      if (hub.movement_->end_of_patience() > Movement::Clock::now()) continue;
      lock.unlock();  // who aborts takes the locks of all groups
      hub.give_up();
      lock.lock();
    }
    waits.erase(member);
    if (!ready()) throw BackendError(aborted);
  }

  /// "rank 2 waits in all_reduce of dp.4.0.2 for rank 0"
  void describe_waits(std::string& out) {
    const std::lock_guard lock(mutex);
    for (const auto& [member, wait] : waits) {
      if (!out.empty()) out += "; ";
      out += "rank " + std::to_string(ranks[member]) + " waits in " + wait.call + " of " + key +
             " for rank";
      const char* separator = " ";
      for (std::size_t other = 0; other < ranks.size(); ++other) {
        if (!wait.lacks(other)) continue;
        out += separator + std::to_string(ranks[other]);
        separator = ", ";
      }
    }
  }

  /// Brings `own`, waits for all, lets `take` read what they brought, and holds the tensors until
  /// every member has read.
  void meet(const char* call, int member, const at::Tensor& own,
            const std::function<void(const Numbered<at::Tensor>&)>& take) {
    const Wait for_absent = {call, [this](std::size_t other) { return !here[other]; }};
    const Wait for_present = {call, [this](std::size_t other) { return here[other]; }};
    std::unique_lock lock(mutex);
    wait(lock, member, for_present, [&] { return leaving == 0; });
    members[member] = own;
    here[member] = true;
    const std::uint64_t turn = generation;
    if (++arrived == members.size()) {
      arrived = 0;
      leaving = members.size();
      ++generation;
      move();
    } else {
      wait(lock, member, for_absent, [&] { return generation != turn; });
    }
    const Numbered<at::Tensor> all = members;
    lock.unlock();
    take(all);
    lock.lock();
    here[member] = false;
    if (--leaving == 0) {
      for (at::Tensor& tensor : members) tensor.reset();
      move();
    } else {
      // In-place results are written only after everybody has read.
      wait(lock, member, for_present, [&] { return leaving == 0 || generation != turn + 1; });
    }
  }
};

namespace {

class LoopbackCommunicator final : public Communicator {
 public:
  LoopbackCommunicator(std::shared_ptr<LoopbackHub::Group> group, int member)
      : group_(std::move(group)),
        member_(member) {}

  void all_reduce(at::Tensor& tensor, bool maximum) override {
    at::Tensor result;
    group_->meet("all_reduce", member_, tensor,
                 [&](const Numbered<at::Tensor>& all) { result = sum_of(all, maximum); });
    tensor.copy_(result);
  }

  void all_gather(const at::Tensor& part, at::Tensor& whole) override {
    at::Tensor result;
    group_->meet("all_gather", member_, part, [&](const Numbered<at::Tensor>& all) {
      std::vector<at::Tensor> flat;
      for (const at::Tensor& one : all) flat.push_back(one.reshape({-1}));
      result = at::cat(flat);
    });
    whole.view({-1}).copy_(result);
  }

  void reduce_scatter(const at::Tensor& whole, at::Tensor& part) override {
    at::Tensor result;
    group_->meet("reduce_scatter", member_, whole, [&](const Numbered<at::Tensor>& all) {
      std::vector<at::Tensor> mine;
      for (const at::Tensor& one : all) {
        mine.push_back(one.reshape({-1}).narrow(0, member_ * part.numel(), part.numel()));
      }
      result = sum_of(mine, false);
    });
    part.view({-1}).copy_(result);
  }

  void all_to_all(const at::Tensor& from, at::Tensor& to, const AllToAllCounts& counts) override {
    // Where each member's part for this one begins, it alone knows.
    std::vector<std::int64_t> begins;
    std::int64_t begin = 0;
    for (const std::int64_t count : counts.sent) {
      begins.push_back(begin);
      begin += count;
    }
    std::vector<std::int64_t> begin_of_own;
    group_->meet("all_to_all", member_, at::tensor(begins, at::kLong),
                 [&](const Numbered<at::Tensor>& all) {
                   for (const at::Tensor& one : all)
                     begin_of_own.push_back(one.const_data_ptr<std::int64_t>()[member_]);
                 });
    at::Tensor result;
    group_->meet("all_to_all", member_, from, [&](const Numbered<at::Tensor>& all) {
      std::vector<at::Tensor> mine;
      for (std::size_t m = 0; m < all.size(); ++m)
        mine.push_back(all.begin()[m].reshape({-1}).narrow(0, begin_of_own[m], counts.received[m]));
      result = at::cat(mine);
    });
    to.view({-1}).copy_(result);
  }

  void broadcast(at::Tensor& tensor, int root) override {
    at::Tensor result;
    group_->meet("broadcast", member_, tensor, [&](const Numbered<at::Tensor>& all) {
      if (member_ != root) result = all[root].clone();
    });
    if (member_ != root) tensor.copy_(result);
  }

  void reduce(at::Tensor& tensor, int root) override {
    at::Tensor result;
    group_->meet("reduce", member_, tensor, [&](const Numbered<at::Tensor>& all) {
      if (member_ == root) result = sum_of(all, false);
    });
    if (member_ == root) tensor.copy_(result);
  }

  void send(const at::Tensor& tensor, int member) override {
    const std::lock_guard lock(group_->mutex);
    group_->mail[{member_, member}].push_back(tensor.clone());
    group_->move();
  }

  void receive(at::Tensor& tensor, int member) override {
    std::unique_lock lock(group_->mutex);
    auto& box = group_->mail[{member, member_}];
    const auto from = static_cast<std::size_t>(member);
    group_->wait(lock, member_, {"receive", [from](std::size_t other) { return other == from; }},
                 [&] { return !box.empty(); });
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
  std::unique_ptr<Communicator> make(const std::string& name,
                                     const std::vector<std::int64_t>& ranks, int member) override {
    return std::make_unique<LoopbackCommunicator>(hub_.group(name, ranks), member);
  }

 private:
  LoopbackHub& hub_;
};

}  // namespace

LoopbackHub::LoopbackHub(std::chrono::milliseconds patience)
    : movement_(std::make_unique<Movement>(patience)) {}
LoopbackHub::~LoopbackHub() = default;

std::unique_ptr<Transport> LoopbackHub::transport() {
  return std::make_unique<LoopbackTransport>(*this);
}

std::shared_ptr<LoopbackHub::Group> LoopbackHub::group(const std::string& name,
                                                       const std::vector<std::int64_t>& ranks) {
  const std::string key = group_key(name, ranks);
  const std::lock_guard lock(mutex_);
  auto& group = groups_[key];
  if (!group) {
    group = std::make_shared<Group>(*this, key, ranks);
    group->aborted = aborted_;
  }
  return group;
}

void LoopbackHub::abort(const std::string& why) {
  const std::lock_guard lock(mutex_);
  abort_locked(why);
}

void LoopbackHub::abort_locked(const std::string& why) {
  if (aborted_.empty()) aborted_ = why;
  for (auto& [key, group] : groups_) {
    const std::lock_guard group_lock(group->mutex);
    group->aborted = aborted_;
    group->changed.notify_all();
  }
}

void LoopbackHub::give_up() {
  const std::lock_guard lock(mutex_);
  std::string waits;
  for (auto& [key, group] : groups_) group->describe_waits(waits);
  char seconds[32];
  std::snprintf(seconds, sizeof seconds, "%g",
                std::chrono::duration<double>(movement_->patience).count());
  abort_locked("no rank has moved data for " + std::string(seconds) + " s: " + waits);
}

}  // namespace trainyard
