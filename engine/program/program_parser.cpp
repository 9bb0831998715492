// The inverse of program_text.cpp: one function per kind of line, in the order in which they stand in
// the text. What a line says is checked here; whether the Program makes sense is verify.h's business.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include "engine/base/error.h"
#include "engine/config/study_limits.h"
#include "engine/config/user_text.h"
#include "engine/program/line_scanner.h"
#include "engine/program/program_text.h"
#include "engine/program/program_words.h"

namespace trainyard {

namespace {

namespace words = program_words;

constexpr std::int64_t kMaxInt16 = std::numeric_limits<std::int16_t>::max();
constexpr std::int64_t kMaxInt32 = std::numeric_limits<std::int32_t>::max();
constexpr std::int64_t kMaxElements = std::int64_t{1} << 50;  // of a value: its bytes fit 64 bits
constexpr std::int64_t kMaxSlots = 10'000'000;

/// Names of one kind of thing -> ids in order of appearance. Keys are pieces of the text.
class Names {
 public:
  std::optional<std::int32_t> find(std::string_view name) const {
    const auto it = ids_.find(name);
    if (it == ids_.end()) return std::nullopt;
    return it->second;
  }
  bool add(std::string_view name) {
    return ids_.emplace(name, static_cast<std::int32_t>(ids_.size())).second;
  }

 private:
  std::unordered_map<std::string_view, std::int32_t> ids_;
};

bool is_digit(char c) { return c >= '0' && c <= '9'; }

template <std::size_t N>
std::optional<std::size_t> find_word(const std::array<std::string_view, N>& list,
                                     std::string_view word) {
  const auto it = std::find(list.begin(), list.end(), word);
  if (it == list.end()) return std::nullopt;
  return static_cast<std::size_t>(it - list.begin());
}

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Program run() {
    modules_.add("");
    int number = 1;
    for (; !text_.empty(); ++number) {
      const std::size_t end = text_.find('\n');
      LineScanner line(file_, number, text_.substr(0, end));
      if (end == std::string_view::npos) {
        line.fail_at(text_.size(), "the text breaks off: its last line has no end");
      }
      read_line(line);
      text_.remove_prefix(end + 1);
    }
    if (section_ != kPlacement) {
      LineScanner(file_, number, {}).fail("the text breaks off before its placement");
    }
    return std::move(program_);
  }

 private:
  // Kinds of lines, in the order in which they stand in the text.
  enum Section : std::size_t {
    kHeader, kMesh, kMicrobatches, kGroup, kTransfer, kPool, kValue, kSegment, kClass, kPlacement
  };
  static constexpr std::array<std::string_view, 10> kKeywords = {
      "program", "mesh",  "microbatches", "group", "transfer",
      "pool",    "value", "segment",      "class", "placement"};

  void read_line(LineScanner& line) {
    if (calls_follow_) return read_calls(line);
    if (section_ == kSegment && line.accept("  ")) return read_op(line);
    const std::string_view keyword = line.take("a keyword");
    const auto found = find_word(kKeywords, keyword);
    if (!found) line.fail_at(0, "no line starts with " + quoted(keyword));
    const std::size_t next = section_ ? *section_ + 1 : kHeader;
    if (next <= kMicrobatches && *found != next) {
      line.fail_at(0, "expected a line that starts with " + quoted(kKeywords[next]));
    }
    const bool repeats = *found >= kGroup && *found <= kClass && *found == section_;
    if (*found < next && !repeats) {
      line.fail_at(0, quoted(keyword) + " cannot stand after " + quoted(kKeywords[*section_]));
    }
    section_ = *found;
    line.set_subject(std::string(keyword));
    if (section_ == kClass) return read_class(line);
    line.expect(" ");
    switch (*section_) {
      case kHeader: line.expect("1"); break;  // the version of the text form
      case kMesh: read_mesh(line); break;
      case kMicrobatches:
        program_.num_microbatches = static_cast<int>(line.number(0, kMaxMicrobatches, "their number"));
        break;
      case kGroup: read_group(line); break;
      case kTransfer: read_transfer(line); break;
      case kPool: read_pool(line); break;
      case kValue: read_value(line); break;
      case kSegment: read_segment(line); break;
      default: read_axes(line, 0, program_.placement.stride); break;
    }
    line.expect_end();
  }

