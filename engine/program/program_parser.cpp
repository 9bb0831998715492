// The inverse of program_text.cpp: one function per kind of line, in the order in which they stand
// in the text. What a line says is checked here; whether the Program makes sense is verify.h's
// business.
#include <algorithm>
#include <array>
#include <optional>
#include <string>
#include <utility>

#include "engine/base/error.h"
#include "engine/plan/plan_limits.h"
#include "engine/program/documents_line.h"
#include "engine/program/line_pieces.h"
#include "engine/program/pair_members.h"
#include "engine/program/parse_ops.h"
#include "engine/program/program_text.h"
#include "engine/program/program_words.h"
#include "engine/program/rank_places.h"
#include "engine/sharding/replica_axes.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

namespace words = program_words;

constexpr std::int64_t kMaxSlots = 10'000'000;

class Parser {
 public:
  Parser(std::string_view text, const std::string& file) : text_(text), file_(file) {}

  Program run() {
    state_.modules.add("");
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
    if (section_ < kPlacement) {
      LineScanner(file_, number, {}).fail("the text breaks off before its placement");
    }
    return std::move(state_.program);
  }

 private:
  // Kinds of lines, in the order in which they stand in the text.
  enum Section : std::size_t {
    kHeader,
    kMesh,
    kMicrobatches,
    kGroup,
    kTransfer,
    kPool,
    kValue,
    kSegment,
    kClass,
    kPlacement,
    kDocuments
  };
  static constexpr std::array<std::string_view, 11> kKeywords = {
      "program", "mesh",    "microbatches", "group",     "transfer", "pool",
      "value",   "segment", "class",        "placement", "documents"};

  void read_line(LineScanner& line) {
    if (calls_follow_) return read_calls(line);
    if (section_ == kSegment && line.accept("  ")) return read_op(line, state_);
    const std::string_view keyword = line.take("a keyword");
    const auto found = find_word(kKeywords, keyword);
    if (!found) line.fail_at(0, "no line starts with " + in_quotes(keyword));
    const std::size_t next = section_ ? *section_ + 1 : kHeader;
    if (next <= kMicrobatches && *found != next) {
      line.fail_at(0, "expected a line that starts with " + in_quotes(kKeywords[next]));
    }
    const bool repeats = *found >= kGroup && *found <= kClass && *found == section_;
    if (*found < next && !repeats) {
      line.fail_at(0,
                   in_quotes(keyword) + " cannot stand after " + in_quotes(kKeywords[*section_]));
    }
    section_ = *found;
    line.set_subject(std::string(keyword));
    if (section_ == kClass) return read_class(line);
    if (section_ == kMesh) return read_mesh(line);
    if (section_ == kPlacement) return read_placement(line);
    if (section_ == kDocuments) {
      state_.program.documents = read_documents(line, state_.program.num_microbatches);
      return;
    }
    line.expect(" ");
    switch (*section_) {
      case kHeader: read_version(line); break;
      case kMicrobatches:
        state_.program.num_microbatches =
            static_cast<int>(line.number(0, kMaxMicrobatches, "their number"));
        break;
      case kGroup: read_group(line); break;
      case kTransfer: read_transfer(line); break;
      case kPool: read_pool(line); break;
      case kValue: read_value(line); break;
      default: read_segment(line); break;
    }
    line.expect_end();
  }

  static void read_version(LineScanner& line) {
    if (line.peek() == "1")
      line.fail(
          "version 1 has five fixed axes, which do not say what their ranks are for; this "
          "version reads 2: compile the study again");
    line.expect("2");
  }

  /// " pp=2:stages dp=1 tp0=2 tp1=2 tp=[tp0,tp1]": axes, then names of lists of them.
  void read_mesh(LineScanner& line) {
    DeviceMesh& mesh = state_.program.mesh;
    while (!line.at_end()) {
      line.expect(" ");
      const std::size_t at = line.position();
      const std::string name(line.take("an axis", "="));
      line.expect("=");
      if (line.peek().starts_with("[")) {
        mesh.names.emplace_back(name, read_axes(line, mesh));
      } else {
        if (!mesh.names.empty()) line.fail_at(at, "an axis behind the names of lists of them");
        MeshAxis axis{name};
        do {
          axis.sizes.push_back(
              static_cast<std::int32_t>(line.number(1, kMaxRanks, "a number of ranks")));
        } while (line.accept(","));
        axis.size = *std::max_element(axis.sizes.begin(), axis.sizes.end());
        if (axis.sizes.size() == 1) axis.sizes.clear();
        axis.stages = line.accept(":stages");
        mesh.axes.push_back(std::move(axis));
        if (const auto problem = mesh_problem(mesh)) line.fail_at(at, *problem);
        if (mesh.num_ranks() > kMaxRanks)
          line.fail("more than " + std::to_string(kMaxRanks) + " ranks");
      }
      if (const auto problem = mesh_problem(mesh)) line.fail_at(at, *problem);
    }
  }

