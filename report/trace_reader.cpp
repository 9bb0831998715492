// Reads trace.json back. Events come by the hundred thousand, so they are taken one by one as the
// parser meets them and never all held.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "engine/base/error.h"
#include "engine/base/json_file.h"
#include "engine/base/mapped_file.h"
#include "engine/plan/plan_limits.h"
#include "report/name_table.h"
#include "report/trace_json.h"
#include "report/trace_words.h"

namespace trainyard {

namespace {

/// A key of an event or of its args, with what it holds; keys inside args begin with "args.".
struct Field {
  std::string key;
  bool is_text = false;
  std::string text;
  double number = 0;
};

/// One event; its fields' storage is used again for the next.
class Event {
 public:
  void clear() { size_ = 0; }
  Field& add(bool in_args, const std::string& key) {
    if (size_ == fields_.size()) fields_.emplace_back();
    Field& field = fields_[size_++];
    field.key = in_args ? "args." : "";
    field.key += key;
    return field;
  }
  const Field* find(std::string_view key) const {
    for (std::size_t i = 0; i < size_; ++i) {
      if (fields_[i].key == key) return &fields_[i];
    }
    return nullptr;
  }
  std::span<const Field> fields() const { return {fields_.data(), size_}; }
  void set_number(std::size_t index) { index_ = index; }
  std::size_t index() const { return index_; }

 private:
  std::vector<Field> fields_;
  std::size_t size_ = 0;
  std::size_t index_ = 0;
};

class TraceReader {
 public:
  TraceReader(const std::string& path, std::string_view text)
      : path_(path),
        text_(text),
        names_(out_.names),
        modules_(out_.modules) {}

  void take(const Event& event) {
    event_ = &event;
    const std::string& kind = text("ph");
    if (kind == "X") return take_op();
    if (kind == "C") return take_memory();
    if (kind != "M") return;
    const std::string& name = text("name");
    if (name == trace_words::kSegment) return take_segment();
    if (name == trace_words::kGroup) return take_group();
    if (name == "process_name") return take_rank();
  }

