// Small studies of ZeRO-3, and what their segments do with buckets.
#pragma once

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "engine/exec/op_work.h"
#include "engine/program/verify.h"
#include "tests/support/studies.h"

namespace trainyard {

// Three layers of 12 h^2 + 13 h and the ends: (64 + 8) h embeddings, 2 h final norm, h = 32.
inline constexpr std::int64_t kLayer = 12 * 32 * 32 + 13 * 32, kRoot = (64 + 8) * 32 + 2 * 32;
inline constexpr std::int64_t kAll = 3 * kLayer + kRoot;

inline std::string study(const std::string& parallel, const std::string& more = "") {
  return "model: {family: gpt, layers: 3, hidden: 32, heads: 4, vocab: 64, seq_len: 8}\n"
         "cluster: {preset: dgx-a100-80g, nodes: 2}\nparallel: {" +
         parallel +
         "}\ntraining: {global_batch: 32, microbatch: 1, dropout: 0, precision: bf16}\n" + more;
}

inline Program compiled(const std::string& parallel, const std::string& more = "") {
  const Program program = compiled_program(prepare_text(study(parallel, more)));
  REQUIRE_FALSE(find_violation(program));
  return program;
}

inline SegmentId number_of(const Program& program, const std::string& name) {
  const auto keys = program.segments.keys();
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&](SegmentId id) { return program.segments[id].name == name; });
  REQUIRE(found != keys.end());
  return *found;
}
inline const Segment& segment(const Program& program, const std::string& name) {
  return program.segments[number_of(program, name)];
}

/// "b2", the bucket that a value belongs to.
inline std::string bucket(const Value& value) { return value.name.substr(0, value.name.find('.')); }

/// What a segment does with buckets, and where each layer begins: "gather b3", "layer 0", "free
/// b3", "reduce b3", "add b3"; "copy b3" out of what was gathered, "pack b3" into what is reduced;
/// "read b3" from the drives, "load b3" from the host.
inline std::vector<std::string> events(const Program& program, const std::string& name) {
  std::vector<std::string> out;
  std::string layer;
  for (const ProgramOp& op : segment(program, name).ops) {
    const auto read = [&](std::size_t i) -> const Value& {
      return program.values[op.reads[i].value];
    };
    const std::string& module = program.modules[op.module];
    const std::size_t at = module.find("layers.");
    const std::string here = at == std::string::npos ? "" : "layer " + module.substr(at + 7, 1);
    if (!here.empty() && here != layer) out.push_back(here);
    if (!here.empty()) layer = here;
    if (op.stream == StreamId::kNvmeIn) out.push_back("read " + bucket(read(0)));
    if (op.stream == StreamId::kH2d) out.push_back("load " + bucket(read(0)));
    if (op.kind == OpKind::kAllGather) out.push_back("gather " + bucket(read(0)));
    if (op.kind == OpKind::kCopyOut) out.push_back("copy " + bucket(read(0)));
    if (op.kind == OpKind::kCopyIn) out.push_back("pack " + bucket(read(0)));
    if (op.kind == OpKind::kReduceScatter) out.push_back("reduce " + bucket(read(0)));
    if (op.kind == OpKind::kAdd && read(0).name.ends_with(".grad_sum"))
      out.push_back("add " + bucket(read(0)));
    for (std::size_t i = 0; op.kind == OpKind::kFree && i < op.reads.size(); ++i) {
      const bool packed = read(i).name.find(".param_packed") != std::string::npos;
      if (read(i).memory == MemoryClass::kParameter && !packed)
        out.push_back("free " + bucket(read(i)));
    }
  }
  return out;
}

using Events = std::vector<std::string>;

/// Bytes that a rank copies on a stream in a step.
inline Bytes copied(const Program& program, StreamId stream) {
  Bytes bytes = 0;
  const auto add = [&](SegmentId id) {
    for (const ProgramOp& op : program.segments[id].ops) {
      if (op.stream == stream) bytes += size_in_bytes(program.values[op.reads[0].value]);
    }
  };
  for (const Call& call : program.body[0].calls) {
    add(call.segment);
    for (const auto& [at, inner] : call.inside) add(inner);
  }
  return bytes;
}

/// Elements that each kind of collective moves in a step, as buffers of all members.
inline std::map<std::string, std::int64_t> moved(const Program& program) {
  std::map<std::string, std::int64_t> out;
  const auto add = [&](SegmentId id) {
    for (const ProgramOp& op : program.segments[id].ops) {
      if (!is_collective(op.kind) || op.stream != StreamId::kDp) continue;
      const Value& of = program.values[op.reads[0].value];
      out[std::string(to_string(op.kind)) + ":" + program.groups[op.group].name] +=
          message_bytes(program, op) / size_in_bytes(of.dtype);
    }
  };
  for (const Call& call : program.body[0].calls) {
    add(call.segment);
    for (const auto& [at, inner] : call.inside) add(inner);
  }
  return out;
}

}  // namespace trainyard