  /// " pp:2 dp:4": the stride of every axis; with an unlike axis " 0-3,5,4", each rank.
  void read_placement(LineScanner& line) {
    Program& program = state_.program;
    if (unlike_axis(program.mesh) != kNoAxis) {
      line.expect(" ");
      const std::size_t at = line.position();
      const auto problem = place_ranks(program, read_runs(line, "a rank"));
      if (problem) line.fail_at(at, *problem);
      return line.expect_end();
    }
    for (const MeshAxis& axis : program.mesh.axes) {
      line.expect(" ");
      line.expect(axis.name);
      line.expect(":");
      program.placement.stride.push_back(line.number(0, kMaxRanks, "a stride"));
    }
    line.expect_end();
  }

  void read_group(LineScanner& line) {
    Group group;
    group.name = read_new_name(line, "group", "[]{}", state_.groups);
    if (state_.program.groups.size() >= kMaxInt16) line.fail("too many groups");
    group.axes = read_axes(line, state_.program.mesh);
    if (line.accept("{")) {
      do {
        group.members.push_back(static_cast<std::int32_t>(
            line.number(group.members.empty() ? 0 : group.members.back() + 1,
                        num_pipeline_ranks(state_.program.mesh) - 1, "the next pipeline rank")));
      } while (line.accept(","));
      line.expect("}");
    }
    const GroupId id = state_.program.groups.add(std::move(group));
    if (line.accept(" owners")) {
      if (state_.program.owners != kNoIndex) line.fail("a second group of owners");
      state_.program.owners = id;
    }
  }

  void read_transfer(LineScanner& line) {
    const auto next = static_cast<std::int64_t>(state_.program.transfers.size());
    if (next >= kMaxInt16) line.fail("too many transfers");
    line.number(next, next, "the number of this transfer");
    line.expect(" ");
    Transfer transfer;
    transfer.axis = read_axis(line, state_.program.mesh);
    if (!line.accept("+") && !line.peek().starts_with("-"))
      line.fail("expected an offset with its sign");
    transfer.offset = static_cast<std::int32_t>(line.number(-kMaxRanks, kMaxRanks, "the offset"));
    while (line.accept(" ")) {
      const auto own = static_cast<std::int32_t>(line.number(0, kMaxRanks, "a replica"));
      line.expect(">");
      transfer.pairs.emplace_back(own,
                                  static_cast<std::int32_t>(line.number(0, kMaxRanks, "its peer")));
    }
    state_.program.transfers.push_back(std::move(transfer));
  }

  void read_pool(LineScanner& line) {
    Pool pool;
    const std::size_t at = line.position();
    const std::string_view name = before_last(line, ':', "expected NAME:SLOTS");
    if (!state_.pools.add(name)) line.fail_at(at, "a second pool called " + in_quotes(name));
    pool.name = name;
    pool.slots = static_cast<int>(line.number(0, kMaxSlots, "its number of slots"));
    pool.space = read_space(line, " ");
    if (line.accept(" buffer:"))
      pool.buffer = line.number(1, kMaxBufferBytes, "the bytes of its buffer");
    state_.program.pools.push_back(std::move(pool));
  }

  void read_value(LineScanner& line) {
    Value value;
    const std::size_t at = line.position();
    value.name = read_new_name(line, "value", "", state_.values);
    if (words::is_reserved(value.name))
      line.fail_at(at, "the text form needs this name for itself");
    line.expect(" ");
    const std::size_t type_at = line.position();
    const std::string_view type = line.take("a type", "[");
    const auto dtype = parse_dtype(type);
    if (!dtype) line.fail_at(type_at, "no type is called " + in_quotes(type));
    value.dtype = *dtype;
    read_dims(line, value.dims);
    line.expect(" ");
    value.scope = read_word<Scope>(line, words::kScopes, "a scope");
    line.expect(" ");
    value.memory = read_word<MemoryClass>(line, words::kMemory, "a class of memory");
    if (line.accept(" ")) read_value_options(line, value);
    state_.program.values.push_back(std::move(value));
  }

  /// [SPEC] [in:VALUE+OFFSET [own:GROUP]] [pool:NAME] [host|nvme] [owner:PLACE]
  void read_value_options(LineScanner& line, Value& value) {
    if (line.peek().starts_with("[")) {
      value.spec = read_spec(line, value.dims.size());
      if (!line.accept(" ")) return;
    }
    if (line.accept("in:")) {
      const std::size_t at = line.position();
      const std::string_view name = before_last(line, '+', "expected in:VALUE+OFFSET");
      const auto in = state_.values.find(name);
      if (!in || *in == state_.program.values.next()) {
        line.fail_at(at, "no value above is called " + in_quotes(name));
      }
      value.alias = Alias{*in, line.number(0, kMaxElements, "its offset"), kNoIndex};
      if (!line.accept(" ")) return;
      if (line.accept("own:")) {
        value.alias->own_shard = read_known_name(line, "group", "", state_.groups);
        if (!line.accept(" ")) return;
      }
    }
    if (line.accept("pool:")) {
      value.pool = read_known_name(line, "pool", "", state_.pools);
      if (!line.accept(" ")) return;
    }
    value.space = read_space(line, "");
    if (value.space != Space::kDevice) {
      if (!line.accept(" ")) return;
    } else if (!line.peek().starts_with("owner:")) {
      line.expect("host");
    }
    line.expect("owner:");
    const Program& program = state_.program;
    if (program.owners == kNoIndex) line.fail("no group has owners");
    const std::int64_t owners = group_size(program.mesh, program.groups[program.owners].axes);
    value.owner = static_cast<std::int16_t>(line.number(
        0, std::min<std::int64_t>(kMaxInt16, owners - 1), "a place in the group of owners"));
  }

