#include "report/row_classes.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "engine/exec/times/time_classes.h"

namespace trainyard {

TimeClasses classes_of_rows(const Timeline& timeline, const TimelineRank& rank, Ticks end) {
  const auto seconds = [](Ticks ticks) { return static_cast<double>(ticks) / kTicksPerSecond; };
  std::vector<std::string> kinds;
  std::map<std::pair<std::uint32_t, std::int16_t>, std::int32_t> kind_of;  // by name and group
  for (const TimelineOp& op : rank.ops) {
    if (op.group < 0) continue;
    const auto [at, is_new] =
        kind_of.try_emplace({op.name, op.group}, static_cast<std::int32_t>(kinds.size()));
    if (is_new) kinds.push_back(timeline.names[op.name] + ":" + timeline.groups[op.group].name);
  }
  const auto updates = static_cast<std::int32_t>(kinds.size());
  kinds.emplace_back(kHostUpdates);
  TimeClasses classes;
  GapClassifier gaps(kinds.size());
  Ticks main = 0;
  for (const TimelineOp& op : rank.ops) {
    if (op.group >= 0)
      gaps.communication(seconds(op.start), seconds(op.end), kind_of.at({op.name, op.group}),
                         seconds(main));
    if (op.stream == StreamId::kHost)
      gaps.communication(seconds(op.start), seconds(op.end), updates, seconds(main));
    if (op.stream != StreamId::kMain) continue;
    if (op.start > main) gaps.gap(seconds(main), seconds(op.start), seconds(op.issued));
    const Ticks begin = std::max(main, op.start);
    if (op.end <= begin) continue;
    const TimelineCall& call = rank.calls[op.call];
    const bool update = timeline.segments[call.segment].phase == 'U';
    (update ? classes.optimizer : classes.compute) += seconds(op.end - begin);
    main = op.end;
  }
  if (end > main) gaps.gap(seconds(main), seconds(end), seconds(main));
  gaps.end_step(kinds, classes);
  return classes;
}

}  // namespace trainyard
