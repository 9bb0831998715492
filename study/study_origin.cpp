#include "study/study_origin.h"

#include "engine/base/user_text.h"

namespace trainyard {

namespace {

/// The entry of `key_path` or of the nearest map around it that has a place; nullptr: none has.
const Origin* nearest(const Study& study, std::string key_path) {
  for (;;) {
    const auto found = study.origins.find(key_path);
    if (found != study.origins.end() && !found->second.pos.file.empty()) return &found->second;
    if (key_path.empty()) return nullptr;
    const std::size_t dot = key_path.rfind('.');
    key_path.resize(dot == std::string::npos ? 0 : dot);
  }
}

}  // namespace

Origin origin_of(const YamlNode& node) {
  if (node.set_by().empty()) return {Origin::Kind::kStudy, node.pos(), ""};
  return {Origin::Kind::kSet, node.pos(), node.set_by()};
}

Origin default_origin(const std::string& rule) { return {Origin::Kind::kDefault, {}, rule}; }
Origin derived_origin(const std::string& rule) { return {Origin::Kind::kDerived, {}, rule}; }

std::string to_string(const Origin& origin) {
  std::string note = printable(origin.note);
  switch (origin.kind) {
    case Origin::Kind::kStudy: return "from " + printable(to_string(origin.pos));
    case Origin::Kind::kSet: return note;
    case Origin::Kind::kPreset: return "preset " + note;
    case Origin::Kind::kFile: return "from " + note;
    case Origin::Kind::kDefault: return note.empty() ? "default" : "default: " + note;
    case Origin::Kind::kDerived: return "derived: " + note;
  }
  return "";
}

bool is_said(const Study& study, const std::string& key_path) {
  const auto found = study.origins.find(key_path);
  if (found == study.origins.end()) return false;
  return found->second.kind == Origin::Kind::kStudy || found->second.kind == Origin::Kind::kSet;
}

SourcePos place_of(const Study& study, const std::string& key_path) {
  const Origin* origin = nearest(study, key_path);
  return origin != nullptr ? origin->pos : SourcePos{study.file, 0, 0};
}

ConfigError error_at(const Study& study, const std::string& key_path, const std::string& problem) {
  const Origin* origin = nearest(study, key_path);
  const bool by_option = origin != nullptr && origin->kind == Origin::Kind::kSet;
  const bool in_file = origin != nullptr && origin->pos.line > 0;
  return {place_of(study, key_path), key_path,
          by_option && in_file ? problem + " (set by " + origin->note + ")" : problem};
}

void fail_at(const Study& study, const std::string& key_path, const std::string& problem) {
  throw error_at(study, key_path, problem);
}

}  // namespace trainyard
