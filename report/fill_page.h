// A page of the program with its title and data put in.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <span>
#include <string>
#include <string_view>

#include "report/report_page.h"

namespace trainyard {

/// JSON that may stand inside a script element: no "</script", no "<!--", however a study is
/// called.
std::string for_script(const nlohmann::ordered_json& data);

/// "configs/gpt3-175b.yaml" is shown as "gpt3-175b".
std::string page_title(const std::string& file);

std::string fill_page(std::span<const PagePart> page, std::string_view title,
                      const nlohmann::ordered_json& data);

}  // namespace trainyard
