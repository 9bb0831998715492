// The keys of `partition:`, `schedule:`, `recompute:` and `offload:`, each a word or a map.
#include <array>

#include "engine/plan/plan_limits.h"
#include "study/study_keys.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

constexpr std::array<std::string_view, 1> kLayersWords = {"layers"};
constexpr std::array<std::string_view, 1> kNoneWords = {"none"};

const StudyKey& post_validation() {
  static const StudyKey key = {
      .name = "post_validation",
      .forms = {FlagForm{}},
      .help = "the norm of all pipeline ranks is looked at after the update, in the next step",
      .field = field<&Study::schedule, &ScheduleConfig::post_validation>()};
  return key;
}

}  // namespace

const KeyTable& partition_keys() {
  static const KeyTable keys = {
      {.name = "method",
       .forms = {WordForm{kPartitionWords}},
       .help = "method",
       .field = field<&Study::partition, &PartitionConfig::method>(),
       .fallback = "uniform; cuts say it themselves"},
      {.name = "ends",
       .forms = {FlagForm{}, WordForm{kLayersWords}},
       .help = "layers, or true: embedding and head count as layers",
       .field = field<&Study::partition, &PartitionConfig::ends>()},
      {.name = "uneven",
       .forms = {FlagForm{}},
       .help = "the last stage takes what is left",
       .field = field<&Study::partition, &PartitionConfig::uneven>()},
      {.name = "between",
       .forms = {WordForm{kBetweenWords}},
       .help = "layers, or ops: where stages may begin",
       .field = field<&Study::partition, &PartitionConfig::between>(),
       .matters = "method cost, parameters"},
      {.name = "shards",
       .forms = {WordForm{kShardWords}},
       .help = "the subgraphs that stages are made of: Merak's rules, or whole layers",
       .field = field<&Study::partition, &PartitionConfig::shards>(),
       .matters = "method autopipe"},
      {.name = "bound",
       .forms = {IntegerForm{1, 4 * kMaxLayers}},
       .help = "a subgraph ends behind more than 1 / bound of the parameters",
       .field = field<&Study::partition, &PartitionConfig::bound>(),
       .fallback = "2 x layers + 4",
       .matters = "shards farthest"},
      {.name = "budget",
       .forms = {QuantityForm{"30 s"}},
       .help = "how long it may search, at 20 steps evaluated a second",
       .fallback = "30 s",
       .matters = "methods search and search-pipeline"},
      {.name = "rule",
       .forms = {WordForm{kRuleWords}},
       .help =
           "RaNNC's stages as its paper or its code finds them, or the best (paper's, where their "
           "step is shorter)",
       .field = field<&Study::partition, &PartitionConfig::rule>(),
       .matters = "method rannc"},
      {.name = "blocks",
       .forms = {IntegerForm{1, kMostPlannedBlocks}, WordForm{kNoneWords}},
       .help = "that stages are made of; none: of what begins with an op that has parameters",
       .fallback = "32",
       .matters = "method rannc"},
      {.name = "margin",
       .forms = {NumberForm{.least = 0, .below = 1}},
       .help = "share of a device's memory that stays free",
       .field = field<&Study::partition, &PartitionConfig::margin>(),
       .matters = "methods rannc and search-pipeline"},
      {.name = "memory_weight",
       .forms = {NumberForm{.least = 0, .most = 1}},
       .help = "of memory in what a module costs; the rest is its time's",
       .field = field<&Study::partition, &PartitionConfig::memory_weight>(),
       .matters = "method smp"},
      {.name = "times",
       .forms = {WordForm{kPartitionTimesWords}},
       .help = "of ops: by the cost model, or measured by emulate; of modules also their number of "
               "modules inside",
       .fallback = "model",
       .matters = "methods smp and rannc"},
      {.name = "measured",
       .forms = {TextForm{}},
       .help = "the partition_times.json that emulate --out wrote, in place of measuring again",
       .fallback = "none",
       .matters = "times emulate"},
      {.name = "routing",
       .forms = {WordForm{kRoutingWords}},
       .help = "what a module answers goes to its parent and on from there, or to its readers",
       .field = field<&Study::partition, &PartitionConfig::routing>(),
       .fallback = "parent; direct with schedule.mode fast",
       .matters = "method smp"},
      {.name = "assign",
       .forms = {EntriesForm{"module", "^.+$", IntegerForm{0, kMaxRanks - 1}, "module_devices"}},
       .help = "pipeline ranks of modules by hand, such as {\"decoder.layers.1*\": 1}; what is "
               "inside goes along",
       .fallback = "by costs",
       .matters = "method smp"},
      {.name = "default",
       .forms = {IntegerForm{0, kMaxRanks - 1}},
       .help = "the pipeline rank of the model itself",
       .fallback = "0",
       .matters = "assign"},
      {.name = "cuts",
       .forms = {ListForm{IntegerForm{1, 2 * kMaxLayers}, 0}, ListForm{TextForm{}, 0}},
       .help = "where stage 1, 2, ... begin: at a layer, or at the first "
               "op of a module or the one that writes a tensor, such "
               "as [4, decoder.layers.9.mlp]",
       .fallback = "none"},
      {.name = "replicas",
       .forms = {ListForm{IntegerForm{1, kMaxRanks}}},
       .help = "of each pipeline rank, such as [1, 3]; a microbatch is "
               "split among all of a rank",
       .fallback = "parallel.data of all"},
      {.name = "on",
       .forms = {ListForm{IntegerForm{0, kMaxRanks - 1}}},
       .help = "pipeline rank of each stage, such as [0, 1, 0]",
       .fallback = "as the schedule places them",
       .matters = "gpipe, 1f1b, opportunistic, a file; smp with assign"}};
  return keys;
}

