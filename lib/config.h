// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For programs that set WEIR_ variables themselves, for instance from flags of their own: the Config of
/// Job::start() and run().

#include "lib/base/config.h"  // IWYU pragma: export
