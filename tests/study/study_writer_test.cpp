// study.resolved.yaml: readable where a human checks it, and a study that means the same.
#include "study/study_writer.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/study/study_fixture.h"

namespace trainyard::study_writer_test {

namespace {

/// The lines without their comments.
std::string values_of(const Study& study) {
  std::istringstream stream(resolved_study_text(study));
  std::string line;
  std::string values;
  while (std::getline(stream, line)) {
    const std::size_t comment = line.find("# ");
    values += line.substr(0, comment) + "\n";
  }
  return values;
}

}  // namespace

TEST_CASE("the resolved study says each value and its origin") {
  const std::string text = resolved_study_text(read(kSmallStudy, {"training.microbatch=2"}));
  for (const char* line :
       {"# study.yaml with every default filled in. It is a study itself and means the same.\n",
        "\n  layers: 12  # preset gpt-tiny\n",
        "\n  pad_vocab_to: 1002  # default: vocab, up to a multiple of tensor\n",
        "\n  nodes: 2  # from study.yaml:2:31\n", "\n    bandwidth: 300 GB/s  # preset box\n",
        "\n      latency: 3 us  # preset box\n", "\n  pipeline: 4  # from study.yaml:3:33\n",
        "\n  microbatch: 2  # --set training.microbatch=2\n", "\n  clip_norm: 1  # default\n",
        "\nschedule: 1f1b  # default\n"}) {
    CAPTURE(line);
    CHECK(("\n" + text).find(line) != std::string::npos);
  }
}

TEST_CASE("a link written out says which of its figures the study left to their defaults") {
  const std::string text = resolved_study_text(
      read("model: gpt-tiny\ntraining: {global_batch: 8}\n"
           "cluster: {device: a100, devices_per_node: 4,\n"
           "          intra: {kind: nvlink, bandwidth: 300 GB/s, latency: 2 us,\n"
           "                  point_to_point: {startup: 1 us}}}\n"));
  CAPTURE(text);
  CHECK_THAT(text, Catch::Contains("  intra:\n"
                                   "    kind: nvlink  # from study.yaml:4:25\n"
                                   "    bandwidth: 300 GB/s  # from study.yaml:4:44\n"
                                   "    collective:\n"
                                   "      startup: 0 s  # default\n"
                                   "      latency: 2 us  # from study.yaml:4:63\n"
                                   "      efficiency: 1  # default\n"
                                   "      half_size: 0 B  # default\n"
                                   "    point_to_point:\n"
                                   "      startup: 1 us  # from study.yaml:5:45\n"
                                   "      latency: 2 us  # from study.yaml:4:63\n"
                                   "      efficiency: 1  # default\n"));
}

TEST_CASE("what a study leaves of a preset's link still comes from the preset") {
  const std::string text = resolved_study_text(
      read(kSmallStudy, {"cluster.inter={bandwidth: 50 GB/s, efficiency: 0.5}"}));
  CAPTURE(text);
  const std::string option = "# --set cluster.inter={bandwidth: 50 GB/s, efficiency: 0.5}\n";
  CHECK_THAT(text, Catch::Contains("  inter:\n"
                                   "    kind: infiniband  # preset box\n"
                                   "    bandwidth: 50 GB/s  " +
                                   option +
                                   "    collective:\n"
                                   "      startup: 20 us  # preset box\n"
                                   "      latency: 3 us  # preset box\n"
                                   "      efficiency: 0.5  " +
                                   option));
  CHECK_THAT(text, Catch::Contains("    source: fixture  # preset box\n"));
}

TEST_CASE("a case's link comes from the links of its kind") {
  const std::string text = resolved_study_text(read(
      "model: gpt-tiny\ntraining: {global_batch: 8}\n"
      "cluster: {gpu: a100, gpus: 8, gpus_per_node: 8, intra: nvswitch, intra_gb_per_s: 250}\n"));
  CAPTURE(text);
  CHECK_THAT(text, Catch::Contains("  intra:\n"
                                   "    kind: nvswitch  # from study.yaml:3:56\n"
                                   "    bandwidth: 250 GB/s  # from study.yaml:3:82\n"
                                   "    collective:\n"
                                   "      startup: 20 us  # preset links of nvswitch\n"));
}

TEST_CASE("a model of images is written with the keys that it has, and read back") {
  for (const std::string model :
       {"{family: resnet, depth: 50, width_factor: 2, batch_norm: synchronised}",
        "{family: vit, layers: 2, hidden: 64, heads: 2, image_size: 32, patch_size: 8}",
        "{family: vgg, depth: 16, classes: 10}", "{family: densenet, depth: 121, channels: 1}",
        "{family: swin, layers: 8, hidden: 32, heads: 4, image_size: 64, patch_size: 2, "
        "window_size: 4}",
        "{family: unet, depth: 3, hidden: 16, image_size: 64, classes: 4}"}) {
    CAPTURE(model);
    const Study study = read("model: " + model +
                             "\ncluster: {preset: box, nodes: 1}\ntraining: {global_batch: 64}\n");
    const std::string text = resolved_study_text(study);
    CHECK(text.find("vocab") == text.npos);
    CHECK(text.find("image_size") != text.npos);
    CHECK((text.find("hidden") != text.npos) == !has_named_depths(study.model.family));
    CHECK((text.find("kv_heads") != text.npos) == (study.model.family == Family::kVit));
    CHECK((text.find("window_size") != text.npos) == (study.model.family == Family::kSwin));
    CHECK(read(text).model == study.model);
  }
}

TEST_CASE("a model of users and items is written with the keys that it has, and read back") {
  const Study study = read(
      "model: {family: ncf, layers: 2, hidden: 8, users: 90, items: 50}\n"
      "cluster: {preset: box, nodes: 1}\ntraining: {global_batch: 64}\n");
  const std::string text = resolved_study_text(study);
  CHECK_THAT(text, Catch::Contains("  users: 90  # "));
  for (const char* key : {" vocab:", " image_size:", " heads:", " seq_len:", " activation:"})
    CHECK(text.find(key) == text.npos);
  CHECK(read(text).model == study.model);
}

TEST_CASE("a state space model is written with the keys that it has, and read back") {
  const Study study = read(
      "model: {family: mamba2, layers: 2, hidden: 64, vocab: 90, seq_len: 64, chunk_size: 16}\n"
      "cluster: {preset: box, nodes: 1}\ntraining: {global_batch: 64}\n");
  CHECK(study.training.dropout == 0);
  const std::string text = resolved_study_text(study);
  for (const char* line :
       {"  head_dim: 64  # default", "  state_size: 128  # default", "  conv_width: 4  # default",
        "  expand: 2  # default", "  chunk_size: 16  # from", "  tied_embeddings: true  # default"})
    CHECK_THAT(text, Catch::Contains(line));
  for (const char* key : {" image_size:", " heads:", " activation:", " linear_bias:"})
    CHECK(text.find(key) == text.npos);
  CHECK(read(text).model == study.model);
  CHECK(read(text).warnings.empty());
}

TEST_CASE("towers of texts and images are written with their keys, and read back") {
  const Study study = read(
      "model: {family: clip, layers: 2, hidden: 64, heads: 2, vocab: 9, seq_len: 8, image_layers: "
      "3, image_hidden: 64, image_heads: 4, projection_dim: 32, contrast: 4}\n"
      "cluster: {preset: box, nodes: 1}\ntraining: {global_batch: 64, microbatch: 8}\n");
  const std::string text = resolved_study_text(study);
  for (const char* line :
       {"  image_layers: 3  # from", "  contrast: 4  # from", "  patch_size: 16  # default",
        "  image_size: 224  # default", "  pad_vocab_to: 9  # default"})
    CHECK_THAT(text, Catch::Contains(line));
  for (const char* key : {" classes:", " activation:", " kv_heads:", " tied_embeddings:"})
    CHECK(text.find(key) == text.npos);
  CHECK(read(text).model == study.model);
}

TEST_CASE("ZeRO's way to divide and an even cluster are defaults unless said") {
  const auto text = [](const std::vector<std::string>& sets) {
    return resolved_study_text(read(kSmallStudy, sets));
  };
  CHECK_THAT(text({}), Catch::Contains("    stage: 0  # default\n  placement:"));
  CHECK_THAT(text({"parallel.zero=1"}),
             Catch::Contains("    stage: 1  # --set parallel.zero=1\n    by: shard  # default\n"));
  const std::string option = "  # --set parallel.zero={stage: 1, by: shard}\n";
  CHECK_THAT(text({"parallel.zero={stage: 1, by: shard}"}),
             Catch::Contains("    stage: 1" + option + "    by: shard" + option));
  CHECK_THAT(text({}), Catch::Contains("  speed: {}  # default\n"));
}

TEST_CASE("a horizon is written where something is copied") {
  CHECK_THAT(resolved_study_text(read(kSmallStudy)),
             Catch::Contains("offload:\n  activations: false  # default\nframework:"));
  const std::vector<std::string> sets = {"recompute=full", "offload={activations: true}"};
  CHECK_THAT(resolved_study_text(read(kSmallStudy, sets)),
             Catch::Contains("offload:\n  activations: true  # --set offload={activations: true}\n "
                             " horizon: 4  # default\n"));
}

TEST_CASE("where each curve of a link comes from survives the resolved study") {
  // A calibration that has measured collectives, but no sends: those are derived, and must stay so.
  LinkCurve measured;
  measured.provenance = {"measured", "8 ranks, \"today\"", 0.0625};
  measured.measured_from = 1024;
  measured.measured_to = 3 << 20;
  LinkCurve derived;
  derived.provenance = {"derived", "half of the collectives'", 0};
  LinkCurve datasheet;
  datasheet.provenance = {"datasheet", "the switch's", 1.0 / 3};
  Study study = read(kSmallStudy);
  LinkClass& link = study.cluster.intra;
  link.collective = measured;
  link.point_to_point = derived;
  link.in_switch = datasheet;
  link.by_kind = {{"all_gather", derived},
                  {"broadcast", LinkCurve{}}};  // the latter's is the link's

  const std::string text = resolved_study_text(study);
  CAPTURE(text);
  const LinkClass back = read(text).cluster.intra;
  const auto check_same = [](const LinkCurve& curve, const LinkCurve& expected) {
    CHECK(curve.provenance.kind == expected.provenance.kind);
    CHECK(curve.provenance.note == expected.provenance.note);
    CHECK(curve.provenance.interval == expected.provenance.interval);
    CHECK(curve.measured_from == expected.measured_from);
    CHECK(curve.measured_to == expected.measured_to);
  };
  check_same(back.collective, measured);
  check_same(back.point_to_point, derived);
  check_same(back.in_switch.value(), datasheet);
  check_same(back.by_kind.at("all_gather"), derived);
  check_same(back.by_kind.at("broadcast"), LinkCurve{});
  CHECK(back.source == link.source);
  CHECK(back.provenance == link.provenance);
}

TEST_CASE("this machine's estimates are still called that in the resolved study") {
  const Study study = read(kSmallStudy, {"cluster={preset: local, ranks: 8}"});
  CHECK(!study.warnings.empty());
  CHECK_THAT(study.warnings[0], Catch::Contains("step times rest on estimates of this machine"));
  CHECK(read(resolved_study_text(study)).warnings == study.warnings);
}

TEST_CASE("a study says where one curve of a link comes from") {
  const std::string intra = "cluster.intra={source: a page, provenance: datasheet, collective: {";
  const auto curve = [&](const std::string& keys) {
    return read(kSmallStudy, {intra + keys + "}}"}).cluster.intra.collective;
  };
  // What is not said is the link's.
  CHECK(curve("provenance: measured").provenance.kind == "measured");
  CHECK(curve("provenance: measured").provenance.note == "a page");
  CHECK(curve("source: me").provenance.kind == "datasheet");
  CHECK(curve("source: me").provenance.note == "me");
  CHECK(curve("measured: {from: 1 KiB, to: 2 MiB}").measured_to == 2 << 20);
  const auto error = [&](const std::string& keys) {
    return error_of(kSmallStudy, {intra + keys + "}}"});
  };
  CHECK_THAT(error("provenance: guessed"),
             Catch::Contains("cluster.intra.collective.provenance: unknown kind of source"));
  CHECK_THAT(
      error("source: ''"),
      Catch::Contains("cluster.intra.collective.source: expected how the figures were found"));
  CHECK_THAT(error("interval: 0"),
             Catch::Contains("cluster.intra.collective.interval: expected more than 0"));
  CHECK_THAT(error("measured: {from: 2 KiB, to: 1 KiB}"),
             Catch::Contains("cluster.intra.collective.measured: expected from at most to"));
}

TEST_CASE("words that this version has one of are written too") {
  const auto text = [](const std::vector<std::string>& sets) {
    return resolved_study_text(read(kSmallStudy, sets));
  };
  for (const char* line :
       {"  collectives:\n    all_reduce: auto  # default\n    all_gather: auto  # default\n",
        "  tensor_overlap: none  # default\n", "  cpu_offload: false  # default\n",
        "  compiled: false  # default\n", "  async_tp: false  # default\n"}) {
    CAPTURE(line);
    CHECK_THAT(text({}), Catch::Contains(line));
  }
  CHECK_THAT(text({"cluster.collectives={all_gather: ring}"}),
             Catch::Contains("    all_reduce: auto  # default\n    all_gather: ring  # --set "
                             "cluster.collectives={all_gather: ring}\n"));
  CHECK_THAT(text({"training.compiled=true"}),
             Catch::Contains("  compiled: true  # --set training.compiled=true\n"));
}

TEST_CASE("the resolved study reads back as the same study") {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"model=llama-tiny", "training.precision=fp16", "training.loss_scale=4096"},
      {"model={family: t5, layers: 2, hidden: 64, heads: 4, vocab: 99, seq_len: 32}"},
      {"model={family: bert, layers: 4, hidden: 64, heads: 4, vocab: 99, seq_len: 32}"},
      {"model={preset: gpt-tiny, name: 'a \"b\": #c'}", "data.path=corpus.bin"},
      {"model={preset: gpt-tiny, name: '3e5'}", "framework={name: megatron-lm, version: 2021}"},
      {"model={preset: gpt-tiny, name: 'true'}"},
      {"partition=[1, 2, 3]", "cluster.speed={3: 0.85, 1: 2}"},
      {"parallel={tensor: {tp0: 2, tp1: 2}}",
       "sharding={\"*.mlp.fc1\": {weight: [tp0, R]}, '*': {output: '[R, R, tp] R(dp)'}}"},
      {"cluster.nics=2", "cluster.pcie={switches: 2, uplink: 25 GB/s}",
       "cluster.collectives={all_reduce: tree}", "fidelity=step"},
      {"cluster.fabric={kind: torus, dimensions: [3, 2], link: 12.5 GB/s}"},
      {"cluster.fabric={kind: dragonfly, leaf: 1 nodes, group: 2, link: 25 GB/s, global_link: 50 "
       "GB/s}"},
      {"cluster.fabric={kind: rail-optimised, leaf: 4 nodes, oversubscription: 2}"},
      {"cluster.fabric={kind: fat-tree, leaf: 2 nodes, oversubscription: 2, pod: 2, "
       "pod_oversubscription: 1.5}"},
      {"cluster.host={sockets: 2, link: 16 GB/s}", "cluster.collectives={all_reduce: double-tree}"},
      {"cluster.intra={collective: {by_ranks: {2: {startup: 3 us, efficiency: 0.5, "
       "efficiency_beyond: {4 MiB: 1.5}}, "
       "8: {efficiency: 0.7}}}, point_to_point: {efficiency_beyond: {1 MiB: 0.3}}, in_switch: "
       "{latency: 1 us}, "
       "by_kind: {all_gather: {startup: 7 us, by_ranks: {2: {startup: 9 us, efficiency: 0.4}}}}}",
       "cluster.inter={rank_latency: 2 us}"},
      {"cluster.collectives={all_reduce: ring}", "training.async_tp=true",
       "parallel.tensor_overlap=none"},
      {"partition={method: uniform, uneven: true}", "parallel.zero=1", "recompute=full"},
      {"parallel.zero={stage: 2, reduce: each, reduce_dtype: bf16}"},
      {"parallel={data: 4}",
       "parallel.zero={stage: 3, replicate: 2, units: ['*.mlp', '*.attention'], "
       "prefetch: 2, gathers_in_flight: 3, reshard_after_forward: false, reduce: last}"},
      {"parallel={data: 4}", "parallel.zero={stage: 3, reshard_after_forward: 2}"},
      {"parallel.fsdp=true"},
      {"parallel.zero={stage: 2, offload: optimizer}"},
      {"parallel.zero=1", "training.cpu_offload=true",
       "cluster.host={capacity: 2 TiB, cores: 96, update_rate: 3.5e9}"},
      {"recompute={method: stage-aware, first: 0.4375}"},
      {"recompute=stage-aware", "schedule=scp"},
      {"recompute={method: group, strategy: contiguous}"},
      {"recompute=full", "offload={activations: true, horizon: 2}",
       "parallel.zero={stage: 1, by: parameter}"},
      {"recompute={method: group, strategy: group_3}", "schedule=gpipe"},
      {"schedule=interleaved", "parallel.virtual_stages=3", "framework=megatron-lm"},
      {"cluster={gpu: h100, gpus: 12, gpus_per_node: 8, intra: nvswitch, inter: roce}",
       "parallel={tensor: 4}", "training.global_batch=33"},
      {"cluster={device: cpu, devices_per_node: 3, intra: {kind: loopback, bandwidth: 7.77 GiB/s, "
       "latency: 0.123456789 us, half_size: 3 MiB, efficiency: 0.7}}",
       "parallel={pipeline: 3}", "training.precision=fp64"},
      {"training.lr={peak: 0.123, schedule: cosine, warmup: 7}", "training.betas=[0.1, 0.2]",
       "training.eps=1e-6", "training.flash_attention=false", "fidelity=analytic"}};
  for (const std::vector<std::string>& sets : variants) {
    const Study study = read(kSmallStudy, sets);
    const std::string text = resolved_study_text(study);
    CAPTURE(text);
    CHECK(values_of(read(text)) == values_of(study));
    CHECK(read(text).training.bucket_elements == study.training.bucket_elements);
    CHECK(read(text).cluster.inter.bandwidth == study.cluster.inter.bandwidth);
    CHECK(read(text).cluster.intra.collective.latency == study.cluster.intra.collective.latency);
    CHECK(read(text).model.name == study.model.name);
    CHECK(read(text).recompute == study.recompute);
  }
}

