// `recompute`, a word or a map with its details, and what it asks of the pipeline and the schedule.
#include <algorithm>
#include <array>
#include <string>
#include <utility>
#include <vector>

#include "engine/base/near_names.h"
#include "engine/base/readable.h"
#include "engine/base/user_text.h"
#include "engine/passes/tensor_methods.h"
#include "engine/recompute/chain.h"
#include "engine/recompute/checkpoint_groups.h"
#include "engine/schedule/schedule_names.h"
#include "study/planned_pipeline.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

using Method = RecomputeConfig::Method;

/// The node of a key that is for some methods only.
std::optional<YamlNode> given_for(Section& section, std::string_view key,
                                  std::initializer_list<Method> methods) {
  std::optional<YamlNode> node = section.given(key);
  const Method chosen = section.study().recompute.method;
  if (!node || std::find(methods.begin(), methods.end(), chosen) != methods.end()) return node;
  std::string words;
  for (const Method method : methods) {
    if (!words.empty()) words += method == *(methods.end() - 1) ? " and " : ", ";
    words += kRecomputeWords[method];
  }
  node->fail("is for recompute " + words + ", not for " + std::string(kRecomputeWords[chosen]) +
             "; leave it out");
}

/// `first: auto`, which the search behind the reader fills in, or a share.
void read_first(Section& section) {
  const auto node = given_for(section, "first", {Method::kStageAware});
  if (!node || (node->is_scalar() && node->as_string() == "auto")) return;
  const double first = node->as_number("auto or a number from 0 to 1");
  if (first < 0 || first > 1)
    node->fail("expected auto or a number from 0 to 1, got " + node->as_string());
  section.study().recompute.first = first;
}

void read_unit(Section& section) {
  const auto node =
      given_for(section, "unit", {Method::kFull, Method::kStageAware, Method::kGroup});
  if (!node) return;
  section.study().recompute.unit =
      static_cast<RecomputeConfig::Unit>(read_word(*node, "unit", kRecomputeUnitWords));
}

void read_strategy(Section& section) {
  const auto node = given_for(section, "strategy", {Method::kStageAware, Method::kGroup});
  if (!node) return;
  const std::optional<int> group = group_of_strategy(node->as_string());
  if (!group)
    node->fail("expected each, contiguous or group_2, group_3, ..., got '" + node->as_string() +
               "'");
  section.study().recompute.group = *group;
}

/// `every: 2`: every second layer is recomputed, torchtitan's option "2" of selective
/// checkpointing.
void read_every(Section& section) {
  const auto node = given_for(section, "every", {Method::kFull});
  if (!node) return;
  section.study().recompute.every = static_cast<int>(section.integer_of(*node, "every"));
}

void read_ends(Section& section) {
  if (const auto node = given_for(section, "ends", {Method::kFull}))
    section.study().recompute.ends = node->as_bool();
}

void read_modules(Section& section) {
  const auto node = given_for(section, "modules", {Method::kSelective});
  if (!node) return;
  if (node->items().empty())
    node->fail("expected at least one of core-attn, mlp, layernorm or a pattern such as '*.mlp'");
  std::vector<std::string>& modules = section.study().recompute.modules;
  // Megatron's words; its mlp is a module here.
  constexpr std::array<std::pair<const char*, const char*>, 3> kWords = {
      {{"core-attn", "core-attn"}, {"layernorm", "layernorm"}, {"mlp", "*.mlp"}}};
  node->each_item([&](const YamlNode& item) {
    std::string entry = item.as_string();
    const auto* const word = std::find_if(kWords.begin(), kWords.end(), [&](const auto& known) {
      return same_name(entry, known.first);
    });
    if (word != kWords.end()) {
      entry = word->second;
    } else if (entry.find_first_of(".*") == std::string::npos) {
      item.fail(
          "expected core-attn, mlp, layernorm or a pattern of module paths such as '*.mlp', got " +
          in_quotes(entry));
    }
    modules.push_back(entry);
  });
}

void read_budget(Section& section) {
  const auto node = given_for(section, "memory_budget", {Method::kRotor});
  if (!node) return;
  Bytes& budget = section.study().recompute.memory_budget;
  budget = node->as_bytes();
  if (budget <= 0)
    node->fail("expected more than 0 bytes; leave this key out for what the device has");
}

void read_sequences(Section& section) {
  const auto node = given_for(section, "sequences", {Method::kRotor});
  if (!node) return;
  std::vector<std::string>& sequences = section.study().recompute.sequences;
  node->each_item([&](const YamlNode& item) {
    const auto read = parse_sequence(item.as_string());
    if (const auto* wrong = std::get_if<Infeasible>(&read)) item.fail(wrong->reason);
    sequences.push_back(to_text(std::get<std::vector<ChainOp>>(read)));
  });
  if (node->items().empty()) node->fail("expected one for each stage; leave it out to have them");
}

}  // namespace

