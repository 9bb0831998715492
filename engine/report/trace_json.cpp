#include "engine/report/trace_json.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "engine/program/program_words.h"

namespace trainyard {

namespace {

void append_quoted(std::string& to, std::string_view text) {
  to += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') to += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) to += c;
  }
  to += '"';
}

void append_microseconds(std::string& to, Seconds seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4f", seconds * 1e6);
  to += text;
}

std::string call_name(const Program& program, const TraceRow& row) {
  std::string name = program.segments[static_cast<std::size_t>(row.segment)].name;
  if (row.mb >= 0) name += std::to_string(row.mb);
  return name;
}

}  // namespace

void write_trace_json(const Program& program, const Trace& trace,
                      const std::function<void(std::string_view)>& sink) {
  Seconds origin = 0;
  bool any = false;
  for (const RankTrace& rank : trace.ranks) {
    for (const TraceRow& row : rank.rows) {
      origin = any ? std::min(origin, row.start) : row.start;
      any = true;
    }
  }
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  const char* separator = "";
  const auto metadata = [&](std::string_view what, std::int64_t pid, int tid, const std::string& name) {
    out += separator;
    separator = ",\n";
    out += "{\"ph\":\"M\",\"name\":\"" + std::string(what) + "\",\"pid\":" + std::to_string(pid) +
           ",\"tid\":" + std::to_string(tid) + ",\"args\":{\"name\":";
    append_quoted(out, name);
    out += "}}";
  };
  for (const RankTrace& rank : trace.ranks) {
    if (rank.rows.empty()) continue;
    metadata("process_name", rank.rank, 0,
             "rank " + std::to_string(rank.rank) + " (pipeline rank " + std::to_string(rank.list) +
                 ", stands for " + std::to_string(rank.multiplicity) + ")");
    for (int stream = 0; stream < kNumStreams; ++stream) {
      metadata("thread_name", rank.rank, stream,
               std::string(program_words::kStreams[static_cast<std::size_t>(stream)]));
    }
    for (const TraceRow& row : rank.rows) {
      const ProgramOp& op = program.segments[static_cast<std::size_t>(row.segment)].ops[row.op];
      if (row.end <= row.start) continue;
      out += ",\n{\"ph\":\"X\",\"name\":";
      append_quoted(out, op_name(op.kind, op.part));
      out += ",\"cat\":\"" + std::string(is_communication(op.kind) ? "communication" : "compute") +
             "\",\"pid\":" + std::to_string(rank.rank) +
             ",\"tid\":" + std::to_string(static_cast<int>(op.stream)) + ",\"ts\":";
      append_microseconds(out, row.start - origin);
      out += ",\"dur\":";
      append_microseconds(out, row.end - row.start);
      out += ",\"args\":{\"call\":";
      append_quoted(out, call_name(program, row));
      out += ",\"module\":";
      append_quoted(out, program.modules[static_cast<std::size_t>(op.module)]);
      out += ",\"issued_us\":";
      append_microseconds(out, row.issued - origin);
      out += ",\"ready_us\":";
      append_microseconds(out, row.ready - origin);
      out += "}}";
      if (out.size() > (1U << 16U)) {
        sink(out);
        out.clear();
      }
    }
  }
  out += "\n]}\n";
  sink(out);
}

}  // namespace trainyard
