// What is not the plan itself: framework, data, checkpoint, fidelity.
#include <filesystem>
#include <string>
#include <system_error>

#include "engine/base/quantity.h"
#include "engine/base/user_text.h"
#include "study/data_kinds.h"
#include "study/study_origin.h"
#include "study/study_parts.h"
#include "study/study_words.h"

namespace trainyard {

namespace {

/// `framework: megatron-lm`, or `framework: {name: megatron-lm, version: 2022}`, or of software
/// without a profile `framework: {name: ANY, like: megatron-lm-current}`.
void read_framework(Section& root) {
  FrameworkConfig& framework = root.study().framework;
  Study& study = root.study();
  const auto node = root.given("framework");
  if (!node) {
    study.origins["framework.name"] = default_origin();
    return;
  }
  if (node->is_scalar()) {
    framework.name = node->as_text();
    study.origins["framework.name"] = origin_of(*node);
    return;
  }
  Section section = root.child("framework");
  section.read_all({{"name", [&] { framework.name = section.required("name").as_text(); }},
                    {"version",
                     [&] {
                       if (const auto version = section.given("version"))
                         framework.version = version->as_string();
                     }},
                    {"like", [&] {
                       if (const auto like = section.given("like"))
                         framework.like = like->as_text();
                     }}});
  section.finish();
}

/// `0.5`, or `[0.485, 0.456, 0.406]`.
void read_of_channels(Section& section, std::string_view key, std::vector<double>& values) {
  const auto node = section.given(key);
  if (!node) return;
  if (!node->is_sequence()) return section.number(key, values.front());
  if (node->items().empty()) node->fail("expected a number for each channel");
  values.clear();
  node->each_item([&](const YamlNode& item) {
    values.push_back(item.as_number());
    if (key == "std" && !(values.back() > 0))
      item.fail("expected more than 0, got " + number_text(values.back()));
  });
}

/// No length comes of a seed, or of the token that ends a document, with some of the forms.
void warn_of_unused_documents(const Section& section, Study& study) {
  const DocumentConfig& documents = study.documents;
  const auto warn = [&](std::string_view key, const char* why) {
    if (section.contains(key))
      study.warnings.push_back(section.key_path(key) + " is not used: lengths are " + why);
  };
  if (documents.of_tokens) return warn("seed", "the file's, and none is drawn");
  if (!documents.drawn()) warn("seed", "given, and none is drawn");
  warn("end", documents.drawn() ? "drawn" : "given");
}

/// `lengths: 2048`, `[2048, 512]`, `{mean: 2000, min: 16, max: 8192}`, or `file`.
void read_documents(Section& data) {
  if (!data.given("documents")) return;
  DocumentConfig& documents = data.study().documents;
  Section section = data.child("documents");
  const YamlNode lengths = section.required("lengths");
  if (lengths.is_map()) {
    Section drawn = section.child("lengths");
    drawn.read_all(
        {{"mean", [&] { documents.mean = drawn.integer_of(drawn.required("mean"), "mean"); }}});
    drawn.finish();
  } else if (lengths.is_sequence()) {
    lengths.each_item(
        [&](const YamlNode& item) { documents.lengths.push_back(item.as_integer(1)); });
    if (documents.lengths.empty()) lengths.fail("expected tokens of each document, got nothing");
  } else if (lengths.is_scalar() && lengths.as_string() == kFileDocuments) {
    documents.of_tokens = true;
  } else {
    documents.lengths = {lengths.as_integer(1)};
  }
  section.integer("seed", documents.seed);
  section.integer("end", documents.end);
  if (!documents.of_tokens) documents.end = -1;  // a warning says that it is not used
  warn_of_unused_documents(section, data.study());
  section.finish();
}

/// Where they say other than the default, as study.resolved.yaml does of every key.
void warn_of_unused_data(const Section& section, Study& study) {
  const DataConfig& data = study.data;
  const DataConfig usual;
  if (is_of_files(data)) return;
  const auto warn = [&](std::string_view key) {
    if (section.contains(key))
      study.warnings.push_back(section.key_path(key) + " is not used: data.path is " + data.path +
                               ", and no file is read");
  };
  if (data.format != usual.format) warn("format");
  if (data.shuffle != usual.shuffle) warn("shuffle");
}

void read_data(Section& root) {
  DataConfig& data = root.study().data;
  Section section = root.child("data");
  section.read_all({{"mean", [&] { read_of_channels(section, "mean", data.mean); }},
                    {"std", [&] { read_of_channels(section, "std", data.std); }},
                    {"documents", [&] { read_documents(section); }}});
  if (is_of_files(data)) {
    // Absolute, so that study.resolved.yaml means the same file from another folder.
    std::error_code unavailable;
    const std::string path = path_from_study(root.study(), data.path);
    const std::string absolute = std::filesystem::absolute(path, unavailable).string();
    data.path = unavailable ? path : absolute;
  }
  section.finish();
  warn_of_unused_data(section, root.study());
}

void read_checkpoint(Section& root) {
  Section section = root.child("checkpoint");
  section.read_all();
  section.finish();
}

}  // namespace

bool is_path(const std::string& text) {
  return text.ends_with(".json") || text.ends_with(".yaml") || text.ends_with(".yml") ||
         text.ends_with(".onnx");
}

void refuse_path(const YamlNode& name, const std::string& file) {
  if (name.as_text().find('/') == std::string::npos) return;
  name.fail("the name of a preset takes no path, got " + in_quotes(name.as_text()) + "; a file " +
            file);
}

std::string path_from_study(const Study& study, const std::string& path) {
  std::filesystem::path joined(path);
  if (joined.is_relative()) joined = std::filesystem::path(study.file).parent_path() / joined;
  return joined.lexically_normal().string();
}

std::string absolute_path(const Study& study, const YamlNode& node) {
  const std::string said = node.as_text();
  if (said.empty()) node.fail("expected the path of a file, got nothing");
  const std::filesystem::path path = node.set_by().empty() ? path_from_study(study, said) : said;
  std::error_code error_code;
  std::string absolute = std::filesystem::absolute(path, error_code).lexically_normal().string();
  if (error_code) node.fail("the working directory cannot be found: " + error_code.message());
  return absolute;
}

void read_run(Section& root) {
  StudyDraft& draft = root.draft();
  draft.attempt([&] { read_framework(root); });
  draft.attempt([&] { read_data(root); });
  draft.attempt([&] { read_checkpoint(root); });
  draft.attempt([&] { root.word("fidelity", draft.fidelity); });
}

}  // namespace trainyard