const KeyTable& schedule_keys() {
  constexpr IntegerForm kMicrobatches{1, kMaxMicrobatches};
  static const KeyTable keys = {
      {.name = "method",
       .forms = {WordForm{schedule_words()}},
       .help = "order of microbatches on each rank; `trainyard list schedules` says what each does",
       .field = field<&Study::schedule, &ScheduleConfig::method>(),
       .fallback = "required"},
      {.name = "microbatch_group",
       .forms = {kMicrobatches},
       .help = "microbatches that go through a rank's stages together",
       .field = field<&Study::schedule, &ScheduleConfig::microbatch_group>(),
       .fallback = "about one per pipeline rank",
       .matters = "interleaved"},
      {.name = "memory_limit",
       .forms = {kMicrobatches},
       .help = "microbatches in flight on a rank",
       .field = field<&Study::schedule, &ScheduleConfig::memory_limit>(),
       .fallback = "pipeline ranks; zb-2p twice as many",
       .matters = "zb-1p, zb-2p"},
      {.name = "active_microbatches",
       .forms = {kMicrobatches},
       .help = "microbatches in the pipeline",
       .field = field<&Study::schedule, &ScheduleConfig::active_microbatches>(),
       .fallback = "pipeline ranks + 2",
       .matters = "opportunistic"},
      {.name = "mode",
       .forms = {WordForm{kScheduleModeWords}},
       .help =
           "static times several orders in train, and keeps the fastest; modules of partition "
           "smp no longer ask each other by messages, and in fast mode, which is for them, send "
           "directly",
       .field = field<&Study::schedule, &ScheduleConfig::mode>(),
       .matters = "zb-1p, zb-2p, opportunistic; partition smp"},
      post_validation(),
      {.name = "rows",
       .forms = {ListForm{TextForm{}, 0}},
       .help = "what a search has found, a line of actions for each rank",
       .fallback = "the search is run",
       .matters = "zb-1p, zb-2p, opportunistic"}};
  return keys;
}

const KeyTable& schedule_file_keys() {
  static const KeyTable keys = {
      {"file", {TextForm{}}, "a CSV with a line of actions for each rank"},
      post_validation(),
      {.name = "rows",
       .forms = {ListForm{TextForm{}, 0}},
       .help = "what the file held; it is not read again",
       .fallback = "the file is read"}};
  return keys;
}

const KeyTable& recompute_keys() {
  static const KeyTable keys = {
      {.name = "method",
       .forms = {WordForm{kRecomputeWords, {}, "recompute"}},
       .help = "what the backward computes again",
       .field = field<&Study::recompute, &RecomputeConfig::method>(),
       .fallback = "required"},
      {.name = "first",
       .forms = {NumberForm{.least = 0, .most = 1}, WordForm{kAutoWords}},
       .help = "share of its layers that stage 0 keeps; auto: as much as fits",
       .fallback = "auto",
       .matters = "stage-aware"},
      {.name = "unit",
       .forms = {WordForm{kRecomputeUnitWords}},
       .help = "what is recomputed from its own input",
       .field = field<&Study::recompute, &RecomputeConfig::unit>(),
       .matters = "full, stage-aware, group"},
      {.name = "strategy",
       .forms = {TextForm{"^(each|contiguous|group_0*[1-9][0-9]*)$"}},
       .help = "layers (units) of a stage that are recomputed as one: each, contiguous, group_2, "
               "group_3, ...",
       .fallback = "each",
       .matters = "stage-aware, group"},
      {.name = "every",
       .forms = {IntegerForm{1, kMaxLayers}},
       .help = "2: every second layer (unit) of a stage is recomputed, the others are kept",
       .field = field<&Study::recompute, &RecomputeConfig::every>(),
       .matters = "full"},
      {.name = "ends",
       .forms = {FlagForm{}},
       .help = "what is in front of layers and behind them is recomputed, too: all of a stage",
       .field = field<&Study::recompute, &RecomputeConfig::ends>(),
       .matters = "full"},
      {.name = "modules",
       .forms = {ListForm{TextForm{}}},
       .help = "what is recomputed: core-attn, mlp, layernorm, or patterns of module paths",
       .fallback = "[core-attn]",
       .matters = "selective"},
      {.name = "memory_budget",
       .forms = {QuantityForm{"60 GiB"}},
       .help = "of a device, within which it is chosen what is computed again",
       .fallback = "what the device has",
       .matters = "rotor"},
      {.name = "sequences",
       .forms = {ListForm{TextForm{}}},
       .help = "of each stage: forwards that keep all (Fe), all but attention's cores (Fs), their "
               "input (CF) or nothing (Fn), "
               "backwards (B) of its groups of ops, and L between the two",
       .fallback = "the fastest that fit",
       .matters = "rotor"}};
  return keys;
}

const KeyTable& offload_keys() {
  static const KeyTable keys = {
      {.name = "activations",
       .forms = {FlagForm{}},
       .help = "what recomputation keeps: the inputs of recomputed layers",
       .field = field<&Study::offload, &OffloadConfig::activations>()},
      {.name = "horizon",
       .forms = {IntegerForm{0, kMaxLayers}},
       .help = "layers before the one that reads it, a copy back is issued",
       .field = field<&Study::offload, &OffloadConfig::horizon>(),
       .matters = "activations: true"}};
  return keys;
}

}  // namespace trainyard