  /// "pp:2 dp:1 cp:1 ep:1 tp:2": all five, in this order.
  template <typename Numbers>
  static void read_axes(LineScanner& line, std::int64_t low, Numbers& numbers) {
    for (Axis axis : kAllAxes) {
      if (axis != kAllAxes.front()) line.expect(" ");
      line.expect(to_string(axis));
      line.expect(":");
      numbers[static_cast<std::size_t>(axis)] = static_cast<typename Numbers::value_type>(
          line.number(low, kMaxRanks, "a number of ranks"));
    }
  }

  void read_mesh(LineScanner& line) {
    auto& size = program_.mesh.size;
    read_axes(line, 1, size);
    if (product_exceeds(kMaxRanks, {size[0], size[1], size[2], size[3], size[4]})) {
      line.fail("more than " + std::to_string(kMaxRanks) + " ranks");
    }
  }

  static Axis read_axis(LineScanner& line) {
    const std::size_t at = line.position();
    const std::string_view name = line.take("an axis", ",:]+-");
    const auto axis = parse_axis(name);
    if (!axis) line.fail_at(at, quoted(name) + " is not an axis; there are pp, dp, cp, ep, tp");
    return *axis;
  }

  template <typename Word, std::size_t N>
  static Word read_word(LineScanner& line, const std::array<std::string_view, N>& list,
                        const std::string& what) {
    const std::size_t at = line.position();
    const std::string_view word = line.take(what);
    const auto found = find_word(list, word);
    if (found) return static_cast<Word>(*found);
    line.fail_at(at, quoted(word) + " is not " + what + "; there are " +
                         join_words({list.begin(), list.end()}));
  }

  /// A name that no other of its kind has; messages about the line say it from here on.
  static std::string_view read_new_name(LineScanner& line, const std::string& kind,
                                        std::string_view stops, Names& names) {
    const std::size_t at = line.position();
    const std::string_view name = line.take("the name of a " + kind, stops);
    if (!names.add(name)) line.fail_at(at, "a second " + kind + " called " + quoted(name));
    line.set_subject(kind + " " + printable(name, 60));
    return name;
  }

  static std::int32_t read_known_name(LineScanner& line, const std::string& kind,
                                      std::string_view stops, const Names& names) {
    const std::size_t at = line.position();
    const std::string_view name = line.take("the name of a " + kind, stops);
    const auto id = names.find(name);
    if (!id) line.fail_at(at, "no " + kind + " is called " + quoted(name));
    return *id;
  }

  void read_group(LineScanner& line) {
    Group group;
    group.name = read_new_name(line, "group", "[]{}", groups_);
    if (program_.groups.size() >= kMaxInt16) line.fail("too many groups");
    line.expect("[");
    do {
      const std::size_t at = line.position();
      const Axis axis = read_axis(line);
      if (std::count(group.axes.begin(), group.axes.end(), axis) > 0) line.fail_at(at, "an axis twice");
      group.axes.push_back(axis);
    } while (line.accept(","));
    line.expect("]");
    if (line.accept("{")) {
      do {
        group.members.push_back(static_cast<std::int32_t>(
            line.number(group.members.empty() ? 0 : group.members.back() + 1,
                        program_.mesh[Axis::kPp] - 1, "the next coordinate along pp")));
      } while (line.accept(","));
      line.expect("}");
    }
    program_.groups.push_back(std::move(group));
  }

