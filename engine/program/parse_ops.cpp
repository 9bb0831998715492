#include "engine/program/parse_ops.h"

#include <type_traits>
#include <utility>

#include "engine/program/add_attrs.h"
#include "engine/program/program_form.h"
#include "engine/program/program_words.h"

namespace trainyard {

namespace {

namespace words = program_words;

void read_op_name(LineScanner& line, ParserState& state, ProgramOp& op) {
  const std::size_t at = line.position();
  const std::string_view name = line.take("an op", ":{");
  auto known = state.op_names.find(name);
  if (known == state.op_names.end()) {
    const auto parsed = parse_op_name(name);
    if (!parsed) line.fail_at(at, "no op is called " + in_quotes(name));
    known = state.op_names.emplace(name, *parsed).first;
  }
  op.kind = known->second.kind;
  op.part = known->second.part;
}

void read_peer(LineScanner& line, const ParserState& state, ProgramOp& op) {
  if (takes_group(op.kind)) {
    op.group = read_known_name(line, "group", "{", state.groups);
  } else if (is_transfer(op.kind)) {
    const std::size_t at = line.position();
    const std::int64_t transfer = line.number(0, kMaxInt16, "the number of a transfer");
    if (transfer >= static_cast<std::int64_t>(state.program.transfers.size())) {
      line.fail_at(at, "there is no transfer " + std::to_string(transfer));
    }
    op.transfer = TransferId(transfer);
  } else {
    line.fail("only communication has a peer");
  }
}

void read_attribute(LineScanner& line, DimList& dims) {
  line.expect("=");
  do {
    if (dims.size() == kMostDims) line.fail("more than " + std::to_string(kMostDims) + " dims");
    dims.push_back(static_cast<int>(line.number(0, kMostDims - 1, "a dim")));
  } while (line.accept(","));
}

void read_attribute(LineScanner& line, HeightWidth& both) {
  line.expect("=");
  both.height = static_cast<std::int32_t>(line.number(0, kMaxInt32, "a height"));
  line.expect("x");
  both.width = static_cast<std::int32_t>(line.number(0, kMaxInt32, "a width"));
}

void read_attribute(LineScanner& line, RopeScaling& scaling) {
  line.expect("=");
  for (float* part : {&scaling.factor, &scaling.low, &scaling.high}) {
    *part = line.real("a number");
    line.expect("/");
  }
  scaling.original = static_cast<std::int32_t>(line.number(0, kMaxInt32, "a number of positions"));
}

void read_attribute(LineScanner& line, Combination& combination) {
  line.expect("=");
  const std::size_t at = line.position();
  const std::string_view word = line.take("a combination", " }");
  for (const Combination known : words::kCombinations.keys()) {
    if (words::kCombinations[known] == word) {
      combination = known;
      return;
    }
  }
  line.fail_at(at, "no combination is called " + in_quotes(word));
}

template <typename Number>
void read_attribute(LineScanner& line, Number& value) {
  if constexpr (std::is_same_v<Number, bool>) {
    value = true;
  } else {
    line.expect("=");
    if constexpr (std::is_same_v<Number, float>)
      value = line.real("a number");
    else
      value = static_cast<Number>(line.number(-1, std::numeric_limits<Number>::max(), "a number"));
  }
}

AttrId read_attributes(LineScanner& line, Program& program) {
  OpAttrs attrs;
  do {
    const std::size_t at = line.position();
    const std::string_view name = line.take("an attribute", "=}");
    bool known = false;
    words::for_attributes([&](std::string_view attribute, auto member) {
      if (attribute != name) return;
      known = true;
      if (attrs.*member != OpAttrs{}.*member) line.fail_at(at, in_quotes(name) + " twice");
      read_attribute(line, attrs.*member);
      if (attrs.*member == OpAttrs{}.*member)
        line.fail_at(at, in_quotes(name) + " is so unless said");
    });
    if (!known) line.fail_at(at, "no attribute is called " + in_quotes(name));
  } while (line.accept(" "));
  line.expect("}");
  return add_attrs(program, attrs);
}

/// "x", or "x[m]" for a value of which every microbatch has its own; "x[n]" is of the second
/// microbatch of a call, which may be local to it.
Operand read_operand(LineScanner& line, const ParserState& state) {
  const std::size_t at = line.position();
  std::string_view name = line.take("an operand");
  std::optional<std::size_t> slot;
  for (std::size_t i = 0; i < words::kSlots.size(); ++i) {
    if (name.ends_with(words::kSlots[i])) slot = i;
  }
  if (slot) name.remove_suffix(words::kSlots[*slot].size());
  const auto id = state.values.find(name);
  if (!id) line.fail_at(at, "no value is called " + in_quotes(name));
  const Scope scope = state.program.values[*id].scope;
  const bool second_local = slot == 1U && scope == Scope::kLocal;
  if (!second_local && slot.has_value() != (scope == Scope::kMicrobatch)) {
    line.fail_at(
        at, slot ? in_quotes(name) + " is not of a microbatch; leave out its slot"
                 : in_quotes(name) + " is of a microbatch; write " + printable(name, 60) + "[m]");
  }
  return {*id, static_cast<std::uint8_t>(slot.value_or(0))};
}

void read_operand_keyword(LineScanner& line, const ParserState& state, words::OperandPart part,
                          ProgramOp& op) {
  switch (part) {
    case words::OperandPart::kAfter:
      line.expect("after:");
      op.after.push_back(
          static_cast<std::uint32_t>(line.number(0, kMaxInt32, "the number of an op")));
      break;
    case words::OperandPart::kGuard:
      line.expect("guard ");
      op.guard = read_operand(line, state);
      break;
    default:
      op.host_sync = op.host_sync || part == words::OperandPart::kHostSync;
      line.take("a keyword");
  }
}

/// READS -> WRITES +> ACCUMULATES after:OP guard VALUE host_sync
void read_operands(LineScanner& line, const ParserState& state, ProgramOp& op) {
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
      line.fail(in_quotes(line.peek()) + " stands too late in the line");
    }
    if (in_list) {
      list->push_back(read_operand(line, state));
      continue;
    }
    if (list != nullptr) check_list();
    reached = next;
    list = next == words::OperandPart::kWrites        ? &op.writes
           : next == words::OperandPart::kAccumulates ? &op.accumulates
                                                      : nullptr;
    read_operand_keyword(line, state, next, op);
  }
  if (list != nullptr) check_list();
}

