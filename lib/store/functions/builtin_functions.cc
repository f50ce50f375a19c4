// SPDX-License-Identifier: Apache-2.0
#include "lib/store/functions/builtin_functions.h"

#include <vector>

#include "lib/store/functions/function_entry.h"

namespace weir {

std::vector<FunctionEntry> builtin_functions() {
    FunctionEntry penalty;
    penalty.name = "penalty";
    penalty.is_penalty = true;
    penalty.begin = &functions::Summing::begin;
    return {make_function<functions::Axpy>("axpy"),
            make_function<functions::Scale>("scale"),
            make_function<functions::Copy>("copy"),
            make_function<functions::Assign>("assign"),
            make_function<functions::Clip>("clip"),
            make_function<functions::Dot>("dot"),
            make_function<functions::Sum>("sum"),
            make_function<functions::Norm1>("norm1"),
            make_function<functions::Norm2>("norm2"),
            make_function<functions::Min>("min"),
            make_function<functions::Max>("max"),
            make_function<functions::Count>("count"),
            make_function<functions::Histogram>("histogram"),
            make_function<functions::Top>("top"),
            penalty};
}

}  // namespace weir
