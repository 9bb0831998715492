// study.resolved.yaml: readable where a human checks it, and a study that means the same.
#include "engine/config/study_writer.h"

#include <catch2/catch.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/engine/config/study_fixture.h"

namespace trainyard {

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

TEST_CASE("the resolved study reads back as the same study") {
  const std::vector<std::vector<std::string>> variants = {
      {},
      {"model=llama-tiny", "training.precision=fp16", "training.loss_scale=4096"},
      {"model={family: t5, layers: 2, hidden: 64, heads: 4, vocab: 99, seq_len: 32}"},
      {"model={family: bert, layers: 4, hidden: 64, heads: 4, vocab: 99, seq_len: 32}"},
      {"model={preset: gpt-tiny, name: 'a \"b\": #c'}", "data.path=corpus.bin"},
      {"partition=[1, 2, 3]", "cluster.speed={3: 0.85, 1: 2}"},
      {"partition={method: uniform, uneven: true}", "parallel.zero=1", "recompute=full"},
      {"schedule=interleaved", "parallel.virtual_stages=3", "framework=megatron-lm"},
      {"cluster={gpu: h100, gpus: 12, gpus_per_node: 8, intra: nvswitch, inter: roce}",
       "parallel={tensor: 4}", "training.global_batch=33"},
      {"cluster={device: cpu, devices_per_node: 3, intra: {kind: shm, bandwidth: 7.77 GiB/s, "
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
  }
}

}  // namespace trainyard
