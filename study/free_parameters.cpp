#include "study/free_parameters.h"

#include <algorithm>
#include <cstdio>

#include "engine/base/quantity.h"
#include "study/data_folder.h"

namespace trainyard {

namespace {

constexpr double kUsualRange = 5;

void add(std::vector<FreeParameter>& all, const YamlNode& entry, FreeParameter one) {
  const auto same = std::find_if(all.begin(), all.end(), [&](const FreeParameter& p) {
    return !one.range.shared.empty() && p.range.shared == one.range.shared &&
           p.number.name == one.number.name;
  });
  if (same == all.end()) {
    all.push_back(std::move(one));
    return;
  }
  if (same->value != one.value || same->range.low != one.range.low ||
      same->range.high != one.range.high) {
    entry.fail("shared as " + one.range.shared + " with " + to_string(same->places.front().pos) +
               ", which has another value or range");
  }
  same->range.one_source = same->range.one_source || one.range.one_source;
  same->places.push_back(std::move(one.places.front()));
}

void add_numbers(std::vector<FreeParameter>& all, const std::string& folder,
                 const std::string& profile) {
  const std::string path = folder + "/" + profile + ".yaml";
  const YamlNode root = YamlNode::load_file(path);
  for (const SoftwareNumber& number : kSoftwareNumbers) {
    const auto entry = root.find(number.name);
    if (!entry || entry->at("kind").as_string() != "fitted") continue;
    const YamlNode value = entry->at("value");
    FreeParameter one;
    one.number = number;
    one.value = value.as_number();
    one.range = read_fit_range(*entry, one.value, number.most);
    one.name =
        (one.range.shared.empty() ? profile : one.range.shared) + "." + std::string(number.name);
    one.note = entry->at("note").as_string();
    one.places.push_back({profile, path, value.pos(), value.as_string()});
    add(all, *entry, std::move(one));
    if (all.size() > kMostFreeParameters) {
      entry->fail("free parameter " + std::to_string(all.size()) + " of the software profiles; " +
                  std::to_string(kMostFreeParameters) +
                  " are allowed, and entries with the same `shared` count once");
    }
  }
}

}  // namespace

FitRange read_fit_range(const YamlNode& entry, double value, double most) {
  FitRange range;
  const bool fitted = entry.at("kind").as_string() == "fitted";
  for (const char* key : {"fit", "shared", "one_source"}) {
    if (entry.has(key) && !fitted) entry.at(key).fail("only an entry of kind fitted has this");
  }
  if (!fitted) return range;
  range.low = value / kUsualRange;
  range.high = std::min(most, value * kUsualRange);
  if (const auto bounds = entry.find("fit")) {
    const std::vector<YamlNode> both = bounds->items();
    if (both.size() != 2) bounds->fail("expected [lowest, highest]");
    range.low = both[0].as_number();
    range.high = both[1].as_number();
    if (!(range.low > 0 && range.low < range.high && range.high <= most)) {
      bounds->fail("expected 0 < lowest < highest <= " + number_text(most));
    }
    if (value < range.low || value > range.high) {
      bounds->fail("does not hold the value, " + number_text(value));
    }
  }
  if (const auto shared = entry.find("shared")) range.shared = shared->as_text();
  if (const auto one_source = entry.find("one_source")) range.one_source = one_source->as_bool();
  return range;
}

std::string profile_key(const SoftwareProfile& profile) {
  return profile.version.empty() ? profile.name : profile.name + "-" + profile.version;
}

double rounded_value(double value) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.4g", value);
  return std::stod(buffer);
}

std::vector<FreeParameter> free_parameters(const std::string& root) {
  const std::string folder = root + "/calibrate/software";
  std::vector<FreeParameter> all;
  for (const std::string& profile : yaml_names(folder)) {
    // A file that only says `same_as` has no numbers.
    if (YamlNode::load_file(folder + "/" + profile + ".yaml").has("same_as")) continue;
    add_numbers(all, folder, profile);
  }
  return all;
}

std::string with_values(const std::string& text, const std::string& profile,
                        const std::vector<FreeParameter>& parameters,
                        const std::vector<double>& values) {
  struct Edit {
    std::size_t at;
    std::size_t length;
    std::string text;
  };
  std::vector<std::size_t> lines = {0};
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') lines.push_back(i + 1);
  }
  std::vector<Edit> edits;
  for (std::size_t p = 0; p < parameters.size(); ++p) {
    if (values[p] == parameters[p].value) continue;
    for (const ParameterPlace& place : parameters[p].places) {
      if (place.profile != profile) continue;
      const std::size_t at = lines.at(static_cast<std::size_t>(place.pos.line - 1)) +
                             static_cast<std::size_t>(place.pos.column - 1);
      check(text.compare(at, place.text.size(), place.text) == 0,
            "a value stands where it was read");
      edits.push_back({at, place.text.size(), number_text(values[p])});
    }
  }
  std::sort(edits.begin(), edits.end(), [](const Edit& a, const Edit& b) { return a.at > b.at; });
  std::string out = text;
  for (const Edit& edit : edits) out.replace(edit.at, edit.length, edit.text);
  return out;
}

}  // namespace trainyard
