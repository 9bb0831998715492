#include "app/tried_pipelines.h"

#include "engine/base/readable.h"

namespace trainyard {

std::string counted(std::int64_t count, const std::string& what) {
  const std::string ending = count == 1 ? "" : what.ends_with("ch") ? "es" : "s";
  return std::to_string(count) + " " + what + ending;
}

std::vector<std::string> tried_lines(const std::vector<PipelineTrial>& tried) {
  std::vector<std::string> out;
  for (std::size_t t = 0, next = 0; t < tried.size(); t = next) {
    const PipelineTrial& first = tried[t];
    const auto alike = [&](const PipelineTrial& other) {
      return !first.reason.empty() && other.reason == first.reason &&
             other.stages == first.stages && other.nodes == first.nodes;
    };
    for (next = t + 1; next < tried.size() && alike(tried[next]);) ++next;
    const std::int64_t last = tried[next - 1].microbatches;
    const std::string from =
        last > first.microbatches ? std::to_string(first.microbatches) + " to " : "";
    out.push_back("  tried " + counted(first.stages, "stage") + " on " +
                  counted(first.nodes, "node") + ", " + from + counted(last, "microbatch") + ": " +
                  (first.reason.empty() ? duration_text(first.time) : first.reason));
  }
  return out;
}

}  // namespace trainyard
