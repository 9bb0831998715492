#include "real/launch/failure.h"

#include "engine/base/error.h"
#include "real/torch.h"
#include "system/exit_code.h"

namespace trainyard {

Failure current_failure() {
  try {
    throw;
  } catch (const ConfigError& error) {
    return {kWrongInput, error.what()};
  } catch (const PlanError& error) {
    return {kCannotRun, error.what()};
  } catch (const BackendError& error) {
    return {kBackendFailed, error.what()};
  } catch (const c10::Error& error) {
    return {kBackendFailed, std::string("LibTorch: ") + error.what_without_backtrace()};
  } catch (const std::exception& error) {
    return {kBackendFailed, error.what()};
  }
}

}  // namespace trainyard
