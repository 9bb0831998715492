#include "study/study_schema.h"

#include <initializer_list>
#include <string>
#include <string_view>

#include "engine/plan/plan_limits.h"
#include "study/cluster_schema.h"
#include "study/schema_words.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

using namespace schema;

Json model_map(const char* description, std::initializer_list<const char*> required) {
  return map(
      description,
      {{"preset", text("a preset or path whose numbers hold where none is given here")},
       {"name", text("what reports call the model")},
       {"family", word("architecture", kFamilyWords)},
       {"layers", integer("transformer layers; t5: of the encoder", 1, kMaxLayers)},
       {"hidden", integer("width of the residual stream", 1, kMaxModelNumber)},
       {"heads", integer("attention heads", 1, kMaxModelNumber)},
       {"kv_heads", integer("key and value heads; default heads", 1, kMaxModelNumber)},
       {"head_dim", integer("width of a head; default hidden / heads", 1, kMaxModelNumber)},
       {"ffn", integer("width of the MLP's hidden layer; default 4 x hidden", 1, kMaxModelNumber)},
       {"vocab", integer("vocabulary size", 1, kMaxVocab)},
       {"pad_vocab_to",
        integer("vocabulary with padding; default the next multiple of parallel.tensor", 1,
                kMaxModelNumber)},
       {"seq_len", integer("tokens per sequence", 1, kMaxModelNumber)},
       {"decoder_layers", integer("t5: layers of the decoder; default layers", 0, kMaxLayers)},
       {"decoder_seq_len",
        integer("t5: tokens of the decoder; default seq_len", 0, kMaxModelNumber)},
       {"max_positions",
        integer("rows of the learned position table; 0: none", 0, kMaxModelNumber)},
       {"token_types", integer("bert: rows of the token type table", 0, kMaxModelNumber)},
       {"relative_buckets",
        integer("t5: buckets of the relative attention bias", 0, kMaxModelNumber)},
       {"activation", word("of the MLP; default the family's", kActivationWords)},
       {"tied_embeddings", flag("the LM head shares the token embedding")},
       {"linear_bias", flag("projections and MLP have biases")},
       {"qkv_bias", flag("query, key and value have biases; default linear_bias")},
       {"next_sentence", flag("bert: train the next-sentence head too")},
       {"norm_eps",
        number("added to the variance by the norms; default the family's", 0, kNormEpsBelow)},
       {"rope_base", number("llama: base of the rotary angles; default 10000", kLeastRotaryBase,
                            kRotaryBaseBelow)},
       {"scaled_attention", flag("scores are divided by sqrt(head_dim); false: gpt only")},
       {"layer_scaled_attention", flag("gpt: scores are divided by the layer's number too")},
       {"attention_window",
        integer("tokens that a token attends to; 0: all. Below seq_len not in this version", 0,
                kMaxModelNumber)}},
      required);
}

Json model_schema() {
  return either({text("a preset, or the path of a Hugging Face config.json"),
                 model_map("a preset with some of its numbers replaced", {"preset"}),
                 model_map("the architecture in numbers",
                           {"family", "layers", "hidden", "heads", "vocab", "seq_len"})});
}

Json placement_schema() {
  Json schema = text("letters D, P, C, E, T, rightmost fastest, such as DPT; or cluster, spread");
  schema["pattern"] = R"(^(cluster|spread|(?!.*(.).*\2)[DPCET]+)$)";
  return schema;
}

Json parallel_schema() {
  return map(
      "degrees and placement",
      {{"tensor", integer("ranks that share each layer", 1, kMaxRanks)},
       {"pipeline", integer("ranks that share the stack of layers", 1, kMaxRanks)},
       {"data", integer("replicas; default devices / (tensor x pipeline)", 1, kMaxRanks)},
       {"virtual_stages",
        integer("stages per pipeline rank, for interleaved schedules", 1, kMaxLayers)},
       {"context", integer("1 in this version", 1, 1)},
       {"expert", integer("1 in this version", 1, 1)},
       {"sequence_parallel", flag("activations between layers are split over the tensor group")},
       {"zero",
        either(
            {integer("stage of ZeRO", 0, 1),
             map("ZeRO",
                 {{"stage", integer("stage", 0, 1)},
                  {"by", word("what each replica keeps the state of: shards, or whole parameters",
                              kZeroByWords)}},
                 {"stage"})})},
       {"placement", placement_schema()},
       {"scatter_gather", flag("pipeline sends are split over the tensor group; default true")},
       {"tensor_method", word("how layers are split", kTensorMethodWords)},
       {"tensor_overlap", word("halves of a microbatch hide each other's collectives, within each "
                               "layer or across all of a stage",
                               kTensorOverlapWords)},
       {"d2d_buffer",
        quantity("of a rank, for pipeline transfers between devices, such as 1 GiB; default none: "
                 "they need no buffer")}});
}

