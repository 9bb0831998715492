#include "calibrate/result/yaml_numbers.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "engine/base/format.h"
#include "engine/base/quantity.h"
#include "study/profile_reader.h"

namespace trainyard {

std::string digits(double value) {
  return number_text(parse_number(format("%.5g", value)).value_or(0));
}

std::string microseconds(Seconds time) { return digits(time * 1e6) + " us"; }

std::string billions(double per_second, const char* unit) {
  return digits(per_second / 1e9) + " " + unit;
}

std::string quoted_yaml(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string kind_and_note(const Provenance& provenance) {
  const std::string interval =
      provenance.interval > 0
          ? ", interval: " + digits(std::min(provenance.interval, kMostInterval))
          : "";
  return "kind: " + provenance.kind + interval + ", note: " + quoted_yaml(provenance.note);
}

}  // namespace trainyard
