// LibTorch's tensors and operators, precompiled: nothing in real/ includes more of it, but
// comm/gloo.cpp and what talks to the store.
#pragma once

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