Json training_schema() {
  return map(
      "one optimizer step",
      {{"global_batch", integer("sequences per step", 1, kMaxBatch)},
       {"microbatch",
        either({integer("sequences per microbatch and replica", 1, kMaxMicrobatch),
                {{"type", "array"},
                 {"items", integer("sequences", 1, kMaxMicrobatch)},
                 {"minItems", 1},
                 {"description", "of each microbatch of a step, where they differ"}}})},
       {"precision", word("of weights and activations", kPrecisionWords)},
       {"grad_dtype", word("of accumulated and reduced gradients", kPrecisionWords)},
       {"optimizer", word("update rule", kOptimizerWords)},
       {"flash_attention",
        {{"enum", {true, false, "auto"}}, {"description", "auto: where the kernels support it"}}},
       {"clip_norm", number("gradient norm to clip at; 0: off", 0)},
       {"bucket_elements", integer("gradients reduced together", 1, kMaxTensorElements)},
       {"dropout", number("rate; default 0.1, llama 0", 0, 1)},
       {"kernels", word("kernel set; default from the cluster's devices", kKernelWords)},
       {"steps", integer("steps of a training run", 1, kMaxSteps)},
       {"lr", either({number("learning rate", 0, kRateBelow),
                      map("learning rate over the run",
                          {{"peak", number("highest rate", 0, kRateBelow)},
                           {"schedule", word("after the warm-up", kLearningRateWords)},
                           {"warmup", integer("steps of linear increase", 0)}})})},
       {"betas",
        {{"type", "array"},
         {"items", number("beta", 0, 1)},
         {"minItems", 2},
         {"maxItems", 2},
         {"description", "of adamw"}}},
       {"eps", number("of adamw", 0, 1)},
       {"weight_decay", number("of matrices; biases and norms have none", 0, kRateBelow)},
       {"seed", integer("of every random draw", 0)},
       {"loss_scale", either({word("fp16: adapted to overflows",
                                   std::initializer_list<std::string_view>{"dynamic"}),
                              positive("fp16: fixed")})},
       {"timeout_s",
        number("seconds until a collective gives up", kMinTimeoutSeconds, kTimeoutBelowSeconds)},
       {"cpu_offload", {{"enum", {false}}, {"description", "false in this version"}}},
       {"compiled", flag("a word of cases; no effect in this version")},
       {"async_tp", flag("a word of cases; no effect in this version")}},
      {"global_batch"});
}

Json partition_schema() {
  return either({word("how layers become stages", kPartitionWords),
                 {{"type", "array"},
                  {"items", integer("layer", 1, 2 * kMaxLayers)},
                  {"description", "first layer of stage 1, 2, ..."}},
                 map("how layers become stages",
                     {{"method", word("method", kPartitionWords)},
                      {"ends",
                       {{"enum", {true, false, "layers"}},
                        {"description", "embedding and head count as layers"}}},
                      {"uneven", flag("the last stage takes what is left")}},
                     {"method"})});
}

Json recompute_schema() {
  const char* const description = "what the backward computes again";
  Json strategy = text(
      "group and stage-aware: layers (units) of a stage that are recomputed as one: each, "
      "contiguous, group_2, group_3, "
      "...");
  strategy["pattern"] = "^(each|contiguous|group_0*[1-9][0-9]*)$";
  Json share = number("stage-aware: share of its layers that stage 0 keeps", 0);
  share["maximum"] = 1;
  return either(
      {word(description, kRecomputeWords),
       map(description,
           {{"method", word(description, kRecomputeWords)},
            {"first", either({share, word("stage-aware: as much as fits",
                                          std::initializer_list<std::string_view>{"auto"})})},
            {"unit", word("full, stage-aware and group: what is recomputed from its own input",
                          kRecomputeUnitWords)},
            {"strategy", strategy}},
           {"method"})});
}