  /// "[dp, R, 4x64:tp|2x64:tp] P(dp)", strict, and for a tensor of as many dims.
  SpecId read_spec(LineScanner& line, std::size_t num_dims) {
    const std::size_t at = line.position();
    const std::string_view text = spec_at(line);
    const auto [known, fresh] = state_.specs.try_emplace(std::string(text), kNoIndex);
    if (fresh) {
      auto spec = parse_spec(text, state_.program.mesh);
      if (const auto* problem = std::get_if<SpecTextError>(&spec))
        line.fail_at(at + position(problem->column - 1), problem->problem);
      known->second = add_spec(state_.program, std::get<TensorSpec>(spec));
    }
    const TensorSpec spec =
        known->second == kNoIndex ? replicated_spec(num_dims) : state_.program.specs[known->second];
    if (spec.dims.size() != num_dims) {
      line.fail_at(at, "a spec of " + std::to_string(spec.dims.size()) + " dims, of a value of " +
                           std::to_string(num_dims));
    }
    Extents extents;  // as the spec has them: a dim of one part has no count
    for (const DimSplit& dim : spec.dims) {
      std::int64_t extent = 0;
      for (const DimPart& part : dim.parts) extent += part.count * part.unit;
      extents.push_back(std::max<std::int64_t>(extent, 1));
    }
    if (const auto problem = spec_problem(spec, extents, state_.program.mesh))
      line.fail_at(at, "the spec: " + *problem);
    return known->second;
  }

  void read_segment(LineScanner& line) {
    Segment segment;
    const std::size_t at = line.position();
    segment.name = read_new_name(line, "segment", "()[]{}^,;", state_.segments);
    const auto slots = find_word(words::kParameters, line.take("(), (m) or (m,n)"));
    if (!slots) line.fail_at(at + segment.name.size(), "expected (), (m) or (m,n)");
    segment.slots = static_cast<std::uint8_t>(*slots);
    if (segment.slots > 0 && words::is_digit(segment.name.back())) {
      line.fail_at(at, "the name of a segment that takes a microbatch cannot end in a digit");
    }
    if (const auto problem = find_name_problem(segment)) line.fail_at(at, *problem);
    line.expect(" stage:");
    segment.stage = static_cast<std::int32_t>(line.number(0, kMaxInt32, "a stage"));
    line.expect(" ");
    const std::size_t phase_at = line.position();
    const std::string_view phase = line.take("a phase");
    if (phase.size() != 1 || words::kPhases.find(phase) == std::string_view::npos) {
      line.fail_at(phase_at, "a phase is one letter of " + std::string(words::kPhases));
    }
    segment.phase = static_cast<Phase>(words::kPhases.find(phase));
    state_.program.segments.push_back(std::move(segment));
    state_.module = "";
  }

  void read_class(LineScanner& line) {
    const DeviceMesh& mesh = state_.program.mesh;
    RankClass& list = state_.program.body.emplace_back();
    list.ranks.at = uniform_coordinate(mesh, -1);
    const std::string replicas = unlike_axis(mesh) == kNoAxis ? "" : replica_axes_name(mesh) + ":";
    while (!line.at_end()) {
      line.expect(" ");
      const std::size_t at = line.position();
      if (!replicas.empty() && line.accept(replicas)) {
        if (!list.ranks.replicas.empty()) line.fail_at(at, "an axis twice");
        for (const std::int64_t replica : read_runs(line, "a replica"))
          list.ranks.replicas.push_back(static_cast<std::int32_t>(replica));
        continue;
      }
      const AxisId axis = read_axis(line, mesh);
      std::int32_t& coordinate = list.ranks.at[axis];
      if (coordinate >= 0) line.fail_at(at, "an axis twice");
      line.expect(":");
      coordinate = static_cast<std::int32_t>(line.number(0, mesh.size(axis) - 1, "a coordinate"));
    }
    calls_follow_ = true;
  }

  void read_calls(LineScanner& line) {
    calls_follow_ = false;
    line.set_subject("calls");
    line.expect(" ");
    auto& calls = state_.program.body.back().calls;
    while (!line.at_end()) {
      line.expect(" ");
      calls.push_back(read_call(line, state_));
    }
  }

  std::string_view text_;  // not read yet
  const std::string& file_;
  std::optional<std::size_t> section_;  // of the last line read
  bool calls_follow_ = false;           // the next line lists the calls of the class just read
  ParserState state_;
};

}  // namespace

Program parse_program(std::string_view text, const std::string& file_name) {
  return Parser(text, file_name).run();
}

}  // namespace trainyard
