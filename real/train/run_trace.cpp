#include "real/train/run_trace.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "cli/files.h"
#include "engine/base/error.h"
#include "engine/report/trace_json.h"
#include "real/comm/clock_offset.h"
#include "real/parameters/rank_coordinates.h"

namespace trainyard {

namespace {

static_assert(std::is_trivially_copyable_v<TraceRow>);

std::string packed(const std::vector<TraceRow>& rows) {
  return {reinterpret_cast<const char*>(rows.data()), rows.size() * sizeof(TraceRow)};
}

std::vector<TraceRow> unpacked(const std::string& bytes) {
  check(bytes.size() % sizeof(TraceRow) == 0, "whole rows");
  std::vector<TraceRow> rows(bytes.size() / sizeof(TraceRow));
  std::memcpy(rows.data(), bytes.data(), bytes.size());
  return rows;
}

}  // namespace

void save_trace(const std::string& folder, const Program& program, std::int64_t rank, std::int64_t ranks,
                const std::vector<TraceRow>& rows, Rendezvous& rendezvous) {
  const Seconds offset = clock_offset(rendezvous, "trace/clock", rank, ranks);
  std::vector<TraceRow> shifted = rows;
  for (TraceRow& row : shifted) {
    for (Seconds* time : {&row.issued, &row.ready, &row.start, &row.end}) *time += offset;
  }
  const std::string key = "trace/rows/";
  rendezvous.set(key + std::to_string(rank), packed(shifted));
  if (rank != 0) return;
  Trace trace;
  for (std::int64_t other = 0; other < ranks; ++other) {
    RankTrace one;
    one.rank = other;
    one.list = static_cast<std::size_t>(coordinates_of(program, other)[static_cast<std::size_t>(Axis::kPp)]);
    one.rows = unpacked(rendezvous.get(key + std::to_string(other)));
    trace.ranks.push_back(std::move(one));
  }
  const Timeline timeline = make_timeline(program, std::move(trace), {});  // memory: what the Program keeps alive
  write_file(folder + "/trace.json", [&](const auto& sink) { write_trace_json(timeline, sink); });
}

}  // namespace trainyard
