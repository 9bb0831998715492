#include "engine/program/program_text.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "engine/base/hash.h"
#include "engine/program/attrs_text.h"
#include "engine/program/documents_line.h"
#include "engine/program/program_words.h"
#include "engine/program/text_sink.h"
#include "engine/sharding/spec_text.h"

namespace trainyard {

namespace {

namespace words = program_words;

class Writer : private TextSink {
 public:
  using TextSink::flush;

  Writer(const Program& program, std::function<void(std::string_view)> sink)
      : TextSink(std::move(sink)),
        program_(program) {
    for (const OpKind kind : op_names_.keys()) {
      for (const OpPart part : op_names_[kind].keys()) op_names_[kind][part] = op_name(kind, part);
    }
  }

  void write(bool placement) {
    write_head();
    for (const Value& value : program_.values) write_value(value);
    for (const Segment& segment : program_.segments) write_segment(segment);
    write_classes();
    if (placement) {
      text("placement");
      if (!program_.placement.ranks.empty()) text(" " + runs_text(program_.placement.ranks));
      const bool strides = program_.placement.ranks.empty();
      for (AxisId axis = 0; strides && axis < program_.mesh.num_axes(); ++axis) {
        text(" ");
        text(program_.mesh.axis_name(axis));
        text(":");
        number(program_.placement.stride[axis]);
      }
      text("\n");
      write_documents();
    }
    flush();
  }

  void write_documents() {
    if (!program_.documents) return;
    text("documents");
    text(documents_text(*program_.documents));
    text("\n");
  }

  void write_head() {
    text("program 2\nmesh");
    write_mesh();
    text("\nmicrobatches ");
    number(program_.num_microbatches);
    text("\n");
    for (const GroupId g : program_.groups.keys()) write_group(g);
    for (const TransferId i : program_.transfers.keys()) {
      text("transfer ");
      number(i.number());
      text(" ");
      text(program_.mesh.axis_name(program_.transfers[i].axis));
      if (program_.transfers[i].offset >= 0) text("+");
      number(program_.transfers[i].offset);
      for (const auto& [own, peer] : program_.transfers[i].pairs) {
        text(" ");
        number(own);
        text(">");
        number(peer);
      }
      text("\n");
    }
    for (const Pool& pool : program_.pools) {
      text("pool ");
      text(pool.name);
      text(":");
      number(pool.slots);
      write_space(pool.space);
      if (pool.buffer > 0) text(" buffer:"), number(pool.buffer);
      text("\n");
    }
  }

  void write_space(Space space) {
    if (space == Space::kDevice) return;
    text(" ");
    text(words::kSpaces[space]);
  }

  void write_value(const Value& value) {
    text("value ");
    text(value.name);
    text(" ");
    text(to_string(value.dtype));
    text("[");
    for (std::size_t i = 0; i < value.dims.size(); ++i) {
      const Dim& dim = value.dims[i];
      if (i > 0) text(",");
      number(dim.expected);
      if (dim.symbol < 0 && dim.bound == dim.expected) continue;
      text("~");
      number(dim.bound);
      text("?");
      number(dim.symbol);
    }
    text("] ");
    text(words::kScopes[value.scope]);
    text(" ");
    text(words::kMemory[value.memory]);
    if (value.spec != kNoIndex) {
      text(" ");
      text(spec_text(value.spec));
    }
    if (value.alias) {
      text(" in:");
      text(program_.values[value.alias->in].name);
      text("+");
      number(value.alias->offset);
      if (value.alias->own_shard != kNoIndex) {
        text(" own:");
        text(program_.groups[value.alias->own_shard].name);
      }
    }
    if (value.pool != kNoIndex) {
      text(" pool:");
      text(program_.pools[value.pool].name);
    }
    write_space(value.space);
    if (value.owner >= 0) {
      text(" owner:");
      number(value.owner);
    }
    text("\n");
    flush_full();
  }

  void write_segment(const Segment& segment) {
    text("segment ");
    text(segment.name);
    text(words::kParameters[segment.slots]);
    text(" stage:");
    number(segment.stage);
    text(" ");
    const char phase = letter(segment.phase);
    text({&phase, 1});
    text("\n");
    PathId module{0};
    for (const ProgramOp& op : segment.ops) {
      if (op.kind != OpKind::kFree && op.module != module) {
        module = op.module;
        text("  @");
        text(program_.modules[module]);
        text("\n");
      }
      text("  ");
      text(words::kStreams[op.stream]);
      text(" ");
      text(op_names_[op.kind][op.part]);
      if (op.group != kNoIndex) {
        text(":");
        text(program_.groups[op.group].name);
      }
      if (op.transfer != kNoIndex) {
        text(":");
        number(op.transfer.number());
      }
      if (op.attrs != AttrId(0)) write_attrs(program_.attrs[op.attrs], *this);  // [0]: nothing said
      operands("", op.reads);
      operands(" ->", op.writes);
      operands(" +>", op.accumulates);
      for (std::size_t i = 0; i < op.after.size(); ++i) {
        text(" after:");
        number(op.after[i]);
      }
      if (op.guard) operands(" guard", Operands{*op.guard});
      text(op.host_sync ? " host_sync\n" : "\n");
    }
    flush_full();
  }

