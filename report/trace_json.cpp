#include "report/trace_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string>

#include "engine/program/program_words.h"
#include "report/trace_words.h"

namespace trainyard {

namespace {

constexpr Ticks kTicksPerMicrosecond = 10000;

void append_quoted(std::string& to, std::string_view text) {
  to += '"';
  for (char c : text) {
    if (c == '"' || c == '\\') to += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) to += c;
  }
  to += '"';
}

void append_integer(std::string& to, std::int64_t number) {
  std::array<char, 24> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  to.append(text.data(), end);
}

void append_microseconds(std::string& to, Ticks ticks) {
  if (ticks < 0) to += '-';
  const Ticks size = ticks < 0 ? -ticks : ticks;
  append_integer(to, size / kTicksPerMicrosecond);
  to += '.';
  const std::size_t digits = to.size();
  append_integer(to, kTicksPerMicrosecond + size % kTicksPerMicrosecond);
  to.erase(digits, 1);  // the leading 1 that kept the zeros
}

class TraceWriter {
 public:
  TraceWriter(const Timeline& timeline, const std::function<void(std::string_view)>& sink)
      : timeline_(timeline),
        sink_(sink) {}

  void write() {
    out_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
    for (const TimelineSegment& segment : timeline_.segments) {
      begin_metadata(trace_words::kSegment, 0, 0, segment.name);
      add_integer("stage", segment.stage);
      add_text("phase", std::string_view(&segment.phase, 1));
      add_integer("per_microbatch", segment.per_microbatch ? 1 : 0);
      out_ += "}}";
    }
    for (const TimelineGroup& group : timeline_.groups) {
      begin_metadata(trace_words::kGroup, 0, 0, group.name);
      add_text("axes", group.axes);
      out_ += "}}";
    }
    for (const TimelineRank& rank : timeline_.ranks) {
      write_names(rank);
      for (const TimelineOp& op : rank.ops) write_op(rank, op);
      for (const MemoryPoint& point : rank.memory) write_memory(rank, point);
    }
    out_ += "\n]}\n";
    sink_(out_);
  }

 private:
  void begin_event() {
    out_ += first_ ? "\n" : ",\n";
    first_ = false;
    if (out_.size() <= (1U << 16U)) return;
    sink_(out_);
    out_.clear();
  }

  void begin_metadata(std::string_view what, std::int64_t pid, int tid, std::string_view name) {
    begin_event();
    out_ += "{\"ph\":\"M\",\"name\":\"" + std::string(what) + "\",\"pid\":" + std::to_string(pid) +
            ",\"tid\":" + std::to_string(tid) + ",\"args\":{\"name\":";
    append_quoted(out_, name);
  }
  void add_text(std::string_view key, std::string_view text) {
    out_ += ",\"" + std::string(key) + "\":";
    append_quoted(out_, text);
  }
  void add_integer(std::string_view key, std::int64_t number) {
    out_ += ",\"";
    out_ += key;
    out_ += "\":";
    append_integer(out_, number);
  }

  void write_names(const TimelineRank& rank) {
    begin_metadata("process_name", rank.rank, 0,
                   "rank " + std::to_string(rank.rank) + " (pipeline rank " +
                       std::to_string(rank.pipeline_rank) + ", stands for " +
                       std::to_string(rank.multiplicity) + ")");
    add_integer("pipeline_rank", rank.pipeline_rank);
    add_integer("stands_for", rank.multiplicity);
    if (rank.memory_left_out > 0) add_integer(trace_words::kMemoryLeftOut, rank.memory_left_out);
    for (std::size_t axis = 0; axis < rank.at.size(); ++axis)
      add_integer(timeline_.axes[axis], rank.at[axis]);
    out_ += "}}";
    const auto copies = [&](StreamId stream) {
      return std::any_of(rank.ops.begin(), rank.ops.end(),
                         [&](const TimelineOp& op) { return op.stream == stream; });
    };
    for (const StreamId stream : kAllStreams) {
      // Few ranks copy anything to their hosts.
      if (stream >= StreamId::kD2h && !copies(stream)) continue;
      begin_metadata("thread_name", rank.rank, static_cast<int>(stream),
                     program_words::kStreams[stream]);
      out_ += "}}";
    }
  }

  std::string name_of(const TimelineCall& call) const {
    return call_name(timeline_.segments[call.segment], call.mb);
  }

  void write_op(const TimelineRank& rank, const TimelineOp& op) {
    begin_event();
    out_ += "{\"ph\":\"X\",\"name\":";
    append_quoted(out_, timeline_.names[op.name]);
    out_ += op.group >= 0 ? ",\"cat\":\"communication\"" : ",\"cat\":\"compute\"";
    add_integer("pid", rank.rank);
    add_integer("tid", static_cast<int>(op.stream));
    out_ += ",\"ts\":";
    append_microseconds(out_, op.start);
    out_ += ",\"dur\":";
    append_microseconds(out_, op.end - op.start);
    out_ += ",\"args\":{\"call\":";
    const TimelineCall& call = rank.calls[op.call];
    append_quoted(out_, name_of(call));
    if (call.with >= 0) add_text("with", name_of(rank.calls[call.with]));
    add_text("module", timeline_.modules[op.module]);
    if (op.group >= 0) add_text("group", timeline_.groups[op.group].name);
    if (op.peer >= 0) add_integer("peer", op.peer);
    if (op.flop > 0) add_integer("flop", op.flop);
    if (op.bytes > 0) add_integer("bytes", op.bytes);
    out_ += ",\"issued_us\":";
    append_microseconds(out_, op.issued);
    out_ += ",\"ready_us\":";
    append_microseconds(out_, op.ready);
    out_ += "}}";
  }

  void write_memory(const TimelineRank& rank, const MemoryPoint& point) {
    begin_event();
    out_ += "{\"ph\":\"C\",\"name\":\"memory\"";
    add_integer("pid", rank.rank);
    out_ += ",\"tid\":0,\"ts\":";
    append_microseconds(out_, point.at);
    out_ += ",\"args\":{";
    for (const MemoryClass of : point.bytes.keys()) {
      add_integer(trace_words::kMemory[of], point.bytes[of]);
      if (of == MemoryClass::kParameter) out_.erase(out_.rfind(','), 1);
    }
    out_ += "}}";
  }

  const Timeline& timeline_;
  const std::function<void(std::string_view)>& sink_;
  std::string out_;
  bool first_ = true;
};

}  // namespace

void write_trace_json(const Timeline& timeline, const std::function<void(std::string_view)>& sink) {
  TraceWriter(timeline, sink).write();
}

}  // namespace trainyard
