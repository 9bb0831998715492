// The keys of the root, and of `framework:`, `data:` and `checkpoint:`.
#include <algorithm>
#include <array>

#include "engine/plan/plan_limits.h"
#include "study/study_keys.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

constexpr std::int64_t kFirstYear = 2018, kLastYear = 2100;
constexpr std::array kReadLengths = {kFileDocuments};

}  // namespace

const KeyTable& framework_keys() {
  static const KeyTable keys = {
      {.name = "name",
       .forms = {TextForm{{}, StudyResolvers::Names::kSoftware}},
       .help = "`trainyard list frameworks` has them; any, with like",
       .field = field<&Study::framework, &FrameworkConfig::name>(),
       .fallback = "required"},
      {.name = "version",
       .forms = {TextForm{}, NumberForm{-kAnyNumber}},
       .help = "of the framework",
       .field = field<&Study::framework, &FrameworkConfig::version>(),
       .fallback = "the one that such runs were made with, see docs/contract.md"},
      {.name = "like",
       .forms = {TextForm{}},
       .help =
           "for software without a profile: whose profile it takes, such as megatron-lm-current",
       .field = field<&Study::framework, &FrameworkConfig::like>(),
       .fallback = "none"},
      {.name = "year",
       .forms = {IntegerForm{kFirstYear, kLastYear}},
       .help = "of the software, settles the version where it is not said",
       .field = field<&Study::framework, &FrameworkConfig::year>(),
       .fallback = "none",
       .matters = "megatron-lm, pytorch-fsdp, torchtitan"}};
  return keys;
}

const KeyTable& document_length_keys() {
  static const KeyTable keys = {
      {.name = "mean",
       .forms = {IntegerForm{2}},
       .help = "tokens of a document, before max and the end of the sample cut any",
       .field = field<&Study::documents, &DocumentConfig::mean>(),
       .fallback = "required"},
      {.name = "min",
       .forms = {IntegerForm{1}},
       .help = "tokens that every document has; what it has beyond is exponential",
       .field = field<&Study::documents, &DocumentConfig::least>()},
      {.name = "max",
       .forms = {IntegerForm{1}},
       .help = "tokens that no document has more of",
       .field = field<&Study::documents, &DocumentConfig::most>(),
       .fallback = "model.seq_len"}};
  return keys;
}

const KeyTable& document_keys() {
  static const KeyTable keys = {
      {.name = "lengths",
       .forms = {IntegerForm{1}, ListForm{IntegerForm{1}}, WordForm{kReadLengths},
                 MapForm{document_length_keys, "drawn, in each sample anew", {"mean"}}},
       .help = "tokens of each document: a number or a list, over and over until the sample is "
               "full; file: as the file of data.path has them",
       .fallback = "required"},
      {.name = "seed",
       .forms = {IntegerForm{0}},
       .help = "of drawn lengths, which are a pure function of it and of the sample",
       .field = field<&Study::documents, &DocumentConfig::seed>()},
      {.name = "end",
       .forms = {IntegerForm{0}},
       .help = "of lengths: file: the token that ends a document, which has it as its last",
       .fallback = "where the file's index says; required of the formats u16, u32 and text"}};
  return keys;
}

const KeyTable& data_keys() {
  static const KeyTable keys = {
      {.name = "path",
       .forms = {TextForm{}},
       .help = "a file, a folder of files, generated or synthetic",
       .field = field<&Study::data, &DataConfig::path>()},
      {.name = "kind",
       .forms = {WordForm{kDataKindWords, {}, "kind of data"}},
       .help = "what the files hold",
       .field = field<&Study::data, &DataConfig::kind>(),
       .fallback =
           "the family's: tokens, images or pairs; onnx: tokens where the model predicts them, "
           "else tensors"},
      {.name = "format",
       .forms = {WordForm{kDataFormatWords}},
       .help = "of a file of tokens",
       .field = field<&Study::data, &DataConfig::format>(),
       .matters = "tokens"},
      {.name = "shuffle",
       .forms = {FlagForm{}},
       .help = "draw samples in random order, anew in every epoch",
       .field = field<&Study::data, &DataConfig::shuffle>()},
      {.name = "mean",
       .forms = {NumberForm{-kAnyNumber}, ListForm{NumberForm{-kAnyNumber}}},
       .help =
           "taken from images of bytes as x / 255: one number, or a list of one for each channel",
       .fallback = "0",
       .matters = "images, tensors"},
      {.name = "std",
       .forms = {number_above(0), ListForm{number_above(0)}},
       .help = "what these are then divided by",
       .fallback = "1",
       .matters = "images, tensors"},
      {.name = "documents",
       .forms = {MapForm{document_keys, "", {"lengths"}}},
       .help = "what samples are packed of: attention stays inside documents, positions begin anew",
       .fallback = "none: a sample is one piece",
       .matters = "gpt, llama"}};
  return keys;
}

