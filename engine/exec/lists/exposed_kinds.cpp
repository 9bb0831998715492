#include "engine/exec/lists/exposed_kinds.h"

#include "engine/exec/trace.h"
#include "engine/program/program_words.h"

namespace trainyard {

Numbered<std::string> exposed_kinds(const Program& program, const Lanes& lanes) {
  Numbered<std::string> out;
  for (const Message& message : lanes.messages) {
    const Lane& lane = lanes.lanes[message.lane];
    if (lane.is_copy()) {
      out.push_back("copy:" + std::string(program_words::kStreams[lane.stream]));
      out.push_back(out.back());
      continue;
    }
    if (lane.group == kNoIndex) {
      const std::string axis = lane.by_host ? "host" : program.mesh.axis_name(lane.axis);
      out.push_back("send:" + axis);
      out.push_back("recv:" + axis);
      continue;
    }
    out.push_back(std::string(to_string(message.kind)) + ":" + program.groups[lane.group].name);
    out.push_back(out.back());
  }
  out.emplace_back(kHostUpdates);
  return out;
}

}  // namespace trainyard
