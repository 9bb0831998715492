#include "cli/completion.h"

#include <string_view>
#include <vector>

#include "app/commands.h"
#include "study/key_list.h"

namespace trainyard {

namespace {

void add_word(std::string& words, const std::string& word) {
  words += (words.empty() ? "" : " ") + word;
}

std::string options_of(const CLI::App& command) {
  std::string words;
  for (const CLI::Option* option : command.get_options()) {
    for (const std::string& name : option->get_lnames()) add_word(words, "--" + name);
  }
  return words;
}

/// A key as --set takes it: its path, and its short words, at the top and in the key's map.
std::vector<std::string> names_of(const std::string& path, const StudyKey& key) {
  std::vector<std::string> names = {path};
  const std::string map = path.substr(0, path.rfind('.') + 1);
  for (const std::string_view alias : key.aliases) {
    names.emplace_back(alias);
    names.push_back(map + std::string(alias));
  }
  return names;
}

/// Every key: after --set.
std::string key_words() {
  std::string words;
  each_key([&](const std::string& path, const StudyKey& key) {
    for (const std::string& name : names_of(path, key)) add_word(words, name);
  });
  return words;
}

/// `case` lines: the words that a key takes.
std::string value_cases() {
  std::string lines;
  each_key([&](const std::string& path, const StudyKey& key) {
    std::string words = form_of<FlagForm>(key) != nullptr ? "true false" : "";
    if (const auto* form = form_of<WordForm>(key)) {
      for (const std::string_view word : form->words) add_word(words, std::string(word));
    }
    if (words.empty()) return;
    std::string names;
    for (const std::string& name : names_of(path, key)) names += (names.empty() ? "" : "|") + name;
    lines += "    " + names + ") words='" + words + "' ;;\n";
  });
  return lines;
}

}  // namespace

std::string bash_completion(const CLI::App& app) {
  std::string commands, topics, cases;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    add_word(commands, command->get_name());
    cases += "    " + command->get_name() + ") words='" + options_of(*command) + "' ;;\n";
  }
  for (const std::string& topic : list_topics()) add_word(topics, topic);
  // Bash splits at '=': --set schedule=zb is the words --set, schedule, = and zb.
  return R"(# Completion of trainyard's words; written by `trainyard completion bash`.
_trainyard() {
  local current=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=
  local key=${COMP_WORDS[COMP_CWORD-2]:-}
  COMPREPLY=()
  if [ "$current" = = ]; then current= key=$before before==; fi
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W ')" +
         commands + R"( test --version --help' -- "$current"))
    return
  fi
  if [ "$before" = --set ]; then
    compopt -o nospace 2>/dev/null
    COMPREPLY=($(compgen -S = -W ')" +
         key_words() + R"(' -- "$current"))
    return
  fi
  if [ "$before" = = ]; then
    case $key in
)" + value_cases() +
         R"(    esac
    COMPREPLY=($(compgen -W "$words" -- "$current"))
    return
  fi
  case ${COMP_WORDS[1]} in
    help) COMPREPLY=($(compgen -W ')" +
         commands + R"(' -- "$current")); return ;;
    list) COMPREPLY=($(compgen -W ')" +
         topics + R"(' -- "$current")); return ;;
    completion) COMPREPLY=($(compgen -W bash -- "$current")); return ;;
)" + cases +
         R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$current") $(compgen -f -- "$current"))
  [ "${#COMPREPLY[@]}" -eq 1 ] && [ -d "${COMPREPLY[0]}" ] && compopt -o nospace 2>/dev/null
}
complete -o filenames -F _trainyard trainyard ./trainyard
)";
}

}  // namespace trainyard
