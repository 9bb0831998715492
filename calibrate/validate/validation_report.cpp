// report.html of validate.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "calibrate/validate/validation.h"
#include "report/fill_page.h"

namespace trainyard {

std::string validation_report(const Validation& validation) {
  const std::string title = std::filesystem::path(validation.file).filename().string();
  return fill_page(kValidationPage, title, validation_data(validation));
}

}  // namespace trainyard
