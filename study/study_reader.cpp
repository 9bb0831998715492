#include "study/study_reader.h"

#include <utility>

#include "engine/base/user_text.h"
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

/// `model: gpt3-175b` is a name and has no keys for an option to set, but {preset: ...} would.
void refuse_option_into_name(const YamlNode& document, const std::string& assignment) {
  for (const std::string key : {"model", "cluster"}) {
    if (!document.is_map() || !assignment.starts_with(key + ".")) continue;
    const std::optional<YamlNode> node = document.find(key);
    if (!node || !node->is_scalar()) continue;
    const std::string path = assignment.substr(0, assignment.find('='));
    throw ConfigError({"--set " + printable(assignment), 0, 0}, printable(path),
                      key + " is the name " + quoted(node->as_string()) + ", at " +
                          to_string(node->pos()) + "; put --set '" + key +
                          "={preset: " + printable(node->as_string()) + "}' before this option");
  }
}

}  // namespace

void apply_options(YamlNode& document, const std::vector<std::string>& sets) {
  for (const std::string& assignment : sets) {
    refuse_option_into_name(document, assignment);
    document.set(assignment);
  }
}

Study read_study_node(YamlNode document, const std::vector<std::string>& sets,
                      const StudyResolvers& resolvers) {
  apply_options(document, sets);
  Study study;
  study.file = document.pos().file;
  Section root(study, "", document);
  skip_annotations(root);
  skip_sweep(root);
  read_model(root, resolvers);
  read_cluster(root, resolvers);
  read_parallel(root);
  read_training(root);
  read_plan(root);
  read_run(root);
  root.finish();
  resolve_defaults(study, resolvers);
  check_model_fits(study, resolvers);
  resolve_data_parallel(study);
  check_batch_fits(study);
  return study;
}

Study read_study_text(const std::string& text, const std::string& file_name,
                      const std::vector<std::string>& sets, const StudyResolvers& resolvers) {
  return read_study_node(YamlNode::parse(text, file_name), sets, resolvers);
}

}  // namespace trainyard
