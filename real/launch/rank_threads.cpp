#include "real/launch/rank_threads.h"

#include <algorithm>
#include <cstdint>
#include <thread>

#include "real/torch.h"

namespace trainyard {

int threads_per_rank(const RankEnvironment& environment) {
  if (environment_variable("OMP_NUM_THREADS")) return at::get_num_threads();
  const auto cores = static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency()));
  return static_cast<int>(std::max<std::int64_t>(1, cores / environment.local_size));
}

}  // namespace trainyard
