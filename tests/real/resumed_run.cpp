#include "tests/real/resumed_run.h"

#include <chrono>
#include <map>
#include <memory>
#include <mutex>

#include "real/train/loss_file.h"
#include "real/train/rank_trainer.h"
#include "real/train/run_checkpoint.h"
#include "tests/support/scratch_folder.h"

namespace trainyard {

namespace {

constexpr auto kTimeout = std::chrono::seconds(60);

}  // namespace

LoopbackRun run_resumed(const std::string& yaml, const std::vector<std::string>& sets,
                        const std::string& folder, int done, int lost, int steps) {
  return run_resumed(yaml, sets, sets, folder, done, lost, steps);
}

LoopbackRun run_resumed(const std::string& yaml, const ResumedLayout& before,
                        const ResumedLayout& then, const std::string& folder, int done, int lost,
                        int steps) {
  Rendezvous server(RendezvousAddress{.server = true}, kTimeout);
  LoopbackOptions first;
  first.steps = done;
  first.plant = before.plant;
  first.between_steps = [&](std::int64_t rank, RankTrainer& trainer) {
    if (trainer.steps_done() != done - lost) return;
    Rendezvous store(RendezvousAddress{.port = server.port()}, kTimeout);
    const std::int64_t ranks = trainer.executor().plan().program().mesh.num_ranks();
    save_checkpoint(folder, trainer, "digest", rank, ranks, store);
  };
  run_loopback(yaml, before.sets, first);
  LoopbackOptions second;
  second.steps = steps;
  second.plant = then.plant;
  second.between_steps = [&](std::int64_t, RankTrainer& trainer) {
    if (trainer.steps_done() > 0) return;
    load_checkpoint(Checkpoint::open(*latest_complete(folder), Verify::kChecksums), trainer);
  };
  return run_loopback(yaml, then.sets, second);
}

std::string resumed_losses(const std::string& path, int written, int kept, int steps) {
  const auto add = [&](LossFile& file, int from, int to) {
    for (int step = from; step <= to; ++step) {
      StepReport report;
      report.step = step;
      report.loss = step;
      file.add(report, 1);
    }
  };
  {
    LossFile file(path, 0);
    add(file, 1, written);
  }
  {
    LossFile file(path, kept);
    add(file, kept + 1, steps);
  }
  return read_text(path);
}

}  // namespace trainyard