  void read_transfer(LineScanner& line) {
    const auto next = static_cast<std::int64_t>(program_.transfers.size());
    if (next >= kMaxInt16) line.fail("too many transfers");
    line.number(next, next, "the number of this transfer");
    line.expect(" ");
    Transfer transfer;
    transfer.axis = read_axis(line);
    if (!line.accept("+") && !line.peek().starts_with("-")) line.fail("expected an offset with its sign");
    transfer.offset = static_cast<std::int32_t>(line.number(-kMaxRanks, kMaxRanks, "the offset"));
    program_.transfers.push_back(transfer);
  }

  void read_pool(LineScanner& line) {
    Pool pool;
    const std::size_t at = line.position();
    const std::string_view name = before_last(line, ':', "expected NAME:SLOTS");
    if (!pools_.add(name)) line.fail_at(at, "a second pool called " + quoted(name));
    pool.name = name;
    pool.slots = static_cast<int>(line.number(0, kMaxSlots, "its number of slots"));
    if (line.accept(" host")) pool.space = Space::kHost;
    program_.pools.push_back(std::move(pool));
  }

  /// The part of the next word up to its last `mark`; steps over both.
  static std::string_view before_last(LineScanner& line, char mark, const std::string& problem) {
    const std::size_t at = line.position();
    const std::string_view word = line.take("a name");
    const std::size_t end = word.rfind(mark);
    if (end == std::string_view::npos || end == 0) line.fail_at(at, problem);
    line.move_to(at + end + 1);
    return word.substr(0, end);
  }

  void read_value(LineScanner& line) {
    Value value;
    const std::size_t at = line.position();
    value.name = read_new_name(line, "value", "", values_);
    if (words::is_reserved(value.name)) line.fail_at(at, "the text form needs this name for itself");
    line.expect(" ");
    const std::size_t type_at = line.position();
    const std::string_view type = line.take("a type", "[");
    const auto dtype = parse_dtype(type);
    if (!dtype) line.fail_at(type_at, "no type is called " + quoted(type));
    value.dtype = *dtype;
    read_dims(line, value.dims);
    line.expect(" ");
    value.scope = read_word<Scope>(line, words::kScopes, "a scope");
    line.expect(" ");
    value.memory = read_word<MemoryClass>(line, words::kMemory, "a class of memory");
    if (line.accept(" ")) read_value_options(line, value);
    program_.values.push_back(std::move(value));
  }

  static void read_dims(LineScanner& line, Dims& dims) {
    std::array<std::int64_t, Dims::static_capacity> bounds{};
    line.expect("[");
    while (!line.accept("]")) {
      if (!dims.empty()) line.expect(",");
      if (dims.size() == bounds.size()) line.fail("more than " + std::to_string(bounds.size()) + " dims");
      Dim dim;
      dim.expected = dim.bound = line.number(0, kMaxElements, "an extent");
      if (line.accept("~")) {
        dim.bound = line.number(dim.expected, kMaxElements, "the bound of an extent");
        line.expect("?");
        dim.symbol = static_cast<std::int16_t>(line.number(-1, kMaxInt16, "a symbol"));
      }
      bounds[dims.size()] = dim.bound;
      dims.push_back(dim);
    }
    if (product_exceeds(kMaxElements, std::span(bounds.data(), dims.size()))) {
      line.fail("more than 2^50 elements");
    }
  }

  /// [SPEC] [in:VALUE+OFFSET [own:AXIS]] [pool:NAME] [host]
  void read_value_options(LineScanner& line, Value& value) {
    const std::string_view first = line.peek();
    if (parse_axis(first.substr(0, first.find(':')))) {
      do read_axis_placement(line, value.spec);
      while (line.accept(","));
      if (!line.accept(" ")) return;
    }
    if (line.accept("in:")) {
      const std::size_t at = line.position();
      const std::string_view name = before_last(line, '+', "expected in:VALUE+OFFSET");
      const auto in = values_.find(name);
      if (!in || *in == static_cast<std::int32_t>(program_.values.size())) {
        line.fail_at(at, "no value above is called " + quoted(name));
      }
      value.alias = Alias{*in, line.number(0, kMaxElements, "its offset"), std::nullopt};
      if (!line.accept(" ")) return;
      if (line.accept("own:")) {
        value.alias->own_shard = read_axis(line);
        if (!line.accept(" ")) return;
      }
    }
    if (line.accept("pool:")) {
      value.pool = read_known_name(line, "pool", "", pools_);
      if (!line.accept(" ")) return;
    }
    line.expect("host");
    value.space = Space::kHost;
  }

