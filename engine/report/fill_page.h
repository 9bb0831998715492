// A page with one run's title and data in it.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>

#include "engine/report/report_page.h"

namespace trainyard {

/// JSON that may stand inside a script element: no "</script", no "<!--", however the study is
/// called.
std::string json_for_script(const nlohmann::ordered_json& data);

/// "configs/gpt3-175b.yaml" is shown as "gpt3-175b".
std::string page_title(const std::string& file);

std::string fill_page(std::span<const PagePart> page, const std::string& title,
                      const nlohmann::ordered_json& data);

}  // namespace trainyard