void read_recompute(Section& root) {
  RecomputeConfig& recompute = root.study().recompute;
  const auto node = root.given("recompute");
  if (!node) return;
  const auto read = [&](const YamlNode& word) {
    recompute.method = static_cast<Method>(read_word(word, "recompute", kRecomputeWords));
  };
  if (node->is_scalar()) return read(*node);
  Section section = root.child("recompute");
  if (section.contains("method") || !section.contains("modules")) {
    read(section.required("method"));
  } else {
    recompute.method = Method::kSelective;
    root.study().origins["recompute.method"] = derived_origin("modules are named");
  }
  section.read_all({{"method", [] {}},
                    {"first", [&] { read_first(section); }},
                    {"unit", [&] { read_unit(section); }},
                    {"strategy", [&] { read_strategy(section); }},
                    {"every", [&] { read_every(section); }},
                    {"ends", [&] { read_ends(section); }},
                    {"modules", [&] { read_modules(section); }},
                    {"memory_budget", [&] { read_budget(section); }},
                    {"sequences", [&] { read_sequences(section); }}});
  section.finish();
}

namespace {

/// What a sequence of a stage cannot be found for, or cannot run beside.
void check_rotor(const Study& study) {
  const RecomputeConfig& recompute = study.recompute;
  const std::string key = "recompute";
  const auto refuse = [&](bool wrong, const std::string& of, const std::string& why) {
    if (wrong) fail_at(study, is_said(study, of) ? of : key, why);
  };
  const ScheduleConfig& schedule = study.schedule;
  const ScheduleName* const named = find_schedule(schedule.method);
  refuse(named != nullptr && named->says_recompute, "schedule",
         schedule.method +
             " recomputes a stage at once, and rotor between backwards; write recompute: full, or "
             "another schedule");
  refuse(is_searched_schedule(schedule.method) && schedule.rows.empty(), "schedule",
         schedule.method +
             " is searched for the durations of the stages, which rotor changes; write 1f1b, or "
             "another schedule");
  refuse(recompute.sequences.empty() &&
             (study.partition.chooses_cuts() || plans_pipeline(study.partition)),
         "partition",
         study.partition.method +
             " weighs stages by what they recompute, and rotor recomputes by what stages hold; "
             "write uniform, or cuts");
  refuse(study.partition.method == "smp", "partition",
         "smp's modules call each other in the midst of a stage, and rotor's groups follow one "
         "another; write uniform, or recompute: full");
  refuse(!study.partition.replicas.empty(), "partition.replicas",
         "do not go with recompute rotor in this version; write parallel.data");
  refuse(study.parallel.tensor_overlap != "none", "parallel.tensor_overlap",
         "orders the ops of chunks, and rotor those of groups; write none, or recompute: full");
  refuse(study.offload.activations, "offload.activations",
         "copies the inputs of recomputed layers, and rotor keeps what is fastest; write "
         "recompute: full");
  refuse(study.training.fp8.on(), "training.precision",
         "fp8 does not go with recompute rotor in this version; write bf16, or recompute: full");
  if (recompute.sequences.empty()) return;
  refuse(tensor_method(study.parallel.tensor_method).splits_by_cost && study.parallel.tensor > 1 &&
             study.parallel.tensor_ops.empty(),
         "recompute.sequences",
         "are of ops that method " + study.parallel.tensor_method +
             " is yet to split; leave them out, or write "
             "parallel.tensor_method.ops");
  if (std::ssize(recompute.sequences) == study.num_stages()) return;
  fail_at(study, "recompute.sequences",
          "has " + plural(std::ssize(recompute.sequences), "sequence") + ", and the pipeline " +
              plural(study.num_stages(), "stage"));
}

}  // namespace

void check_recompute(const Study& study) {
  if (study.recompute.method == Method::kRotor) return check_rotor(study);
  if (study.recompute.method != Method::kStageAware) return;
  if (study.parallel.pipeline < 2) {
    fail_at(study, is_said(study, "parallel.pipeline") ? "parallel.pipeline" : "recompute",
            "stage-aware recompute needs at least 2 pipeline ranks, got 1; with 1, recompute: none "
            "keeps as much");
  }
  if (is_searched_schedule(study.schedule.method) && study.schedule.rows.empty() &&
      !study.recompute.first) {
    fail_at(study, is_said(study, "recompute.first") ? "recompute.first" : "recompute",
            "auto is chosen by the memory of the schedule, and " + study.schedule.method +
                " is searched for the durations of the stages, which this changes; write a share "
                "from 0 to 1");
  }
}

}  // namespace trainyard