  static void read_axis_placement(LineScanner& line, ShardingSpec& spec) {
    const std::size_t at = line.position();
    AxisPlacement& placement = spec[read_axis(line)];
    if (placement != replicate()) line.fail_at(at, "an axis twice");
    line.expect(":");
    if (line.accept("P")) {
      placement = partial();
    } else {
      line.expect("S");
      placement = shard(static_cast<int>(line.number(0, Dims::static_capacity - 1, "a dim")));
    }
  }

  void read_segment(LineScanner& line) {
    Segment segment;
    const std::size_t at = line.position();
    segment.name = read_new_name(line, "segment", "()[]{}^,;", segments_);
    const auto slots = find_word(words::kParameters, line.take("(), (m) or (m,n)"));
    if (!slots) line.fail_at(at + segment.name.size(), "expected (), (m) or (m,n)");
    segment.slots = static_cast<std::uint8_t>(*slots);
    if (segment.slots > 0 && is_digit(segment.name.back())) {
      line.fail_at(at, "the name of a segment that takes a microbatch cannot end in a digit");
    }
    line.expect(" stage:");
    segment.stage = static_cast<std::int32_t>(line.number(0, kMaxInt32, "a stage"));
    line.expect(" ");
    const std::size_t phase_at = line.position();
    const std::string_view phase = line.take("a phase");
    if (phase.size() != 1 || words::kPhases.find(phase) == std::string_view::npos) {
      line.fail_at(phase_at, "a phase is one letter of " + std::string(words::kPhases));
    }
    segment.phase = static_cast<Phase>(words::kPhases.find(phase));
    program_.segments.push_back(std::move(segment));
    module_ = "";
  }

  void read_op(LineScanner& line) {
    Segment& segment = program_.segments.back();
    line.set_subject("segment " + printable(segment.name, 60));
    if (line.accept("@")) {
      module_ = line.at_end() ? std::string_view() : line.take("a module");
      return line.expect_end();
    }
    ProgramOp op;
    op.stream = read_word<StreamId>(line, words::kStreams, "a stream");
    line.expect(" ");
    read_op_name(line, op);
    if (line.accept(":")) read_peer(line, op);
    if (line.accept("{")) op.attrs = read_attributes(line);
    read_operands(line, op);
    if (op.kind != OpKind::kFree) {
      if (modules_.add(module_)) program_.modules.emplace_back(module_);
      op.module = *modules_.find(module_);
    }
    segment.ops.push_back(std::move(op));
  }

  void read_op_name(LineScanner& line, ProgramOp& op) {
    const std::size_t at = line.position();
    const std::string_view name = line.take("an op", ":{");
    auto known = op_names_.find(name);
    if (known == op_names_.end()) {
      const auto parsed = parse_op_name(name);
      if (!parsed) line.fail_at(at, "no op is called " + quoted(name));
      known = op_names_.emplace(name, *parsed).first;
    }
    op.kind = known->second.kind;
    op.part = known->second.part;
  }

  void read_peer(LineScanner& line, ProgramOp& op) {
    if (is_collective(op.kind)) {
      op.group = static_cast<GroupId>(read_known_name(line, "group", "{", groups_));
    } else if (is_transfer(op.kind)) {
      const std::size_t at = line.position();
      const std::int64_t transfer = line.number(0, kMaxInt16, "the number of a transfer");
      if (transfer >= static_cast<std::int64_t>(program_.transfers.size())) {
        line.fail_at(at, "there is no transfer " + std::to_string(transfer));
      }
      op.transfer = static_cast<TransferId>(transfer);
    } else {
      line.fail("only communication has a peer");
    }
  }

