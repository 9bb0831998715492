// Runs that are stopped and go on from a checkpoint, with all ranks in this process.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "tests/real/loopback_run.h"

namespace trainyard {

/// Trains `done` steps, of which the last `lost` were made after the last checkpoint in `folder`;
/// begins anew and goes on from there until step `steps`. Losses and norms of what the second start
/// trained; the others are 0.
LoopbackRun run_resumed(const std::string& yaml, const std::vector<std::string>& sets,
                        const std::string& folder, int done, int lost, int steps);

/// A layout, and what changes its Program before it runs.
struct ResumedLayout {
  std::vector<std::string> sets;
  std::function<void(Program&)> plant = {};
};

/// The same, but it goes on under the layout `then`.
LoopbackRun run_resumed(const std::string& yaml, const ResumedLayout& before,
                        const ResumedLayout& then, const std::string& folder, int done, int lost,
                        int steps);
inline LoopbackRun run_resumed(const std::string& yaml, const std::vector<std::string>& sets,
                               const std::vector<std::string>& then, const std::string& folder,
                               int done, int lost, int steps) {
  return run_resumed(yaml, ResumedLayout{sets}, ResumedLayout{then}, folder, done, lost, steps);
}

/// The lines of a losses.csv of `written` steps, after a run that was resumed behind step `kept`
/// has added its own up to `steps`. The loss of step n is n.
std::string resumed_losses(const std::string& path, int written, int kept, int steps);

}  // namespace trainyard
