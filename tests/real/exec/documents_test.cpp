// Samples packed of documents are trained alike however they are divided: attention, positions and
// the loss stop at each border.
#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "real/data/samples.h"
#include "real/kernels/workspace.h"
#include "tests/engine/data/megatron_writer.h"
#include "tests/real/attended.h"
#include "tests/real/layouts.h"
#include "tests/real/parity.h"
#include "tests/support/scratch_folder.h"
#include "tests/support/studies.h"

namespace trainyard::exec_documents_test {

namespace {

const std::string kTraining = "precision: fp64, dropout: 0, clip_norm: 0.01, lr: {peak: 0.01}";
const std::string kDrawn = "data.documents={lengths: {mean: 5, min: 2}, seed: 11}";
const std::string kGiven = "data.documents={lengths: [7, 1, 3]}";

Sets context(int ranks, const std::string& how) {
  return {"cluster.ranks=" + std::to_string(ranks), "parallel.context={" + how + "}"};
}

}  // namespace

TEST_CASE("documents shared by ranks train as on one device, by every method") {
  for (const std::string family : {"gpt", "llama"}) {
    const std::string text = parity_study(family, kTraining);
    for (const std::string& documents : {kDrawn, kGiven}) {
      // 12 samples in three steps, 60 documents or so.
      const Sets packed = {"model.seq_len=32", documents, "training.global_batch=4"};
      const LoopbackRun one = run_loopback(text, packed, {.steps = 3});
      for (const std::string how :
           {"degree: 2", "degree: 4", "degree: 4, balance: none", "degree: 2, method: all-gather",
            "degree: 4, method: all-gather, balance: none", "degree: 4, method: ulysses"}) {
        CAPTURE(family, documents, how);
        const int ranks = how.find("degree: 4") == std::string::npos ? 2 : 4;
        check_same(one, run_loopback(text, joined(packed, context(ranks, how)), {.steps = 3}),
                   kFp64);
      }
    }
  }
}

TEST_CASE("documents are trained beside every other way to divide a training") {
  const std::vector<Sets> features = {
      {"cluster.ranks=4", "parallel.data=4"},
      {"cluster.ranks=2", "parallel.data=2", "parallel.zero=1"},
      {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
      {"cluster.ranks=2", "parallel.pipeline=2", "schedule=zb-v"},
      {"cluster.ranks=2", "parallel.pipeline=2", "schedule=dualpipe-v"},
      {"cluster.ranks=8", "parallel.context=2", "parallel.tensor=2", "parallel.data=2",
       "parallel.sequence_parallel=true"},
      {"cluster.ranks=4", "parallel.context=2", "parallel.pipeline=2", "schedule=1f1b",
       "recompute=full"},
      {"training.microbatch=[2, 1, 1, 3, 1]"},
      {"cluster.ranks=2", "parallel.tensor=2", "parallel.tensor_overlap=block",
       "training.microbatch=2"},
      {"cluster.ranks=4", "parallel.tensor=2", "parallel.data=2",
       "parallel.tensor_overlap=across-blocks", "training.microbatch=2", "recompute=full"},
      {"cluster.ranks=4", "partition={replicas: [1, 3]}", "training.microbatch=4"},
      {"cluster.ranks=8", "partition={replicas: [3, 5]}", "training.microbatch=8",
       "parallel.zero=3", "recompute=full"},
      {"cluster.ranks=4", "partition={replicas: [1, 3]}", "training.microbatch=[5, 3]"},
      {"cluster.ranks=4", "parallel.tensor={tp0: 2, tp1: 2}"},
      {"cluster.ranks=2", "partition={cuts: [1, 3], on: [0, 1, 0]}"},
      {"cluster.ranks=2", "parallel.tensor=2", "parallel.tensor_method=map",
       "training.microbatch=2"},
      {"cluster.ranks=4", "parallel.tensor=4", "parallel.tensor_method={name: map, mesh: [2, 2]}",
       "training.microbatch=4"},
      // Samples split over tp0, where their documents are asked for, too; the loss and its divisor.
      {"cluster.ranks=4", "parallel.tensor=4", "training.microbatch=4",
       "parallel.tensor_method={name: map, mesh: [2, 2], ops: {'*.qkv.linear': {strategy: {d0: "
       "[tp0], o: [tp1]}}, '*.proj.linear': {strategy: {d0: [tp0], i: [tp1]}}, 'lm_head.linear': "
       "{strategy: {d0: [tp0], o: [tp1]}}, '*.attention.attention': {strategy: {b: [tp0], g: "
       "[tp1]}}}}"},
      // Ranks with samples of their own, whose attention has all of a group's or theirs alone.
      {"cluster.ranks=2", "parallel.tensor=2", "parallel.tensor_method=smp"},
      {"cluster.ranks=4", "parallel.tensor=2", "parallel.data=2",
       "parallel.tensor_method={name: smp, optimize: speed}"},
      {"cluster.ranks=4", "parallel.tensor=2", "parallel.data=2", "parallel.tensor_method=smp",
       "parallel.tensor_modules=['*.mlp']", "parallel.zero=1"},
      {"cluster.ranks=2", "parallel.tensor=2",
       "parallel.tensor_method={name: smp, prescaled_batch: true}", "recompute=full"},
      {"cluster.ranks=4", "parallel.tensor=2", "parallel.pipeline=2", "schedule=1f1b",
       "parallel.tensor_method=smp", "parallel.tensor_modules=['*.mlp']",
       "training.flash_attention=false"},
      {"cluster.ranks=4", "parallel.pipeline=2", "parallel.data=2", "schedule=gpipe",
       "partition={method: smp}"},
      {"cluster.ranks=4", "parallel.tensor=4", "parallel.tensor_method=summa-2d",
       "training.microbatch=2"},
      {"cluster.ranks=8", "parallel.tensor=8", "parallel.tensor_method=summa-2.5d",
       "training.microbatch=4"},
      {"cluster.ranks=8", "parallel.tensor=8", "parallel.tensor_method=3d",
       "training.microbatch=4"},
      {"recompute=full"}};
  for (const std::string family : {"gpt", "llama"}) {
    const std::string text = parity_study(family, kTraining);
    const LoopbackRun one = run_loopback(text, {kDrawn}, {.steps = 2});
    for (const Sets& feature : features) {
      CAPTURE(family, feature);
      check_same(one, run_loopback(text, joined({kDrawn}, feature), {.steps = 2}), kFp64);
    }
  }
}

TEST_CASE("documents are trained beside a sharding of one's own") {
  const std::string text = parity_study("gpt", kTraining);
  const LoopbackRun one = run_loopback(text, {kDrawn}, {.steps = 2});
  const Sets axes = {kDrawn, "parallel.tensor={tp0: 2, tp1: 2}", kAtpSharding};
  for (const Sets& feature : std::vector<Sets>{
           {"cluster.ranks=4"},
           {"cluster.ranks=8", "parallel.data=2", "parallel.zero=3"},
           {"cluster.ranks=8", "parallel.pipeline=2", "schedule=1f1b", "recompute=full"},
           {"cluster.ranks=4", "training.flash_attention=false"}}) {
    CAPTURE(feature);
    check_same(one, run_loopback(text, joined(axes, feature), {.steps = 2}), kFp64);
  }
  // A rank attends to some samples of its replica.
  const Sets samples = {kDrawn,
                        "cluster.ranks=4",
                        "parallel.tensor={tp0: 2}",
                        "parallel.data=2",
                        "training.microbatch=2",
                        "sharding={'*.attention': {strategy: {b: tp0}}}"};
  check_same(one, run_loopback(text, samples, {.steps = 2}), kFp64);
}

TEST_CASE("documents of a file are trained as on one device, where an index or a token ends them") {
  // Tokens 4 to 43, and 3 at the end of documents of 1, 2, ..., 9, 1, ... tokens.
  const ScratchFolder folder;
  std::vector<std::uint16_t> tokens;
  MegatronWriter writer(folder / "indexed", 100);
  for (std::int64_t length = 1; tokens.size() < 4000; length = length % 9 + 1) {
    std::vector<std::int64_t> document;
    for (std::int64_t i = 1; i < length; ++i)
      document.push_back(4 + (std::ssize(tokens) * 7 + i * i) % 40);
    document.push_back(3);
    for (const std::int64_t token : document) tokens.push_back(static_cast<std::uint16_t>(token));
    writer.add_document(document);
  }
  writer.finish();
  std::ofstream(folder / "plain", std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()),
             static_cast<std::streamsize>(2 * tokens.size()));
  const Sets indexed = {"data={path: " + (folder / "indexed") +
                        ", format: megatron, documents: {lengths: file}}"};
  const Sets plain = {"data={path: " + (folder / "plain") +
                      ", format: u16, documents: {lengths: file, end: 3}}"};
  for (const std::string family : {"gpt", "llama"}) {
    const std::string text = parity_study(family, kTraining);
    const LoopbackRun one = run_loopback(text, indexed, {.steps = 3});
    CHECK(run_loopback(text, plain, {.steps = 3}).losses == one.losses);
    for (const Sets& feature : std::vector<Sets>{
             {"cluster.ranks=4", "parallel.data=4", "parallel.zero=3"},
             {"cluster.ranks=4", "parallel.context=2", "parallel.pipeline=2", "schedule=1f1b"},
             {"cluster.ranks=4", "partition={replicas: [1, 3]}", "training.microbatch=4"},
             {"cluster.ranks=4", "parallel.data=2", "parallel.tensor=2", "recompute=full"}}) {
      CAPTURE(family, feature);
      check_same(one, run_loopback(text, joined(indexed, feature), {.steps = 3}), kFp64);
    }
  }
}

TEST_CASE("a step whose documents predict nothing has a loss of 0, and training goes on") {
  // In the file's order: the first 8 samples are ends of documents alone.
  const ScratchFolder folder;
  std::vector<std::uint16_t> tokens(8 * 16, 3);
  for (std::int64_t i = 0; i < 8 * 16 + 1; ++i)
    tokens.push_back(static_cast<std::uint16_t>(4 + i % 40));
  std::ofstream(folder / "tokens", std::ios::binary)
      .write(reinterpret_cast<const char*>(tokens.data()),
             static_cast<std::streamsize>(2 * tokens.size()));
  const Sets data = {"data={path: " + (folder / "tokens") +
                         ", format: u16, shuffle: false, documents: {lengths: file, end: 3}}",
                     "model.seq_len=16"};
  const LoopbackRun run = run_loopback(parity_study("gpt", kTraining), data, {.steps = 2});
  CHECK(run.losses[0] == 0);
  // Weights have hardly moved: still about as many nats as a uniform guess of the vocabulary.
  CHECK(run.losses[1] > 1);
  CHECK(std::isfinite(run.losses[1]));
}

TEST_CASE("attention that keeps its scores stays inside documents, too") {
  for (const std::string family : {"gpt", "llama"}) {
    const std::string text = parity_study(family, kTraining);
    for (const std::string& documents : {kDrawn, kGiven}) {
      const LoopbackRun flash = run_loopback(text, {documents}, {.steps = 2});
      for (const Sets& feature : std::vector<Sets>{
               {},
               {"cluster.ranks=2", "parallel.tensor=2", "parallel.sequence_parallel=true"},
               {"cluster.ranks=2", "parallel.context={degree: 2, method: ulysses}"},
               {"cluster.ranks=4", "parallel.data=2", "parallel.pipeline=2", "recompute=selective"},
               {"cluster.ranks=2", "parallel.tensor=2", "parallel.tensor_overlap=block",
                "training.microbatch=2"}}) {
        CAPTURE(family, documents, feature);
        const Sets scores = joined({documents, "training.flash_attention=false"}, feature);
        check_same(flash, run_loopback(text, scores, {.steps = 2}), kFp64);
      }
    }
  }
}

TEST_CASE("probabilities that are dropped out stay inside documents") {
  // CPUs' flash kernels have no dropout: scores are kept.
  const std::string text = parity_study("gpt", "precision: fp64, dropout: 0.1, clip_norm: 0.01");
  const LoopbackRun one = run_loopback(text, {kDrawn}, {.steps = 2});
  const Sets many = {"cluster.ranks=4", "parallel.data=2", "parallel.tensor=2", kDrawn};
  check_same(one, run_loopback(text, many, {.steps = 2}), kFp64);
  CHECK(one.losses != run_loopback(text, {}, {.steps = 2}).losses);
}

TEST_CASE("windows and contiguous cuts train as on one device") {
  for (const std::string family : {"gpt", "llama"}) {
    const std::string text = parity_study(family, kTraining);
    for (const std::string window : {"0", "1", "5", "20"}) {
      const Sets model = {"model.seq_len=32", "model.attention_window=" + window};
      const LoopbackRun one = run_loopback(text, model, {.steps = 2});
      for (const std::string how :
           {"degree: 4", "degree: 4, balance: none", "degree: 2, method: all-gather",
            "degree: 4, method: all-gather, balance: none"}) {
        CAPTURE(family, window, how);
        const int ranks = how.find("degree: 4") == std::string::npos ? 2 : 4;
        check_same(one, run_loopback(text, joined(model, context(ranks, how)), {.steps = 2}),
                   kFp64);
      }
    }
  }
}

TEST_CASE("positions begin anew in a document, and its last token predicts nothing") {
  const Prepared prepared = prepare_text(
      parity_study("gpt", kTraining), {"model.seq_len=16", "data.documents={lengths: [7, 1, 3]}"});
  const std::unique_ptr<Samples> samples = make_samples(prepared.study);
  std::vector<std::int64_t> positions(16), labels(16), tokens(16);
  samples->fill("positions", 3, positions);
  samples->fill("labels", 3, labels);
  samples->fill("tokens", 3, tokens);
  // Documents of 7, 1, 3 and the 5 that are left of the next 7.
  const std::vector<std::int64_t> expected = {0, 1, 2, 3, 4, 5, 6, 0, 0, 1, 2, 0, 1, 2, 3, 4};
  CHECK(positions == expected);
  for (std::size_t i = 0; i < labels.size(); ++i) {
    CAPTURE(i);
    const bool last = i == 6 || i == 7 || i == 10 || i == 15;
    CHECK(labels[i] == (last ? kNotPredicted : tokens[i + 1]));
  }
  CHECK(samples->num_predicted(0, 3) == 3 * (16 - 4));
}

TEST_CASE("rotary angles of a document are those of a sequence that begins there") {
  const RotatedDocuments rotated = rotate_documents({.lengths = {}, .mean = 4, .seed = 2}, 10, 5);
  CHECK(rotated.together == rotated.apart);
  CHECK(rotated.together != rotated.as_one);
}

TEST_CASE("attention of documents and windows allocates no more than it declares") {
  for (const std::string precision : {"fp32", "bf16", "fp64"}) {
    for (const std::string how :
         {"1", "{degree: 4}", "{degree: 4, balance: none}", "{degree: 2, method: all-gather}"}) {
      for (const std::string& documents : {std::string(), kDrawn}) {
        CAPTURE(precision, how, documents);
        int attentions = 0;
        LoopbackOptions options;
        options.watch_ops = [&](const Program& program, const ProgramOp& op, std::int64_t seen) {
          if (op.kind != OpKind::kBlockAttention && op.kind != OpKind::kFlashAttention &&
              op.kind != OpKind::kRope)
            return;
          ++attentions;
          CAPTURE(op_name(op.kind, op.part));
          CHECK(seen <= workspace_bytes(program, op, 1));
        };
        Sets sets = {"parallel.context=" + how};
        if (how != "1")
          sets.push_back(how.find("4") == std::string::npos ? "cluster.ranks=2"
                                                            : "cluster.ranks=4");
        if (!documents.empty()) sets.push_back(documents);
        run_loopback(
            "model: {family: llama, layers: 1, hidden: 192, heads: 4, kv_heads: 2, ffn: 400, "
            "vocab: 1000, seq_len: 192, attention_window: 50}\ncluster: {preset: local, ranks: "
            "1}\ntraining: {global_batch: 4, microbatch: 4, precision: " +
                precision + "}\n",
            sets, options);
        CHECK(attentions > 0);
      }
    }
  }
}

}  // namespace trainyard::exec_documents_test
