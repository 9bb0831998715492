// Curves of links as YAML: of a calibrated profile, and of a file of calibrate/links/.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "calibrate/result/calibration.h"
#include "calibrate/tables/message_table.h"
#include "engine/base/units.h"

namespace trainyard {

/// Timed messages by kind (all_reduce, ..., send), then by the ranks of the group.
using TimedMessages = std::map<std::string, std::map<std::int64_t, std::vector<MessagePoint>>>;

/// The keys bandwidth, collective, point_to_point and by_kind of links inside a node, each line
/// behind `indent`. `how` begins every note. "" where there is no all_reduce or none that grows
/// with the message. Without a send, it is derived from the smallest group's all_reduce.
std::string links_text(const TimedMessages& messages, const std::string& how,
                       const std::string& indent);

/// Whether a file made of these tables is of links inside a node: where any of them is. Tables of
/// groups between nodes are then left out.
bool within_node(const std::vector<MessageTable>& tables);

/// A file of calibrate/links/ from tables; between nodes a curve is that of the largest group.
/// Throws ConfigError at a table where two hold the same, none an all_reduce, or none grows with
/// the message.
std::string link_text(const std::vector<MessageTable>& tables, const std::string& description);

}  // namespace trainyard
