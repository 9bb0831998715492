// LibTorch's headers have a CHECK of their own, so that tests set its threads through here.
#pragma once

namespace trainyard {

/// at::set_num_threads() of the calling thread.
void set_op_threads(int threads);

}  // namespace trainyard
