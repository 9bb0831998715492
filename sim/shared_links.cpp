#include "sim/shared_links.h"

#include <dlfcn.h>

#include <string>

#include "engine/base/beside_program.h"
#include "engine/base/error.h"

namespace trainyard {

namespace {

using MakeLinks = SharedLinks* (*)(const std::vector<double>&, const std::vector<double>&);

MakeLinks load_module() {
  const std::string installed = beside_program(TRAINYARD_SIMGRID_MODULE);
  const std::string file = installed.empty() ? TRAINYARD_SIMGRID_BUILT : installed;
  void* module = dlopen(file.c_str(), RTLD_LAZY | RTLD_LOCAL);
  if (module == nullptr) throw BackendError(std::string("SimGrid: ") + dlerror());
  const auto make = reinterpret_cast<MakeLinks>(dlsym(module, "trainyard_make_simgrid_links"));
  if (make == nullptr) throw BackendError(std::string("SimGrid: ") + dlerror());
  return make;
}

}  // namespace

std::unique_ptr<SharedLinks> make_shared_links(const std::vector<double>& capacities,
                                               const std::vector<double>& paces) {
  static const MakeLinks make = load_module();
  return std::unique_ptr<SharedLinks>(make(capacities, paces));
}

}  // namespace trainyard
