// What the fitted numbers of software profiles rest on: by how much each prediction follows each
// number, which rows hold it, and what it would be without a family of them.
//
// Pure arithmetic on derivatives that somebody else has made (app/number_sensitivity.cpp). A row
// says of a number weight x derivative^2, the weight being Huber's of its error, as in
// `calibrate --fit`: that over the sum of all rows is the share by which the row holds it. What the
// number would be is one undamped step of the fit's objective, from the value as it is: the common
// derivatives, no prediction made anew.
#pragma once

#include <string>
#include <vector>

#include "calibrate/validate/robust_fit.h"

namespace trainyard {

/// A fitted number. `prior` and `bounds` are of its logarithm.
struct FittedNumber {
  std::string name;  // "megatron.product_factor"
  std::vector<std::string> profiles;
  double value = 0;
  Bounds bounds;
  Prior prior;
};

/// One scored comparison: ln(predicted / measured), and its derivative by the logarithm of each
/// number: per cent of the prediction for a per cent of the number.
struct SensitiveRow {
  std::string id;
  std::string family;
  bool memory = false;  // else of its step time
  double error = 0;
  std::vector<double> derivatives;  // [number]
};

struct NumberSensitivity {
  struct Held {
    std::size_t row = 0;  // index into Sensitivity::rows
    double share = 0;
  };
  struct Family {
    std::string family;
    std::size_t rows = 0;  // that depend on the number
    double share = 0;
    double without = 0;       // of this family
    bool held_alone = false;  // no other row depends on the number: it would stay as it is
  };
  FittedNumber number;
  std::size_t index = 0;         // of SensitiveRow::derivatives
  double refitted = 0;           // with all rows
  std::vector<Held> held;        // rows that depend on it, the largest share first
  std::vector<Family> families;  // the same
};

struct Sensitivity {
  std::vector<SensitiveRow> rows;
  std::vector<NumberSensitivity> numbers;  // as given
};

/// |derivative| below which a row does not depend on a number.
inline constexpr double kLeastDerivative = 1e-4;

Sensitivity find_sensitivity(const std::vector<FittedNumber>& numbers,
                             std::vector<SensitiveRow> rows);

/// For a terminal.
std::string sensitivity_text(const Sensitivity& sensitivity);

}  // namespace trainyard
