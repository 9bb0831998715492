// Where sends, receives, late frees, gradient buckets and the optimizer stand in each rank's list
// of calls, and what the segments of a step do, as the text of tiny Programs.
#include "engine/passes/lower.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <map>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "engine/passes/plan_mesh.h"
#include "engine/program/program_text.h"
#include "tests/support/studies.h"

namespace trainyard::lower_test {

namespace {

// h = 16, s = 8, V = 40. A layer has 12 h^2 + 13 h = 3280 parameters, the token table 640.
std::string gpt(const std::string& parallel, int batch) {
  return "model: {family: gpt, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
         "cluster: dgx-a100-80g\nparallel: " +
         parallel + "\n" + "training: {global_batch: " + std::to_string(batch) + ", dropout: 0}\n";
}

Program program(const std::string& yaml, const std::vector<std::string>& sets = {}) {
  return compiled_program(prepare_text(yaml, sets));
}

/// One line per rank class: its calls; of calls inside another, without the op they stand at.
std::string calls(const Program& program) {
  std::istringstream text(to_text(program));
  std::string out;
  bool next = false;
  for (std::string line; std::getline(text, line);) {
    if (next) out += std::regex_replace(line.substr(2), std::regex("@[0-9]+:"), "") + "\n";
    next = line.starts_with("class");
  }
  return out;
}

/// The ops of the segment called `name`, module lines left out.
std::string segment_text(const Program& program, const std::string& name) {
  std::istringstream text(to_text(program));
  std::string out;
  bool inside = false;
  for (std::string line; std::getline(text, line);) {
    if (!line.starts_with("  ")) inside = line.starts_with("segment " + name + "(");
    if (inside && line.starts_with("  ") && !line.starts_with("  @")) out += line.substr(2) + "\n";
  }
  return out;
}

const Segment& find_segment(const Program& program, const std::string& name) {
  for (const Segment& segment : program.segments) {
    if (segment.name == name) return segment;
  }
  throw std::runtime_error("no segment " + name);
}

}  // namespace

TEST_CASE("one rank runs its microbatches, then the norm and the update") {
  CHECK(calls(program(gpt("{data: 1}", 3))) ==
        "0ZERO 0F0 0B0 0F1 0B1 0F2 0B2 0LOSS 0NORM 0UPDATE\n");
  // Ours takes the norm whether it clips or not: the update is guarded by it. Others only to clip.
  CHECK(calls(program(gpt("{data: 1}", 2), {"training.clip_norm=0"})) ==
        "0ZERO 0F0 0B0 0F1 0B1 0LOSS 0NORM 0UPDATE\n");
  CHECK(calls(program(gpt("{data: 1}", 2), {"training.clip_norm=0", "framework=megatron-lm"})) ==
        "0ZERO 0F0 0B0 0F1 0B1 0LOSS 0UPDATE\n");
}

TEST_CASE("1F1B: sends follow their producers, receives and frees keep one action's distance") {
  // A receive is posted one action ahead of its consumer (1RECV_F1 before 1B0), unless that would
  // cross an earlier transfer of the rank: 0RECV_B1 stays behind 0SEND_F2, whose microbatch is
  // produced first. What was sent before an action is freed after it (0SEND_F0 0F1, then 0B0
  // 0FREE_F0: the send had 0F1 and 0B0 to leave).
  CHECK(
      calls(program(gpt("{pipeline: 2, data: 1}", 4))) ==
      "0ZERO 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0B0 0FREE_F0 0F2 0FREE_F1 0SEND_F2 0RECV_B1 0B1 "
      "0F3 "
      "0FREE_F2 0SEND_F3 0RECV_B2 0RECV_B3 0B2 0B3 0FREE_F3 0REDUCE_TIED.1 0NORM 0UPDATE\n"
      "1ZERO 1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 1RECV_F2 1B1 1FREE_B0 1SEND_B1 1F2 1RECV_F3 "
      "1B2 "
      "1FREE_B1 1SEND_B2 1F3 1B3 1FREE_B2 1SEND_B3 1FREE_B3 1REDUCE_TIED.2 1LOSS 1NORM 1UPDATE\n");
}

TEST_CASE("gpipe runs all forwards, then all backwards") {
  CHECK(calls(program(gpt("{pipeline: 2, data: 1}", 2), {"schedule=gpipe"})) ==
        "0ZERO 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0RECV_B1 0B0 0FREE_F0 0B1 0FREE_F1 "
        "0REDUCE_TIED.1 0NORM 0UPDATE\n"
        "1ZERO 1RECV_F0 1RECV_F1 1F0 1F1 1B0 1SEND_B0 1B1 1SEND_B1 1FREE_B0 1FREE_B1 "
        "1REDUCE_TIED.2 1LOSS 1NORM 1UPDATE\n");
}

TEST_CASE("every rank issues its transfers in one global order, each send met by its receive") {
  // The order is that of a merge: walking the ranks' transfers, whichever sends and receives stand
  // at the head of both their lists go. verify() does the same; here it is done by names alone.
  const auto sets = GENERATE(values<std::vector<std::string>>(
      {{"parallel.pipeline=8"},
       {"parallel.pipeline=4", "schedule=gpipe"},
       {"parallel.pipeline=4", "parallel.virtual_stages=2", "schedule=interleaved"},
       {"parallel.pipeline=2", "parallel.virtual_stages=4", "schedule=interleaved"}}));
  std::vector<std::string> all = sets;
  all.push_back("model.layers=8");
  const Program p = program(gpt("{data: 1}", 8), all);
  std::vector<std::vector<std::string>> lists;  // "F>3.5": forward into stage 3, microbatch 5
  for (const RankClass& list : p.body) {
    auto& out = lists.emplace_back();
    for (const Call& call : list.calls) {
      const Segment& segment = p.segments[call.segment];
      const bool sends = segment.name.find("SEND_") != std::string::npos;
      if (!sends && segment.name.find("RECV_") == std::string::npos) continue;
      const char way = segment.name.back();
      const int into = segment.stage + (sends ? (way == 'F' ? 1 : -1) : 0);
      out.push_back(std::string(1, way) + ">" + std::to_string(into) + "." +
                    std::to_string(call.mb[0]));
    }
  }
  std::size_t left = 0, met = 0;
  for (const auto& list : lists) left += list.size();
  const int stages = 8 / (sets.front() == "parallel.pipeline=4" && sets.size() == 2 ? 2 : 1);
  CHECK(left ==
        static_cast<std::size_t>(2 * 2 * 8 * (stages - 1)));  // ends x ways x microbatches x cuts
  std::vector<std::size_t> at(lists.size(), 0);
  for (bool progress = true; progress;) {
    progress = false;
    std::map<std::string, std::vector<std::size_t>> heads;
    for (std::size_t r = 0; r < lists.size(); ++r) {
      if (at[r] < lists[r].size()) heads[lists[r][at[r]]].push_back(r);
    }
    for (const auto& [transfer, ranks] : heads) {
      if (ranks.size() != 2) continue;
      for (const std::size_t r : ranks) ++at[r];
      met += 2;
      progress = true;
    }
  }
  CHECK(met == left);
}

TEST_CASE("buckets are reduced inside the last backward, each right behind its last gradient") {
  const Program p = program(gpt("{pipeline: 2, data: 2}", 4), {"training.bucket_elements=2000"});
  // Stage 0 fills buckets in backward order: fc2 (1040), then fc1 (1088) would pass 2000; ...; the
  // tied table has its own.
  CHECK(calls(p) ==
        "0ZERO 0F0 0SEND_F0 0F1 0SEND_F1 0RECV_B0 0RECV_B1 0B0 0FREE_F0 "
        "0B1{0REDUCE_GRAD.0;0REDUCE_GRAD.1;0REDUCE_GRAD.2;0REDUCE_GRAD.3} "
        "0FREE_F1 0REDUCE_TIED.3 0NORM 0UPDATE\n"
        "1ZERO 1RECV_F0 1F0 1RECV_F1 1B0 1SEND_B0 1F1 "
        "1B1{1REDUCE_GRAD.4;1REDUCE_GRAD.5;1REDUCE_GRAD.6;1REDUCE_GRAD.7} "
        "1FREE_B0 1SEND_B1 1FREE_B1 1REDUCE_TIED.4 1LOSS 1NORM 1UPDATE\n");

  int checked = 0;
  for (const RankClass& list : p.body) {
    for (const Call& call : list.calls) {
      const auto& ops = p.segments[call.segment].ops;
      for (const auto& [place, inner] : call.inside) {
        const ValueId bucket = storage_root(p, p.segments[inner].ops[0].reads[0].value);
        std::size_t last = 0;
        for (std::size_t k = 0; k < ops.size(); ++k) {
          for (const Operand& operand : ops[k].accumulates) {
            if (storage_root(p, operand.value) == bucket) last = k;
          }
        }
        CHECK(place == last + 1);
        ++checked;
      }
    }
  }
  CHECK(checked == 8);
}

TEST_CASE("a framework that does not overlap reduces behind the whole backward") {
  CHECK(calls(program(gpt("{data: 2}", 4), {"framework={name: megatron-lm, version: 2022}"})) ==
        "0ZERO 0F0 0B0 0F1 0B1 0REDUCE_GRAD.0^4 0LOSS 0NORM 0UPDATE\n");  // ^4: not before call 4,
                                                                          // 0B1, has ended
}

TEST_CASE(
    "a framework that synchronises at transfers waits for receives, right before who needs them") {
  const std::string yaml = gpt("{pipeline: 2, data: 1}", 2);
  const Program piped = program(yaml, {"framework=megatron-lm"});
  CHECK(find_segment(piped, "1RECV_F").ops.front().host_sync);
  CHECK(find_segment(piped, "0RECV_B").ops.front().host_sync);
  CHECK_FALSE(find_segment(piped, "0SEND_F").ops.front().host_sync);
  // Two microbatches. Our executor posts 0RECV_B0 before 0F1 and 1RECV_F1 before 1B0; a host that
  // waits for them would not issue those.
  CHECK(calls(piped).find("0F1 0SEND_F1 0RECV_B0 0B0") != std::string::npos);
  CHECK(calls(piped).find("1B0 1SEND_B0 1RECV_F1 1F1") != std::string::npos);
  const Program ours = program(yaml);
  CHECK_FALSE(find_segment(ours, "1RECV_F").ops.front().host_sync);
  CHECK(calls(ours).find("1RECV_F1 1B0") != std::string::npos);
}

TEST_CASE("a framework that synchronises at transfers waits for the last kernel of each segment") {
  const auto waits = [](const Program& program, const std::string& name) {
    std::string out;
    for (const ProgramOp& op : find_segment(program, name).ops) {
      if (op.kind != OpKind::kFree && op.stream == StreamId::kMain) out += op.host_sync ? "w" : ".";
    }
    return out;
  };
  const auto last_only = [](const std::string& marks) {
    return marks.find('w') + 1 == marks.size() && marks.size() > 1;
  };
  const Program piped = program(gpt("{pipeline: 2}", 8) + "framework: megatron-lm\n");
  CHECK(last_only(waits(piped, "0F")));
  CHECK(last_only(waits(piped, "1B")));
  // Without a pipeline there is no transfer to wait at; and our own executor never does.
  const std::string current = "framework: {name: megatron-lm, version: current}\n";
  CHECK(waits(program(gpt("{}", 8) + current), "0F").find('w') == std::string::npos);
  CHECK(waits(program(gpt("{pipeline: 2}", 8)), "0F").find('w') == std::string::npos);
}

TEST_CASE("partial gradients of sequence parallelism are summed over tp, then over dp") {
  const Program p = program(gpt("{tensor: 2, data: 2, sequence_parallel: true}", 4));
  CHECK(calls(p) ==
        "0ZERO 0F0 0B0 0F1 0B1{0REDUCE_GRAD.1} 0REDUCE_TP.0 0REDUCE_GRAD.0 0LOSS 0NORM 0UPDATE\n");
  CHECK(segment_text(p, "0REDUCE_TP.0") == "tp all_reduce:tp b0.grad -> b0.grad.tp_sum\n");
  CHECK(segment_text(p, "0REDUCE_GRAD.0") ==
        "dp all_reduce:dp b0.grad.tp_sum -> b0.grad.tp_sum.dp_sum\n");
}

TEST_CASE("tied embeddings are summed over the pipeline's ends behind data parallelism") {
  const Program p = program(gpt("{pipeline: 2, data: 2}", 4));
  CHECK(segment_text(p, "0REDUCE_GRAD.1") == "dp all_reduce:dp b1.grad -> b1.grad.dp_sum\n");
  CHECK(segment_text(p, "0REDUCE_TIED.1") ==
        "norm all_reduce:tied0 b1.grad.dp_sum -> b1.grad.dp_sum.tied_sum\n");
  CHECK(segment_text(p, "1REDUCE_TIED.2") ==
        "norm all_reduce:tied0 b2.grad.dp_sum -> b2.grad.dp_sum.tied_sum\n");
  const auto tied = std::find_if(p.groups.begin(), p.groups.end(),
                                 [](const Group& g) { return g.name == "tied0"; });
  REQUIRE(tied != p.groups.end());
  CHECK(tied->axes == Axes{stage_axis(p.mesh)});
  CHECK(tied->members == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("the norm counts replicated gradients by their share and tied ones once") {
  const Program p = program(gpt("{pipeline: 2, tensor: 2, data: 1}", 2));
  // b0: whole on both tensor ranks; b1: split; b2, b3: the tied table, counted on stage 0 alone.
  CHECK(segment_text(p, "0NORM") ==
        "main zero -> norm_sq@0\n"
        "main sum_squares{share=0.5} b0.grad +> norm_sq@0\n"
        "main sum_squares b1.grad +> norm_sq@0\n"
        "main sum_squares b2.grad.tied_sum +> norm_sq@0\n"
        "norm all_reduce:norm norm_sq@0 -> norm_sq@0.all\n");
  CHECK(segment_text(p, "1NORM") ==
        "main zero -> norm_sq@1\n"
        "main sum_squares{share=0.5} b4.grad +> norm_sq@1\n"
        "main sum_squares b5.grad +> norm_sq@1\n"
        "norm all_reduce:norm norm_sq@1 -> norm_sq@1.all\n");
  // Each element of each parameter counts once over all ranks: shares times copies.
  double elements = 0;
  for (const char* name : {"0NORM", "1NORM"}) {
    for (const ProgramOp& op : find_segment(p, name).ops) {
      if (op.kind != OpKind::kSumSquares) continue;
      const Value& gradient = p.values[op.reads[0].value];
      elements += 2.0 * p.attrs[op.attrs].share * static_cast<double>(num_elements(gradient.dims));
    }
  }
  // V h + s h + 2 (12 h^2 + 13 h) + 2 h
  CHECK(elements == 40 * 16 + 8 * 16 + 2 * (12 * 256 + 13 * 16) + 2 * 16);
}

TEST_CASE("ZeRO-1 reduces to shards, updates them, and gathers the weights") {
  const Program p = program(gpt("{data: 4, zero: 1}", 4));
  CHECK(calls(p) == "0ZERO 0F0 0B0{0REDUCE_GRAD.0} 0LOSS 0NORM 0UPDATE\n");
  CHECK(segment_text(p, "0REDUCE_GRAD.0") ==
        "dp reduce_scatter:dp b0.grad -> b0.grad_shard.dp_sum\n");
  CHECK(segment_text(p, "0UPDATE") ==
        "main adamw norm_sq@0.all b0.grad_shard.dp_sum -> b0.param_shard +> b0.master b0.exp_avg "
        "b0.exp_avg_sq "
        "guard norm_sq@0.all\n"
        "dp all_gather:dp b0.param_shard -> b0.param\n"
        "main free b0.grad norm_sq@0\n");
  // Shards differ along dp, so the norm is summed over it too.
  const auto norm = std::find_if(p.groups.begin(), p.groups.end(),
                                 [](const Group& g) { return g.name == "norm"; });
  CHECK(norm->axes == p.groups[kDataGroup].axes);
  CHECK(norm->axes.size() == 1);
}

TEST_CASE("a pipeline transfer over the tensor group: slice, send, receive, gather") {
  const Program p = program(gpt("{pipeline: 2, tensor: 2, data: 1}", 2));
  const std::string x = "decoder.layers.0.add:1";
  CHECK(segment_text(p, "0SEND_F") == "fwd send:0 " + x + ".slice[m]\n");
  CHECK(segment_text(p, "1RECV_F") == "fwd_in recv:1 -> " + x + ".slice@1[m]\n");
  CHECK(segment_text(p, "1SEND_B") == "bwd send:1 d." + x + ".slice@1[m]\n");
  CHECK(segment_text(p, "0RECV_B") == "bwd_in recv:0 -> d." + x + ".slice[m]\n");
  // The gather is the first op of the receiving segment, on tp; the slice the last of the sending
  // one.
  const std::string forward = segment_text(p, "1F");
  CHECK(forward.starts_with("tp all_gather:tp " + x + ".slice@1[m] -> " + x + "@1[m]\n"));
  CHECK(segment_text(p, "0F").ends_with("main slice " + x + "[m] -> " + x + ".slice[m]\n"));
  CHECK(
      segment_text(p, "0B").starts_with("tp all_gather:tp d." + x + ".slice[m] -> d." + x + "\n"));
  CHECK(segment_text(p, "0FREE_F") == "main free " + x + "[m]\n");  // the storage, not the view
}

TEST_CASE("T5 sends the encoder's output beside the decoder's, and takes both gradients back") {
  const std::string t5 =
      "model: {family: t5, layers: 2, hidden: 16, heads: 4, vocab: 40, seq_len: 8}\n"
      "cluster: dgx-a100-80g\nparallel: {pipeline: 4, data: 1}\ntraining: {global_batch: 4, "
      "dropout: 0}\n";
  const Program p = program(t5);
  const std::string bias = "decoder.layers.0.self_attention.relative_bias.relative_bias";
  CHECK(segment_text(p, "2SEND_F") ==
        "fwd send:0 decoder.layers.0.add:2[m]\n"
        "fwd send:0 " +
            bias +
            "[m]\n"
            "fwd send:0 encoder.final_norm.rms_norm@2[m]\n");
  CHECK(segment_text(p, "3SEND_B") ==
        "bwd send:1 d.encoder.final_norm.rms_norm@3[m]\n"
        "bwd send:1 d." +
            bias +
            "@3[m]\n"
            "bwd send:1 d.decoder.layers.0.add:2@3.sum[m]\n");
}

TEST_CASE(
    "fp16 updates are guarded by the norm, ours always; a framework may have the host read it") {
  const Program p = program(gpt("{data: 1}", 2), {"training.precision=fp16", "training.clip_norm=0",
                                                  "framework={name: megatron-lm, version: 2022}"});
  for (const ProgramOp& op : find_segment(p, "0UPDATE").ops) {
    if (op.kind == OpKind::kAdamW) CHECK(op.guard.has_value());
  }
  CHECK(find_segment(p, "0NORM").ops.back().host_sync);
  const Program bf16 =
      program(gpt("{data: 1}", 2), {"framework={name: megatron-lm, version: 2022}"});
  for (const ProgramOp& op : find_segment(bf16, "0UPDATE").ops) CHECK_FALSE(op.guard.has_value());
  const Program ours = program(gpt("{data: 1}", 2));
  CHECK(find_segment(ours, "0UPDATE").ops.front().guard.has_value());
}

}  // namespace trainyard::lower_test