  void write_classes() {
    for (const RankClass& list : program_.body) write_class(list);
  }

 private:
  void write_mesh() {
    for (const MeshAxis& axis : program_.mesh.axes) {
      text(" ");
      text(axis.name);
      text("=");
      if (axis.sizes.empty()) number(axis.size);
      for (std::size_t i = 0; i < axis.sizes.size(); ++i) {
        if (i > 0) text(",");
        number(axis.sizes[i]);
      }
      if (axis.stages) text(":stages");
    }
    for (const auto& [name, axes] : program_.mesh.names) {
      text(" ");
      text(name);
      text("=");
      write_axes(axes);
    }
  }

  const std::string& spec_text(SpecId spec) {
    if (spec_texts_.empty()) {
      for (const SpecId id : program_.specs.keys())
        spec_texts_.push_back(to_text(program_.specs[id], program_.mesh));
    }
    return spec_texts_[spec];
  }

  void write_axes(const Axes& axes) {
    text("[");
    for (std::size_t i = 0; i < axes.size(); ++i) {
      if (i > 0) text(",");
      text(program_.mesh.axis_name(axes[i]));
    }
    text("]");
  }

  void write_group(GroupId id) {
    const Group& group = program_.groups[id];
    text("group ");
    text(group.name);
    write_axes(group.axes);
    for (std::size_t i = 0; i < group.members.size(); ++i) {
      text(i == 0 ? "{" : ",");
      number(group.members[i]);
    }
    if (!group.members.empty()) text("}");
    text(id == program_.owners ? " owners\n" : "\n");
  }

  void operands(std::string_view before, const Operands& list) {
    if (list.empty()) return;
    text(before);
    for (const Operand& operand : list) {
      const Value& value = program_.values[operand.value];
      text(" ");
      text(value.name);
      if (value.scope == Scope::kMicrobatch || operand.slot > 0) text(words::kSlots[operand.slot]);
    }
  }

  void write_class(const RankClass& list) {
    text(class_name(program_.mesh, list.ranks));
    text("\n ");
    for (const Call& call : list.calls) {
      const Segment& segment = program_.segments[call.segment];
      text(" ");
      text(segment.name);
      if (segment.slots > 0) number(call.mb[0]);
      if (segment.slots > 1) {
        text(",");
        number(call.mb[1]);
      }
      for (std::size_t i = 0; i < call.dims.size(); ++i) {
        text(i == 0 ? "(" : ",");
        number(call.dims[i].first);
        text("=");
        number(call.dims[i].second);
      }
      if (!call.dims.empty()) text(")");
      for (const CallRef& before : call.after) {
        text("^");
        number(before.call);
      }
      for (std::size_t i = 0; i < call.inside.size(); ++i) {
        text(i == 0 ? "{@" : ";@");
        number(call.inside[i].first);
        text(":");
        text(program_.segments[call.inside[i].second].name);
      }
      if (!call.inside.empty()) text("}");
      flush_full();
    }
    text("\n");
  }

  const Program& program_;
  Indexed<SpecId, std::string> spec_texts_;  // once one is printed
  IndexedArray<OpKind, IndexedArray<OpPart, std::string, 4>, kNumOpKinds> op_names_;
};

}  // namespace

void write_text(const Program& program, bool placement,
                const std::function<void(std::string_view)>& sink) {
  Writer(program, sink).write(placement);
}

std::string to_text(const Program& program) {
  std::string text;
  write_text(program, true, [&](std::string_view piece) { text += piece; });
  return text;
}

std::string program_digest(const Program& program) {
  Sha256 hash;
  write_text(program, false, [&](std::string_view piece) { hash.update(piece); });
  return hash.hex();
}

std::string ProgramDigester::digest(const Program& program, const SharedSegments& shared) {
  if (shared.number == 0) return program_digest(program);
  if (number_ != shared.number) {
    number_ = 0;
    values_.assign(1, "");
    segments_.clear();
    std::string* into = &values_.back();
    Writer writer(program, [&](std::string_view piece) { *into += piece; });
    for (const ValueId v : program.values.keys()) {
      if (!shared.sized[v]) {
        writer.write_value(program.values[v]);
        continue;
      }
      writer.flush();
      into = &values_.emplace_back();
    }
    writer.flush();
    into = &segments_;
    for (const Segment& segment : program.segments) writer.write_segment(segment);
    writer.flush();
    number_ = shared.number;
  }
  Sha256 hash;
  Writer writer(program, [&](std::string_view piece) { hash.update(piece); });
  const auto add_kept = [&](const std::string& kept) {
    writer.flush();
    hash.update(kept);
  };
  writer.write_head();
  auto kept = values_.begin();
  for (const ValueId v : program.values.keys()) {
    if (!shared.sized[v]) continue;
    if (!kept->empty()) add_kept(*kept);
    ++kept;
    writer.write_value(program.values[v]);
  }
  add_kept(*kept);
  add_kept(segments_);
  writer.write_classes();
  writer.flush();
  return hash.hex();
}

}  // namespace trainyard
