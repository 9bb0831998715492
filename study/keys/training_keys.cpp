// The keys of `training:`, in the order of study.resolved.yaml.
#include <array>

#include "engine/plan/plan_limits.h"
#include "study/study_keys.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

using T = TrainingConfig;

template <auto... member>
constexpr KeyField of_training() {
  return field<&Study::training, member...>();
}

constexpr std::array<std::string_view, 1> kDynamicWords = {"dynamic"};

}  // namespace

const KeyTable& precision_keys() {
  static const KeyTable keys = {
      {.name = "type",
       .forms = {WordForm{kPrecisionWords, {}, "precision"}},
       .help = "of weights and activations; tf32: fp32 that tensor cores multiply as TF32; fp8: "
               "bf16, and products of linear layers in 8 bits"},
      {.name = "recipe",
       .forms = {WordForm{kFp8RecipeWords, {}, "recipe"}},
       .help =
           "what shares a scale: a tensor, a tensor by the steps before, a row, 128 elements, 32",
       .fallback = "the framework's",
       .matters = "fp8"},
      {.name = "gather",
       .forms = {WordForm{kFp8GatherWords, {}, "type of gathers"}},
       .help = "what all-gathers in front of FP8 products carry",
       .fallback = "the framework's",
       .matters = "fp8"}};
  return keys;
}

const KeyTable& learning_rate_keys() {
  static const KeyTable keys = {{.name = "peak",
                                 .forms = {NumberForm{0, kRateBelow}},
                                 .help = "highest rate",
                                 .field = of_training<&T::lr, &LearningRate::peak>()},
                                {.name = "schedule",
                                 .forms = {WordForm{kLearningRateWords}},
                                 .help = "after the warm-up",
                                 .field = of_training<&T::lr, &LearningRate::schedule>()},
                                {.name = "warmup",
                                 .forms = {IntegerForm{}},
                                 .help = "steps of linear increase",
                                 .field = of_training<&T::lr, &LearningRate::warmup>()}};
  return keys;
}

const KeyTable& training_keys() {
  static const KeyTable keys = {
      {.name = "global_batch",
       .forms = {IntegerForm{1, kMaxBatch}},
       .help = "sequences per optimizer step",
       .field = of_training<&T::global_batch>(),
       .fallback = "required",
       .aliases = {"gbs"}},
      {.name = "microbatch",
       .forms = {IntegerForm{1, kMaxMicrobatch},
                 ListForm{IntegerForm{1, kMaxMicrobatch}, 1, kMaxMicrobatches}},
       .help = "sequences per microbatch and replica; a list where they differ within a step",
       .fallback = "1",
       .aliases = {"mbs"}},
      {.name = "precision",
       .forms = {WordForm{kPrecisionWords, {}, "precision"},
                 MapForm{precision_keys, "precision and how FP8 is scaled", {"type"}, {}, "type"}},
       .help = "of weights and activations; tf32: fp32 that tensor cores multiply as TF32; fp8: "
               "products of linear layers in 8 bits, the rest in bf16",
       .fallback = "bf16"},
      {.name = "optimizer",
       .forms = {WordForm{kOptimizerWords}},
       .help = "update rule",
       .field = of_training<&T::optimizer>()},
      {.name = "flash_attention",
       .forms = {FlagForm{}, WordForm{kAutoWords}},
       .help = "auto: where the kernels support it",
       .fallback = "auto"},
      {.name = "grad_dtype",
       .forms = {WordForm{kGradientWords, {}, "precision"}},
       .help = "of accumulated and reduced gradients",
       .field = of_training<&T::grad_dtype>(),
       .fallback = "the framework's, else fp32; fp64 with precision fp64"},
      {.name = "clip_norm",
       .forms = {NumberForm{0}},
       .help = "gradient norm to clip at; 0: off",
       .field = of_training<&T::clip_norm>()},
      {.name = "bucket_elements",
       .forms = {IntegerForm{1, kMaxTensorElements}},
       .help = "gradients reduced together",
       .field = of_training<&T::bucket_elements>()},
      {.name = "dropout",
       .forms = {NumberForm{0, 1}},
       .help = "rate",
       .field = of_training<&T::dropout>(),
       .fallback = "0.1; llama 0"},
      {.name = "kernels",
       .forms = {WordForm{kKernelWords, {}, "kernel set"}},
       .help = "kernel set",
       .field = of_training<&T::kernels>(),
       .fallback = "of the cluster's devices"},
      {.name = "steps",
       .forms = {IntegerForm{1, kMaxSteps}},
       .help = "steps of a training run",
       .field = of_training<&T::steps>()},
      {.name = "lr",
       .forms = {NumberForm{0, kRateBelow},
                 MapForm{learning_rate_keys, "learning rate over the run", {}, {}, "peak"}},
       .help = "learning rate"},
      {.name = "betas",
       .forms = {ListForm{NumberForm{0, 1}, 2, 2}},
       .help = "decay of the averages",
       .fallback = "[0.9, 0.95]",
       .matters = "adamw"},
      {.name = "eps",
       .forms = {NumberForm{0, 1}},
       .help = "added to the root of the second average",
       .field = of_training<&T::eps>(),
       .matters = "adamw"},
      {.name = "weight_decay",
       .forms = {NumberForm{0, kRateBelow}},
       .help = "of matrices; biases and norms have none",
       .field = of_training<&T::weight_decay>()},
      {.name = "seed",
       .forms = {IntegerForm{}},
       .help = "of every random draw",
       .field = of_training<&T::seed>()},
      {.name = "loss_scale",
       .forms = {WordForm{kDynamicWords}, number_above(0)},
       .help = "dynamic: adapted to overflows; or a fixed one",
       .fallback = "dynamic",
       .matters = "fp16"},
      {.name = "timeout_s",
       .forms = {NumberForm{kMinTimeoutSeconds, kTimeoutBelowSeconds}},
       .help = "seconds until a collective gives up",
       .field = of_training<&T::timeout_s>()},
      {.name = "cpu_offload",
       .forms = {FlagForm{}},
       .help = "optimizer state in the host's memory: another word for parallel.zero.offload",
       .field = of_training<&T::cpu_offload>(),
       .fallback = "true where parallel.zero.offload is optimizer"},
      {.name = "compiled",
       .forms = {FlagForm{}},
       .help = "torch.compile: the framework's version that fuses elementwise ops",
       .field = of_training<&T::compiled>(),
       .matters = "torchtitan"},
      {.name = "async_tp",
       .forms = {FlagForm{}},
       .help = "tensor-parallel collectives in pieces, beside the products of other pieces",
       .field = of_training<&T::async_tp>(),
       .matters = "torchtitan"}};
  return keys;
}

}  // namespace trainyard