  AttrId read_attributes(LineScanner& line) {
    OpAttrs attrs;
    do {
      const std::size_t at = line.position();
      const std::string_view name = line.take("an attribute", "=}");
      bool known = false;
      words::for_attributes([&](std::string_view attribute, auto member) {
        if (attribute != name) return;
        known = true;
        if (attrs.*member != OpAttrs{}.*member) line.fail_at(at, quoted(name) + " twice");
        read_attribute(line, attrs.*member);
        if (attrs.*member == OpAttrs{}.*member) line.fail_at(at, quoted(name) + " is so unless said");
      });
      if (!known) line.fail_at(at, "no attribute is called " + quoted(name));
    } while (line.accept(" "));
    line.expect("}");
    auto& table = program_.attrs;
    const auto it = std::find(table.begin(), table.end(), attrs);
    const auto id = static_cast<AttrId>(it - table.begin());
    if (it == table.end()) table.push_back(attrs);
    return id;
  }

  template <typename Number>
  static void read_attribute(LineScanner& line, Number& value) {
    if constexpr (std::is_same_v<Number, bool>) {
      value = true;
    } else {
      line.expect("=");
      if constexpr (std::is_same_v<Number, float>) value = line.real("a number");
      else value = static_cast<Number>(line.number(-1, std::numeric_limits<Number>::max(), "a number"));
    }
  }

  /// READS -> WRITES +> ACCUMULATES after:OP guard VALUE host_sync
  void read_operands(LineScanner& line, ProgramOp& op) {
    Operands* list = &op.reads;
    auto reached = words::OperandPart::kReads;
    const auto check_list = [&] {
      if (list != &op.reads && list->empty()) line.fail("expected an operand");
    };
    while (!line.at_end()) {
      line.expect(" ");
      const auto next = words::operand_part(line.peek());
      const bool in_list = next == words::OperandPart::kReads;  // no keyword
      const bool repeats = next == words::OperandPart::kAfter;
      if (in_list ? list == nullptr : next < reached || (next == reached && !repeats)) {
        line.fail(quoted(line.peek()) + " stands too late in the line");
      }
      if (in_list) {
        list->push_back(read_operand(line));
        continue;
      }
      if (list != nullptr) check_list();
      reached = next;
      list = next == words::OperandPart::kWrites        ? &op.writes
             : next == words::OperandPart::kAccumulates ? &op.accumulates
                                                        : nullptr;
      read_operand_keyword(line, next, op);
    }
    if (list != nullptr) check_list();
  }

  void read_operand_keyword(LineScanner& line, words::OperandPart part, ProgramOp& op) {
    switch (part) {
      case words::OperandPart::kAfter:
        line.expect("after:");
        op.after.push_back(static_cast<std::uint32_t>(line.number(0, kMaxInt32, "the number of an op")));
        break;
      case words::OperandPart::kGuard:
        line.expect("guard ");
        op.guard = read_operand(line);
        break;
      default:
        op.host_sync = op.host_sync || part == words::OperandPart::kHostSync;
        line.take("a keyword");
    }
  }

  /// "x", or "x[m]" for a value of which every microbatch has its own.
  Operand read_operand(LineScanner& line) const {
    const std::size_t at = line.position();
    std::string_view name = line.take("an operand");
    std::optional<std::size_t> slot;
    for (std::size_t i = 0; i < words::kSlots.size(); ++i) {
      if (name.ends_with(words::kSlots[i])) slot = i;
    }
    if (slot) name.remove_suffix(words::kSlots[*slot].size());
    const auto id = values_.find(name);
    if (!id) line.fail_at(at, "no value is called " + quoted(name));
    const Scope scope = program_.values[static_cast<std::size_t>(*id)].scope;
    if (slot.has_value() != (scope == Scope::kMicrobatch)) {
      line.fail_at(at, slot ? quoted(name) + " is not of a microbatch; leave out its slot"
                            : quoted(name) + " is of a microbatch; write " + printable(name, 60) + "[m]");
    }
    return {*id, static_cast<std::uint8_t>(slot.value_or(0))};
  }

