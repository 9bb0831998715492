#include "app/op_times_file.h"

#include <nlohmann/json.hpp>

#include "engine/base/json_fields.h"
#include "system/files.h"

namespace trainyard {

std::string op_times_json(const MeasuredTimes& measured) {
  nlohmann::ordered_json out = {{"device", measured.device}, {"threads", measured.threads}};
  out["seconds"] = measured.times.all();
  return out.dump(1) + "\n";
}

MeasuredTimes read_op_times(const std::string& path) {
  const std::string text = read_file(path);
  const JsonFile file(text, path);
  const JsonFields fields(file);
  MeasuredTimes out{fields.text("device"), fields.integer("threads"), {}};
  const JsonFields seconds = fields.object("seconds");
  for (const auto& [kernel, time] : seconds.json().items()) {
    const Seconds measured = seconds.number(kernel);
    if (!(measured >= 0)) seconds.fail(kernel, "expected seconds, got " + shorten(time));
    out.times.add(kernel, measured);
  }
  return out;
}

}  // namespace trainyard
