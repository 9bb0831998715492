#include "engine/program/add_attrs.h"

#include <algorithm>

namespace trainyard {

AttrId add_attrs(Program& program, const OpAttrs& attrs) {
  auto& table = program.attrs;
  const auto it = std::find(table.begin(), table.end(), attrs);
  if (it != table.end()) return AttrId(it - table.begin());
  return table.add(attrs);
}

}  // namespace trainyard