  void read_class(LineScanner& line) {
    RankClass& list = program_.body.emplace_back();
    while (!line.at_end()) {
      line.expect(" ");
      const std::size_t at = line.position();
      const Axis axis = read_axis(line);
      std::int32_t& coordinate = list.ranks.at[static_cast<std::size_t>(axis)];
      if (coordinate >= 0) line.fail_at(at, "an axis twice");
      line.expect(":");
      coordinate = static_cast<std::int32_t>(line.number(0, program_.mesh[axis] - 1, "a coordinate"));
    }
    calls_follow_ = true;
  }

  void read_calls(LineScanner& line) {
    calls_follow_ = false;
    line.set_subject("calls");
    line.expect(" ");
    auto& calls = program_.body.back().calls;
    while (!line.at_end()) {
      line.expect(" ");
      calls.push_back(read_call(line));
    }
  }

  /// "3B7", "3B7,8", "0UPDATE", then "(SYMBOL=EXTENT,...)", "^CALL"..., "{@OP:SEGMENT;...}".
  Call read_call(LineScanner& line) {
    Call call;
    const std::size_t at = line.position();
    const std::string_view word = line.take("a call", "(){}^;,");
    const auto whole = segments_.find(word);
    std::size_t digits = word.size();
    while (digits > 0 && is_digit(word[digits - 1])) --digits;
    const auto stem = digits == word.size() ? std::nullopt : segments_.find(word.substr(0, digits));
    const auto slots = [&](std::int32_t id) { return program_.segments[static_cast<std::size_t>(id)].slots; };
    if (whole && slots(*whole) > 0) line.fail_at(at, quoted(word) + " takes a microbatch");
    if (!whole && (!stem || slots(*stem) == 0)) line.fail_at(at, "no segment is called " + quoted(word));
    if (whole && stem && slots(*stem) > 0) line.fail_at(at, quoted(word) + " can be read in two ways");
    call.segment = whole ? *whole : *stem;
    if (!whole) {
      line.move_to(at + digits);
      call.mb[0] = read_microbatch(line);
      if (slots(*stem) == 2) {
        line.expect(",");
        call.mb[1] = read_microbatch(line);
      }
    }
    read_call_options(line, call);
    return call;
  }

  Microbatch read_microbatch(LineScanner& line) const {
    return static_cast<Microbatch>(
        line.number(0, std::int64_t{program_.num_microbatches} - 1, "a microbatch"));
  }

  void read_call_options(LineScanner& line, Call& call) {
    if (line.accept("(")) {
      do {
        const auto symbol = static_cast<std::int16_t>(line.number(0, kMaxInt16, "a symbol"));
        line.expect("=");
        call.dims.emplace_back(symbol, line.number(0, kMaxElements, "an extent"));
      } while (line.accept(","));
      line.expect(")");
    }
    while (line.accept("^")) {
      call.after.push_back({static_cast<std::uint32_t>(line.number(0, kMaxInt32, "the number of a call"))});
    }
    if (!line.accept("{")) return;
    do {
      line.expect("@");
      const auto op = static_cast<std::uint32_t>(line.number(0, kMaxInt32, "the number of an op"));
      line.expect(":");
      call.inside.emplace_back(op, read_known_name(line, "segment", ";}", segments_));
    } while (line.accept(";"));
    line.expect("}");
  }

  std::string_view text_;  // not read yet
  const std::string& file_;
  std::optional<std::size_t> section_;  // of the last line read
  bool calls_follow_ = false;  // the next line lists the calls of the class just read
  std::string_view module_;    // of the ops that follow
  Names groups_, pools_, values_, segments_, modules_;
  std::unordered_map<std::string_view, KindAndPart> op_names_;  // seen so far
  Program program_;
};

}  // namespace

Program parse_program(std::string_view text, const std::string& file_name) {
  return Parser(text, file_name).run();
}

}  // namespace trainyard
