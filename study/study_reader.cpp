#include "study/study_reader.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "engine/base/user_text.h"
#include "study/key_aliases.h"
#include "study/study_keys.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"
#include "study/sweep.h"

namespace trainyard {

namespace {

void skip_annotations(const Section& root) {
  for (const std::string_view key : kAnnotations) root.node()->has(key);
}

/// The block is checked, so that what is wrong in it is said by every command.
void skip_sweep(const Section& root) {
  const std::optional<YamlNode> block = root.node()->find("sweep");
  if (!block || block->is_null()) return;
  const Sweep sweep = read_sweep(*block);
  root.study().warnings.push_back(
      "sweep: is left out: this is the study without it; `trainyard sweep` runs its " +
      std::to_string(sweep.num_points()) + " combinations");
}

/// Each once: several rules may find the same.
std::vector<ConfigError> distinct(const std::vector<ConfigError>& mistakes) {
  std::vector<ConfigError> once;
  std::set<std::string_view> said;
  for (const ConfigError& mistake : mistakes) {
    if (said.insert(mistake.what()).second) once.push_back(mistake);
  }
  return once;
}

/// `model: gpt3-175b` is a name and has no keys for an option to set, but {preset: ...} would.
void refuse_option_into_name(const YamlNode& document, const std::string& assignment) {
  for (const std::string key : {"model", "cluster"}) {
    if (!document.is_map() || !assignment.starts_with(key + ".")) continue;
    const std::optional<YamlNode> node = document.find(key);
    if (!node || !node->is_scalar()) continue;
    const std::string path = assignment.substr(0, assignment.find('='));
    throw ConfigError({"--set " + printable(assignment), 0, 0}, printable(path),
                      key + " is the name " + in_quotes(node->as_string()) + ", at " +
                          to_string(node->pos()) + "; put --set '" + key +
                          "={preset: " + printable(node->as_string()) + "}' before this option");
  }
}

[[noreturn]] void refuse_no_map(const YamlNode& document) {
  std::string problem =
      "expected a study, a map with at least model, cluster and training.global_batch, got ";
  if (document.is_scalar())
    problem += in_quotes(document.as_string());
  else
    problem += document.is_null() ? "nothing" : "a list";
  document.fail(problem);
}

}  // namespace

void apply_options(YamlNode& document, const std::vector<std::string>& sets) {
  resolve_aliases(document);
  for (const std::string& typed : sets) {
    const std::size_t equals = std::min(typed.find('='), typed.size());
    const bool is_map = typed.find('{') == equals + 1;
    const std::string key = key_of_alias(typed.substr(0, equals), document);
    const std::string assignment = place_of_value(key, is_map, document) + typed.substr(equals);
    refuse_option_into_name(document, assignment);
    document.set(assignment, "--set " + typed);
  }
  if (!sets.empty()) resolve_aliases(document);
}

Study read_study_node(YamlNode document, const std::vector<std::string>& sets,
                      const StudyResolvers& resolvers) {
  apply_options(document, sets);
  if (!document.is_map()) refuse_no_map(document);
  StudyDraft draft;
  draft.file = document.pos().file;
  draft.root = document.key_path();
  Section root(draft, "", document, study_keys());
  root.refuse_unknown();
  skip_annotations(root);
  draft.attempt([&] { skip_sweep(root); });
  draft.attempt_key("model", [&] { read_model(root, resolvers); });
  draft.attempt_key("cluster", [&] { read_cluster(root, resolvers); });
  draft.attempt([&] { read_parallel(root); });
  draft.attempt([&] { read_sharding(root); });
  draft.attempt([&] { read_training(root); });
  read_plan(root);
  read_run(root);
  root.finish();
  plan_pipeline(draft, resolvers);
  plan_modules(draft, resolvers);
  check_rules(draft, resolvers);
  if (!draft.mistakes.empty()) throw ConfigError(distinct(draft.mistakes));
  return draft;
}

Cluster read_cluster_block(const YamlNode& document, const StudyResolvers& resolvers) {
  StudyDraft draft;
  draft.file = document.pos().file;
  Section root(draft, "", document, study_keys());
  draft.attempt([&] { read_cluster(root, resolvers); });
  if (!draft.mistakes.empty()) throw ConfigError(distinct(draft.mistakes));
  return draft.cluster;
}

Study read_study_text(const std::string& text, const std::string& file_name,
                      const std::vector<std::string>& sets, const StudyResolvers& resolvers) {
  return read_study_node(YamlNode::parse(text, file_name), sets, resolvers);
}

}  // namespace trainyard
