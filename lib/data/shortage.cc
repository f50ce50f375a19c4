// SPDX-License-Identifier: Apache-2.0
#include "lib/data/shortage.h"

namespace weir::data {

Error memory_shortage() {
    return {Errc::kNoMemory,
            "not enough memory: every worker holds its share of the examples; use more workers on "
            "more machines, fewer examples, or allow more memory (ulimit -v, the job's limit)"};
}

Error system_failure(const std::system_error& error) {
    if (error.code() != std::errc::resource_unavailable_try_again) return {Errc::kIo, error.what()};
    return {Errc::kNoMemory,
            "no more threads can be started: use fewer reading threads or workers, or allow more "
            "threads and memory (ulimit -u, ulimit -v)",
            error.code().value()};
}

}  // namespace weir::data