const KeyTable& checkpoint_keys() {
  static const KeyTable keys = {{.name = "every",
                                 .forms = {IntegerForm{1}},
                                 .help = "steps between them",
                                 .field = field<&Study::checkpoint, &CheckpointConfig::every>()},
                                {.name = "keep",
                                 .forms = {IntegerForm{1}},
                                 .help = "how many stay",
                                 .field = field<&Study::checkpoint, &CheckpointConfig::keep>()}};
  return keys;
}

namespace {

KeyTable make_study_keys() {
  KeyTable keys = {
      {.name = "model",
       .forms = {TextForm{{}, StudyResolvers::Names::kModels},
                 MapForm{model_keys, "a preset with some of its numbers replaced", {"preset"}},
                 MapForm{model_keys,
                         "the architecture in numbers",
                         {"family", "layers", "hidden", "heads", "vocab", "seq_len"}},
                 MapForm{model_keys,
                         "a vision transformer in numbers",
                         {"family", "layers", "hidden", "heads"}},
                 MapForm{model_keys, "a convolutional network", {"family", "depth"}},
                 MapForm{model_keys,
                         "a tower of texts and one of images",
                         {"family", "layers", "hidden", "heads", "vocab", "seq_len", "image_layers",
                          "image_hidden", "image_heads", "projection_dim", "contrast"}},
                 MapForm{model_keys,
                         "a state space model in numbers",
                         {"family", "layers", "hidden", "vocab", "seq_len"}},
                 MapForm{model_keys,
                         "collaborative filtering",
                         {"family", "layers", "hidden", "users", "items"}},
                 MapForm{model_keys, "an ONNX file and the axes that it leaves open", {"onnx"}}},
       .help = "a preset, the path of a Hugging Face config.json or of an ONNX file, or a map",
       .fallback = "required"},
      {.name = "cluster",
       .forms = {TextForm{},
                 MapForm{preset_cluster_keys, "a preset scaled to some nodes", {"preset"}},
                 MapForm{local_cluster_keys, "this machine", {"preset"}},
                 MapForm{written_cluster_keys, "written out in place", {"device"}},
                 MapForm{
                     flat_cluster_keys, "a case's flat words", {"gpu", "gpus", "gpus_per_node"}}},
       .help = "a preset, the path of a file of topologies/, or a map",
       .fallback = "required"},
      {"parallel", {MapForm{parallel_keys}}, "degrees and placement"},
      {.name = "sharding",
       .forms = {ShardingForm{}},
       .help =
           "how tensors of modules are split, such as {\"*.mlp.fc1\": {weight: [tp, R], output: "
           "[R, R, tp]}}",
       .fallback = "as parallel.tensor_method has it"},
      {.name = "training",
       .forms = {MapForm{training_keys, "", {"global_batch"}}},
       .help = "one optimizer step",
       .fallback = "required"},
      {.name = "partition",
       .forms = {WordForm{kPartitionWords}, ListForm{IntegerForm{1, 2 * kMaxLayers}, 0},
                 ListForm{TextForm{}, 0}, MapForm{partition_keys, "", {}, {}, "method"}},
       .help = "how layers become stages; a list: partition.cuts",
       .fallback = "uniform"},
      {.name = "schedule",
       .forms = {WordForm{schedule_words()},
                 MapForm{schedule_keys, "by name", {"method"}, {}, "method"},
                 MapForm{schedule_file_keys, "from a file", {"file"}}},
       .help = "order of microbatches on each rank",
       .fallback = "1f1b"},
      {.name = "recompute",
       .forms = {WordForm{kRecomputeWords}, MapForm{recompute_keys, "", {"method"}, {}, "method"},
                 MapForm{recompute_keys, "", {"modules"}}},
       .help = "what the backward computes again",
       .fallback = "none"},
      {"offload", {MapForm{offload_keys}}, "what waits in the host's memory for the backward"},
      {.name = "framework",
       .forms = {TextForm{{}, StudyResolvers::Names::kSoftware},
                 MapForm{framework_keys, "", {"name"}, {}, "name"}},
       .help = "software profile",
       .fallback = "trainyard"},
      {"data", {MapForm{data_keys}}, "training data"},
      {"checkpoint", {MapForm{checkpoint_keys}}, "checkpoints of a training run"},
      {.name = "fidelity",
       .forms = {WordForm{kFidelityWords}},
       .help = "executor: analytic adds closed forms up; fluid shares links between messages; step "
               "sends a collective's messages one by one",
       .field = field<&Study::fidelity>()},
      {"sweep", {SweepForm{}}, "every combination of these keys' values, for trainyard sweep"}};
  for (const std::string_view key : kAnnotations)
    keys.push_back({key, {AnyForm{}}, "a note that nothing reads"});
  return keys;
}

}  // namespace

const KeyTable& study_keys() {
  static const KeyTable keys = make_study_keys();
  return keys;
}

}  // namespace trainyard
