// What a study can say wrong of its model and data, each with the exact message.
#include <catch2/catch.hpp>
#include <string>

#include "tests/study/study_fixture.h"

namespace trainyard::model_errors_test {

namespace {

std::string with_model(const std::string& block) {
  return error_of("cluster: box\ntraining: {global_batch: 64}\nmodel: " + block + "\n");
}

}  // namespace

TEST_CASE("keys of text and of images are told apart") {
  CHECK(with_model("{preset: gpt-tiny, depth: 2}") ==
        "study.yaml:3:34: model.depth: means nothing to family gpt; leave this key out");
  CHECK(with_model("{family: resnet, depth: 50, heads: 4}") ==
        "study.yaml:3:43: model.heads: means nothing to family resnet; leave this key out");
  CHECK(with_model("{family: vit, layers: 2, hidden: 64, heads: 2, seq_len: 5}") ==
        "study.yaml:3:64: model.seq_len: means nothing to family vit; leave this key out");
  CHECK(with_model("{family: vit, layers: 2, hidden: 64, heads: 2, batch_norm: replica}") ==
        "study.yaml:3:67: model.batch_norm: means nothing to family vit; leave this key out");
  CHECK(with_model("{family: swin, layers: 8, hidden: 64, heads: 2, ffn: 128}") ==
        "study.yaml:3:61: model.ffn: means nothing to family swin; leave this key out");
  CHECK(with_model("{family: unet, depth: 2, hidden: 16, layers: 5}") ==
        "study.yaml:3:53: model.layers: means nothing to family unet; leave this key out");
  CHECK(with_model("{family: ncf, layers: 2, hidden: 8, users: 9, items: 9, heads: 2}") ==
        "study.yaml:3:71: model.heads: means nothing to family ncf; leave this key out");
  CHECK(with_model("{family: ncf, layers: 2, hidden: 8, users: 9, items: 9, image_size: 2}") ==
        "study.yaml:3:76: model.image_size: means nothing to family ncf; leave this key out");
  CHECK(with_model("{preset: gpt-tiny, users: 2}") ==
        "study.yaml:3:34: model.users: means nothing to family gpt; leave this key out");
  CHECK(with_model("{family: ncf, layers: 2, hidden: 8, users: 9}") ==
        "study.yaml:3:8: model: missing required key 'items'");
  const std::string mamba2 = "{family: mamba2, layers: 2, hidden: 64, vocab: 9, seq_len: 8";
  CHECK(with_model(mamba2 + ", heads: 2}") ==
        "study.yaml:3:77: model.heads: means nothing to family mamba2; leave this key out");
  CHECK(with_model(mamba2 + ", attention_window: 4}") ==
        "study.yaml:3:88: model.attention_window: means nothing to family mamba2; leave this key "
        "out");
  CHECK(with_model("{preset: gpt-tiny, state_size: 2}") ==
        "study.yaml:3:39: model.state_size: means nothing to family gpt; leave this key out");
  const std::string clip =
      "{family: clip, layers: 2, hidden: 64, heads: 2, vocab: 9, seq_len: 8, image_layers: 2, "
      "image_hidden: 64, image_heads: 4, projection_dim: 32";
  CHECK(with_model(clip + ", contrast: 4, classes: 5}") ==
        "study.yaml:3:171: model.classes: means nothing to family clip; leave this key out");
  CHECK(with_model(clip + ", contrast: 4, ffn: 5}") ==
        "study.yaml:3:167: model.ffn: means nothing to family clip; leave this key out");
  CHECK(with_model(clip + "}") == "study.yaml:3:8: model: missing required key 'contrast'");
  CHECK(with_model(clip + ", contrast: 1}") ==
        "study.yaml:3:159: model.contrast: expected at least 2, got 1");
  CHECK(with_model("{preset: gpt-tiny, image_layers: 2}") ==
        "study.yaml:3:41: model.image_layers: means nothing to family gpt; leave this key out");
  CHECK(with_model("{family: densenet}") == "study.yaml:3:8: model: missing required key 'depth'");
}

TEST_CASE("what a family of images does not split is refused") {
  const auto split = [](const std::string& model, const std::string& parallel) {
    return error_of("model: " + model + "\ncluster: {preset: box, nodes: 1}\nparallel: {" +
                    parallel + "}\ntraining: {global_batch: 64, microbatch: 2}\n");
  };
  const std::string swin = "{family: swin, layers: 8, hidden: 64, heads: 2}";
  CHECK(split(swin, "tensor: 2") == "no error");
  CHECK(split(swin, "tensor: 2, sequence_parallel: true") ==
        "study.yaml:3:42: parallel.sequence_parallel: between blocks of family swin lie images, of "
        "which windows are cut, no sequences; write false");
  CHECK(split(swin, "tensor: 2, tensor_overlap: block") ==
        "study.yaml:3:39: parallel.tensor_overlap: block divides samples, which are the first dim "
        "of a tensor; in family swin they are not everywhere: write none");
  CHECK(split("{family: unet, depth: 2, hidden: 16}", "tensor: 2") ==
        "study.yaml:3:20: parallel.tensor: tensor parallelism splits no operator of family unet: "
        "all ranks would do the same; write 1, or say a sharding");
  CHECK(split("{family: mamba2, layers: 2, hidden: 64, vocab: 9, seq_len: 8}", "tensor: 2") ==
        "study.yaml:3:20: parallel.tensor: 2 ranks do not divide groups 1; 1 does");
  CHECK(split("{family: mamba2, layers: 2, hidden: 64, head_dim: 16, groups: 4, vocab: 8, seq_len: "
              "8}",
              "tensor: 3") ==
        "study.yaml:3:20: parallel.tensor: 3 ranks do not divide groups 4; 2 and 4 do");
  CHECK(split("{family: ncf, layers: 2, hidden: 8, users: 9, items: 9}", "tensor: 2") ==
        "study.yaml:3:20: parallel.tensor: tensor parallelism splits no operator of family ncf: "
        "all ranks would do the same; write 1, or say a sharding");
}

TEST_CASE("microbatches are whole groups of what is told apart") {
  const auto clip = [](const std::string& cluster, const std::string& training) {
    return error_of(
        "model: {family: clip, layers: 2, hidden: 64, heads: 2, vocab: 9, seq_len: 8, "
        "image_layers: 2, image_hidden: 64, image_heads: 4, projection_dim: 32, contrast: 4}\n" +
        cluster + "\ntraining: {" + training + "}\n");
  };
  const std::string box = "cluster: {preset: box, nodes: 1}";
  CHECK(clip(box, "global_batch: 64, microbatch: 8") == "no error");
  CHECK(clip(box, "global_batch: 48, microbatch: 6") ==
        "study.yaml:3:42: training.microbatch: 6 samples cannot be put in groups of 4 "
        "(model.contrast); a "
        "multiple of 4 can");
  CHECK(clip(box, "global_batch: 48, microbatch: [4, 2]") ==
        "study.yaml:3:42: training.microbatch: 2 samples cannot be put in groups of 4 "
        "(model.contrast); a "
        "multiple of 4 can");
  CHECK(clip(box + "\npartition: {cuts: [1], replicas: [2, 6]}",
             "global_batch: 64, microbatch: 16") ==
        "study.yaml:4:42: training.microbatch: 16 samples over 6 replicas cannot be put in groups "
        "of 4 "
        "(model.contrast); a multiple of 24 can");
  CHECK(clip(box + "\nparallel: {tensor: 4}", "global_batch: 64, microbatch: 8") ==
        "study.yaml:3:20: parallel.tensor: 4 ranks do not divide heads 2; 2 does");
  CHECK(clip(box + "\nparallel: {tensor: 2, sequence_parallel: true}",
             "global_batch: 64, microbatch: 8") ==
        "study.yaml:3:42: parallel.sequence_parallel: texts and images of family clip are "
        "sequences of different lengths, and an image has a class token beside its patches; write "
        "false");
  CHECK(clip(box + "\nparallel: {tensor: 2, tensor_overlap: block}",
             "global_batch: 64, microbatch: 8") ==
        "study.yaml:3:39: parallel.tensor_overlap: block divides samples, which are the first dim "
        "of a tensor; in family clip they are not everywhere: write none");
}

TEST_CASE("a model's numbers go together") {
  CHECK(
      with_model("{family: gpt, layers: 2, hidden: 100, heads: 3, vocab: 9, seq_len: 8}") ==
      "study.yaml:3:53: model.heads: 3 heads do not divide hidden 100; say model.head_dim, or take "
      "a number of heads that does");
  CHECK(with_model("{preset: gpt-tiny, family: llama}") ==
        "study.yaml:3:35: model.family: the preset's family is gpt; leave this key out");
  CHECK(
      with_model("{preset: gpt-tiny, decoder_layers: 2}") ==
      "study.yaml:3:43: model.decoder_layers: only family t5 has a decoder of its own; leave this "
      "key out");
  CHECK(with_model("{preset: gpt-tiny, seq_len: 512, max_positions: 256}") ==
        "study.yaml:3:36: model.seq_len: 512 is longer than the 256 positions of the model; say "
        "model.max_positions: 512 to enlarge their table");
  CHECK(with_model("{preset: gpt-tiny, position_offset: 2}") == "no error");  // a table of 258
  CHECK(with_model("{preset: gpt-tiny, position_offset: 2, max_positions: 256}") ==
        "study.yaml:3:17: model.seq_len: 256 from 2 on is longer than the 256 positions of the "
        "model; say model.max_positions: 258 to enlarge their table");
  CHECK(with_model("{family: gpt, layers: 100001, hidden: 64, heads: 1, vocab: 9, seq_len: 8}") ==
        "study.yaml:3:30: model.layers: expected at most 100000, got 100001");
  CHECK(with_model("{preset: gpt-tiny, hidden: 2e9, head_dim: 64}") ==
        "study.yaml:3:35: model.hidden: the embedding table would have pad_vocab_to(1001) * "
        "hidden(2000000000) elements, "
        "more than 2^40");
  CHECK(with_model("{family: ncf, layers: 20, hidden: 1000, users: 1e6, items: 10}") ==
        "study.yaml:3:55: model.users: the tower's table would have users(1000000) * 1048576 * "
        "hidden(1000) elements, more than 2^40");
  CHECK(with_model("{family: mamba2, layers: 2, hidden: 64, vocab: 9, seq_len: 1048576, "
                   "state_size: 1048576}") ==
        "study.yaml:3:67: model.seq_len: what reads the states would have microbatch(1) * "
        "seq_len(1048576) * 2 * groups(1) * state_size(1048576) elements, more than 2^40");
}

TEST_CASE("bytes as tokens need an id each, and one for the end of the text") {
  const auto problem = [](const std::string& model, const std::string& data) {
    return error_of(
        "cluster: box\ntraining: {global_batch: 64}\nmodel: {layers: 2, hidden: 64, "
        "heads: 2, seq_len: 32, family: " +
        model + "}\ndata: " + data + "\n");
  };
  const std::string text = "{path: a, format: text}";
  CHECK(problem("gpt, vocab: 257", text) == "no error");
  CHECK(problem("gpt, vocab: 256", text) ==
        "study.yaml:3:75: model.vocab: 256 ids are too few for bytes as tokens (257 ids); 257 are "
        "enough");
  CHECK(problem("gpt, vocab: 256", "{path: a, format: u16}") == "no error");
  CHECK(problem("gpt, vocab: 256", "{path: generated}") == "no error");
  CHECK_THAT(problem("bert, vocab: 259", text),
             Catch::EndsWith("and 3 special tokens of the model; 260 are enough"));
  CHECK(problem("bert, vocab: 260", text) == "no error");
}

TEST_CASE("data are of a kind that the family is trained on") {
  const auto problem = [](const std::string& model, const std::string& data) {
    return error_of("cluster: box\ntraining: {global_batch: 64}\nmodel: " + model +
                    "\ndata: " + data + "\n");
  };
  const std::string vit = "{family: vit, layers: 2, hidden: 64, heads: 2}";
  CHECK(problem(vit, "{path: a, kind: images, mean: [0.5, 0.4, 0.3], std: 0.2}") == "no error");
  CHECK(problem(vit, "{path: a, kind: tokens}") ==
        "study.yaml:4:23: data.kind: family vit is trained on images, not on tokens");
  CHECK(problem("gpt-tiny", "{path: a, kind: images}") ==
        "study.yaml:4:23: data.kind: family gpt is trained on tokens, not on images");
  CHECK(problem("gpt-tiny", "{path: a, kind: text}") ==
        "study.yaml:4:23: data.kind: unknown kind of data 'text'; this version has tokens, images, "
        "pairs and tensors");
  CHECK(problem("gpt-tiny", "{mean: 0.5}") ==
        "study.yaml:4:14: data.mean: is of images in files, and these are tokens");
  CHECK(problem(vit, "{std: 0.5}") ==
        "study.yaml:4:13: data.std: is of images in files, and these are generated");
  CHECK(problem(vit, "{format: u16}") ==
        "study.yaml:4:16: data.format: is of files of tokens, and these are images");
  CHECK(problem(vit, "{path: a, mean: [1, 2]}") ==
        "study.yaml:4:23: data.mean: expected one number, or 3 for the channels of the model's "
        "images, got 2");
  CHECK(problem(vit, "{mean: []}") ==
        "study.yaml:4:14: data.mean: expected a number for each channel");
  CHECK(problem(vit, "{std: [1, 0, 1]}") ==
        "study.yaml:4:17: data.std[1]: expected more than 0, got 0");
  CHECK(problem(vit, "{std: 0}") == "study.yaml:4:13: data.std: expected more than 0, got 0");
}

}  // namespace trainyard::model_errors_test
