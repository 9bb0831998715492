// Where each value of a study came from: recording it, saying it, and pointing an error at it.
#pragma once

#include <string>

#include "study/study.h"
#include "study/yaml_reader.h"

namespace trainyard {

Origin origin_of(const YamlNode& node);  // the study's line, or the --set option
Origin default_origin(const std::string& rule = "");
Origin derived_origin(const std::string& rule);

/// "from study.yaml:3:12", "--set parallel.pipeline=8", "preset gpt3-175b", "default: 4 x hidden".
std::string to_string(const Origin& origin);

/// Whether the study or a --set option says `key_path`.
bool is_said(const Study& study, const std::string& key_path);

/// The line of `key_path`, else of the nearest map around it that the user wrote.
SourcePos place_of(const Study& study, const std::string& key_path);

/// What is wrong with `key_path`, at place_of(), naming the --set option where one wrote the value.
ConfigError error_at(const Study& study, const std::string& key_path, const std::string& problem);

/// Throws it.
[[noreturn]] void fail_at(const Study& study, const std::string& key_path,
                          const std::string& problem);

}  // namespace trainyard