  Timeline finish() {
    if (out_.ranks.empty())
      throw ConfigError({path_, 1, 1}, std::string(trace_words::kEvents), "has no rank");
    join_pairs();
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const { fail(event_->index(), problem); }
  [[noreturn]] void fail(std::size_t event, const std::string& problem) const {
    const JsonPath path = {std::string(trace_words::kEvents), event};
    throw ConfigError(json_place(text_, path_, path), to_string(path), problem);
  }
  const Field& field(std::string_view key) const {
    const Field* found = event_->find(key);
    if (found == nullptr) fail(std::string(key) + ": missing");
    return *found;
  }
  const std::string& text(std::string_view key) const {
    const Field& found = field(key);
    if (!found.is_text) fail(std::string(key) + ": expected a text");
    return found.text;
  }
  double number(std::string_view key) const {
    const Field& found = field(key);
    if (found.is_text) fail(std::string(key) + ": expected a number");
    return found.number;
  }
  std::int64_t integer(std::string_view key, std::int64_t least, std::int64_t most) const {
    const double value = number(key);
    // Doubles hold whole numbers up to 2^53.
    if (value != std::floor(value) || value < static_cast<double>(least) ||
        value > static_cast<double>(most)) {
      fail(std::string(key) + ": expected a whole number from " + std::to_string(least) + " to " +
           std::to_string(most));
    }
    return static_cast<std::int64_t>(value);
  }
  Ticks ticks(std::string_view key) const {
    const double ticks = number(key) * (kTicksPerSecond / 1e6);
    if (!(std::abs(ticks) < kMost)) fail(std::string(key) + ": not a time of a training step");
    return std::llround(ticks);
  }

  void take_segment() {
    TimelineSegment segment;
    segment.name = text("args.name");
    segment.stage = static_cast<std::int32_t>(integer("args.stage", 0, kMaxRanks));
    const std::string& phase = text("args.phase");
    if (phase.size() != 1) fail("args.phase: expected one letter");
    segment.phase = phase[0];
    segment.per_microbatch = integer("args.per_microbatch", 0, 1) == 1;
    segments_.emplace(segment.name, static_cast<std::uint32_t>(out_.segments.size()));
    out_.segments.push_back(std::move(segment));
  }

  void take_group() {
    const std::string& name = text("args.name");
    if (out_.groups.size() == kMostGroups)
      fail("more than " + std::to_string(kMostGroups) + " groups");
    groups_.emplace(name, static_cast<std::int16_t>(out_.groups.size()));
    out_.groups.push_back({name, text("args.axes")});
  }

  /// A rank's coordinates are the args that nothing else is called.
  void find_axes() {
    for (const Field& field : event_->fields()) {
      if (!field.key.starts_with("args.")) continue;
      const std::string key = field.key.substr(5);
      if (key == "name" || key == "pipeline_rank" || key == "stands_for") continue;
      if (key == trace_words::kMemoryLeftOut) continue;
      if (out_.axes.size() == kMostAxes)
        fail("args." + key + ": more than " + std::to_string(kMostAxes) + " coordinates");
      out_.axes.push_back(key);
    }
  }

  void take_rank() {
    TimelineRank rank;
    rank.rank = integer("pid", 0, kMaxRanks);
    rank.multiplicity = integer("args.stands_for", 1, kMaxRanks);
    rank.pipeline_rank = static_cast<std::int32_t>(integer("args.pipeline_rank", 0, kMaxRanks));
    const std::string left_out = "args." + std::string(trace_words::kMemoryLeftOut);
    if (event_->find(left_out) != nullptr)
      rank.memory_left_out = integer(left_out, 1, std::int64_t{1} << 53U);
    if (out_.ranks.empty()) find_axes();
    for (const std::string& axis : out_.axes)
      rank.at.push_back(static_cast<std::int32_t>(integer("args." + axis, 0, kMaxRanks)));
    if (!ranks_.emplace(rank.rank, out_.ranks.size()).second)
      fail("rank " + std::to_string(rank.rank) + " comes twice");
    if (!out_.ranks.empty()) join_pairs();
    out_.ranks.push_back(std::move(rank));
    calls_.clear();
    with_.clear();
  }

  /// Once the last rank's calls are all known: they name each other.
  void join_pairs() {
    TimelineRank& rank = out_.ranks.back();
    for (const auto& [call, pair] : with_) {
      const auto other = calls_.find(pair.name);
      const auto named = other == calls_.end() ? with_.end() : with_.find(other->second);
      const auto back = named == with_.end() ? calls_.end() : calls_.find(named->second.name);
      if (back == calls_.end() || back->second != call || other->second == call) {
        fail(pair.event,
             "args.with: '" + pair.name +
                 "' does not run with a call that names it; the file is damaged, so run it again");
      }
      rank.calls[call].with = static_cast<std::int32_t>(other->second);
    }
  }

  /// The rank of the event: events stand behind their rank's name.
  TimelineRank& rank() {
    const std::int64_t pid = integer("pid", 0, kMaxRanks);
    if (out_.ranks.empty() || out_.ranks.back().rank != pid) {
      fail("pid: the events of rank " + std::to_string(pid) + " do not follow its process_name");
    }
    return out_.ranks.back();
  }

  std::uint32_t call(TimelineRank& rank, const std::string& name) {
    const auto known = calls_.find(name);
    if (known != calls_.end()) return known->second;
    TimelineCall call;
    auto segment = segments_.find(name);
    if (segment == segments_.end() || out_.segments[segment->second].per_microbatch) {
      const std::size_t digits = name.find_last_not_of("0123456789") + 1;
      segment = segments_.find(name.substr(0, digits));
      if (segment == segments_.end() || digits == name.size() || name.size() - digits > 9) {
        fail("args.call: no segment for '" + name +
             "'; the file is of another version or damaged, so run it again");
      }
      call.mb = std::stoi(name.substr(digits));
    }
    call.segment = segment->second;
    const auto number = static_cast<std::uint32_t>(rank.calls.size());
    rank.calls.push_back(call);
    calls_.emplace(name, number);
    if (event_->find("args.with") != nullptr)
      with_.emplace(number, Pair{text("args.with"), event_->index()});
    return number;
  }

  void take_op() {
    TimelineRank& of = rank();
    TimelineOp op;
    op.name = names_.number(text("name"));
    op.stream = static_cast<StreamId>(integer("tid", 0, kNumStreams - 1));
    op.start = ticks("ts");
    op.end = op.start + ticks("dur");
    if (op.end <= op.start) fail("dur: expected a positive number");
    op.call = call(of, text("args.call"));
    op.module = modules_.number(text("args.module"));
    if (event_->find("args.group") != nullptr) {
      const auto group = groups_.find(text("args.group"));
      if (group == groups_.end())
        fail("args.group: no group is called '" + text("args.group") + "'");
      op.group = group->second;
    }
    if (event_->find("args.peer") != nullptr) op.peer = integer("args.peer", 0, kMaxRanks);
    if (event_->find("args.flop") != nullptr)
      op.flop = integer("args.flop", 1, std::int64_t{1} << 53U);
    if (event_->find("args.bytes") != nullptr)
      op.bytes = integer("args.bytes", 1, std::int64_t{1} << 53U);
    op.issued = ticks("args.issued_us");
    op.ready = ticks("args.ready_us");
    of.ops.push_back(op);
  }

  void take_memory() {
    if (text("name") != "memory") return;
    TimelineRank& of = rank();
    MemoryPoint point;
    point.at = ticks("ts");
    if (!of.memory.empty() && point.at < of.memory.back().at)
      fail("ts: before the memory event in front of it");
    for (const MemoryClass kind : point.bytes.keys()) {
      point.bytes[kind] =
          integer("args." + std::string(trace_words::kMemory[kind]), 0, std::int64_t{1} << 53U);
    }
    of.memory.push_back(point);
  }

  static constexpr std::size_t kMostGroups = std::numeric_limits<std::int16_t>::max();
  static constexpr double kMost =
      1e15;  // ticks: doubles in the file tell neighbours apart up to here

  const std::string& path_;
  std::string_view text_;
  const Event* event_ = nullptr;
  Timeline out_;
  NameTable names_, modules_;
  std::map<std::string, std::uint32_t, std::less<>> segments_;
  std::map<std::string, std::int16_t, std::less<>> groups_;
  std::map<std::int64_t, std::size_t> ranks_;
  std::map<std::string, std::uint32_t, std::less<>> calls_;  // of the latest rank
  struct Pair {
    std::string name;  // of the other call
    std::size_t event;
  };
  std::map<std::uint32_t, Pair> with_;  // its pairs, by call
};

/// Hands the objects in the array "traceEvents" to a TraceReader; the rest of the file is skipped.
class EventParser : public nlohmann::json_sax<nlohmann::json> {
 public:
  EventParser(TraceReader& reader, const std::string& path, std::string_view text)
      : reader_(reader),
        path_(path),
        text_(text) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t value) override { return add(static_cast<double>(value)); }
  bool number_unsigned(number_unsigned_t value) override { return add(static_cast<double>(value)); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override {
    if (!in_event()) return true;
    Field& field = event_.add(depth_ == kArgs, key_);
    field.is_text = true;
    field.text = value;
    return true;
  }
  bool binary(binary_t&) override { return true; }

  bool key(string_t& name) override {
    if (depth_ == 1) events_ = name == trace_words::kEvents;
    if (depth_ == kEvent) args_ = name == "args";
    key_ = name;
    return true;
  }
  bool start_object(std::size_t) override {
    ++depth_;
    if (events_ && depth_ == kEvent) event_.clear();
    return true;
  }
  bool end_object() override {
    if (events_ && depth_ == kEvent) {
      event_.set_number(num_events_++);
      reader_.take(event_);
    }
    --depth_;
    return true;
  }
  bool start_array(std::size_t) override {
    ++depth_;
    return true;
  }
  bool end_array() override {
    --depth_;
    return true;
  }
  bool parse_error(std::size_t at, const std::string& token,
                   const nlohmann::detail::exception& error) override {
    refuse_json(text_, path_, at, token, error);
  }

 private:
  // The file's object, its array, an event, the event's args.
  static constexpr int kEvent = 3;
  static constexpr int kArgs = 4;
  bool in_event() const { return events_ && (depth_ == kEvent || (depth_ == kArgs && args_)); }
  bool add(double value) {
    if (!in_event()) return true;
    Field& field = event_.add(depth_ == kArgs, key_);
    field.is_text = false;
    field.number = value;
    return true;
  }

  TraceReader& reader_;
  const std::string& path_;
  std::string_view text_;
  Event event_;
  std::string key_;
  int depth_ = 0;
  bool events_ = false, args_ = false;
  std::size_t num_events_ = 0;
};

}  // namespace

Timeline read_trace_json(const std::string& path) {
  const MappedFile file(path);
  const std::string_view text(reinterpret_cast<const char*>(file.bytes().data()),
                              file.bytes().size());
  TraceReader reader(path, text);
  EventParser parser(reader, path, text);
  nlohmann::json::sax_parse(text, &parser);
  return reader.finish();
}

}  // namespace trainyard