Json schedule_rows(const std::string& what) {
  return {{"type", "array"},
          {"items", {{"type", "string"}}},
          {"description", what + ", a line of actions for each rank"}};
}

Json schedule_schema() {
  const char* const description = "order of microbatches on each rank";
  const Json post_validation =
      flag("the norm of all pipeline ranks is looked at after the update, in the next step");
  return either(
      {word(description, schedule_words()),
       map(description,
           {{"method", word(description, schedule_words())},
            {"microbatch_group",
             integer("interleaved: microbatches that go through a rank's stages together", 1,
                     kMaxMicrobatches)},
            {"memory_limit",
             integer("zb-1p, zb-2p: microbatches in flight on a rank", 1, kMaxMicrobatches)},
            {"active_microbatches",
             integer("opportunistic: microbatches in the pipeline", 1, kMaxMicrobatches)},
            {"mode", word("zb-1p, zb-2p, opportunistic: static times several orders in train, and "
                          "keeps the fastest",
                          kScheduleModeWords)},
            {"post_validation", post_validation},
            {"rows", schedule_rows("zb-1p, zb-2p, opportunistic: what a search has found")}},
           {"method"}),
       map(description,
           {{"file", text("a CSV with a line of actions for each rank")},
            {"post_validation", post_validation},
            {"rows", schedule_rows("what the file held; it is not read again")}},
           {"file"})});
}

Json sweep_schema() {
  const Json values = either(
      {{{"type", "array"},
        {"minItems", 1},
        {"items", Json::object()},
        {"description", "values in turn"}},
       map("from, from x times, ... up to to",
           {{"from", positive("first")},
            {"to", positive("not exceeded")},
            {"times", {{"type", "number"}, {"exclusiveMinimum", 1}, {"description", "factor"}}}},
           {"from", "to", "times"}),
       map("from, from + step, ... up to to",
           {{"from", typed("number", "first")},
            {"to", typed("number", "not exceeded")},
            {"step", positive("step")}},
           {"from", "to", "step"})});
  Json together = map("keys that take their values in step", {});
  together["patternProperties"] = {{"^.+$", values}};
  together["minProperties"] = 1;
  Json block =
      map("every combination of these keys' values, for trainyard sweep",
          {{"together",
            {{"type", "array"}, {"items", together}, {"description", "each map is one axis"}}}});
  block["patternProperties"] = {{"^(?!together$|sweep$|sweep[.]).+$", values}};
  block["minProperties"] = 1;
  return block;
}

Json annotation(const char* description) { return {{"description", description}}; }

}  // namespace

std::string study_schema_text() {
  Json schema = map(
      "what to train, on what, and how it is divided",
      {{"model", model_schema()},
       {"cluster", cluster_schema()},
       {"parallel", parallel_schema()},
       {"training", training_schema()},
       {"partition", partition_schema()},
       {"schedule", schedule_schema()},
       {"recompute", recompute_schema()},
       {"offload",
        map("what waits in the host's memory for the backward",
            {{"activations", flag("what recomputation keeps: the inputs of recomputed layers")},
             {"horizon", integer("layers before the one that reads it, a copy back is issued", 0,
                                 kMaxLayers)}})},
       {"framework",
        either({text("software profile; default trainyard"),
                map("software profile",
                    {{"name", text("framework")},
                     {"version",
                      {{"type", {"string", "integer", "number"}}, {"description", "of it"}}}},
                    {"name"})})},
       {"data", map("training data", {{"path", text("a file, generated or synthetic")},
                                      {"format", word("of the file", kDataFormatWords)},
                                      {"shuffle", flag("draw sequences in random order")}})},
       {"checkpoint",
        map("checkpoints of a training run",
            {{"every", integer("steps between them", 1)}, {"keep", integer("how many stay", 1)}})},
       {"fidelity", word("executor", kFidelityWords)},
       {"sweep", sweep_schema()}},
      {"model", "cluster", "training"});
  for (const std::string_view key : kAnnotations) {
    schema["properties"][std::string(key)] = annotation("a note that nothing reads");
  }
  Json document = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                   {"title", "Trainyard study"}};
  document.update(schema);
  document["$defs"] = cluster_definitions();
  return document.dump(2) + "\n";
}

}  // namespace trainyard
