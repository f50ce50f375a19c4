// SPDX-License-Identifier: Apache-2.0
#pragma once
/// \file
/// For who writes a selector or a codec: <weir/filters.h>. Who uses filters needs <weir/weir.h> alone.

#include "lib/filter/filters.h"
#include "lib/filter/select/held_back.h"
#include "lib/filter/select/selector.h"
#include "lib/filter/value_codec.h"
