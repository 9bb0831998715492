#include "tests/real/corrupted_norm.h"

#include <limits>
#include <utility>

#include "real/exec/communicator.h"

namespace trainyard {

namespace {

class Corrupted final : public Communicator {
 public:
  Corrupted(std::unique_ptr<Communicator> inner, int number)
      : inner_(std::move(inner)),
        left_(number) {}
  void all_reduce(at::Tensor& tensor, bool maximum) override {
    inner_->all_reduce(tensor, maximum);
    if (--left_ == 0) tensor.fill_(std::numeric_limits<double>::infinity());
  }
  void all_gather(const at::Tensor& part, at::Tensor& whole) override {
    inner_->all_gather(part, whole);
  }
  void reduce_scatter(const at::Tensor& whole, at::Tensor& part) override {
    inner_->reduce_scatter(whole, part);
  }
  void all_to_all(const at::Tensor& from, at::Tensor& to, const AllToAllCounts& counts) override {
    inner_->all_to_all(from, to, counts);
  }
  void broadcast(at::Tensor& tensor, int root) override { inner_->broadcast(tensor, root); }
  void reduce(at::Tensor& tensor, int root) override { inner_->reduce(tensor, root); }
  void send(const at::Tensor& tensor, int member) override { inner_->send(tensor, member); }
  void receive(at::Tensor& tensor, int member) override { inner_->receive(tensor, member); }

 private:
  std::unique_ptr<Communicator> inner_;
  int left_;
};

class CorruptedTransport final : public Transport {
 public:
  CorruptedTransport(std::unique_ptr<Transport> inner, std::string name, int number)
      : inner_(std::move(inner)),
        name_(std::move(name)),
        number_(number) {}
  std::unique_ptr<Communicator> make(const std::string& name,
                                     const std::vector<std::int64_t>& ranks, int member) override {
    auto made = inner_->make(name, ranks, member);
    if (!name.starts_with(name_)) return made;
    return std::make_unique<Corrupted>(std::move(made), number_);
  }

 private:
  std::unique_ptr<Transport> inner_;
  std::string name_;
  int number_;
};

}  // namespace

void corrupt_norm(LoopbackOptions& options, const std::string& name, int number) {
  options.transport =
      [name, number](std::int64_t, std::unique_ptr<Transport> inner) -> std::unique_ptr<Transport> {
    return std::make_unique<CorruptedTransport>(std::move(inner), name, number);
  };
}

}  // namespace trainyard
