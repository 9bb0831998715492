#include "tests/real/layouts.h"

#include <map>

namespace trainyard {

namespace {

std::string model_text(const std::string& family) {
  const std::map<std::string, std::string> models = {
      {"gpt", "{family: gpt, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 8}"},
      {"llama",
       "{family: llama, layers: 4, hidden: 32, heads: 8, kv_heads: 4, ffn: 48, vocab: 62, seq_len: "
       "8}"},
      {"bert", "{family: bert, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 8}"},
      {"bert-next",
       "{family: bert, layers: 4, hidden: 32, heads: 4, vocab: 62, seq_len: 16, next_sentence: "
       "true}"},
      {"t5",
       "{family: t5, layers: 2, decoder_layers: 2, hidden: 32, heads: 4, head_dim: 8, ffn: 48, "
       "vocab: 150, "
       "seq_len: 16, decoder_seq_len: 8}"}};
  return models.at(family);
}

}  // namespace

std::vector<std::string> sets_of(const Layout& layout) {
  const auto word = [](bool value) { return std::string(value ? "true" : "false"); };
  return {"cluster.ranks=" + std::to_string(layout.data * layout.tensor * layout.pipeline),
          "parallel.data=" + std::to_string(layout.data),
          "parallel.tensor=" + std::to_string(layout.tensor),
          "parallel.pipeline=" + std::to_string(layout.pipeline),
          "parallel.virtual_stages=" + std::to_string(layout.virtual_stages),
          "parallel.sequence_parallel=" + word(layout.sequence_parallel),
          "parallel.zero=" + std::to_string(layout.zero),
          "recompute=" + layout.recompute,
          "training.microbatch=" + std::to_string(layout.microbatch),
          "schedule=" + layout.schedule};
}

const std::vector<Sets>& around_four_ranks() {
  static const std::vector<Sets> all = {
      {"cluster.ranks=8", "parallel.data=2", "parallel.zero=1"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.zero={stage: 1, by: parameter}"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.zero=2"},
      {"cluster.ranks=8", "parallel.data=2", "parallel.zero=3"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=1f1b", "recompute=group"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule={method: zb-h1, post_validation: true}"},
      {"cluster.ranks=8", "parallel.pipeline=2", "parallel.virtual_stages=2",
       "schedule=interleaved"},
      {"cluster.ranks=8", "parallel.pipeline=2", "schedule=dualpipe-v"}};
  return all;
}

std::vector<Layout> all_layouts() {
  std::vector<Layout> out;
  for (const int data : {1, 2, 4, 8})
    for (const int tensor : {1, 2, 4})
      for (const int pipeline : {1, 2, 4})
        for (const int virtual_stages : {1, 2})
          for (const bool sequence : {false, true})
            for (const int zero : {0, 1, 2, 3})
              for (const char* recompute : {"none", "selective", "full"})
                for (const int microbatch : {1, 2})
                  for (const char* schedule : {"1f1b", "gpipe", "interleaved"})
                    for (const bool dropout : {false, true}) {
                      const int ranks = data * tensor * pipeline;
                      const bool interleaved = std::string(schedule) == "interleaved";
                      if (ranks == 1 || ranks > 8) continue;
                      if (sequence && tensor == 1) continue;
                      if (zero > 0 && data == 1) continue;
                      if (interleaved != (virtual_stages > 1) || (interleaved && pipeline != 2))
                        continue;
                      const int microbatches = 8 / (data * microbatch);
                      if (microbatches < 1 || (interleaved && microbatches % pipeline != 0))
                        continue;
                      out.push_back({data, tensor, pipeline, virtual_stages, sequence, zero,
                                     recompute, microbatch, schedule, dropout});
                    }
  return out;
}

bool fits(const std::string& family, const Layout& layout) {
  return !(family == "llama" && layout.dropout);
}

Sets joined(Sets a, const Sets& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

std::string parity_study(const std::string& family, const std::string& training) {
  return "model: " + model_text(family) +
         "\ncluster: {preset: local, ranks: 1}\ntraining: {global_batch: 8, microbatch: 1, " +
         training + "}\ndata: {path: synthetic}\n";
}

}  // namespace trainyard
