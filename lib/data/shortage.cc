// SPDX-License-Identifier: Apache-2.0
#include "lib/data/shortage.h"

namespace weir::data {

Error memory_shortage() {
    return {Errc::kNoMemory,
            "not enough memory: every worker holds its share of the examples; use more workers on "
            "more machines, fewer examples, or allow more memory (ulimit -v, the job's limit)"};
}

Error thread_shortage(const std::system_error& error) {
    return {Errc::kNoMemory,
            "no more threads can be started: use fewer --threads or --workers, or allow more "
            "threads and memory (ulimit -u, ulimit -v)",
            error.code().value()};
}

}  // namespace weir::data
