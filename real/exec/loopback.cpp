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
        here(ranks.size()),
        made(ranks.size()) {}

  /// What a member brings to a collective.
  struct Brought {
    at::Tensor tensor;
    std::vector<std::int64_t> sent;  // elements to each member, where their numbers differ
  };
  /// What each member gets of what all have brought. Members may share a tensor: none writes to it.
  using Make = std::function<Numbered<at::Tensor>(const Numbered<Brought>&)>;
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
  // One collective at a time: members arrive, the last makes what each of them gets, all leave. The
  // next one ends only once all have come to it, who have left this one then.
  Numbered<Brought> members;
  Numbered<bool> here;
  Numbered<at::Tensor> made;
  std::size_t arrived = 0;
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

  /// Brings `own`, waits for all, and gives what `make` of the last to come made for this member.
  /// Nobody reads what a member has brought once it has left.
  at::Tensor meet(const char* call, int member, Brought own, const Make& make) {
    std::unique_lock lock(mutex);
    members[member] = std::move(own);
    here[member] = true;
    if (++arrived == members.size()) {
      arrived = 0;
      made = make(std::exchange(members, Numbered<Brought>(ranks.size())));
      here.assign(ranks.size(), false);
      ++generation;
      move();
    } else {
      const std::uint64_t turn = generation;
      wait(lock, member, {call, [this](std::size_t other) { return !here[other]; }},
           [&] { return generation != turn; });
    }
    return std::exchange(made[member], at::Tensor());
  }
};

namespace {

class LoopbackCommunicator final : public Communicator {
 public:
  LoopbackCommunicator(std::shared_ptr<LoopbackHub::Group> group, int member)
      : group_(std::move(group)),
        member_(member) {}

  void all_reduce(at::Tensor& tensor, bool maximum) override {
    tensor.copy_(group_->meet("all_reduce", member_, {tensor, {}}, [&](const Members& all) {
      return Numbered<at::Tensor>(all.size(), sum_of(all, maximum));
    }));
  }

  void all_gather(const at::Tensor& part, at::Tensor& whole) override {
    whole.view({-1}).copy_(group_->meet("all_gather", member_, {part, {}}, [](const Members& all) {
      std::vector<at::Tensor> flat;
      for (const Brought& one : all) flat.push_back(one.tensor.reshape({-1}));
      return Numbered<at::Tensor>(all.size(), at::cat(flat));
    }));
  }

  void reduce_scatter(const at::Tensor& whole, at::Tensor& part) override {
    part.view({-1}).copy_(
        group_->meet("reduce_scatter", member_, {whole, {}}, [](const Members& all) {
          return Numbered<at::Tensor>(sum_of(all, false).reshape({-1}).chunk(std::ssize(all)));
        }));
  }

  void all_to_all(const at::Tensor& from, at::Tensor& to, const AllToAllCounts& counts) override {
    to.view({-1}).copy_(
        group_->meet("all_to_all", member_, {from, counts.sent}, [](const Members& all) {
          std::vector<std::vector<at::Tensor>> parts;  // [sender][receiver]
          for (const Brought& one : all)
            parts.push_back(one.tensor.reshape({-1}).split_with_sizes(one.sent));
          Numbered<at::Tensor> received;
          for (std::size_t receiver = 0; receiver < all.size(); ++receiver) {
            std::vector<at::Tensor> its;
            for (const std::vector<at::Tensor>& sent : parts) its.push_back(sent[receiver]);
            received.push_back(at::cat(its));
          }
          return received;
        }));
  }

  void broadcast(at::Tensor& tensor, int root) override {
    const at::Tensor got =
        group_->meet("broadcast", member_, {tensor, {}}, [&](const Members& all) {
          return Numbered<at::Tensor>(all.size(), all[root].tensor.clone());
        });
    if (member_ != root) tensor.copy_(got);
  }

  void reduce(at::Tensor& tensor, int root) override {
    const at::Tensor got = group_->meet("reduce", member_, {tensor, {}}, [&](const Members& all) {
      Numbered<at::Tensor> made(all.size());
      made[root] = sum_of(all, false);
      return made;
    });
    if (member_ == root) tensor.copy_(got);
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
  using Brought = LoopbackHub::Group::Brought;
  using Members = Numbered<Brought>;

  /// In the order of the members.
  static at::Tensor sum_of(const Members& all, bool maximum) {
    at::Tensor result = all[0].tensor.clone();
    for (std::size_t i = 1; i < all.size(); ++i) {
      const at::Tensor& next = all.begin()[i].tensor;
      if (maximum) {
        at::maximum_out(result, result, next);
      } else {
        result.add_(next);
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
