#include "real/measure/pair_timing.h"

#include <algorithm>
#include <array>
#include <limits>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/quantity.h"
#include "engine/base/steady_time.h"
#include "engine/base/units.h"

namespace trainyard {

namespace {

constexpr Bytes kFloat = 4;
constexpr std::array<Bytes, 5> kSmall = {4, 8, 16, 32, 64};
constexpr Bytes kLargeOfHosts = Bytes{16} << 20U, kLargeOfGpus = Bytes{256} << 20U;
constexpr int kSmallRepeats = 50, kLargeRepeats = 7;

class PairTimer {
 public:
  /// Both members of the pair make one.
  PairTimer(Device& device, Transport& transport, std::int64_t a, std::int64_t b, bool first)
      : device_(device),
        first_(first) {
    pair_ = transport.make("calibrate.pairs", {a, b}, first ? 0 : 1);
  }

  PairCost run() {
    std::array<Seconds, kSmall.size()> small{};
    for (std::size_t i = 0; i < kSmall.size(); ++i) small[i] = fastest(kSmall[i], kSmallRepeats);
    std::sort(small.begin(), small.end());
    const Seconds alpha = small[small.size() / 2];
    const Bytes large = device_.immediate() ? kLargeOfHosts : kLargeOfGpus;
    const Seconds beyond = fastest(large, kLargeRepeats) - alpha;
    if (!(beyond > 0)) throw BackendError("a large message was no slower than a small one");
    return {alpha, beyond / static_cast<double>(large)};
  }

 private:
  /// Half of the way there and back.
  Seconds fastest(Bytes bytes, int repeats) {
    const auto options = at::TensorOptions(at::kFloat).device(device_.where());
    at::Tensor message = at::zeros({bytes / kFloat}, options);
    Seconds least = std::numeric_limits<Seconds>::infinity();
    for (int i = 0; i < repeats + 1; ++i) {
      const Seconds took = there_and_back(message) / 2;
      if (i > 0) least = std::min(least, took);  // the first finds cold memory
    }
    return least;
  }

  Seconds there_and_back(at::Tensor& message) {
    ProgramOp op;
    op.kind = OpKind::kSend;
    op.stream = StreamId::kTp;
    device_.begin_step(0, /*timed=*/true);
    const Seconds begin = steady_time();
    device_.launch(op, [&] {
      if (first_) pair_->send(message, 1);
      pair_->receive(message, first_ ? 1 : 0);
      if (!first_) pair_->send(message, 0);
    });
    device_.end_step([] {});
    if (device_.immediate()) return steady_time() - begin;
    const TimeSpan span = device_.span(0);
    return span.end - span.start;
  }

  Device& device_;
  bool first_;
  std::unique_ptr<Communicator> pair_;
};

/// "0 1 2.1e-05 4.7e-12" of each pair whose first member this rank is.
std::string own_pairs(Device& device, Transport& transport, Rendezvous& rendezvous,
                      std::int64_t rank, std::int64_t ranks) {
  std::string text;
  for (std::int64_t a = 0; a < ranks; ++a) {
    for (std::int64_t b = a + 1; b < ranks; ++b) {
      const std::string pair = std::to_string(a) + " " + std::to_string(b) + " ";
      rendezvous.barrier("calibrate/pairs/" + pair, ranks);
      if (rank != a && rank != b) continue;
      const PairCost cost = PairTimer(device, transport, a, b, rank == a).run();
      if (rank == a) text += pair + number_text(cost.alpha) + " " + number_text(cost.beta) + "\n";
    }
  }
  return text + "\n";  // the store keeps no empty values
}

}  // namespace

PairCosts time_pairs(Device& device, Transport& transport, Rendezvous& rendezvous,
                     std::int64_t rank, std::int64_t ranks) {
  const std::string own = own_pairs(device, transport, rendezvous, rank, ranks);
  PairCosts pairs(ranks, std::vector<PairCost>(ranks));
  for (const std::string& said : rendezvous.all_gather("calibrate/pairs", rank, ranks, own)) {
    std::istringstream words(said);
    std::size_t a = 0, b = 0;
    for (PairCost cost; words >> a >> b >> cost.alpha >> cost.beta;)
      pairs[a][b] = pairs[b][a] = cost;
  }
  return pairs;
}

}  // namespace trainyard
