#include "real/exec/communicator.h"

#include <utility>

namespace trainyard {

std::string group_key(const std::string& name, const std::vector<std::int64_t>& ranks) {
  std::string key = name;
  for (const std::int64_t rank : ranks) key.append(1, '.').append(std::to_string(rank));
  return key;
}

namespace {

class PrefixedTransport final : public Transport {
 public:
  PrefixedTransport(Transport& inner, std::string prefix)
      : inner_(inner),
        prefix_(std::move(prefix)) {}
  std::unique_ptr<Communicator> make(const std::string& name,
                                     const std::vector<std::int64_t>& ranks, int member) override {
    return inner_.make(prefix_ + name, ranks, member);
  }
  std::unique_ptr<Communicator> make_between_hosts(const std::string& name,
                                                   const std::vector<std::int64_t>& ranks,
                                                   int member) override {
    return inner_.make_between_hosts(prefix_ + name, ranks, member);
  }

 private:
  Transport& inner_;
  std::string prefix_;
};

}  // namespace

std::unique_ptr<Transport> prefixed(Transport& inner, const std::string& prefix) {
  return std::make_unique<PrefixedTransport>(inner, prefix);
}

}  // namespace trainyard
