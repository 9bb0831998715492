#include "tests/real/threads/hanging_run.h"

#include <functional>
#include <memory>
#include <thread>

#include "engine/base/error.h"
#include "real/exec/loopback.h"

namespace trainyard {

std::vector<std::string> run_hanging(std::chrono::milliseconds patience) {
  LoopbackHub hub(patience);
  const auto reduce = [](Transport& transport, const std::string& name,
                         const std::vector<std::int64_t>& ranks, int member) {
    at::Tensor one = at::ones({1});
    transport.make(name, ranks, member)->all_reduce(one, false);
  };
  const std::vector<std::function<void(Transport&)>> ranks = {
      [&](Transport& transport) {
        reduce(transport, "pp", {0, 2}, 0);
        reduce(transport, "tp", {0, 1}, 0);
      },
      [](Transport& transport) {
        at::Tensor one = at::ones({1});
        transport.make("transfer", {2, 1}, 1)->receive(one, 0);
      },
      [&](Transport& transport) {
        reduce(transport, "pp", {0, 2}, 1);
      }};
  std::vector<std::string> errors(ranks.size());
  std::vector<std::thread> threads;
  for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
    threads.emplace_back([&, rank] {
      const std::unique_ptr<Transport> transport = hub.transport();
      try {
        ranks[rank](*transport);
      } catch (const BackendError& error) {
        errors[rank] = error.what();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  return errors;
}

}  // namespace trainyard
