#include "engine/config/study_reader.h"

#include <utility>

#include "engine/config/study_origin.h"
#include "engine/config/study_parts.h"
#include "engine/config/study_words.h"

namespace trainyard {

namespace {

void skip_annotations(const Section& root) {
  for (const std::string_view key : kAnnotations) root.node()->has(key);
}

}  // namespace

Study read_study_node(YamlNode document, const std::vector<std::string>& sets,
                      const StudyResolvers& resolvers) {
  for (const std::string& assignment : sets) document.set(assignment);
  Study study;
  study.file = document.pos().file;
  Section root(study, "", document);
  skip_annotations(root);
  root.refuse("offload", "offloading is not in this version; leave this key out");
  root.refuse("sweep", "sweeps are not in this version; run one study per combination, with --set");
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

Study read_study(const std::string& path, const std::vector<std::string>& sets,
                 const StudyResolvers& resolvers) {
  return read_study_node(YamlNode::load_file(path), sets, resolvers);
}

Study read_study_text(const std::string& text, const std::string& file_name,
                      const std::vector<std::string>& sets, const StudyResolvers& resolvers) {
  return read_study_node(YamlNode::parse(text, file_name), sets, resolvers);
}

}  // namespace trainyard