Microbatch read_microbatch(LineScanner& line, const Program& program) {
  return static_cast<Microbatch>(
      line.number(0, std::int64_t{program.num_microbatches} - 1, "a microbatch"));
}

void read_call_options(LineScanner& line, const ParserState& state, Call& call) {
  if (line.accept("(")) {
    do {
      const auto symbol = static_cast<std::int16_t>(line.number(0, kMaxInt16, "a symbol"));
      line.expect("=");
      call.dims.emplace_back(symbol, line.number(0, kMaxElements, "an extent"));
    } while (line.accept(","));
    line.expect(")");
  }
  while (line.accept("^")) {
    call.after.push_back(
        {static_cast<std::uint32_t>(line.number(0, kMaxInt32, "the number of a call"))});
  }
  if (!line.accept("{")) return;
  do {
    line.expect("@");
    const auto op = static_cast<std::uint32_t>(line.number(0, kMaxInt32, "the number of an op"));
    line.expect(":");
    call.inside.emplace_back(op, read_known_name(line, "segment", ";}", state.segments));
  } while (line.accept(";"));
  line.expect("}");
}

}  // namespace

void read_op(LineScanner& line, ParserState& state) {
  Segment& segment = state.program.segments.back();
  line.set_subject("segment " + printable(segment.name, 60));
  if (line.accept("@")) {
    state.module = line.at_end() ? std::string_view() : line.take("a module");
    return line.expect_end();
  }
  ProgramOp op;
  op.stream = read_word<StreamId>(line, words::kStreams, "a stream");
  line.expect(" ");
  read_op_name(line, state, op);
  if (line.accept(":")) read_peer(line, state, op);
  if (line.accept("{")) op.attrs = read_attributes(line, state.program);
  read_operands(line, state, op);
  if (op.kind != OpKind::kFree) {
    if (state.modules.add(state.module)) state.program.modules.emplace_back(state.module);
    op.module = *state.modules.find(state.module);
  }
  segment.ops.push_back(std::move(op));
}

Call read_call(LineScanner& line, const ParserState& state) {
  Call call;
  const std::size_t at = line.position();
  const std::string_view word = line.take("a call", "(){}^;,");
  std::size_t digits = word.size();
  while (digits > 0 && words::is_digit(word[digits - 1])) --digits;
  const auto find = [&](std::string_view name) {
    return state.segments.find(name).value_or(kNoIndex);
  };
  const SegmentId whole = find(word);
  const SegmentId stem = digits == word.size() ? kNoIndex : find(word.substr(0, digits));
  const auto slots = [&](SegmentId id) {
    return id == kNoIndex ? 0 : state.program.segments[id].slots;
  };
  if (slots(whole) > 0) line.fail_at(at, in_quotes(word) + " takes a microbatch");
  if (whole == kNoIndex && slots(stem) == 0)
    line.fail_at(at, "no segment is called " + in_quotes(word));
  if (whole != kNoIndex && slots(stem) > 0)
    line.fail_at(at, in_quotes(word) + " can be read in two ways");
  call.segment = whole != kNoIndex ? whole : stem;
  if (whole == kNoIndex) {
    line.move_to(at + digits);
    call.mb[0] = read_microbatch(line, state.program);
    if (slots(stem) == 2) {
      line.expect(",");
      call.mb[1] = read_microbatch(line, state.program);
    }
  }
  read_call_options(line, state, call);
  return call;
}

}  // namespace trainyard
