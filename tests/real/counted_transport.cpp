#include "tests/real/counted_transport.h"

#include <utility>

namespace trainyard {

namespace {

class CountedCommunicator final : public Communicator {
 public:
  CountedCommunicator(std::unique_ptr<Communicator> inner, std::size_t members, int member,
                      std::atomic<double>& received)
      : inner_(std::move(inner)),
        members_(static_cast<double>(members)),
        member_(member),
        received_(received) {}

  void all_reduce(at::Tensor& tensor, bool maximum) override {
    note(tensor, 2 * (members_ - 1) / members_ * static_cast<double>(tensor.numel()));
    inner_->all_reduce(tensor, maximum);
  }
  void all_gather(const at::Tensor& part, at::Tensor& whole) override {
    note(part, static_cast<double>(whole.numel() - part.numel()));
    inner_->all_gather(part, whole);
  }
  void reduce_scatter(const at::Tensor& whole, at::Tensor& part) override {
    note(part, (members_ - 1) * static_cast<double>(part.numel()));
    inner_->reduce_scatter(whole, part);
  }
  void all_to_all(const at::Tensor& from, at::Tensor& to, const AllToAllCounts& counts) override {
    const std::int64_t own = counts.received.begin()[member_];
    note(to, static_cast<double>(to.numel() - own));
    inner_->all_to_all(from, to, counts);
  }
  void broadcast(at::Tensor& tensor, int root) override {
    note(tensor, static_cast<double>(tensor.numel()));
    inner_->broadcast(tensor, root);
  }
  void reduce(at::Tensor& tensor, int root) override {
    note(tensor, static_cast<double>(tensor.numel()));
    inner_->reduce(tensor, root);
  }
  void send(const at::Tensor& tensor, int member) override { inner_->send(tensor, member); }
  void receive(at::Tensor& tensor, int member) override {
    note(tensor, static_cast<double>(tensor.numel()));
    inner_->receive(tensor, member);
  }
  void check() override { inner_->check(); }
  void abort() override { inner_->abort(); }

 private:
  void note(const at::Tensor& of, double elements) {
    received_ += elements * static_cast<double>(of.element_size());
  }

  std::unique_ptr<Communicator> inner_;
  double members_;
  int member_;
  std::atomic<double>& received_;
};

class CountedTransport final : public Transport {
 public:
  CountedTransport(std::unique_ptr<Transport> inner, std::atomic<double>& received)
      : inner_(std::move(inner)),
        received_(received) {}

  std::unique_ptr<Communicator> make(const std::string& name,
                                     const std::vector<std::int64_t>& ranks, int member) override {
    return std::make_unique<CountedCommunicator>(inner_->make(name, ranks, member), ranks.size(),
                                                 member, received_);
  }

 private:
  std::unique_ptr<Transport> inner_;
  std::atomic<double>& received_;
};

}  // namespace

std::unique_ptr<Transport> counted(std::unique_ptr<Transport> inner,
                                   std::atomic<double>& received) {
  return std::make_unique<CountedTransport>(std::move(inner), received);
}

}  // namespace trainyard