TEST_CASE("data are written with the keys that their kind has, and read back") {
  const auto text_of = [](const std::string& model, const std::string& data) {
    return resolved_study_text(read("model: " + model +
                                    "\ncluster: box\ntraining: {global_batch: 64}\n" +
                                    "data: " + data + "\n"));
  };
  const std::string of_tokens = text_of("gpt-tiny", "{path: /a, format: u16}");
  CHECK_THAT(of_tokens, Catch::Contains("  kind: tokens  # default: the family's\n  format: u16"));
  CHECK_THAT(of_tokens, !Catch::Contains("  mean:"));
  const std::string vit = "{family: vit, layers: 2, hidden: 64, heads: 2}";
  const std::string of_images = text_of(vit, "{path: /a, mean: [0.5, 0.25, 1], std: 2}");
  CHECK_THAT(of_images, Catch::Contains("  kind: images  # default: the family's\n"));
  CHECK_THAT(of_images, Catch::Contains("  mean: [0.5, 0.25, 1]  # from study.yaml:4:24\n"
                                        "  std: 2  # from study.yaml:4:45\n"));
  CHECK_THAT(of_images, !Catch::Contains("format"));
  const Study again = read(of_images);
  CHECK(again.data.mean == std::vector<double>{0.5, 0.25, 1});
  CHECK(again.data.std == std::vector<double>{2});
}

}  // namespace trainyard::study_writer_test
